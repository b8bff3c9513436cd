"""What is predicted: targets, their loss, their metric, and how outputs become predictions.

A regression or yes/no target is one of the network's O outputs, a target of K classes is K of them.
An output for regression is in units of the training labels' standard deviation; the others are
logits. Labels are (G, T): a number, 0 or 1, or the index of a class; NaN where missing.
"""

from molsepnorm.tasks.loss import Loss
from molsepnorm.tasks.target import Target, check_labels
from molsepnorm.tasks.task import Task, json_scores

__all__ = ["Loss", "Target", "Task", "check_labels", "json_scores"]
