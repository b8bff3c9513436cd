"""Write an analysis as a self-contained page, pictures, and a file of all numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from molsepnorm._version import __version__
from molsepnorm.analysis.geometry.analysis import ATOMS, MEASURES, TOKEN, Analysis
from molsepnorm.analysis.geometry.figure import (
    draw_maps,
    draw_statistics,
    new_figure,
    to_svg,
)
from molsepnorm.errors import ConfigError
from molsepnorm.files.page import page, table
from molsepnorm.files.writing import clear_errors, replacing, write_json
from molsepnorm.tasks.target import BOUND_SIGNS

__all__ = ["require_folder", "table_of", "write_report"]

_MEANING = {
    "effective rank": "number of directions in which the embeddings spread: exp of the entropy of "
    "their normalised singular values (Roy and Vetterli 2007), at most n − 1 for n molecules",
    "uniformity": "log mean exp(−2‖u−v‖²) over pairs of embeddings scaled to length one; lower is "
    "more even, 0 is a single direction (Wang and Isola 2020)",
    "alignment": "mean ‖u−v‖² of two views of a molecule with different dropout; — for networks "
    "without dropout",
    "mean cosine": "mean cosine of two different molecules",
    "outliers": "share of the variance that the 5 % furthest molecules have",
    "r": "correlation with the prediction of a ridge regression on the embedding, for molecules "
    "left out of its fit; labels that are bounds are not used",
}

_STYLE = """
.picture svg { display: block; width: 100%; height: auto; background: #fff; border-radius: .4rem }
"""


def require_folder(folder: Path | str) -> None:
    """Create the folder of a report, before the analysis takes time.

    Raises:
        ConfigError: matplotlib is not installed, or there is an `index.html` of something else.
        StorageError: the folder cannot be created or written.
    """
    new_figure()  # needs matplotlib
    index = Path(folder) / "index.html"
    if index.exists() and not index.with_name("geometry.json").exists():
        raise ConfigError(
            f"{index} is not a report of analyze, and would be replaced: choose another folder"
        )
    with clear_errors(folder, "write into"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


def write_report(analysis: Analysis, folder: Path | str) -> None:
    """Write `index.html`, which needs no other file and no network, two PNGs and `geometry.json`.

    Raises:
        ConfigError: matplotlib is not installed.
        StorageError: the folder cannot be written.
    """
    folder = Path(folder)
    statistics, maps = draw_statistics(analysis), draw_maps(analysis)
    for name, figure in (("measures", statistics), ("maps", maps)):
        with replacing(folder / f"{name}.png") as scratch:
            figure.savefig(scratch, format="png", dpi=130)
    write_json(folder / "geometry.json", analysis.to_json())
    text = _page(
        analysis,
        to_svg(statistics, "measures layer by layer"),
        to_svg(maps, "maps of the molecules", list(_titles(analysis))),
    )
    with replacing(folder / "index.html") as scratch:
        scratch.write_text(text, encoding="utf-8")


def table_of(analysis: Analysis, of: str = TOKEN) -> list[list[str]]:
    """Return a row of headings, and a row for each group: mean ± sd over its runs, last layer."""
    columns = {**MEASURES, **{name: f"r, {name}" for name in analysis.numbers}}
    rows = [["", "runs", *columns.values()]]
    for group, measures in analysis.summary(of).items():
        cells = [_cell(measures[name]) for name in columns]
        rows.append([group, str(len(analysis.of_group(group))), *cells])
    return rows


def _cell(spread: dict[str, float | None]) -> str:
    if spread["mean"] is None:
        return "—"
    mean = f"{spread['mean']:.3g}"
    return mean if spread["sd"] is None else f"{mean} ± {spread['sd']:.2g}"


def _page(analysis: Analysis, measures: str, maps: str) -> str:
    meaning = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _MEANING.items())
    body = f"""<h2>The graph token in the last layer</h2>
{_table(analysis, TOKEN)}
<h2>The mean of the atoms in the last layer that has them</h2>
{_table(analysis, ATOMS)}
<dl>{meaning}</dl>
<h2>Layer by layer</h2>
<p>Solid lines are the graph token, dashed lines the mean of the atoms. A line is the mean over a
group's runs, a band reaches from their minimum to their maximum.</p>
<div class="picture">{measures}</div>
<h2>The molecules along the two longest axes</h2>
<p>The embeddings that the readout uses, for one run of each group. If a target colours the maps,
molecules without an exact label are grey. Move the pointer to a dot to see its molecule.</p>
<div class="picture">{maps}</div>
<p>All numbers are in geometry.json.</p>"""
    heading = f"Embeddings of {len(analysis.sizes):,} molecules"
    title = f"Geometry of {', '.join(analysis.groups)}"
    return page(title, heading, body, __version__, _STYLE)


def _table(analysis: Analysis, of: str) -> str:
    head, *rows = table_of(analysis, of)
    return table(rows, head)


def _titles(analysis: Analysis) -> Iterator[str]:
    """Return a description of each molecule: SMILES, size and labels."""
    rows = zip(analysis.sizes, analysis.labels, analysis.bounds, strict=True)
    for index, (size, labels, bounds) in enumerate(rows):
        parts = [analysis.smiles[index]] if analysis.smiles is not None else []
        parts.append(f"{size} atoms")
        for target, value, bound in zip(analysis.targets, labels, bounds, strict=True):
            if np.isfinite(value):
                number = f"{BOUND_SIGNS.get(bound, '')}{value:.4g}"
                shown = target.classes[int(value)] if target.classes else number
                parts.append(f"{target.learned_name} {shown}")
        yield ", ".join(parts)
