"""Search for the settings of a training run with the best validation score."""

from molsepnorm.tuning.search import TrialRecord, Tuning, train_best, tune

__all__ = ["TrialRecord", "Tuning", "train_best", "tune"]
