"""The figures of an analysis: spectra, statistics layer by layer, and maps of the molecules."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from operator import attrgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from molsepnorm.analysis.geometry.analysis import (
    ATOMS,
    TOKEN,
    AnalysedRun,
    Analysis,
    EmbeddingStatistics,
)
from molsepnorm.optional import require_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_Value: TypeAlias = "Callable[[EmbeddingStatistics], float | None]"

__all__ = ["draw_maps", "draw_statistics", "new_figure", "to_svg"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
"""Colours of the groups, distinct for every kind of colour vision."""

_LOOKS: dict[str, dict[str, Any]] = {
    TOKEN: {"linestyle": "-", "marker": ".", "markersize": 5},
    ATOMS: {"linestyle": "--", "marker": "o", "markersize": 3.5, "markerfacecolor": "white"},
}

_SMALLEST = 1e-5  # singular value in a figure, relative to the largest
_MAP_COLUMNS = 4
_MAP = "map-of-molecules-"  # prefix of the ids of the maps in the SVG


def draw_statistics(analysis: Analysis) -> Figure:
    """Draw the spectra at the last site, and each statistic layer by layer.

    Solid lines are the graph token, dashed ones the mean of atoms. A line is the mean over a
    group's runs, and a band reaches from their minimum to their maximum. Statistics that no run has
    are left out.

    Raises:
        ConfigError: matplotlib is not installed.
    """

    size, *others = analysis.numbers
    values: dict[str, _Value] = {
        "effective rank": attrgetter("effective_rank"),
        "uniformity (lower is more even)": attrgetter("uniformity"),
        "mean cosine": attrgetter("mean_cosine"),
        "variance of the 5 % furthest": attrgetter("outlier_share"),
        "alignment of dropout views": attrgetter("alignment"),
        **{f"r, {name}": partial(_linear, name) for name in (*others[:1], size, *others[1:])},
    }
    figure = new_figure(16, 6.6)
    spectrum, *free = figure.subplots(2, 4).flatten()
    _draw_spectra(spectrum, analysis)
    for title, value in values.items():
        known = (value(each) for run in analysis.runs for each in run.statistics)
        if free and any(each is not None for each in known):
            _draw_layers(free.pop(0), analysis, title, value)
    for axes in free:
        axes.set_visible(False)
    _add_legend(figure, analysis)
    return figure


def _linear(name: str, statistics: EmbeddingStatistics) -> float | None:
    found = statistics.correlations[name]
    return None if found is None else found.linear


def _add_legend(figure: Figure, analysis: Analysis) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=_colour(number)) for number in range(len(analysis.groups))]
    lines += [Line2D([], [], color="#444444", **_LOOKS[of]) for of in (TOKEN, ATOMS)]
    names = [*map(_plain, analysis.groups), TOKEN, ATOMS]
    columns = max(1, min(6, 150 // (max(map(len, names)) + 6)))
    figure.legend(lines, names, loc="outside lower center", ncols=columns, frameon=False)


def draw_maps(analysis: Analysis, max_groups: int = 12) -> Figure:
    """Draw a map of the molecules for the first run of each group, coloured by a target.

    A map shows the embeddings that the readout uses, at the last site, along their two longest
    axes.

    Args:
        analysis: the analysis.
        max_groups: maximum number of maps.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    groups = analysis.groups[:max_groups]
    columns = min(len(groups), _MAP_COLUMNS)
    rows = -(-len(groups) // columns)
    figure = new_figure(max(3.3 * columns, 5.0), 3.3 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    name, classes, look = _colouring(analysis)
    for number, (axes, group) in enumerate(zip(grid, groups, strict=False)):
        run = analysis.of_group(group)[0]
        dots = axes.scatter(*run.coordinates.T, plotnonfinite=True, linewidths=0, s=7, **look)
        dots.set_gid(f"{_MAP}{number}")
        axes.set_title(f"{_plain(run.name, 36)}\n{run.read}", fontsize=9)
        axes.set_xlabel(f"{run.shares[0]:.0%} of the variance", fontsize=8)
        axes.set_ylabel(f"{run.shares[1]:.0%}", fontsize=8)
        axes.set(xticks=[], yticks=[])
    for axes in grid[len(groups) :]:
        axes.set_visible(False)
    bar = figure.colorbar(dots, ax=grid.tolist(), label=_plain(name, 36), shrink=0.8)
    if classes:
        bar.set_ticks(range(len(classes)), labels=[*map(_plain, classes)])
    return figure


def _colouring(analysis: Analysis) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Return name, classes and arguments of `scatter`; by size if no exact label is known."""
    from matplotlib import colormaps

    name, values = "atoms", analysis.sizes.astype(float)
    classes: tuple[str, ...] = ()
    if (target := analysis.colour) is not None:
        labels = analysis.exact_labels[:, analysis.targets.index(target)]
        if np.isfinite(labels).any():
            name, classes, values = target.learned_name, target.classes, labels
    known = values[np.isfinite(values)]
    binary = len(np.unique(known)) <= 2
    low, high = np.percentile(known, [0, 100] if binary else [2, 98])
    colours = colormaps["viridis"]
    if classes:
        low, high = -0.5, len(classes) - 0.5
        colours = colormaps["tab10" if len(classes) <= 10 else "viridis"].resampled(len(classes))
    colours = colours.with_extremes(bad="#BBBBBB")  # molecules without an exact label
    return name, classes, {"c": values, "vmin": low, "vmax": high, "cmap": colours}


def to_svg(figure: Figure, name: str, titles: Sequence[str] = ()) -> str:
    """Return a figure as SVG for a page, the same text each time.

    Args:
        figure: the figure.
        name: its description, unique within the page.
        titles: texts that appear when the pointer is on a dot of a map.
    """
    from matplotlib import rc_context

    scratch = io.StringIO()
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(scratch, format="svg", metadata={"Date": None})
    text = scratch.getvalue()
    text = text[text.index("<svg") :]
    if titles:
        before, *maps = re.split(rf'(?=<g id="{_MAP}\d+">)', text)
        text = before + "".join(_titled(part, titles) for part in maps)
    prefix = name.replace(" ", "-")  # ids must be unique within the page
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)


def _titled(text: str, titles: Sequence[str]) -> str:
    """Add a title to each dot of the first map in an SVG."""
    pending = iter(titles)

    def with_title(dot: re.Match) -> str:
        title = next(pending, None)
        return dot[0] if title is None else f"{dot[1]}><title>{escape(title)}</title></use>"

    return re.sub(r"(<use [^>]*)/>", with_title, text)


def _draw_spectra(axes: Axes, analysis: Analysis) -> None:
    for number, group in enumerate(analysis.groups):
        shares = [_shares(run) for run in analysis.of_group(group)]
        longest = max(map(len, shares))
        curves = [np.pad(each, (0, longest - len(each))) for each in shares]
        _draw_group(axes, np.arange(1, longest + 1), curves, number)
    axes.set_yscale("log")
    axes.set_ylim(_SMALLEST, 1.5)
    axes.locator_params(axis="x", integer=True)
    read = " or ".join(dict.fromkeys(run.read for run in analysis.runs))
    axes.set_ylabel("share of the largest")
    _label(axes, f"singular values of the {read}, last layer", "rank of the value")


def _shares(run: AnalysedRun) -> np.ndarray:  # (C,)
    found = run.at(run.read)
    assert found is not None
    values = np.array(found.singular_values)
    return values / (values.max() or np.nan)  # identical embeddings have no spectrum


def _draw_layers(axes: Axes, analysis: Analysis, title: str, value: _Value) -> None:
    sites = max(
        (list(dict.fromkeys(each.site for each in run.statistics)) for run in analysis.runs),
        key=len,
    )
    for number, group in enumerate(analysis.groups):
        for of, look in _LOOKS.items():
            curves = []
            for run in analysis.of_group(group):
                found = (run.at(of, site) for site in sites)
                curves.append(np.array([each and value(each) for each in found], dtype=float))
            _draw_group(axes, np.arange(len(sites)), curves, number, **look)
    step = -(-len(sites) // 8)
    shown = range(len(sites) - 1, -1, -step)  # always the last one
    axes.set_xticks(list(shown), [sites[index].split()[-1] for index in shown])
    _label(axes, _plain(title, 40), "layer")


def _label(axes: Axes, title: str, x: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.grid(alpha=0.3)


def _draw_group(
    axes: Axes, x: np.ndarray, curves: Sequence[np.ndarray], number: int, **look: Any
) -> None:
    """Draw the mean over the runs without NaN, and a band from minimum to maximum."""
    heights = np.array(curves)
    known = np.isfinite(heights).any(0)
    if not known.any():
        return
    x, heights, colour = x[known], heights[:, known], _colour(number)
    axes.plot(x, np.nanmean(heights, 0), color=colour, lw=1.2, **look)
    if len(curves) > 1:
        low, high = np.nanmin(heights, 0), np.nanmax(heights, 0)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def _colour(number: int) -> Any:
    from matplotlib import colormaps

    if number < len(_COLOURS):
        return _COLOURS[number]
    return colormaps["tab20b"]((number - len(_COLOURS)) % 20)


def _plain(text: str, width: int = 1000) -> str:
    """Return text that matplotlib draws literally, in lines of this width."""
    if text.startswith("_"):  # it would be missing in a legend
        text = f" {text}"
    return "\n".join(wrap(text, width, drop_whitespace=False)).replace("$", r"\$")


def new_figure(width: float = 1.0, height: float = 1.0) -> Figure:
    """Return an empty figure of a size in inches.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    Figure = require_package("matplotlib.figure", "plot", "a figure").Figure
    return Figure(figsize=(width, height), layout="constrained")
