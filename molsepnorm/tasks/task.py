"""`Task`: the targets of a model, and the metric that compares epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.tasks.metrics import (
    METRICS,
    Kind,
    Metric,
    draw_resamples,
    interval,
    resampled_scores,
)
from molsepnorm.tasks.target import Target

_TINY = 1e-7  # the smallest probability that has an output
_MAX_COUNTS = 2**28  # bytes of all resamples together
_FEWEST = 5  # molecules outside the most frequent class, from which on a score has an interval
_DEFAULT_METRIC: dict[Kind, str] = {"binary": "roc_auc", "multiclass": "accuracy"}
_METRIC_OF_LOSS = {"l1": "mae", "mse": "rmse"}


@dataclass(frozen=True)
class Task:
    """T targets, and the metric that compares epochs. It is a `ConfigError` if the metric
    is unknown or for other targets, or two targets have the same name or column of predictions."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - used when a model folder is read

    targets: tuple[Target, ...]
    metric: str
    regression_loss: Literal["l1", "mse"] = "l1"
    """Absolute or squared error."""

    def __post_init__(self) -> None:
        for name, times in Counter(self.names).items():
            if times > 1:
                raise ConfigError(f"{times} targets are called '{name}': rename all but one")
        owners: dict[str, str] = {}
        for target in self.targets:
            for column in target.every_column:
                if (other := owners.setdefault(column, target.name)) != target.name:
                    raise ConfigError(
                        f"the predictions of '{other}' and '{target.name}' would share the column "
                        f"{column}: rename one of the targets"
                    )
        if self.metric not in METRICS:
            raise ConfigError(
                f"unknown metric '{self.metric}'. {did_you_mean(self.metric, METRICS)}"
            )
        kinds = self.chosen_by.kinds
        if kinds and not any(target.kind in kinds for target in self.targets):
            raise ConfigError(
                f"the metric '{self.metric}' is for {' and '.join(kinds)} targets, and there is "
                f"none among {', '.join(self.names)}"
            )

    @staticmethod
    def fit(
        targets: Sequence[Target],
        labels: np.ndarray,
        metric: str | None = None,
        *,
        class_weight: Literal["balanced"] | None = None,
        regression_loss: Literal["l1", "mse"] = "l1",
        strict: bool = True,
    ) -> Task:
        """Return the task of these targets, standardised by their training labels (G, T) on the
        scale that is learned.

        Args:
            metric: by default the usual one of the targets' kind, or the loss for targets of
                several kinds, or several numbers, whose units may differ.
            class_weight: balanced weights each class in inverse proportion to its frequency.
            strict: refuse a target without two different labels; False for published data sets,
                which are used as they are.

        Raises:
            ConfigError: the metric is unknown, or no target has this metric or class weights.
            DataError: a label does not fit its target, or a target is refused.
        """
        columns = zip(targets, labels.T, strict=True)
        fitted = tuple(target.fitted(each, class_weight, strict) for target, each in columns)
        kinds = {target.kind for target in targets}
        if class_weight and kinds == {"regression"}:
            raise ConfigError(
                "class_weight is for binary and multi-class targets, and "
                f"{', '.join(target.name for target in targets)} are regression targets"
            )
        if metric is None:
            alike = len(targets) == 1 or kinds in ({"binary"}, {"multiclass"})
            metric = _usual_metrics(regression_loss)[targets[0].kind] if alike else "loss"
        return Task(fitted, metric, regression_loss)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the targets."""
        return tuple(target.name for target in self.targets)

    @property
    def outputs(self) -> int:  # O
        return sum(target.width for target in self.targets)

    def columns(self) -> list[slice]:
        """Return each target's slice of the outputs."""
        ends = accumulate(target.width for target in self.targets)
        return [slice(end - t.width, end) for end, t in zip(ends, self.targets, strict=True)]

    def by_output(self, values: np.ndarray) -> np.ndarray:  # (…, T) -> float32 (…, O)
        """Return values of targets for each of their outputs."""
        widths = [target.width for target in self.targets]
        return np.repeat(values, widths, axis=-1).astype(np.float32)

    @property
    def chosen_by(self) -> Metric:
        return METRICS[self.metric]

    def choosing_by(self, labels: np.ndarray) -> Task:  # (n, T)
        """Return the task with the loss as its metric if its metric is undefined for the labels,
        such as those of one class."""
        anything = np.random.default_rng(0).random((len(labels), self.outputs))
        name = self.metric
        if name == "loss" or not np.isnan(self.scores(anything, labels, [name])[name]):
            return self
        return replace(self, metric="loss")

    @property
    def headlines(self) -> tuple[str, ...]:
        """Names of the metrics that summarise the scores: `metric`, and the usual ones of targets
        that it does not score."""
        usual, scored = _usual_metrics(self.regression_loss), self.chosen_by.kinds
        others = (usual[each.kind] for each in self.targets if each.kind not in scored)
        return tuple(dict.fromkeys([*[self.metric][: len(scored)], *others]))

    def baseline_prediction(self, labels: np.ndarray) -> np.ndarray:  # (O,)
        """Return the best constant prediction from training labels (G, T): the frequency of each
        class; for regression the median, or the mean for squared errors."""
        parts = []
        for target, column in zip(self.targets, labels.T, strict=True):
            present = column[~np.isnan(column)]
            if target.kind == "multiclass":
                labelled = present.astype(int) if len(present) else np.arange(target.width)
                parts.append(np.bincount(labelled, minlength=target.width) / len(labelled))
            else:
                absolute = target.kind == "regression" and self.regression_loss == "l1"
                middle = np.median if absolute else np.mean
                parts.append(np.array([middle(present) if len(present) else 0.0]))
        return np.concatenate(parts)

    def predictions(self, outputs: Tensor) -> Tensor:  # (B, O)
        """Return values on the scale that is learned, and probabilities of class 1 or each class;
        NaN where an output is not finite, which a sigmoid would hide."""
        outputs = outputs.double()
        values = outputs.sigmoid()
        for target, columns in zip(self.targets, self.columns(), strict=True):
            if target.kind == "regression":
                values[:, columns] = outputs[:, columns] * target.scale + target.mean
            elif target.kind == "multiclass":
                values[:, columns] = outputs[:, columns].softmax(dim=1)
        return values.masked_fill(~outputs.isfinite(), torch.nan).float()

    def outputs_of(self, predictions: Tensor) -> Tensor:  # (B, O)
        """Return outputs with these predictions: the inverse of `predictions`."""
        values = predictions.double()
        outputs = values.logit(_TINY)
        for target, columns in zip(self.targets, self.columns(), strict=True):
            if target.kind == "regression":
                outputs[:, columns] = (values[:, columns] - target.mean) / target.scale
            elif target.kind == "multiclass":
                outputs[:, columns] = values[:, columns].clamp(min=_TINY).log()
        return outputs.float()

    def rescale_outputs(self, new: Task, weights: Iterable[Tensor], bias: Tensor) -> None:
        """Rescale weights (O, …) and bias (O,) of outputs to the means and scales of a new task."""
        with torch.no_grad():
            for one, other, rows in zip(self.targets, new.targets, self.columns(), strict=True):
                if (one.mean, one.scale) != (other.mean, other.scale):
                    ratio, shift = one.rescaling_to(other)
                    for weight in weights:
                        weight[rows] *= ratio
                    bias[rows] = bias[rows] * ratio + shift

    def tables(self, predictions: np.ndarray) -> list[dict[str, np.ndarray]]:
        """Return predictions (G, O) as named columns, for each target.

        <target>_pred is a value in the unit of the table, the probability of class 1, or the most
        probable class. Targets with a transform or several classes also have their
        `Target.output_columns`.
        """
        tables = []
        for target, columns in zip(self.targets, self.columns(), strict=True):
            part = predictions[:, columns]
            table = dict(zip(target.output_columns, part.T, strict=True))
            if (transform := target.transformation) is not None:
                table = {target.prediction_column: transform.inverse(part[:, 0])} | table
            elif target.kind == "multiclass":
                classes = np.array(target.classes, dtype=object)[part.argmax(1)]
                classes[~np.isfinite(part).all(axis=1)] = ""  # argmax of NaN is the first class
                table = {target.prediction_column: classes} | table
            tables.append(table)
        return tables

    def scores(
        self, predictions: np.ndarray, labels: np.ndarray, only: Collection[str] = METRICS
    ) -> dict[str, float]:
        """Return the metrics `only` that fit the targets, from predictions (G, O) and labels (G,
        T): "mae", the mean over its targets, and "mae/<target>" for each of several targets.

        The units of targets differ, so in the mean over several targets each MAE and RMSE is
        divided by the target's `scale`: the standard deviation of the training labels, which is
        the RMSE of their mean.

        A score that is not defined, such as ROC-AUC where one class is missing, is NaN, and left
        out of the mean. If a prediction of a labelled molecule is not finite, the target's scores
        and the means are NaN, since they would look better without that prediction.
        """
        once = np.ones((1, len(labels)), np.uint8)
        resampled = self._resampled(predictions, labels, once, only)
        return {name: float(scores[0]) for name, scores in resampled}

    @property
    def digits(self) -> int:
        return max(target.digits for target in self.targets)

    def intervals(
        self,
        predictions: np.ndarray,
        labels: np.ndarray,
        resamples: int = 1000,
        minus: np.ndarray | None = None,
        only: Collection[str] = METRICS,
        molecules: np.ndarray | None = None,
    ) -> dict[str, tuple[float, float]]:
        """Return the 95 % bootstrap interval of each of the `scores`, over molecules drawn with
        replacement.

        If the score of a target is undefined in a resample, the mean over the targets uses its
        score on all molecules, since a mean over fewer targets may be far from the others.

        Scores that are undefined in most resamples are left out. So are scores that are the same in
        all resamples, such as the ROC-AUC of a perfect ranking, unless `minus` is given: they do
        not show how much the score would vary with other molecules. Always left out are scores of a
        single molecule, and scores of classes unless five molecules are outside the most frequent
        class of a target: with one active molecule, every resample has that one, so intervals of
        the ROC-AUC would be far too narrow.

        Args:
            resamples: number of resamples, fewer if the rows are very many.
            minus: predictions (G, O) of another model, for intervals of the difference between both
                scores on the same resamples.
            molecules: (G,), the same number for rows of one molecule, which are drawn together; by
                default each row is a molecule.
        """
        import pandas as pd

        affordable = max(100, _MAX_COUNTS // max(len(labels), 1))
        rows = np.arange(len(labels)) if molecules is None else pd.factorize(molecules)[0]
        counts = draw_resamples(rows.max(initial=-1) + 1, min(resamples, affordable), 0)
        counts = np.concatenate([np.ones((1, len(labels)), counts.dtype), counts[:, rows]])
        others = {}
        if minus is not None:
            others = dict(self._resampled(minus, labels, counts, only))
        ends = {}
        for name, scores in self._resampled(predictions, labels, counts, only):
            defined = scores[1:][~np.isnan(scores[1:])]
            varies = minus is not None or (defined != defined[:1]).any()
            scores = scores if minus is None else scores - others[name]
            enough = varies and self._has_enough(name, labels, rows)
            if enough and (both := interval(scores[1:])) is not None:
                ends[name] = both
        return ends

    def _has_enough(self, name: str, labels: np.ndarray, molecules: np.ndarray) -> bool:
        """Return whether a target of this score has labels of two molecules; for classes, of five
        molecules outside its most frequent class."""
        metric, _, only = name.partition("/")
        for target, column in zip(self.targets, labels.T, strict=True):
            if only not in ("", target.name) or target.kind not in METRICS[metric].kinds:
                continue
            present = ~np.isnan(column)
            if target.kind == "regression":
                count, needed = len(np.unique(molecules[present])), 2
            else:
                each = [len(np.unique(molecules[column == c])) for c in np.unique(column[present])]
                count, needed = sum(each) - max(each, default=0), _FEWEST
            if count >= needed:
                return True
        return False

    def _resampled(
        self,
        predictions: np.ndarray,
        labels: np.ndarray,
        counts: np.ndarray,  # int (R, G)
        only: Collection[str],
    ) -> Iterator[tuple[str, np.ndarray]]:  # (R,) each
        """Yield each of the `scores` in R resamples. The first resample has every row once."""
        columns = self.columns()
        for name, metric in METRICS.items():
            fitting = [i for i, target in enumerate(self.targets) if target.kind in metric.kinds]
            if name not in only or not fitting:
                continue
            every, finite = [], True
            for i in fitting:
                predicted = predictions[:, columns[i]]
                finite &= bool(np.isfinite(predicted[~np.isnan(labels[:, i])]).all())
                predicted = predicted if self.targets[i].width > 1 else predicted[:, 0]
                every.append(resampled_scores(name, labels[:, i], predicted, counts))
            several = len(fitting) > 1
            units = [self.targets[i].scale if several and metric.has_unit else 1.0 for i in fitting]
            yield name, _mean(np.stack(every) / np.array(units)[:, None], finite)
            if several:
                for i, scores in zip(fitting, every, strict=True):
                    yield f"{name}/{self.targets[i].name}", scores


def _usual_metrics(regression_loss: str) -> dict[Kind, str]:
    return {**_DEFAULT_METRIC, "regression": _METRIC_OF_LOSS[regression_loss]}


def json_scores(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return the scores for JSON: NaN becomes None."""
    return {name: None if np.isnan(value) else value for name, value in scores.items()}


def _mean(scores: np.ndarray, finite: bool) -> np.ndarray:  # (R,)
    """Return the mean over the targets (T, R) whose score is defined in the first resample; NaN
    without a score, or if not all predictions are finite. A score that is undefined in another
    resample is replaced by that in the first one."""
    defined = ~np.isnan(scores)
    count = np.where(defined.any(axis=0) & finite, defined[:, 0].sum(), np.nan)
    return np.nansum(np.where(defined, scores, scores[:, :1]), axis=0) / count
