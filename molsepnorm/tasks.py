"""What is predicted: targets, their loss, their metric, and how outputs become predictions.

The network's output for a regression target is in units of the training labels' standard
deviation, for a yes/no target it is a logit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.errors import ConfigError, DataError, did_you_mean

__all__ = ["METRICS", "Metric", "Target", "Task", "check_yes_no", "json_scores"]

Kind = Literal["regression", "binary"]


@dataclass(frozen=True)
class Metric:
    """A score, the kind of target it is for, and which way is better."""

    name: str
    kind: Kind | None
    higher_is_better: bool

    def better(self, score: float, than: float | None) -> bool:
        """Whether `score` beats another one; anything beats no score and an undefined one."""
        if than is None or np.isnan(than):
            return True
        return score > than if self.higher_is_better else score < than


METRICS = {
    metric.name: metric
    for metric in (
        Metric("mae", "regression", higher_is_better=False),
        Metric("rmse", "regression", higher_is_better=False),
        Metric("roc_auc", "binary", higher_is_better=True),
        Metric("loss", None, higher_is_better=False),
    )
}
"""`loss` is for tables whose targets are of several kinds."""


@dataclass(frozen=True)
class Target:
    """One column to predict."""

    name: str
    kind: Kind
    mean: float = 0.0
    """Mean of the training labels, in their own units; 0 for yes/no."""
    scale: float = 1.0
    """Standard deviation of the training labels, in their own units; 1 for yes/no."""


@dataclass(frozen=True)
class Task:
    """T targets together, and the metric by which a model is chosen."""

    targets: tuple[Target, ...]
    metric: str

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise ConfigError(
                f"unknown metric '{self.metric}'. {did_you_mean(self.metric, METRICS)}"
            )
        wanted = METRICS[self.metric].kind
        if wanted and not any(target.kind == wanted for target in self.targets):
            raise ConfigError(
                f"the metric '{self.metric}' is for {wanted} targets, and there is none among "
                f"{', '.join(self.names)}"
            )

    @staticmethod
    def fit(
        names: Sequence[str], kinds: Sequence[Kind], labels: np.ndarray, metric: str | None = None
    ) -> Task:
        """The task of these targets, standardised by their training labels (G, T).

        Raises:
            DataError: a target has no label, or a single value, among the training molecules.
        """
        targets = []
        for name, kind, column in zip(names, kinds, labels.T, strict=True):
            present = column[~np.isnan(column)].astype(np.float64)
            if not len(present):
                raise DataError(f"target '{name}' has no label among the training molecules")
            if (present == present[0]).all():
                raise DataError(
                    f"target '{name}' is constant among the training molecules: all "
                    f"{len(present)} labels are {present[0]:g}, so there is nothing to learn. "
                    "Leave it out, or choose another split"
                )
            if kind == "binary":
                targets.append(Target(name, kind))
            else:
                targets.append(Target(name, kind, float(present.mean()), float(present.std())))
        check_yes_no(targets, labels)
        if metric is None:
            only = set(kinds)
            metric = (
                {"regression": "mae", "binary": "roc_auc"}[only.pop()] if len(only) == 1 else "loss"
            )
        return Task(tuple(targets), metric)

    @property
    def names(self) -> tuple[str, ...]:
        """The targets' names."""
        return tuple(target.name for target in self.targets)

    @property
    def chosen_by(self) -> Metric:
        """The metric by which a model is chosen."""
        return METRICS[self.metric]

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(content: dict[str, Any]) -> Task:
        """The inverse of `to_json`."""
        targets = tuple(Target(**target) for target in content["targets"])
        return Task(targets, content["metric"])

    def constant(self, labels: np.ndarray) -> np.ndarray:  # (T,)
        """The best prediction that ignores the molecule, from training labels (G, T): the median
        for regression, the share of yes for yes/no."""
        middle = [np.nanmedian if t.kind == "regression" else np.nanmean for t in self.targets]
        return np.array([f(column) for f, column in zip(middle, labels.T, strict=True)])

    def loss(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of the losses of all labels present, and how many there are.

        L1 in standardised units for regression, binary cross-entropy for yes/no; missing labels
        (NaN) count for nothing, also in the gradient.

        Args:
            outputs: (B, T), the network's.
            labels: (B, T) in the targets' own units, 0 or 1 for yes/no, NaN where missing.
        """
        present = ~labels.isnan()
        labels = torch.where(present, labels, 0.0)
        outputs = outputs.float()
        regression = torch.tensor(self._is("regression"), device=outputs.device)
        scaled = (labels - self._row("mean", outputs)) / self._row("scale", outputs)
        losses = torch.where(
            regression,
            (outputs - scaled).abs(),
            F.binary_cross_entropy_with_logits(outputs, labels.clamp(0, 1), reduction="none"),
        )
        return torch.where(present, losses, 0.0).sum(), present.sum()

    def predictions(self, outputs: Tensor) -> Tensor:  # (B, T)
        """Outputs in the targets' own units; for yes/no the probability of yes."""
        outputs = outputs.double()
        regression = torch.tensor(self._is("regression"), device=outputs.device)
        values = outputs * self._row("scale", outputs) + self._row("mean", outputs)
        return torch.where(regression, values, outputs.sigmoid()).float()

    def scores(self, predictions: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        """Every metric that fits: "mae", the mean over its targets, and "mae/<target>" for each of
        them where there are several.

        A score that is not defined, such as ROC-AUC where one class is missing, is NaN, and left
        out of the mean.
        """
        scores: dict[str, float] = {}
        for metric in METRICS.values():
            each = {
                f"{metric.name}/{target.name}": _score(metric.name, labels[:, i], predictions[:, i])
                for i, target in enumerate(self.targets)
                if target.kind == metric.kind
            }
            if each:
                defined = [value for value in each.values() if not np.isnan(value)]
                scores[metric.name] = float(np.mean(defined)) if defined else float("nan")
            if len(each) > 1:
                scores |= each
        return scores

    def _is(self, kind: Kind) -> list[bool]:
        return [target.kind == kind for target in self.targets]

    def _row(self, field: Literal["mean", "scale"], like: Tensor) -> Tensor:
        values = [getattr(target, field) for target in self.targets]
        return torch.tensor(values, dtype=like.dtype, device=like.device)


def json_scores(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Scores as JSON has them, an undefined one null: JSON knows no NaN."""
    return {name: None if np.isnan(value) else value for name, value in scores.items()}


def check_yes_no(targets: Sequence[Target], labels: np.ndarray) -> None:
    """Check the labels (G, T) of yes/no targets.

    Raises:
        DataError: one is neither 0 nor 1 nor missing.
    """
    for target, column in zip(targets, labels.T, strict=True):
        odd = column[~np.isnan(column) & (column != 0) & (column != 1)]
        if target.kind == "binary" and len(odd):
            raise DataError(
                f"target '{target.name}' is yes/no, so its labels must be 0, 1 or blank; found "
                f"{odd[0]:g}"
            )


def _score(metric: str, labels: np.ndarray, predictions: np.ndarray) -> float:
    """One metric of one target over the labels that are present, NaN where undefined."""
    from sklearn import metrics

    present = ~np.isnan(labels)
    labels, predictions = labels[present].astype(np.float64), predictions[present]
    if not len(labels) or (metric == "roc_auc" and (labels == labels[0]).all()):
        return float("nan")
    score = {
        "mae": metrics.mean_absolute_error,
        "rmse": lambda *both: metrics.mean_squared_error(*both) ** 0.5,
        "roc_auc": metrics.roc_auc_score,
    }[metric]
    return float(score(labels, predictions))
