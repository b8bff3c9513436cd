"""Interleaved timing, and the row of a table that comes from it.

The speed of a machine drifts for everything that runs at the time. So the works that are compared
run in rounds (ours, peer, lower bound, ours, …). Each round gives one ratio, and the result is the
median of the ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Plan", "Row", "Spread", "Target", "Work", "compare", "interleave"]

Work = Callable[[int], float]
"""The work of one round, given its number; returns the units (graphs, molecules, …) of work."""


@dataclass(frozen=True)
class Plan:
    """Duration of a measurement."""

    seconds: float = 10.0
    """No round begins once the slowest work has run for this time."""
    min_rounds: int = 5
    max_rounds: int = 60
    round_seconds: float = 0.5
    """A shorter work repeats within its round."""
    warm_ups: int = 1
    """Rounds before, which do not count."""


def interleave(
    works: Mapping[str, Work], plan: Plan, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return for each work its rate, units per second, in every round."""
    for number in range(plan.warm_ups):
        for work in works.values():
            work(number)
    rates: dict[str, list[float]] = {name: [] for name in works}
    spent = dict.fromkeys(works, 0.0)
    for number in range(plan.max_rounds):
        if number >= plan.min_rounds and max(spent.values()) >= plan.seconds:
            break
        for name, work in works.items():
            begun, units, taken = clock(), 0.0, 0.0
            while taken < plan.round_seconds or not units:
                units += work(number)
                taken = clock() - begun
            rates[name].append(units / taken)
            spent[name] += taken
    return rates


@dataclass(frozen=True)
class Spread:
    """Median and range of several values."""

    median: float
    min: float
    max: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Summarise one value or more."""
        return Spread(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Target:
    """A value that a row should reach."""

    of: Literal["ratio", "share"]
    """ratio: at least this many times as good as the peer. share: at least this share of the
    bound."""
    value: float


@dataclass(frozen=True)
class Row:
    """One row of the table: a quantity of ours, of a peer and of the unavoidable work, by round."""

    what: str
    unit: str
    """A unit that ends in /s is a rate, for which more is better; for others, less is better."""
    ours: Sequence[float]
    peer: Sequence[float] = ()
    """Empty if there is no peer."""
    peer_name: str = ""
    peer_work: str = ""
    bound: Sequence[float] = ()
    """The unavoidable part of the work alone; see lower_bounds.py."""
    bound_name: str = ""
    target: Target | None = None
    remark: str = ""

    @property
    def is_rate(self) -> bool:
        """True if more is better."""
        return self.unit.endswith("/s")

    @property
    def ratio(self) -> Spread | None:
        """Ours relative to the peer; above 1, ours is better."""
        return self._better(self.ours, self.peer)

    @property
    def share(self) -> Spread | None:
        """Ours as a share of the bound; 1 is the optimum."""
        return self._better(self.ours, self.bound)

    @property
    def met(self) -> bool | None:
        """True if the target was reached; None without a target or without the other value."""
        measured = self.share if self.target and self.target.of == "share" else self.ratio
        if self.target is None or measured is None:
            return None
        return measured.median >= self.target.value

    def _better(self, one: Sequence[float], other: Sequence[float]) -> Spread | None:
        if not one or not other:
            return None
        pairs = zip(one, other, strict=True)
        return Spread.of([a / b if self.is_rate else b / a for a, b in pairs])


def compare(works: Mapping[str, Work], plan: Plan, **about: Any) -> Row:
    """Time the works `ours` and, if given, `peer` and `bound`; return a row of rates or costs."""
    rates: dict[str, list[float]] = interleave(works, plan)
    if not about["unit"].endswith("/s"):
        rates = {name: [1 / rate for rate in values] for name, values in rates.items()}
    return Row(
        ours=rates["ours"], peer=rates.get("peer", ()), bound=rates.get("bound", ()), **about
    )
