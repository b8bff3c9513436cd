"""An analysis as files: a page that shows everything by itself, pictures, and all numbers."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from molsepnorm._version import __version__
from molsepnorm.analysis.geometry.analysis import ATOMS, MEASURES, TOKEN, Analysis
from molsepnorm.analysis.geometry.figure import draw_maps, draw_measures, require_matplotlib, to_svg
from molsepnorm.errors import ConfigError
from molsepnorm.files.writing import clear_errors, replacing, write_json

__all__ = ["require_place", "table_of", "write_report"]

_MEANING = {
    "effective rank": "in how many directions the embeddings spread: exp of the entropy of their "
    "normalised singular values (Roy and Vetterli 2007); of n molecules at most n − 1",
    "uniformity": "log mean exp(−2‖u−v‖²) over pairs of embeddings of length one; less is more "
    "even, 0 is a single direction (Wang and Isola 2020)",
    "alignment": "mean ‖u−v‖² of two views of a molecule that differ by dropout; — where a "
    "network has no dropout",
    "mean cosine": "of two different molecules",
    "outliers": "share of the variance that the 5 % furthest molecules have",
    "r": "correlation with what a ridge regression reads off the embedding, of molecules left out "
    "of its fit",
}

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
svg { width: 100%; height: auto }
dt { font-weight: 600; float: left; clear: left; width: 8.5rem } dd { margin: 0 0 .3rem 9rem }
"""


def require_place(folder: Path | str) -> None:
    """Make the folder of a report, before there is much work to lose.

    Raises:
        ConfigError: matplotlib is not installed, or there is an `index.html` of something else.
        StorageError: the folder cannot be made or written.
    """
    require_matplotlib()
    page = Path(folder) / "index.html"
    if page.exists() and not page.with_name("geometry.json").exists():
        raise ConfigError(
            f"{page} is no report of analyze, and would be replaced: choose another folder"
        )
    with clear_errors(folder, "write into"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass


def write_report(analysis: Analysis, folder: Path | str) -> None:
    """Write `geometry.json`, `measures.png`, `maps.png` and `index.html` into a folder.

    The page needs none of the others, and no network.

    Raises:
        ConfigError: matplotlib is not installed.
        StorageError: the place cannot be written.
    """
    folder = Path(folder)
    figures = {"measures": draw_measures(analysis), "maps": draw_maps(analysis)}
    for name, figure in figures.items():
        with replacing(folder / f"{name}.png") as scratch:
            figure.savefig(scratch, format="png", dpi=130)
    write_json(folder / "geometry.json", analysis.to_json())
    drawings = [
        to_svg(figures["measures"], "measures layer by layer"),
        to_svg(figures["maps"], "maps of the molecules", list(_titles(analysis))),
    ]
    with replacing(folder / "index.html") as scratch:
        scratch.write_text(_page(analysis, *drawings), encoding="utf-8")


def table_of(analysis: Analysis, of: str = TOKEN) -> list[list[str]]:
    """A row of headings, and for each group its measures at the end, mean ± sd over its runs."""
    columns = {**MEASURES, **{name: f"r, {name}" for name in analysis.numbers}}
    rows = [["", "runs", *columns.values()]]
    for group, measures in analysis.summary(of).items():
        cells = [_cell(measures[name]) for name in columns]
        rows.append([group, str(len(analysis.of_group(group))), *cells])
    return rows


def _cell(spread: dict[str, float | None]) -> str:
    if spread["mean"] is None:
        return "—"
    told = f"{spread['mean']:.3g}"
    return told if spread["sd"] is None else f"{told} ± {spread['sd']:.2g}"


def _page(analysis: Analysis, measures: str, maps: str) -> str:
    meaning = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _MEANING.items())
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Geometry of {escape(", ".join(analysis.groups))}</title><style>{_STYLE}</style></head>
<body>
<h1>What the embeddings of {len(analysis.sizes):,} molecules look like</h1>
<h2>The graph token, at the end of the network</h2>
{_table(analysis, TOKEN)}
<h2>The mean of the atoms, where they are last</h2>
{_table(analysis, ATOMS)}
<dl>{meaning}</dl>
<h2>Layer by layer</h2>
<p>The graph token's lines are drawn through, those of the atoms' mean dashed; a line is the mean
of a group's runs, a band reaches from the least to the most of them.</p>
{measures}
<h2>The molecules along the two longest axes</h2>
<p>Of the embeddings that are read at the end, the graph token's or the atoms'; one run of each
group. Rest the pointer on a dot to see its molecule.</p>
{maps}
<p>molsepnorm {escape(__version__)}; all numbers are in geometry.json.</p>
</body></html>
"""


def _table(analysis: Analysis, of: str) -> str:
    def row(cells: list[str], kind: str) -> str:
        return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in cells)}</tr>"

    head, *rows = table_of(analysis, of)
    body = "".join(row(cells, "td") for cells in rows)
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _titles(analysis: Analysis) -> Iterator[str]:
    """What is told of each molecule."""
    for place, size in enumerate(analysis.sizes):
        told = [analysis.smiles[place]] if analysis.smiles is not None else []
        told.append(f"{size} atoms")
        for name, value in zip(analysis.targets, analysis.labels[place], strict=True):
            if np.isfinite(value):
                named = analysis.classes and name == analysis.colour
                told.append(f"{name} {analysis.classes[int(value)] if named else f'{value:.4g}'}")
        yield ", ".join(told)
