"""One score of one target, computed by scikit-learn and SciPy."""

from __future__ import annotations

import warnings

import numpy as np

from molsepnorm.tasks.metrics.metric import find

__all__ = ["chosen_class", "score"]


def score(metric: str, labels: np.ndarray, predictions: np.ndarray) -> float:
    """One metric of one target over the labels that are present, NaN where it is undefined.

    >>> score("mae", np.array([1.0, 2.0, np.nan]), np.array([1.5, 2.0, 9.0]))
    0.25
    >>> score("roc_auc", np.array([1.0, 1.0]), np.array([0.2, 0.9]))
    nan

    Args:
        metric: a name of `METRICS`, but not loss.
        labels: (n,), NaN where missing; 0 or 1 for yes/no, the index of a class for classes.
        predictions: (n,) values or probabilities of yes, or (n, K) probabilities of the classes.

    Raises:
        ConfigError: there is no such metric.
    """
    kinds = find(metric).kinds
    present = ~np.isnan(labels)
    truth, predicted = labels[present].astype(float), predictions[present].astype(float)
    finite = np.isfinite(truth).all() and np.isfinite(predicted).all()
    if not finite or not _defined(metric, truth, predicted):
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = _compute(metric, truth if "regression" in kinds else truth.astype(int), predicted)
    return value if np.isfinite(value) else float("nan")


def chosen_class(predictions: np.ndarray) -> np.ndarray:  # int (n,)
    """The class that probabilities (n,) of yes, or (n, K) of the classes, stand for."""
    return predictions.argmax(axis=1) if predictions.ndim == 2 else (predictions > 0.5).astype(int)


def _defined(metric: str, truth: np.ndarray, predicted: np.ndarray) -> bool:
    if not len(truth):
        return False
    if metric == "f1" and predicted.ndim == 1:
        return bool((truth == 1).any())
    if metric == "spearman" and (predicted == predicted[0]).all():
        return False
    one_label = (truth == truth[0]).all()
    return not (one_label and metric in ("r2", "spearman", "roc_auc", "pr_auc", "mcc"))


def _compute(metric: str, truth: np.ndarray, predicted: np.ndarray) -> float:
    from scipy import stats
    from sklearn import metrics as sk

    several = predicted.ndim == 2
    classes = np.arange(predicted.shape[1] if several else 2)

    def brier() -> float:
        """`sk.brier_score_loss`, which takes several classes only since scikit-learn 1.7."""
        errors = sk.mean_squared_error(
            np.eye(len(classes))[truth] if several else truth, predicted, multioutput="raw_values"
        )
        return errors.sum() * (0.5 if several and len(classes) == 2 else 1)

    scores = {
        "mae": lambda: sk.mean_absolute_error(truth, predicted),
        "rmse": lambda: sk.mean_squared_error(truth, predicted) ** 0.5,
        "r2": lambda: sk.r2_score(truth, predicted, force_finite=False),
        "spearman": lambda: stats.spearmanr(truth, predicted)[0],
        "roc_auc": lambda: sk.roc_auc_score(truth, predicted),
        "pr_auc": lambda: sk.average_precision_score(truth, predicted),
        "accuracy": lambda: sk.accuracy_score(truth, chosen_class(predicted)),
        "f1": lambda: sk.f1_score(
            truth, chosen_class(predicted), average="macro" if several else "binary"
        ),
        "mcc": lambda: sk.matthews_corrcoef(truth, chosen_class(predicted)),
        "log_loss": lambda: sk.log_loss(truth, predicted, labels=classes),
        "brier": brier,
    }
    return float(scores[metric]())
