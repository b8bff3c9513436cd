"""From a configuration to a trained model and its scores."""

from molsepnorm.training.config import TrainConfig, load_config
from molsepnorm.training.listener import EpochRecord, Listener, TrainingResult
from molsepnorm.training.run import evaluate, train

__all__ = [
    "EpochRecord",
    "Listener",
    "TrainConfig",
    "TrainingResult",
    "evaluate",
    "load_config",
    "train",
]
