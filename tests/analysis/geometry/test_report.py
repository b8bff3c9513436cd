"""The page and the pictures are complete, self-contained, and show the right molecules."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from support import SMALL, far_from_initial

from molsepnorm.analysis.geometry import analyze
from molsepnorm.analysis.geometry.analysis import ATOMS
from molsepnorm.analysis.geometry.figure import draw_maps, draw_statistics, to_svg
from molsepnorm.analysis.geometry.models import load_models
from molsepnorm.analysis.geometry.report import require_folder, table_of, write_report
from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.model import PropertyModel
from molsepnorm.nn import GraphormerConfig
from molsepnorm.tasks import Target, Task

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def analysis(model):
    return analyze(
        [model("a", "wide"), model("b", "wide", init="v1"), model("<c>", layers=2)], "cpu"
    )


@pytest.fixture(scope="module")
def folder(analysis, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "new" / "folder"
    write_report(analysis, path)
    return path


def test_a_report_has_all_files(folder, analysis):
    names = {"geometry.json", "index.html", "maps.png", "measures.png"}
    assert {path.name for path in folder.iterdir()} == names
    for name in ("maps", "measures"):
        content = (folder / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) > 20_000
    assert json.loads((folder / "geometry.json").read_text()) == json.loads(
        json.dumps(analysis.to_json())
    )


def test_the_page_needs_no_other_file(folder):
    """It has no script; references are within the page, and the colour bar is embedded."""
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


def test_each_dot_has_its_molecule_as_title(folder, analysis):
    text = (folder / "index.html").read_text()
    drawing = ElementTree.fromstring(text[text.rindex("<svg") : text.rindex("</svg>") + 6])
    maps = [each for each in drawing.iter(f"{SVG}g") if "-map-of-" in each.get("id", "")]
    assert len(maps) == 2
    for each in maps:
        titles = [title.text for use in each.iter(f"{SVG}use") for title in use.iter(f"{SVG}title")]
        assert len(titles) == len(analysis.sizes) == 25
        assert titles[0] == "CO, 2 atoms, y 0, active 0, colour red"
        assert titles[3] == "CF, 2 atoms"  # its labels are missing
        assert titles[24].startswith("CCCCCC=O, 7 atoms, y 24")
    dots = list(maps[0].iter(f"{SVG}use"))
    x = np.array([float(dot.get("x")) for dot in dots])
    assert np.corrcoef(x, analysis.runs[0].coordinates[:, 0])[0, 1] > 0.999999


def test_titles_without_smiles_have_sizes_and_labels(analysis, tmp_path):
    write_report(replace(analysis, smiles=None), tmp_path)
    assert (
        "<title>2 atoms, y 0, active 0, colour red</title>" in (tmp_path / "index.html").read_text()
    )


def test_a_page_is_reproducible_and_its_ids_are_unique(analysis, folder, tmp_path):
    write_report(analysis, tmp_path)
    text = (tmp_path / "index.html").read_text()
    assert text == (folder / "index.html").read_text()
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids)) > 100
    references = re.findall(r'(?:href="#|url\(#)([^")]*)', text)
    assert set(references) <= set(ids)
    assert re.findall(r'<svg role="img" aria-label="([^"]*)"', text) == [
        *("measures layer by layer", "maps of the molecules")
    ]


def test_layers_are_numbered_and_lines_are_means_of_groups(analysis):
    """The runs of "wide" have three layers and the last norm, the other one has two layers."""
    spectrum, rank, *_ = draw_statistics(analysis).axes
    assert [tick.get_text() for tick in rank.get_xticklabels()][::-1] == ["1", "2", "3", "norm"]
    wide, _, other, _ = rank.get_lines()  # the graph token's and the atoms', group by group
    runs = analysis.of_group("wide")
    for index, site in enumerate(("layer 1", "layer 2", "layer 3", "last norm")):
        ranks = [run.at(site=site).effective_rank for run in runs]
        assert wide.get_ydata()[index] == pytest.approx(sum(ranks) / 2)
    assert other.get_xdata().tolist() == [0, 1, 3]  # it has no third layer
    assert np.isfinite(other.get_ydata()).all()
    values = [np.array(run.at().singular_values) for run in runs]
    expected = np.mean([each / each.max() for each in values], axis=0)
    np.testing.assert_allclose(spectrum.get_lines()[0].get_ydata(), expected)


def texts_of(figure) -> list[str]:
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    axes = [part for each in figure.axes for part in (each.title, each.yaxis.label)]
    return [text.get_text() for text in (*legends, *axes) if text.get_text()]


def test_spectrum_and_map_show_what_the_readout_uses(model):
    analysis = analyze([model("a"), model("b", readout="sum")], "cpu")
    spectrum = draw_statistics(analysis).axes[0]
    assert "of the graph token or mean of atoms" in spectrum.get_title()
    values = np.array(analysis.runs[1].at(ATOMS).singular_values)
    np.testing.assert_allclose(spectrum.get_lines()[1].get_ydata(), values / values.max())
    titles = [axes.get_title() for axes in draw_maps(analysis).axes]
    assert titles[:2] == ["a\ngraph token", "b\nmean of atoms"]


def test_names_are_drawn_literally(model, tmp_path):
    """Names may have dollars and underscores, and long ones are wrapped."""
    names = ("_best", "costs $_$ and ${", " ".join(["long"] * 30))
    models = [model("a", name) for name in names]
    target = replace(models[0].model.task.targets[0], name="a$_$b")
    task = replace(models[0].model.task, targets=(target, *models[0].model.task.targets[1:]))
    models = [
        replace(each, model=replace(each.model, task=task), name=name)
        for each, name in zip(models, names, strict=True)
    ]
    analysis = analyze(models, "cpu")
    write_report(analysis, tmp_path)
    drawn = texts_of(draw_statistics(analysis))
    assert {" _best", r"costs \$_\$ and \${", r"r, a\$_\$b"} <= set(drawn)
    assert {"graph token", "mean of atoms"} <= set(drawn)
    titles = [axes.get_title() for axes in draw_maps(analysis).axes]
    assert max(len(line) for title in titles for line in title.split("\n")) <= 36
    assert "costs $_$ and ${" in (tmp_path / "index.html").read_text()


def test_correlations_are_drawn_with_dropout_too(analysis):
    titles = [axes.get_title() for axes in draw_statistics(analysis).axes if axes.get_visible()]
    assert titles[-3:] == ["alignment of dropout views", "r, y", "r, size"]


def test_maps_are_coloured_by_the_target(model):
    """A number is shown from its 2nd to its 98th percentile, a binary label from 0 to 1, classes by
    name; sizes replace labels if none is known."""
    one = model("one")

    def bar(targets, labels=None):
        shown = one if labels is None else replace(one, labels=labels)
        *_, axes = draw_maps(analyze([shown], "cpu", targets=targets)).axes
        return axes

    low, high = bar(["y"]).get_ylim()
    known = np.delete(np.arange(25.0), 3)
    assert (low, high) == pytest.approx(tuple(np.percentile(known, [2, 98])))
    rare = np.array(one.labels)
    rare[:, 1] = np.arange(25) == 7
    assert bar(["active"], rare).get_ylim() == pytest.approx((0, 1))
    classes = bar(["colour"])
    assert [tick.get_text() for tick in classes.get_yticklabels()] == ["red", "green", "blue"]
    assert bar(["y"], np.full_like(rare, np.nan)).get_ylabel() == "atoms"


def test_a_collapsed_token_is_drawn_without_a_warning(analysis, recwarn):
    """It has no spectrum, and all molecules have the same coordinates."""
    statistics = tuple(
        replace(each, effective_rank=0.0, singular_values=(0.0,) * 4)
        for each in analysis.runs[0].statistics
    )
    run = replace(analysis.runs[0], statistics=statistics, coordinates=np.zeros((25, 2)))
    for draw in (draw_statistics, draw_maps):
        to_svg(draw(replace(analysis, runs=(run,))), "collapsed")
    assert [str(each.message) for each in recwarn.list] == []


def test_classes_are_named(model, tmp_path):
    write_report(analyze([model("one")], "cpu", targets=["colour", "y"]), tmp_path)
    assert "<title>CN, 2 atoms, y 1, active 1, colour green</title>" in (
        (tmp_path / "index.html").read_text()
    )


def test_learned_values_have_their_name_and_bounds_their_sign(model, tmp_path):
    """Bounds are not measurements: they have no colour."""
    one = model("one")
    potency = Target("ic50_nM", "regression", transform="pic50:nM")
    task = replace(one.model.task, targets=(potency, *one.model.task.targets[1:]))
    bounds = np.zeros(one.labels.shape, dtype=np.int8)
    bounds[1, 0], bounds[2, 0] = 1, -1
    analysis = analyze([replace(one, model=replace(one.model, task=task), bounds=bounds)], "cpu")
    write_report(analysis, tmp_path)
    text = (tmp_path / "index.html").read_text()
    assert "<title>CO, 2 atoms, ic50_nM_pic50 0, active 0, colour red</title>" in text
    assert "<title>CN, 2 atoms, ic50_nM_pic50 &gt;1, active 1, colour green</title>" in text
    assert "ic50_nM_pic50 &lt;2" in text and "ic50_nM " not in text
    assert table_of(analysis)[0][-2] == "r, ic50_nM_pic50"
    maps, bar = draw_maps(analysis).axes
    assert bar.get_ylabel() == "ic50_nM_pic50"
    assert np.flatnonzero(np.ma.getmaskarray(maps.collections[0].get_array())).tolist() == [1, 2, 3]


def test_bounds_of_a_table_are_shown_as_bounds(tmp_path):
    """A concentration below 1 nM is a pIC50 above 9."""
    network = far_from_initial(GraphormerConfig(**{**SMALL, "outputs": 1}))
    task = Task((Target("ic50_nM", "regression", transform="pic50:nM"),), "mae")
    PropertyModel(network, "zinc", task).save_pretrained(tmp_path / "m")
    (tmp_path / "t.csv").write_text("smiles,ic50_nM\nCO,<1\nCN,1\nCCO,10\n")
    models = load_models([tmp_path / "m"], DataConfig(table=tmp_path / "t.csv"))
    write_report(analyze(models, "cpu"), tmp_path / "report")
    text = (tmp_path / "report" / "index.html").read_text()
    for title in ("CO, 2 atoms, ic50_nM_pic50 &gt;9", "CN, 2 atoms, ic50_nM_pic50 9"):
        assert f"<title>{title}</title>" in text


def test_many_groups_are_drawn_in_rows(analysis):
    run = analysis.runs[0]
    many = replace(analysis, runs=tuple(replace(run, group=f"g{i}") for i in range(15)))
    figure = draw_maps(many, max_groups=6)
    shown = [axes for axes in figure.axes if axes.get_visible() and axes.get_title()]
    assert len(shown) == 6
    lines = draw_statistics(many).axes[0].get_lines()
    assert len({str(line.get_color()) for line in lines}) == 15


def test_the_error_without_matplotlib_says_what_to_install(analysis, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'molsepnorm\[plot\]'"):
        write_report(analysis, tmp_path / "none")
    with pytest.raises(ConfigError, match=r"pip install 'molsepnorm\[plot\]'"):
        require_folder(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_is_an_error(analysis, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_report(analysis, tmp_path / "file")
    with pytest.raises(StorageError, match="cannot write into"):
        require_folder(tmp_path / "file")
    require_folder(tmp_path / "new" / "folder")
    assert not list((tmp_path / "new" / "folder").iterdir())
