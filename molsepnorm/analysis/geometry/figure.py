"""The files of an analysis: a figure of each statistic, layer by layer, and the numbers."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from molsepnorm.analysis.geometry.analysis import ATOMS, TOKEN, Analysis
from molsepnorm.files.writing import clear_errors, replacing, write_json
from molsepnorm.optional import require_package

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOKS: dict[str, dict[str, Any]] = {
    TOKEN: {"linestyle": "-", "marker": "."},
    ATOMS: {"linestyle": "--", "marker": "o", "markerfacecolor": "white", "markersize": 3.5},
}


def require_folder(folder: Path | str) -> None:
    require_package("matplotlib", "plot", "a figure")
    with clear_errors(folder, "write into"):
        Path(folder).mkdir(parents=True, exist_ok=True)


def write(analysis: Analysis, folder: Path | str) -> None:
    """Write `geometry.png` and `geometry.json`."""
    figure = draw(analysis)
    with replacing(Path(folder) / "geometry.png") as scratch:
        figure.savefig(scratch, format="png", dpi=130)
    write_json(Path(folder) / "geometry.json", analysis.to_json())


def draw(analysis: Analysis) -> Figure:
    """Draw each statistic, layer by layer: mean, minimum and maximum over a group's runs."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    figure = Figure(figsize=(16, 6.6), layout="constrained")
    groups, titles = analysis.groups, analysis.titles
    shades = colormaps["viridis"](np.linspace(0, 0.9, len(groups)))
    colours = dict(zip(groups, shades, strict=True))
    statistics = [each for run in analysis.runs for each in run.statistics]
    sites = sorted({each.site for each in statistics}, key=lambda n: (n == "last norm", len(n), n))
    names = [name for name in titles if any(each.value(name) is not None for each in statistics)]
    for place, name in enumerate(names, start=1):
        axes = figure.add_subplot(2, -(-len(names) // 2), place)
        for group, of in product(groups, _LOOKS):
            found = [[run.at(of, site) for site in sites] for run in groups[group]]
            values = [[each and each.value(name) for each in row] for row in found]
            heights = np.array(values, dtype=float)
            x = np.flatnonzero(np.isfinite(heights).any(0))
            if len(x):
                low, mean, high = (f(heights[:, x], 0) for f in (np.nanmin, np.nanmean, np.nanmax))
                axes.plot(x, mean, color=colours[group], lw=1.2, **_LOOKS[of])
                axes.fill_between(x, low, high, color=colours[group], alpha=0.15, lw=0)
        axes.set_title(titles[name], fontsize=10)
        axes.set_xticks(range(len(sites)), [site.split()[-1] for site in sites], fontsize=7)
        axes.grid(alpha=0.3)
    lines = [Line2D([], [], color=colour) for colour in colours.values()]
    lines += [Line2D([], [], color="#444444", **look) for look in _LOOKS.values()]
    labels = [f" {name}" for name in (*groups, *_LOOKS)]  # matplotlib hides those that begin with _
    figure.legend(lines, labels, loc="outside right upper")
    for text in figure.findobj(Text):  # names may have dollars
        text.set_parse_math(False)
    return figure
