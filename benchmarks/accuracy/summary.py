"""Runs of one name put together: mean and spread over seeds, and differences from another name."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from accuracy.log import Logged
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.ablation import Difference, paired_difference

__all__ = ["Spread", "Tried", "differing", "higher_is_better", "tried"]


@dataclass(frozen=True)
class Spread:
    """Of a figure over seeds."""

    mean: float
    sd: float | None
    """Unbiased; None of a single run."""
    count: int


@dataclass(frozen=True)
class Tried:
    """What was tried under one name."""

    name: str
    runs: list[Logged]
    """One for each seed: the last that came to its end, or else the last one."""

    @property
    def scored_on(self) -> tuple[str, str | None]:
        """Data set and metric, within which scores can be compared."""
        return self.shown.dataset, self.shown.metric

    @property
    def finished(self) -> list[Logged]:
        return [run for run in self.runs if run.error is None]

    @property
    def shown(self) -> Logged:
        """The run whose settings and figures stand for all."""
        return [*self.runs, *self.finished][-1]

    def scores(self, split: Literal["val", "test"]) -> dict[int, float]:
        """Of the finished runs that have one, by seed."""
        scores = {run.seed: getattr(run, split) for run in self.finished}
        return {seed: score for seed, score in scores.items() if score is not None}

    def spread(self, split: Literal["val", "test"]) -> Spread | None:
        """None where no run has a score."""
        values = list(self.scores(split).values())
        if not values:
            return None
        sd = statistics.stdev(values) if len(values) > 1 else None
        return Spread(statistics.fmean(values), sd, len(values))

    def mean(self, name: str) -> float | None:
        """Of another figure, over the finished runs; None where there are none."""
        values = [getattr(run, name) for run in self.finished]
        defined = [value for value in values if value is not None]
        return statistics.fmean(defined) if defined else None

    def less(self, other: Tried, split: Literal["val", "test"]) -> Difference | None:
        """The difference from another's scores, seed by seed; None without a common seed."""
        mine, theirs = self.scores(split), other.scores(split)
        seeds = [seed for seed in mine if seed in theirs]
        if not seeds:
            return None
        return paired_difference([mine[s] for s in seeds], [theirs[s] for s in seeds])


def tried(log: Sequence[Logged]) -> list[Tried]:
    """By name, in the order in which the names first came up."""
    by_name: dict[str, dict[int, Logged]] = {}
    for run in log:
        seeds = by_name.setdefault(run.name, {})
        if run.error is None or run.seed not in seeds or seeds[run.seed].error is not None:
            seeds[run.seed] = run
    return [Tried(name, list(seeds.values())) for name, seeds in by_name.items()]


def differing(run: Logged, other: Logged | None) -> dict[str, Any]:
    """Settings of a run that are not another's; not the data set's recipe's, where that is None.

    A setting that one of them does not have, being younger or older than that run, counts where
    it was not the recipe's.
    """
    if other is None:
        return dict(run.changed)
    mine, theirs = _flat(run.config), _flat(other.config)
    told = {
        name: value
        for name, value in mine.items()
        if (theirs[name] != value if name in theirs else name in run.changed)
    }
    unknown = {name: "default" for name in other.changed if name in theirs and name not in mine}
    return {**told, **unknown}


def higher_is_better(metric: str | None) -> bool:
    """A run is chosen by it; the loss, which is no metric, is better where it is lower."""
    return metric in METRICS and METRICS[metric].higher_is_better


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{section}.{key}": value
        for section, settings in config.items()
        for key, value in settings.items()
    }
