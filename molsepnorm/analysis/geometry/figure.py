"""The figure of an analysis: spectra, measures layer by layer, and maps of the molecules."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from molsepnorm.analysis.geometry.analysis import ATOMS, TOKEN, Analysis, Cloud, Run
from molsepnorm.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_maps", "draw_measures", "require_matplotlib", "to_svg"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
"""Of the groups: told apart by every kind of colour vision."""

_FAINTEST = 1e-5  # share of the largest singular value that is shown
_MAP_COLUMNS = 4
_MAP = "map-of-molecules-"  # how a map's dots are found again in the SVG


_LOOKS: dict[str, dict[str, Any]] = {
    TOKEN: {"linestyle": "-", "marker": ".", "markersize": 5},
    ATOMS: {"linestyle": "--", "marker": "o", "markersize": 3.5, "markerfacecolor": "white"},
}


class _Colouring(NamedTuple):
    """Of a map's dots."""

    name: str
    classes: tuple[str, ...]
    look: dict[str, Any]
    """For `scatter`."""


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
    figure = _figure(16, 6.6)
    spectrum, *places = figure.subplots(2, 4).flatten()
    _draw_spectra(spectrum, analysis)
    size, *others = analysis.numbers
    panels = [
        _Panel("effective rank", lambda cloud: cloud.effective_rank),
        _Panel("uniformity (lower is more even)", lambda cloud: cloud.uniformity),
        _Panel("mean cosine", lambda cloud: cloud.mean_cosine),
        _Panel("variance of the 5 % furthest", lambda cloud: cloud.outlier_share),
        _Panel("alignment of dropout views", lambda cloud: cloud.alignment),
        *(
            _Panel(f"r, {name}", partial(_linear, name))
            for name in (*others[:1], size, *others[1:])
        ),
    ]
    panels = [panel for panel in panels if _any_value(analysis, panel)]
    for axes, panel in zip(places, panels, strict=False):
        _draw_layers(axes, analysis, panel)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    _add_legend(figure, analysis)
    return figure


