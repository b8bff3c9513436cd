"""From a configuration to a trained model and its scores."""

from molsepnorm.training.ablation import Ablation, ablate
from molsepnorm.training.config import TrainConfig, load_config
from molsepnorm.training.listener import EpochRecord, Listener, TrainingResult
from molsepnorm.training.run import train
from molsepnorm.training.scoring import Evaluation, evaluate
from molsepnorm.training.series import Series, train_series

__all__ = [
    "Ablation",
    "EpochRecord",
    "Evaluation",
    "Listener",
    "Series",
    "TrainConfig",
    "TrainingResult",
    "ablate",
    "evaluate",
    "load_config",
    "train",
    "train_series",
]
