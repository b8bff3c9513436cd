"""`Task`: several targets together, and the metric by which a model is chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from molsepnorm.errors import ConfigError, did_you_mean, require_several
from molsepnorm.tasks.loss import Loss
from molsepnorm.tasks.metrics import (
    METRICS,
    Kind,
    Metric,
    draw_resamples,
    interval,
    resampled_scores,
    score,
)
from molsepnorm.tasks.target import Target

__all__ = ["Task", "json_scores"]

_COUNTS = 2**28  # bytes that the bootstrap may take
_DEFAULT_METRIC = {"binary": "roc_auc", "multiclass": "accuracy"}
_OF_LOSS = {"l1": "mae", "mse": "rmse"}


@dataclass(frozen=True)
class Task:
    """T targets together, and the metric by which a model is chosen."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read where a file is checked

    targets: tuple[Target, ...]
    metric: str
    regression_loss: Literal["l1", "mse"] = "l1"
    """Of standardised labels: their absolute or their squared error."""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise ConfigError(
                f"unknown metric '{self.metric}'. {did_you_mean(self.metric, METRICS)}"
            )
        wanted = METRICS[self.metric].kinds
        if wanted and not any(target.kind in wanted for target in self.targets):
            raise ConfigError(
                f"the metric '{self.metric}' is for {' and '.join(wanted)} targets, and there is "
                f"none among {', '.join(self.names)}"
            )

    @staticmethod
    def fit(
        names: Sequence[str],
        kinds: Sequence[Kind],
        labels: np.ndarray,
        metric: str | None = None,
        *,
        classes: Sequence[tuple[str, ...]] = (),
        class_weight: Literal["balanced"] | None = None,
        regression_loss: Literal["l1", "mse"] = "l1",
        strict: bool = True,
    ) -> Task:
        """The task of these targets, standardised by their training labels (G, T).

        Args:
            names: the targets' names.
            kinds: their kinds.
            labels: of the training molecules.
            metric: what a model is chosen by; by default the usual one of the targets' kind, or the
                loss where they are of several.
            classes: for each target the names of its classes; () where none is multi-class.
            class_weight: balanced counts a class in the inverse proportion of its share.
            regression_loss: which; squared errors go with RMSE, absolute ones with MAE.
            strict: refuse a target that cannot be learnt from these labels. A published set is
                taken as it is.

        Raises:
            ConfigError: the metric is unknown, or it or the class weights fit none of the targets.
            DataError: a target has no label, or a single value, among the training molecules; or
                a label does not fit its target.
        """
        require_several(names, "names")
        targets = tuple(
            Target.fit(name, kind, column, classes[i] if classes else (), class_weight, strict)
            for i, (name, kind, column) in enumerate(zip(names, kinds, labels.T, strict=True))
        )
        if class_weight and set(kinds) == {"regression"}:
            raise ConfigError(
                f"class_weight is for yes/no and multi-class targets, and {', '.join(names)} "
                "are numbers"
            )
        if metric is None:
            usual = {**_DEFAULT_METRIC, "regression": _OF_LOSS[regression_loss]}
            metric = usual[kinds[0]] if len(set(kinds)) == 1 else "loss"
        return Task(targets, metric, regression_loss)

    @property
    def names(self) -> tuple[str, ...]:
        """The targets' names."""
        return tuple(target.name for target in self.targets)

    @property
    def outputs(self) -> int:
        """O, the number of the network's outputs."""
        return sum(target.width for target in self.targets)

    def columns(self) -> list[slice]:
        """For each target its outputs."""
        ends = list(accumulate(target.width for target in self.targets))
        return [slice(end - t.width, end) for end, t in zip(ends, self.targets, strict=True)]

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
        targets = []
        for target in content["targets"]:
            lists = {k: tuple(target.get(k, ())) for k in ("classes", "class_weights")}
            targets.append(Target(**{**target, **lists}))
        return Task(tuple(targets), content["metric"], content.get("regression_loss", "l1"))

    def constant(self, labels: np.ndarray) -> np.ndarray:  # (O,)
        """The best prediction that ignores the molecule, from training labels (G, T): the share of
        yes or of each class; for regression the median, or the mean where the loss is squared."""
        parts = []
        for target, column in zip(self.targets, labels.T, strict=True):
            present = column[~np.isnan(column)]
            if target.kind == "multiclass":
                counts = np.bincount(present.astype(int), minlength=target.width)
                parts.append(
                    counts / len(present) if len(present) else np.full(len(counts), 1 / len(counts))
                )
            else:
                absolute = target.kind == "regression" and self.regression_loss == "l1"
                middle = np.median if absolute else np.mean
                parts.append(np.array([middle(present) if len(present) else 0.0]))
        return np.concatenate(parts)

    def loss(
        self, outputs: Tensor, labels: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Weighted sum of the losses of all labels present, and the sum of their weights.

        L1 or squared error in standardised units for regression, cross-entropy otherwise; missing
        labels count for nothing, also in the gradient.

        Args:
            outputs: (B, O), the network's.
            labels: (B, T) in the targets' own units.
            weights: (B,), how much each molecule counts; None for all alike.
        """
        return Loss(self, outputs.device)(outputs, labels, weights)

    def predictions(self, outputs: Tensor) -> Tensor:  # (B, O)
        """Outputs as values in the targets' own units and probabilities of yes or of a class; NaN
        for a target with an output that is not finite, which a sigmoid would hide."""
        outputs = outputs.double()
        values = torch.where(
            self._single("regression", outputs.device),
            outputs * self._per_output("scale", outputs) + self._per_output("mean", outputs),
            outputs.sigmoid(),
        )
        for target, columns in zip(self.targets, self.columns(), strict=True):
            if target.kind == "multiclass":
                values[:, columns] = outputs[:, columns].softmax(dim=1)
        return values.masked_fill(~outputs.isfinite(), torch.nan).float()

    def tables(self, predictions: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Predictions (G, O) as columns for people, for each target: <target>_pred, a value, the
        probability of yes or the most probable class; and of each class <target>_prob_<class>."""
        tables = []
        for target, columns in zip(self.targets, self.columns(), strict=True):
            part = predictions[:, columns]
            if target.kind != "multiclass":
                tables.append({f"{target.name}_pred": part[:, 0]})
                continue
            names = np.array(target.classes, dtype=object)
            probabilities = {
                f"{target.name}_prob_{name}": part[:, i] for i, name in enumerate(target.classes)
            }
            chosen = names[part.argmax(1)]
            chosen[~np.isfinite(part).all(axis=1)] = ""  # argmax of NaN is the first class
            tables.append({f"{target.name}_pred": chosen, **probabilities})
        return tables

    def scores(
        self, predictions: np.ndarray, labels: np.ndarray, only: Collection[str] = METRICS
    ) -> dict[str, float]:
        """Every metric that fits: "mae", the mean over its targets, and "mae/<target>" for each of
        them where there are several.

        A score that is not defined, such as ROC-AUC where one class is missing, is NaN, and left
        out of the mean. Where a prediction of a labelled molecule is not finite, the target's
        scores and the means are NaN: without it they would look better.

        Args:
            predictions: (G, O), as `predictions` gives them.
            labels: (G, T).
            only: names of the metrics, where not all are wanted.
        """
        scores: dict[str, float] = {}
        for name, each in self._by_metric(predictions, labels):
            if name not in only:
                continue
            values = {target: score(name, *both) for target, both in each.items()}
            scores[name] = _mean(np.array(list(values.values())))
            if not all(_all_finite(*both) for both in each.values()):
                scores[name] = float("nan")
            if len(each) > 1:
                scores |= {f"{name}/{target}": value for target, value in values.items()}
        return scores

    def intervals(
        self, predictions: np.ndarray, labels: np.ndarray, resamples: int = 1000, seed: int = 0
    ) -> dict[str, tuple[float, float]]:
        """For each of the `scores` its 95 % bootstrap interval, over molecules drawn with
        replacement; those that are not defined in most of the resamples are left out."""
        affordable = max(100, _COUNTS // max(len(labels), 1))
        counts = draw_resamples(len(labels), min(resamples, affordable), seed)
        intervals = {}
        for name, each in self._by_metric(predictions, labels):
            columns = {t: resampled_scores(name, *both, counts) for t, both in each.items()}
            stacked = np.stack(list(columns.values()))
            with np.errstate(invalid="ignore"):
                defined = ~np.isnan(stacked)
                means = np.nansum(stacked, axis=0) / np.where(
                    defined.any(0), defined.sum(0), np.nan
                )
            finite = all(_all_finite(*both) for both in each.values())
            intervals[name] = interval(means) if finite else None
            if len(each) > 1:
                intervals |= {f"{name}/{t}": interval(values) for t, values in columns.items()}
        return {name: both for name, both in intervals.items() if both is not None}

    def _by_metric(
        self, predictions: np.ndarray, labels: np.ndarray
    ) -> list[tuple[str, dict[str, tuple[np.ndarray, np.ndarray]]]]:
        """For each metric that fits a target: labels and predictions of the targets it fits."""
        columns = self.columns()
        fitting = []
        for metric in METRICS.values():
            each = {}
            for i, target in enumerate(self.targets):
                if target.kind in metric.kinds:
                    part = predictions[:, columns[i]]
                    each[target.name] = labels[:, i], part if target.width > 1 else part[:, 0]
            if each:
                fitting.append((metric.name, each))
        return fitting

    def _single(self, kind: Kind, device: torch.device) -> Tensor:  # (O,)
        flags = [target.kind == kind for target in self.targets for _ in range(target.width)]
        return torch.tensor(flags, device=device)

    def _per_output(self, field: Literal["mean", "scale"], like: Tensor) -> Tensor:  # (O,)
        return like.new_tensor([getattr(t, field) for t in self.targets for _ in range(t.width)])


def json_scores(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Scores as JSON has them, an undefined one null: JSON knows no NaN."""
    return {name: None if np.isnan(value) else value for name, value in scores.items()}


def _all_finite(labels: np.ndarray, predictions: np.ndarray) -> bool:
    """Return whether all predictions (n,) or (n, K) of molecules with a label (n,) are finite."""
    return bool(np.isfinite(predictions[~np.isnan(labels)]).all())


def _mean(values: np.ndarray) -> float:
    """Of those that are defined; NaN where none is."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")