def _add_legend(figure: Figure, analysis: Analysis) -> None:
    from matplotlib.lines import Line2D

    groups = list(analysis.groups)
    lines = [Line2D([], [], color=_colour(number)) for number in range(len(groups))]
    lines += [Line2D([], [], color="#444444", **_LOOKS[of]) for of in (TOKEN, ATOMS)]
    names = [*map(_plain, groups), TOKEN, ATOMS]
    columns = max(1, min(6, 150 // (max(map(len, names)) + 6)))
    figure.legend(lines, names, loc="outside lower center", ncols=columns, frameon=False)


def draw_maps(analysis: Analysis, most: int = 12) -> Figure:
    """For the first run of each group a dot per molecule, along the two longest axes of what is
    read at the end, the graph token's embeddings or the atoms'; its colour tells the first target.

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
    colouring = _colouring(analysis)
    dots = None
    look = {"plotnonfinite": True, "linewidths": 0, "s": 7, **colouring.look}
    for number, (axes, group) in enumerate(zip(grid, groups, strict=False)):
        run = analysis.of_group(group)[0]
        dots = axes.scatter(*run.places.T, **look)
        dots.set_gid(f"{_MAP}{number}")
        axes.set_title(f"{_plain(run.name, 36)}\n{run.read}", fontsize=9)
        axes.set_xlabel(f"{run.shares[0]:.0%} of the variance", fontsize=8)
        axes.set_ylabel(f"{run.shares[1]:.0%}", fontsize=8)
        axes.set_xticks([])
        axes.set_yticks([])
    for axes in grid[len(groups) :]:
        axes.set_visible(False)
    assert dots is not None
    bar = figure.colorbar(dots, ax=grid.tolist(), label=_plain(colouring.name, 36), shrink=0.8)
    if colouring.classes:
        bar.set_ticks(range(len(colouring.classes)), labels=[*map(_plain, colouring.classes)])
    return figure


def _colouring(analysis: Analysis) -> _Colouring:
    """By the target, from its 2nd to its 98th percentile; by size if no label is known."""
    from matplotlib import colormaps

    values = analysis.labels[:, analysis.targets.index(analysis.colour)]
    name, classes = analysis.colour, analysis.classes
    if not np.isfinite(values).any():
        values, name, classes = analysis.sizes.astype(float), "atoms", ()
    known = values[np.isfinite(values)]
    few = len(np.unique(known)) <= 2  # yes and no
    low, high = np.percentile(known, [0, 100] if few else [2, 98])
    colours = colormaps["viridis"]
    if classes:
        low, high = -0.5, len(classes) - 0.5
        colours = colormaps["tab10" if len(classes) <= 10 else "viridis"].resampled(len(classes))
    colours = colours.with_extremes(bad="#BBBBBB")  # of molecules without a label
    look = {"c": values, "vmin": low, "vmax": high, "cmap": colours}
    return _Colouring(name, classes, look)


def to_svg(figure: Figure, name: str, titles: Sequence[str] = ()) -> str:
    """The figure as text to be put into a page, the same each time; the dots of its maps tell
    their titles when a pointer rests on them.

    Args:
        figure: what to write.
        name: what it shows, another one for each figure of a page.
        titles: of a map's dots.
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
    prefix = name.replace(" ", "-")  # ids are one page's
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)


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
        _draw_group(axes, np.arange(1, longest + 1), curves, number)
    axes.set_yscale("log")
    axes.set_ylim(_FAINTEST, 1.5)
    axes.locator_params(axis="x", integer=True)
    read = " or ".join(dict.fromkeys(run.read for run in analysis.runs))
    axes.set_title(f"singular values of the {read}, at the end", fontsize=10)
    axes.set_xlabel("rank of the value")
    axes.set_ylabel("share of the largest")
    axes.grid(alpha=0.3)


def _shares(run: Run) -> np.ndarray:  # (C,)
    cloud = run.cloud(run.read)
    assert cloud is not None
    values = np.array(cloud.singular_values)
    return values / (values.max() or np.nan)  # a collapsed cloud has no spectrum


def _draw_layers(axes: Axes, analysis: Analysis, panel: _Panel) -> None:
    sites = max((_sites(run) for run in analysis.runs), key=len)
    places = np.arange(len(sites))
    for number, group in enumerate(analysis.groups):
        for of, look in _LOOKS.items():
            curves = [_heights(run, of, sites, panel) for run in analysis.of_group(group)]
            _draw_group(axes, places, curves, number, **look)
    step = -(-len(sites) // 8)
    shown = range(len(sites) - 1, -1, -step)  # the last one always
    axes.set_xticks(list(shown), [sites[place].split()[-1] for place in shown])
    axes.set_title(_plain(panel.title, 40), fontsize=10)
    axes.set_xlabel("layer")
    axes.grid(alpha=0.3)


def _draw_group(
    axes: Axes,
    places: np.ndarray,
    curves: Sequence[np.ndarray],  # a run each, NaN where there is no value
    number: int,
    **look: Any,
) -> None:
    """The mean over the runs that have a value, and a band from the least to the most."""
    heights = np.array(curves)
    some = np.isfinite(heights).any(0)
    if not some.any():
        return
    places, heights, colour = places[some], heights[:, some], _colour(number)
    axes.plot(places, np.nanmean(heights, 0), color=colour, lw=1.2, **look)
    if len(curves) > 1:
        least, most = np.nanmin(heights, 0), np.nanmax(heights, 0)
        axes.fill_between(places, least, most, color=colour, alpha=0.15, lw=0)


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


def _colour(number: int) -> Any:
    from matplotlib import colormaps

    few = number < len(_COLOURS)
    return _COLOURS[number] if few else colormaps["tab20b"]((number - len(_COLOURS)) % 20)


def _plain(text: str, width: int = 1000) -> str:
    """Text that matplotlib draws as it is, in lines of so many letters."""
    if text.startswith("_"):  # it would be left out of a legend
        text = f" {text}"
    return "\n".join(wrap(text, width, drop_whitespace=False)).replace("$", r"\$")


def require_matplotlib() -> None:
    """Check that it is there.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "figures need matplotlib: pip install 'molsepnorm[plot]', or matplotlib alone"
        ) from error


def _figure(width: float, height: float) -> Figure:
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
