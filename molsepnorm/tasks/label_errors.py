"""Standard errors of labels: their scale, the weights of labels, and the limits that they set.

A label y of a molecule with the standard error σ is normal about the true value. A model is off by
a normal error with the standard deviation τ, so the residual has the variance σ² + τ², and the
label the weight 1 / (σ² + τ²). τ includes the noise that all labels share.

Source: weights and the likelihood of τ as in the random-effects model of meta-analysis, DerSimonian
and Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 1986, 7, 177.
"""

from __future__ import annotations

import math

import numpy as np

from molsepnorm.errors import ConfigError, DataError, counted
from molsepnorm.tasks.metrics import four_digits
from molsepnorm.tasks.target import Target

_INSIDE = 1.96  # standard errors, half of a 95 % interval
_SMALLEST, _LARGEST = 0.03, 3.0
"""Limits of τ in standard deviations of the labels, so that no label has an infinite weight."""


def learned_errors(
    target: Target, errors: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, str]:
    """Return errors on the scale that is learned, and a line about them. The median replaces NaN.

    With a transform, errors are converted by the first derivative of the logarithm (the delta
    method): 5 ± 1 nM is 8.30 ± 0.09 as pic50.

    Args:
        errors: (n,) in the unit of the table.
        labels: (n,) on the scale that is learned, NaN where missing.

    Raises:
        ConfigError: the target has classes.
        DataError: no label has an error, or they are too large to be standard errors.
    """
    if target.kind != "regression":
        raise ConfigError(
            f"errors (data.error_column) are for regression targets, and '{target.name}' is "
            f"{target.kind}"
        )
    if (transform := target.transformation) is not None:
        errors = errors / (transform.inverse(labels) * math.log(10))
    known = ~np.isnan(labels)
    given = errors[known & ~np.isnan(errors)].astype(np.float64)
    if known.any() and not len(given):
        raise DataError("no label has an error")
    middle = float(np.median(given)) if len(given) else 0.0
    spread = float(labels[known].std()) if known.any() else 0.0
    scale = "" if transform is None else f" on the scale of {transform.scale}"
    sizes = f"{four_digits(middle)}{scale}, and the sd of the labels {four_digits(spread)}"
    if 0 < spread < middle:
        raise DataError(
            f"the median error of '{target.name}' is {sizes}. Standard errors are smaller: "
            "write them in the unit of the labels, not in percent"
        )
    missing, exact = int(known.sum()) - len(given), int((given == 0).sum())
    line = f"{target.name}: the median error of {counted(len(given), 'label')} is {sizes}"
    line += f"; labels without an error ({missing:,}) get the median" * bool(missing)
    line += f"; labels with the error 0 ({exact:,}) count as exact" * bool(exact)
    return np.where(np.isnan(errors), middle, errors), f"{line}."


def merged_error(errors: np.ndarray, weights: np.ndarray) -> float:
    """Return the standard error of the weighted mean of labels with independent errors (n,).

    >>> merged_error(np.array([0.2, 0.2, 0.2, 0.2]), np.ones(4))
    0.1
    """
    return float(np.sqrt(((weights * errors) ** 2).sum()) / weights.sum())


def fit_unexplained(residuals: np.ndarray, errors: np.ndarray, spread: float) -> float:
    """Return τ with the highest likelihood of residuals (n,) of labels with these errors (n,).

    Args:
        residuals: errors of predictions by models that were not fitted to the label.
        spread: standard deviation of the labels. τ is between 0.03 and 3 times as large.
    """
    from scipy.optimize import minimize_scalar

    squares = residuals.astype(np.float64) ** 2

    def loss(log: float) -> float:
        variances = errors.astype(np.float64) ** 2 + math.exp(2 * log)
        return float((np.log(variances) + squares / variances).sum())

    limits = [math.log(factor * spread) for factor in (_SMALLEST, _LARGEST)]
    return math.exp(minimize_scalar(loss, bounds=limits, method="bounded").x)


def label_weights(errors: np.ndarray, unexplained: float, train: np.ndarray) -> np.ndarray:
    """Return the weights (n,) of labels with these errors; their mean over rows `train` is 1."""
    precisions = 1 / (errors.astype(np.float64) ** 2 + unexplained**2)
    return precisions / precisions[train].mean()


def noise_scores(
    predictions: np.ndarray, labels: np.ndarray, errors: np.ndarray
) -> dict[str, float]:
    """Return scores of n ≥ 1 predictions beside the errors of their labels, (n,) each.

    They are the share of predictions in the 95 % interval of their label; the mean absolute error
    beyond these intervals, where an error inside is 0; and the expected MAE and R² of a model that
    predicts the true values, R² = 1 - mean(σ²) / var(y), NaN if all labels are equal.
    """
    misses, errors = np.abs(predictions.astype(np.float64) - labels), errors.astype(np.float64)
    half, variance = _INSIDE * errors, float(labels.var(dtype=np.float64))
    return {
        "inside": float((misses <= half).mean()),
        "mae_beyond": float((misses - half).clip(min=0).mean()),
        "best_mae": float(errors.mean() * math.sqrt(2 / math.pi)),
        "best_r2": 1 - float((errors**2).mean()) / variance if variance else math.nan,
    }
