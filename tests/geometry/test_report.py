"""The page and the pictures: complete, by themselves, and about the right molecules."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.geometry import analyze
from molsepnorm.geometry.figure import draw_maps, draw_measures, to_svg
from molsepnorm.geometry.report import table_of, write_report

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def analysis(subject):
    return analyze(
        [subject("a", "wide"), subject("b", "wide", init="v1"), subject("<c>", layers=2)], "cpu"
    )


@pytest.fixture(scope="module")
def folder(analysis, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "new" / "folder"
    write_report(analysis, path)
    return path


def test_all_files_are_there(folder, analysis):
    names = {"geometry.json", "index.html", "maps.png", "measures.png"}
    assert {path.name for path in folder.iterdir()} == names
    for name in ("maps", "measures"):
        content = (folder / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) > 20_000
    assert json.loads((folder / "geometry.json").read_text()) == json.loads(
        json.dumps(analysis.to_json())
    )


def test_the_page_needs_nothing_else(folder):
    """No script, and nothing from elsewhere: references are within the page, and the colour bar is
    spelt out in it."""
    text = (folder / "index.html").read_text()
    assert not re.search(r"<(script|img|link|iframe|object)\b", text)
    references = re.findall(r"(?:src|href)=\"([^\"]*)|url\(([^)]*)\)", text)
    assert references
    assert all(a.startswith(("#", "data:")) or b.startswith("#") for a, b in references)


def test_names_are_text_and_numbers_are_those_of_the_table(folder, analysis):
    class Cells(HTMLParser):
        def __init__(self):
            super().__init__()
            self.rows: list[list[str]] = []
            self.inside = False

        def handle_starttag(self, tag, attrs):
            if tag == "tr":
                self.rows.append([])
            self.inside = tag in ("td", "th")
            if self.inside:
                self.rows[-1].append("")

        def handle_endtag(self, tag):
            self.inside = self.inside and tag not in ("td", "th")

        def handle_data(self, data):
            if self.inside:
                self.rows[-1][-1] += data

    parser = Cells()
    parser.feed((folder / "index.html").read_text())
    assert parser.rows[:3] == table_of(analysis)
    assert [row[:2] for row in table_of(analysis)] == [["", "runs"], ["wide", "2"], ["<c>", "1"]]
    spread = analysis.summary()["wide"]["uniformity"]
    assert f"{spread['mean']:.3g} ± {spread['sd']:.2g}" in table_of(analysis)[1]


def test_each_dot_tells_its_molecule(folder, analysis):
    text = (folder / "index.html").read_text()
    drawing = ElementTree.fromstring(text[text.rindex("<svg") : text.rindex("</svg>") + 6])
    maps = [each for each in drawing.iter(f"{SVG}g") if each.get("id", "").startswith("map-")]
    assert len(maps) == 2
    for each in maps:
        titles = [title.text for use in each.iter(f"{SVG}use") for title in use.iter(f"{SVG}title")]
        assert len(titles) == len(analysis.sizes) == 25
        assert titles[0] == "CO, 2 atoms, y 0, active 0, colour 0"
        assert titles[3] == "CF, 2 atoms"  # its labels are missing
        assert titles[24].startswith("CCCCCC=O, 7 atoms, y 24")
    dots = list(maps[0].iter(f"{SVG}use"))
    x = np.array([float(dot.get("x")) for dot in dots])
    assert np.corrcoef(x, analysis.runs[0].places[:, 0])[0, 1] > 0.999999


def test_without_smiles_sizes_and_labels_are_told(analysis, tmp_path):
    write_report(replace(analysis, smiles=None), tmp_path)
    assert (
        "<title>2 atoms, y 0, active 0, colour 0</title>" in (tmp_path / "index.html").read_text()
    )


def test_a_drawing_is_the_same_each_time(analysis):
    first, second = (to_svg(draw_maps(analysis)) for _ in range(2))
    assert len(first) == len(second)


def test_layers_are_numbered_and_lines_are_means_of_groups(analysis):
    """The runs of "wide" have three layers and the last norm, the other one two."""
    spectrum, rank, *_ = draw_measures(analysis).axes
    assert [tick.get_text() for tick in rank.get_xticklabels()][::-1] == ["1", "2", "3", "norm"]
    wide, _, other, _ = rank.get_lines()  # the graph token's and the atoms', group by group
    runs = analysis.of_group("wide")
    for place, site in enumerate(("layer 1", "layer 2", "layer 3", "last norm")):
        ranks = [run.cloud(site=site).effective_rank for run in runs]
        assert wide.get_ydata()[place] == pytest.approx(sum(ranks) / 2)
    assert np.isnan(other.get_ydata()[2]) and np.isfinite(np.delete(other.get_ydata(), 2)).all()
    values = [np.array(run.cloud().singular_values) for run in runs]
    expected = np.mean([each / each.max() for each in values], axis=0)
    np.testing.assert_allclose(spectrum.get_lines()[0].get_ydata(), expected)


def test_many_groups_are_drawn_in_rows(analysis):
    run = analysis.runs[0]
    many = replace(analysis, runs=tuple(replace(run, group=f"g{i}") for i in range(15)))
    figure = draw_maps(many, most=6)
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.get_title()]
    assert len(shown) == 6


def test_without_matplotlib_it_says_what_to_install(analysis, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'molsepnorm\[plot\]'"):
        write_report(analysis, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_place_that_cannot_be_written(analysis, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_report(analysis, tmp_path / "file")
