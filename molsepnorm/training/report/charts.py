"""Small charts as SVG elements, in colours that follow the light or dark page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

_WIDTH, _HEIGHT = 400, 320  # of the drawing, in its own units
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 46  # margins
_TICKS = 5  # approximate number per axis
_MAX_POINTS = 3000  # of one group in a chart; a random sample of more is drawn

STYLE = """
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr));
          gap: 1.2rem }
figure { margin: 0; min-width: 0; max-width: 32rem }
figcaption { color: var(--soft); font-size: .88rem }
figure svg { display: block; width: 100%; height: auto; color: var(--text) }
figure text { font: 12px system-ui, sans-serif; fill: var(--soft) }
.grid { stroke: var(--line); stroke-width: 1; fill: none }
.guide { stroke: var(--soft); stroke-width: 1; fill: none; stroke-dasharray: 4 4 }
.one { stroke: var(--accent); fill: none } .two { stroke: var(--quiet); fill: none }
.key { display: inline-block; width: .7rem; height: .7rem; border-radius: 50%;
       margin: 0 .3rem 0 .6rem }
.key.one { background: var(--accent) } .key.two { background: var(--quiet) }
.dots { stroke-width: 6; stroke-linecap: round; stroke-opacity: .55 }
.line { stroke-width: 2; stroke-linejoin: round }
.rect { stroke: var(--back) } .rect.one { fill: var(--accent) } .rect.two { fill: var(--quiet) }
.numbers { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0 }
.numbers div { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .9rem;
               background: var(--panel); max-width: 100% }
.numbers b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums;
             color: var(--accent); line-height: 1.3 }
.scaffolds { grid-template-columns: repeat(auto-fill, minmax(min(9.5rem, 100%), 1fr)) }
.scaffolds .card { font-size: .85rem }
.card code { font-size: .8rem }
.warning { border-left: 3px solid var(--accent); padding-left: .7rem }
@media print { .key { print-color-adjust: exact } }
"""


@dataclass
class Chart:
    """A chart with linear axes.

    Groups are drawn in the colour "one", the accent, or "two", a quiet grey.
    """

    label: str
    """Text for screen readers: what the chart shows."""
    x: str
    """Name of the horizontal axis."""
    y: str
    """Name of the vertical axis."""
    x_ends: tuple[float, float]
    """Range of the horizontal axis, which is widened if it is empty."""
    y_ends: tuple[float, float]
    """Range of the vertical axis, in the same way."""
    whole: bool = False
    """True if the ticks of the horizontal axis are whole numbers, such as epochs."""
    _parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x_ends, self.y_ends = _widened(*self.x_ends), _widened(*self.y_ends)

    def points(self, x: np.ndarray, y: np.ndarray, colour: str) -> None:
        """Draw points [n], or a random sample of `_MAX_POINTS`."""
        chosen = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(chosen) > _MAX_POINTS:
            chosen = np.random.default_rng(0).choice(chosen, _MAX_POINTS, replace=False)
        places = "".join(f"M{a} {b}h0" for a, b in self._places(x[chosen], y[chosen]))
        self._path(places, f"{colour} dots")

    def line(self, x: np.ndarray, y: np.ndarray, style: str, title: str = "") -> None:
        """Draw a line through the points [n] that are finite."""
        chosen = np.isfinite(x) & np.isfinite(y)
        places = [f"{a} {b}" for a, b in self._places(x[chosen], y[chosen])]
        self._path("M" + "L".join(places) if places else "", style, title)

    def bar(self, low: float, high: float, value: float, colour: str, title: str) -> None:
        """Draw a bar from 0 to the value, between two places of the horizontal axis."""
        (left, top), (right, bottom) = self._places([low, high], [value, self.y_ends[0]])
        self._parts.append(
            f'<rect class="rect {colour}" x="{left}" y="{top}" width="{right - left:.1f}" '
            f'height="{max(bottom - top, 0):.1f}"><title>{escape(title)}</title></rect>'
        )

    def svg(self) -> str:
        """Return the element."""
        frame = []
        middle, centre = (_LEFT + _WIDTH - _RIGHT) / 2, (_TOP + _HEIGHT - _BOTTOM) / 2
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for tick, text in _ticks(*self.x_ends, self.whole):
            ((place, _),) = self._places([tick], [self.y_ends[0]])
            frame.append(f'<path class="grid" d="M{place} {_TOP}V{bottom}"/>')
            frame.append(f'<text x="{place}" y="{bottom + 16}" text-anchor="middle">{text}</text>')
        for tick, text in _ticks(*self.y_ends):
            ((_, place),) = self._places([self.x_ends[0]], [tick])
            frame.append(f'<path class="grid" d="M{_LEFT} {place}H{right}"/>')
            frame.append(f'<text x="{_LEFT - 7}" y="{place + 4}" text-anchor="end">{text}</text>')
        names = (
            f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{_short(self.x)}</text>'
            f'<text transform="translate(13 {centre}) rotate(-90)" text-anchor="middle">'
            f"{_short(self.y)}</text>"
        )
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self.label)}">'
            f"{''.join(frame)}{''.join(self._parts)}{names}</svg>"
        )

    def _path(self, places: str, style: str, title: str = "") -> None:
        text = f"<title>{escape(title)}</title>" if title else ""
        if places:
            self._parts.append(f'<path class="{style}" d="{places}">{text}</path>')

    def _places(
        self, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray
    ) -> list[tuple[float, float]]:
        """Return the places of points in the drawing; those outside of the axes are at the edge."""
        across, up = (
            (np.asarray(values, dtype=float).clip(low, high) - low) / (high - low)
            for values, (low, high) in ((x, self.x_ends), (y, self.y_ends))
        )
        left = _LEFT + across * (_WIDTH - _LEFT - _RIGHT)
        top = _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)
        return [*zip(left.round(1).tolist(), top.round(1).tolist(), strict=True)]


def _widened(low: float, high: float) -> tuple[float, float]:
    """Return a range that is not empty."""
    if high > low:
        return float(low), float(high)
    by = abs(low) / 10 or 1.0
    return float(low - by), float(low + by)


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


def _short(text: str) -> str:
    """Return the name of an axis, escaped, and cut if it is long."""
    return escape(text if len(text) <= 42 else f"{text[:40]}…")
