"""Search for the settings of a training run with the best validation score."""

from molsepnorm.tuning.result import TrialRecord, Tuning
from molsepnorm.tuning.search import train_best, tune

__all__ = ["TrialRecord", "Tuning", "train_best", "tune"]
