"""The error of each molecule: absolute errors, log losses, and their mean over several targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from molsepnorm.tasks.metrics import each_class
from molsepnorm.tasks.target import Target

_TINY = 1e-7  # the smallest probability that has a logarithm


def target_error(target: Target, labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the absolute error of a regression target, or the log loss of another one, of each
    molecule, float64 (G,); NaN where the label (G,) or a prediction (G, K) is NaN.

    Labels and predictions are on the learned scale; those of other targets are indices of classes,
    and probabilities of class 1 or of each class.
    """
    errors = np.full(len(labels), np.nan)
    rows = np.flatnonzero(np.isfinite(labels) & np.isfinite(values).all(axis=1))
    labels, values = labels[rows].astype(np.float64), values[rows].astype(np.float64)
    if target.kind == "regression":
        errors[rows] = np.abs(values[:, 0] - labels)
        return errors
    of_label = each_class(values)[np.arange(len(rows)), labels.astype(int)]
    errors[rows] = -np.log(of_label.clip(_TINY))
    return errors


def miss(target: Target, labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the absolute errors of a regression target, or 1 for each wrong class, float64 (G,),
    with the arguments of `target_error`."""
    errors = target_error(target, labels, values)
    if target.kind == "regression":
        return errors
    return np.where(np.isfinite(errors), each_class(values).argmax(axis=1) != labels, np.nan)


def relative_errors(errors: np.ndarray, reference: np.ndarray) -> np.ndarray:  # (G, T)
    """Return errors (G, T) of several targets divided by their mean over the reference (R, T)."""
    if errors.shape[1] == 1:
        return errors
    return errors / np.array([_mean(column) or 1.0 for column in reference.T])


def mean_errors(errors: np.ndarray) -> np.ndarray:  # (G, T) -> (G,)
    """Return the mean over the labelled targets of each molecule; NaN without a label."""
    return np.array([_mean(row) for row in errors])


def describe_miss(targets: Sequence[Target]) -> str:
    """Return a name for the mean of `miss` over molecules."""
    if len(targets) > 1:
        return "mean error of the targets, each relative to its mean over the validation molecules"
    (target,) = targets
    if target.kind == "regression":
        return f"absolute error of {target.learned_name}"
    return f"share of wrong classes of {target.name}"


def _mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan
