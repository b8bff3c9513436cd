"""Training objectives: the loss of a batch, its validation, and the scores of the trained model."""

from molsepnorm.training.objectives.objective import Examples, Objective, Results
from molsepnorm.training.objectives.registry import OBJECTIVES, make_objective, register

__all__ = ["OBJECTIVES", "Examples", "Objective", "Results", "make_objective", "register"]
