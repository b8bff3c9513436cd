"""From a configuration to a trained model and its scores."""

from molsepnorm.training.callback import Callback, EpochRecord, StopWhen, TrainingResult
from molsepnorm.training.comparing.ablation import Ablation, ablate
from molsepnorm.training.comparing.replicates import Replicates, train_replicates
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.evaluation import Evaluation, evaluate
from molsepnorm.training.fit import fit
from molsepnorm.training.recipes import load_config
from molsepnorm.training.run import train, train_on
from molsepnorm.training.step import estimate_statistics

__all__ = [
    "Ablation",
    "Callback",
    "EpochRecord",
    "Evaluation",
    "Replicates",
    "StopWhen",
    "TrainConfig",
    "TrainingResult",
    "ablate",
    "estimate_statistics",
    "evaluate",
    "fit",
    "load_config",
    "train",
    "train_on",
    "train_replicates",
]
