"""Small charts: `page.html` draws them as SVG, in colours that follow the light or dark page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 386, 12, 274  # edges of the axes, in units of the drawing
_TICKS = 5  # approximate number per axis
_MAX_POINTS = 3000  # of one group in a chart; a random sample of more is drawn


@dataclass
class Chart:
    """A chart with linear axes, drawn in the colours "one", the accent, and "two", a quiet grey."""

    label: str
    """Text for screen readers: what the chart shows."""
    x: str
    """Name of the horizontal axis."""
    y: str
    """Name of the vertical axis."""
    x_ends: tuple[float, float]
    """Range of the horizontal axis, which is not empty."""
    y_ends: tuple[float, float]
    whole: bool = False
    """True if the ticks of the horizontal axis are whole numbers, such as epochs."""
    caption: str = ""
    keys: Sequence[tuple[str, str]] = ()
    """Colours and what they stand for."""
    paths: list[tuple[str, str, str]] = field(default_factory=list)
    """Class, path and title of each element."""

    def points(self, x: np.ndarray, y: np.ndarray, colour: str) -> None:
        """Draw points [n], or a random sample of `_MAX_POINTS`."""
        chosen = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(chosen) > _MAX_POINTS:
            chosen = np.random.default_rng(0).choice(chosen, _MAX_POINTS, replace=False)
        places = (f"M{place}h0" for place in self._places(x[chosen], y[chosen]))
        self.paths.append((f"{colour} dots", "".join(places), ""))

    def line(
        self,
        x: Sequence[float] | np.ndarray,
        y: Sequence[float] | np.ndarray,
        style: str,
        title: str = "",
    ) -> None:
        """Draw a line through the points [n] that are finite."""
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        chosen = np.isfinite(x) & np.isfinite(y)
        if chosen.any():
            path = "L".join(self._places(x[chosen], y[chosen]))
            self.paths.append((style, f"M{path}", title))

    def bar(self, low: float, high: float, value: float, colour: str, title: str) -> None:
        """Draw a bar from 0 to the value, between two places of the horizontal axis."""
        corners = self._places([low, low, high, high], [0, value, value, 0])
        self.paths.append((f"rect {colour}", f"M{'L'.join(corners)}z", title))

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        ticks = _ticks(*self.x_ends, self.whole)
        return [(_place(tick, self.x_ends, _LEFT, _RIGHT), text) for tick, text in ticks]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        ticks = _ticks(*self.y_ends)
        return [(_place(tick, self.y_ends, _BOTTOM, _TOP), text) for tick, text in ticks]

    def _places(
        self, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray
    ) -> list[str]:
        """Return the places of points; those outside of the axes are at the edge."""
        return [
            f"{_place(a, self.x_ends, _LEFT, _RIGHT)} {_place(b, self.y_ends, _BOTTOM, _TOP)}"
            for a, b in zip(x, y, strict=True)
        ]


def _place(value: float, ends: tuple[float, float], first: int, last: int) -> float:
    """Return the place of a value between two edges of the axes."""
    share = (min(max(value, ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0])
    return round(first + float(share) * (last - first), 1)


def _ticks(low: float, high: float, whole: bool = False) -> list[tuple[float, str]]:
    """Return round numbers in a range, with their texts.

    >>> [text for _, text in _ticks(-0.1, 1.04)]
    ['0', '0.2', '0.4', '0.6', '0.8', '1']
    """
    power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step = min((power * each for each in (1, 2, 5, 10)), key=lambda s: abs((high - low) / s - 5))
    if whole:
        step = max(1.0, round(step))
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(number * step, f"{number * step:.6g}") for number in numbers]
