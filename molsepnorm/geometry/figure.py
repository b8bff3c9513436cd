"""The figure of an analysis: spectra, measures layer by layer, and maps of the molecules."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.geometry.analysis import ATOMS, TOKEN, Analysis, Cloud, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

__all__ = ["draw_maps", "draw_measures", "to_svg"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
"""Of the groups: told apart by every kind of colour vision."""

_FAINTEST = 1e-5  # share of the largest singular value that is shown
_MAP_COLUMNS = 4
_MAP = "map-of-molecules-"  # how a map's dots are found again in the SVG


class _Panel(NamedTuple):
    title: str
    value: Callable[[Cloud], float | None]


def draw_measures(analysis: Analysis) -> Figure:
    """Spectra at the end, and every measure layer by layer: the graph token's drawn through, the
    atoms' dashed. A line is the mean of a group's runs, and a band reaches from the least of them
    to the most. What no run has is left out.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    figure = _figure(13, 6.6)
    (spectrum, *first), second = figure.subplots(2, 3)
    _draw_spectra(spectrum, analysis)
    size, *others = analysis.numbers
    panels = [
        _Panel("effective rank", lambda cloud: cloud.effective_rank),
        _Panel("uniformity (lower is more even)", lambda cloud: cloud.uniformity),
        _Panel("mean cosine", lambda cloud: cloud.mean_cosine),
        _Panel("variance of the 5 % furthest", lambda cloud: cloud.outlier_share),
        _Panel("alignment of dropout views", lambda cloud: cloud.alignment),
        *(_Panel(f"r, {name}", partial(_linear, name)) for name in (*others, size)),
    ]
    panels = [panel for panel in panels if _any_value(analysis, panel)]
    for axes, panel in zip([*first, *second], panels[:5], strict=False):
        _draw_layers(axes, analysis, panel)
    for axes in [*first, *second][len(panels) :]:
        axes.set_visible(False)
    handles, names = spectrum.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_maps(analysis: Analysis, most: int = 12) -> Figure:
    """For the first run of each group a dot per molecule, along the two longest axes of the graph
    token's embeddings at the end, its colour telling the first target.

    Args:
        analysis: what to draw.
        most: groups; more are not drawn.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    groups = analysis.groups[:most]
    columns = min(len(groups), _MAP_COLUMNS)
    rows = -(-len(groups) // columns)
    figure = _figure(max(3.3 * columns, 5.0), 3.3 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    values = analysis.labels[:, 0]
    known = np.isfinite(values)
    low, high = np.percentile(values[known], [2, 98]) if known.any() else (0.0, 1.0)
    dots = None
    look = {"cmap": _colour_map(), "plotnonfinite": True, "linewidths": 0, "s": 7}
    for number, (axes, group) in enumerate(zip(grid, groups, strict=False)):
        run = analysis.of_group(group)[0]
        dots = axes.scatter(*run.places.T, c=values, vmin=low, vmax=high, **look)
        dots.set_gid(f"{_MAP}{number}")
        axes.set_title(run.name, fontsize=10)
        axes.set_xlabel(f"{run.shares[0]:.0%} of the variance", fontsize=8)
        axes.set_ylabel(f"{run.shares[1]:.0%}", fontsize=8)
        axes.set_xticks([])
        axes.set_yticks([])
    for axes in grid[len(groups) :]:
        axes.set_visible(False)
    assert dots is not None
    figure.colorbar(dots, ax=grid.tolist(), label=analysis.targets[0], shrink=0.8)
    return figure


def to_svg(figure: Figure, titles: Sequence[str] = ()) -> str:
    """The figure as text to be put into a page; the dots of its maps tell their titles when a
    pointer rests on them."""
    scratch = io.StringIO()
    figure.savefig(scratch, format="svg", metadata={"Date": None})
    text = scratch.getvalue()
    text = text[text.index("<svg") :]
    if not titles:
        return text
    start = re.compile(rf'<g id="{_MAP}\d+">')
    before, *maps = re.split(f"(?={start.pattern})", text)
    return before + "".join(_titled(part, titles) for part in maps)


def _titled(text: str, titles: Sequence[str]) -> str:
    """The SVG of a map and of what follows it, with a title in each of the map's dots."""
    dots = iter(titles)

    def with_title(dot: re.Match) -> str:
        title = next(dots, None)
        return dot[0] if title is None else f"{dot[1]}><title>{escape(title)}</title></use>"

    return re.sub(r"(<use [^>]*)/>", with_title, text)


