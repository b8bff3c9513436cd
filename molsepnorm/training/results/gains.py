"""The gain of one score over another, and the names of scores in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from molsepnorm.errors import listed
from molsepnorm.tasks.metrics import METRICS, between, label_of, significant
from molsepnorm.training.results.scores import is_relative

__all__ = [
    "MAX_NAMED",
    "Gain",
    "comparable_metric",
    "comparison",
    "largest_gain",
    "metric_label",
    "metric_of_targets",
]

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
