"""The numbers of `metrics.json` that compare scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.errors import listed
from molsepnorm.tasks import Task
from molsepnorm.tasks.metrics import METRICS, between, label_of, significant
from molsepnorm.training.results.scores import is_relative

_Interval = tuple[float, float]


def comparisons(
    task: Task,
    entries: Mapping[str, Any],
    predictions: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    constant: np.ndarray,
    molecules: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """Return the entries of `metrics.json` that compare the scores of a model.

    `scored_targets` has the targets of each headline that have a test score, all of them if none
    has one, if there are several targets.
    `constant_difference` holds the test scores of the model minus those of the trivial baseline,
    with intervals of a paired bootstrap. `val_test_difference` holds the validation scores minus
    the test scores; means over other targets are not compared. All intervals are 95 % intervals.

    Args:
        task: the targets.
        entries: the entries `val`, `test`, `test_constant` and `test_interval_95`.
        predictions: float32 [n, O]: those of the model for `val` and `test`.
        labels: float32 [n, T]: those of `val` and `test`.
        constant: float32 [n, O]: predictions of the trivial baseline for `test`.
        molecules: [n]: the same number for rows of one molecule, for `val` and `test`.

    Source: of the interval for two independent scores, Zou and Donner, Stat. Med. 2008, 27, 1693.
    """
    names = task.headlines
    val, test, of_constant = (entries[each] for each in ("val", "test", "test_constant"))
    only = {*names, *replace(task, metric="loss").headlines, "log_loss"}

    def intervals(split: str, **options: Any) -> dict[str, _Interval]:
        own = molecules[split]
        return task.intervals(predictions[split], labels[split], molecules=own, **options)

    paired, of_val = intervals("test", minus=constant, only=only), intervals("val", only=names)
    of_test, unpaired = entries["test_interval_95"], {}
    for name in names:
        defined = _defined(val, name)
        if name in defined & of_val.keys() & of_test.keys() and defined == _defined(test, name):
            unpaired[name] = _independent(val[name], of_val[name], test[name], of_test[name])
    scored = {}
    for name in names:
        own = [target.name for target in task.targets if target.kind in METRICS[name].kinds]
        with_score = [each for each in own if test.get(f"{name}/{each}") is not None]
        scored[name] = with_score or own  # a single target has no score of its own
    return {
        "headlines": list(names),
        **({"scored_targets": scored} if len(task.targets) > 1 else {}),
        "constant_difference": differences(test, of_constant, paired),
        "val_test_difference": differences(val, test, unpaired),
    }


def _defined(scores: Mapping[str, float | None], metric: str) -> set[str]:
    """Return the names of the scores by a metric that are defined, those of single targets, too."""
    return {
        name
        for name, each in scores.items()
        if each is not None and name.partition("/")[0] == metric
    }


def differences(
    scores: Mapping[str, float | None],
    others: Mapping[str, float | None],
    intervals: Mapping[str, _Interval],
) -> dict[str, dict[str, Any]]:
    """Return the scores minus the others, with the intervals; without those that are undefined."""
    found = {}
    for name, ends in intervals.items():
        one, other = scores[name], others[name]
        if one is not None and other is not None:
            found[name] = {"difference": one - other, "interval_95": list(ends)}
    return found


def _independent(one: float, of_one: _Interval, other: float, of_other: _Interval) -> _Interval:
    """Return the interval of `one - other` from those of both, which are independent."""
    low = math.hypot(one - of_one[0], of_other[1] - other)
    high = math.hypot(of_one[1] - one, other - of_other[0])
    return one - other - low, one - other + high


MAX_NAMED = 3  # targets that a sentence names


class Gain(NamedTuple):
    """Gain of one score over another: positive if it is better, with its 95 % interval."""

    by: float
    low: float
    high: float

    @staticmethod
    def of(name: str, found: Mapping[str, Any]) -> Gain:
        """Return the gain from an entry of `differences`; `name` is that of the metric."""
        sign = 1 if METRICS[name.partition("/")[0]].higher_is_better else -1
        low, high = sorted(sign * end for end in found["interval_95"])
        return Gain(sign * found["difference"], low, high)

    @property
    def word(self) -> str:
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "not clearly better"

    def __str__(self) -> str:
        low, high = (self.low, self.high) if self.by >= 0 else (-self.high, -self.low)
        if low == high != 0:
            return f"a difference of {significant(low, 3)}, the same in all bootstrap resamples"
        ends = between((low, high), 3)
        return f"a difference of {significant(abs(self.by), 3)} (95 % interval {ends})"


def comparison(metrics: Mapping[str, Any], name: str, gain: Gain, than: str, score: float) -> str:
    """Return the sentence that compares the test score with that of another model."""
    who = "blend" if "blend" in metrics else "ensemble" if "members" in metrics else "model"
    own = significant(metrics["test"][name], 3)
    return (
        f"The {who} is {gain.word} than {than} on the test molecules: "
        f"{metric_of_targets(metrics, name)} {own} against {significant(score, 3)}, {gain}."
    )


def comparable_metric(name: str, gains: Mapping[str, Any]) -> str | None:
    """Return the metric, or if it is undefined for the trivial baseline (Spearman), another metric
    of such targets; None if there is none."""
    kinds = {*METRICS[name].kinds}
    names = (n for n in gains if "/" not in n and n != "log_loss")
    others = (n for n in names if kinds.intersection(METRICS[n].kinds))
    return name if name in gains else next(others, None)


def largest_gain(metrics: Mapping[str, Any], name: str) -> float:
    """Return the distance between the test score of the trivial baseline and a perfect score."""
    constant = metrics["test_constant"].get(name)
    perfect = 1.0 if METRICS[name.partition("/")[0]].higher_is_better else 0.0
    return 1.0 if constant is None else abs(perfect - constant)


def metric_label(metrics: Mapping[str, Any], name: str) -> str:
    """Return the name of a score in text, such as "RMSE of pKa", or "mean relative RMSE" of several
    targets."""
    own = [score for key, score in metrics["test"].items() if key.startswith(f"{name}/")]
    is_mean = len(own) > 1 and sum(score is not None for score in own) != 1
    relative = "relative " * is_relative(name, metrics["test"])
    return f"{'mean ' if is_mean else ''}{relative}{label_of(name)}"


def metric_of_targets(metrics: Mapping[str, Any], name: str) -> str:
    """Return the name of a metric with its targets, such as "mean ROC-AUC of NR-AR and SR-p53"."""
    targets = metrics.get("scored_targets", {}).get(name, [])
    of = f" of {listed(targets)}" if 0 < len(targets) <= MAX_NAMED else ""
    return f"{metric_label(metrics, name)}{of}"