def _draw_spectra(axes: Axes, analysis: Analysis) -> None:
    for number, group in enumerate(analysis.groups):
        shares = [_shares(run) for run in analysis.of_group(group)]
        longest = max(map(len, shares))
        curves = [np.pad(each, (0, longest - len(each))) for each in shares]
        _draw_group(axes, range(1, longest + 1), curves, number, "-", label=group)
    axes.set_yscale("log")
    axes.set_ylim(_FAINTEST, 1.5)
    axes.set_title("singular values of the graph token, at the end", fontsize=10)
    axes.set_xlabel("rank of the value")
    axes.set_ylabel("share of the largest")
    axes.grid(alpha=0.3)


def _shares(run: Run) -> np.ndarray:  # (C,)
    cloud = run.cloud()
    assert cloud is not None
    values = np.array(cloud.singular_values)
    return values / max(values.max(initial=0), 1e-300)


def _draw_layers(axes: Axes, analysis: Analysis, panel: _Panel) -> None:
    sites = max((_sites(run) for run in analysis.runs), key=len)
    places = range(len(sites))
    for number, group in enumerate(analysis.groups):
        for of, style in ((TOKEN, "-"), (ATOMS, "--")):
            curves = [_heights(run, of, sites, panel) for run in analysis.of_group(group)]
            _draw_group(axes, places, curves, number, style, marker=".", ms=4)
    step = -(-len(sites) // 8)
    shown = range(len(sites) - 1, -1, -step)  # the last one always
    axes.set_xticks(list(shown), [sites[place].split()[-1] for place in shown])
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel("layer")
    axes.grid(alpha=0.3)


def _draw_group(
    axes: Axes,
    places: Sequence[int],
    curves: Sequence[np.ndarray],  # a run each, NaN where there is no value
    number: int,
    style: str,
    **look: Any,
) -> None:
    """The mean over the runs that have a value, and a band from the least to the most."""
    heights = np.array(curves)
    known = np.isfinite(heights)
    counts = known.sum(0)
    mean = np.where(known, heights, 0).sum(0) / np.where(counts, counts, np.nan)
    axes.plot(places, mean, style, color=_colour(number), lw=1.2, **look)
    if len(curves) > 1 and counts.any():
        least = np.where(known, heights, np.inf).min(0)
        most = np.where(known, heights, -np.inf).max(0)
        axes.fill_between(
            places, least, most, where=counts > 0, color=_colour(number), alpha=0.15, lw=0
        )


def _sites(run: Run) -> list[str]:
    return list(dict.fromkeys(cloud.site for cloud in run.clouds))


def _heights(run: Run, of: str, sites: Sequence[str], panel: _Panel) -> np.ndarray:
    clouds = (run.cloud(of, site) for site in sites)
    values = (None if cloud is None else panel.value(cloud) for cloud in clouds)
    return np.array([np.nan if value is None else value for value in values])


def _any_value(analysis: Analysis, panel: _Panel) -> bool:
    return any(panel.value(cloud) is not None for run in analysis.runs for cloud in run.clouds)


def _linear(name: str, cloud: Cloud) -> float | None:
    found = cloud.correlations[name]
    return None if found is None else found.linear


def _colour_map() -> Colormap:
    from matplotlib import colormaps

    return colormaps["viridis"].with_extremes(bad="#BBBBBB")  # of molecules without a label


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "figures need matplotlib: pip install 'molsepnorm[plot]', or matplotlib alone"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")
