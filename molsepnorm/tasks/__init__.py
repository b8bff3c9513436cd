"""Targets, their loss and metrics, the conversion of outputs to predictions, and extra inputs.

A regression or binary target takes one of the network's O outputs, a target of K classes takes K of
them. Regression outputs are in units of the standard deviation of the training labels; the other
outputs are logits. Labels are (G, T): a number, 0 or 1, or the index of a class; NaN where missing.
"""

from molsepnorm.tasks.inputs import (
    NO_INPUTS,
    ExtraInputs,
    FeatureColumn,
    require_same_order,
    with_text_names,
)
from molsepnorm.tasks.loss import Loss
from molsepnorm.tasks.target import Target, check_labels
from molsepnorm.tasks.task import Task, json_scores

__all__ = [
    "NO_INPUTS",
    "ExtraInputs",
    "FeatureColumn",
    "Loss",
    "Target",
    "Task",
    "check_labels",
    "json_scores",
    "require_same_order",
    "with_text_names",
]
