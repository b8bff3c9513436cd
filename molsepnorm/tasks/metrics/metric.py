"""The known metrics, the targets that they are for, and whether higher or lower is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["regression", "binary", "multiclass"]
"""Kind of a target: a number, yes or no, or one of several classes."""


@dataclass(frozen=True)
class Metric:
    """A metric, the kinds of targets that it is for, and which direction is better."""

    name: str
    kinds: tuple[Kind, ...]
    higher_is_better: bool
    label: str
    """Name in text, such as ROC-AUC."""

    @property
    def has_unit(self) -> bool:
        """True if scores have the unit of their target, as errors of numbers do."""
        return self.kinds == ("regression",) and not self.higher_is_better

    def better(self, score: float, than: float | None) -> bool:
        """Return whether `score` is better; any score is better than None or NaN."""
        if than is None or np.isnan(than):
            return True
        return score > than if self.higher_is_better else score < than

    def close(self, score: float, to: float | None) -> bool:
        """Return whether an error is so little above `to` that the difference says nothing.

        It is at most half a per cent. If a higher score is better, no scores are close, since many
        of them are equal on few molecules.
        """
        if self.higher_is_better or to is None:
            return False
        return score <= (1 + _CLOSE) * to


_CLOSE = 5e-3
_CLASSES: tuple[Kind, ...] = ("binary", "multiclass")

METRICS = {
    metric.name: metric
    for metric in (
        Metric("mae", ("regression",), higher_is_better=False, label="MAE"),
        Metric("rmse", ("regression",), higher_is_better=False, label="RMSE"),
        Metric("r2", ("regression",), higher_is_better=True, label="R²"),
        Metric("spearman", ("regression",), higher_is_better=True, label="Spearman"),
        Metric("roc_auc", ("binary",), higher_is_better=True, label="ROC-AUC"),
        Metric("pr_auc", ("binary",), higher_is_better=True, label="PR-AUC"),
        Metric("accuracy", _CLASSES, higher_is_better=True, label="accuracy"),
        Metric("f1", _CLASSES, higher_is_better=True, label="F1"),
        Metric("mcc", _CLASSES, higher_is_better=True, label="MCC"),
        Metric("log_loss", _CLASSES, higher_is_better=False, label="log loss"),
        Metric("brier", _CLASSES, higher_is_better=False, label="Brier score"),
        Metric("loss", (), higher_is_better=False, label="loss"),
    )
}
"""`loss` is the training loss on the validation split. It compares models whose targets are of
several kinds; it does not score single targets."""


def label_of(name: str) -> str:
    """Return the name of a score in text; names of unknown metrics stay as they are.

    >>> label_of("rmse"), label_of("rmse/logS"), label_of("other")
    ('RMSE', 'RMSE of logS', 'other')
    """
    metric, _, target = name.partition("/")
    label = METRICS[metric].label if metric in METRICS else metric
    return f"{label} of {target}" if target else label
