"""The arithmetic of a comparison: contestants in turns, and what a row of the table says.

A machine whose speed drifts does so for everyone who is measured at the time. So contestants take
turns (ours, peer, floor, ours, …), each turn gives one ratio, and the median of those is told.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Asked", "Plan", "Row", "Spread", "Work", "in_turns"]

Work = Callable[[int], float]
"""What a contestant does in a turn of that number; returns how many units (graphs, …) it did."""


@dataclass(frozen=True)
class Plan:
    """How long to measure."""

    seconds: float = 10.0
    """Of the slowest contestant: no turn begins once it has had as much."""
    least: int = 5
    """Turns, however long they take."""
    most: int = 60
    """Turns, however short they are."""
    turn_seconds: float = 0.5
    """A contestant who is done sooner does its work again within its turn."""
    warm_ups: int = 1
    """Turns before, which do not count."""


def in_turns(
    contestants: Mapping[str, Work], plan: Plan, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """For each contestant its rate, units a second, in every turn."""
    for turn in range(plan.warm_ups):
        for work in contestants.values():
            work(turn)
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    spent = dict.fromkeys(contestants, 0.0)
    for turn in range(plan.most):
        if turn >= plan.least and max(spent.values()) >= plan.seconds:
            break
        for name, work in contestants.items():
            begun, units, taken = clock(), 0.0, 0.0
            while taken < plan.turn_seconds or not units:
                units += work(turn)
                taken = clock() - begun
            rates[name].append(units / taken)
            spent[name] += taken
    return rates


@dataclass(frozen=True)
class Spread:
    """Several values of one quantity."""

    median: float
    least: float
    greatest: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Of one value or more."""
        return Spread(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Asked:
    """A bound that a row should keep."""

    of: Literal["ratio", "share", "ours", "growth"]
    """ratio: at least so many times as good as the peer. share: at least this share of the floor.
    ours: our own value on the good side of this, at least for a rate and at most for a cost.
    growth: the ratio within this share of 1."""
    bound: float


@dataclass(frozen=True)
class Row:
    """One row of the table: a quantity, of up to three contestants, in each turn."""

    stage: str
    """The name to ask for it by."""
    what: str
    unit: str
    """Ending in /s it is a rate, of which more is better; of any other, less is better."""
    ours: Sequence[float]
    peer: Sequence[float] = ()
    """Empty where there is none."""
    peer_name: str = ""
    """Who it is, with its version."""
    peer_work: str = ""
    """What it does."""
    floor: Sequence[float] = ()
    floor_name: str = ""
    asked: Asked | None = None
    remark: str = ""
    """What else to know, such as why there is no peer."""

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit.endswith("/s")

    @property
    def ratio(self) -> Spread | None:
        """How many times as good as the peer ours is: of each turn, then their median."""
        return self._better(self.ours, self.peer)

    @property
    def share(self) -> Spread | None:
        """Ours as a share of the floor, 1 where there is nothing left to gain."""
        return self._better(self.ours, self.floor)

    @property
    def peer_share(self) -> Spread | None:
        """The peer as a share of the floor."""
        return self._better(self.peer, self.floor)

    @property
    def met(self) -> bool | None:
        """Whether what was asked was reached; None where nothing was asked, or it is unknown."""
        if self.asked is None:
            return None
        if self.asked.of == "ours":
            ours = statistics.median(self.ours)
            return ours >= self.asked.bound if self.is_rate else ours <= self.asked.bound
        measured = self.share if self.asked.of == "share" else self.ratio
        if measured is None:
            return None
        if self.asked.of == "growth":
            return abs(measured.median - 1) <= self.asked.bound
        return measured.median >= self.asked.bound

    def _better(self, one: Sequence[float], other: Sequence[float]) -> Spread | None:
        if not one or not other:
            return None
        pairs = zip(one, other, strict=True)
        return Spread.of([a / b if self.is_rate else b / a for a, b in pairs])
