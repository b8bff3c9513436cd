"""From a configuration to a trained model and its scores."""

from molsepnorm.training.ablation import Ablation, ablate
from molsepnorm.training.callback import Callback, EpochRecord, TrainingResult
from molsepnorm.training.config import TrainConfig, load_config
from molsepnorm.training.evaluation import Evaluation, evaluate
from molsepnorm.training.fit import fit
from molsepnorm.training.replicates import Series, train_series
from molsepnorm.training.run import train, train_on

__all__ = [
    "Ablation",
    "Callback",
    "EpochRecord",
    "Evaluation",
    "Series",
    "TrainConfig",
    "TrainingResult",
    "ablate",
    "evaluate",
    "fit",
    "load_config",
    "train",
    "train_on",
    "train_series",
]
