"""The page, pictures and JSON of explanations."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from explained import DRUGS
from molsepnorm.analysis import explain
from molsepnorm.analysis.explanations import top_fragments
from molsepnorm.analysis.explanations.files import (
    MAX_DRAWN,
    explanation_json,
    page,
    require_format,
    write_explanations,
)
from molsepnorm.errors import ConfigError
from support import Page

NAMES = ("y", "ic50_nM", "active", "colour")


@pytest.fixture(scope="module")
def found(plain):
    return explain(plain, [*DRUGS, "<script>alert(1)</script>"], pairs=2)


def test_a_page_needs_no_script_and_no_network(found):
    text = page(found, NAMES, "runs/x")
    reader = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & {*reader.tags}
    assert not {"src", "href", "data"} & {name for name, _ in reader.attributes}
    assert "url(" not in text and "@import" not in text
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text


def test_every_text_of_a_user_is_escaped(found):
    """SMILES, target, class, column and model names."""
    bad = "<b>\"&'</b>"
    of = found[0].targets["y"]
    odd = replace(of, unit=bad, inputs={bad: 1.0})
    fragments = {
        scheme: [replace(part, contributions={bad: 1.0}) for part in parts]
        for scheme, parts in found[0].fragments.items()
    }
    each = replace(found[0], smiles=bad, targets={bad: odd}, fragments=fragments)
    reader = Page(page([each, found[-1]], [bad], bad))
    assert reader.text.count(bad) >= 6
    assert "<script>alert(1)</script>" in reader.text
    assert "script" not in reader.tags
    assert reader.tags.count("b") == 1  # the value of the molecule


def test_a_page_has_all_numbers_of_its_molecules(found):
    text = Page(page(found, ["y"], "runs/x")).text
    for each in found[:-1]:
        of = each.targets["y"]
        assert each.smiles in text and f"{of.value:.4g}" in text and f"{of.base:.4g}" in text
        for value, error in zip(of.atoms, of.errors, strict=True):
            assert f"{value:+.3g} ± {error:.2g}" in text
    assert found[-1].error in text
    assert f"{len(found) - 1} of {len(found)} molecules are explained" in text
    assert "not an explanation" in text


def test_a_further_molecule_has_its_own_drawing_and_numbers(found):
    each = replace(found[0], further={"solvent": [replace(found[6], attention=None)]})
    reader = Page(page([each], ["y"], "runs/x"))
    assert reader.tags.count("svg") == 3  # two of contributions, one of attention
    value, error = found[6].targets["y"].atoms[0], found[6].targets["y"].errors[0]
    assert "solvent" in reader.text and f"{value:+.3g} ± {error:.2g}" in reader.text
    content = explanation_json(each, ["y"])
    assert content["further"]["solvent"][0]["targets"]["y"]["atoms"] == [value]
    assert "further" not in explanation_json(found[0], ["y"])


def test_a_page_draws_a_limited_number_of_molecules(found):
    many = [found[6]] * (MAX_DRAWN + 3)
    reader = Page(page(many, ["y"], "runs/x"))
    assert reader.tags.count("svg") == 2 * MAX_DRAWN  # contributions and attention
    assert f"the first {MAX_DRAWN} are drawn" in reader.text
    assert f"{MAX_DRAWN + 3}" in reader.text  # the number of occurrences of methane


def test_json_holds_everything(found, tmp_path):
    write_explanations(found, tmp_path / "x.json", "runs/x", ["y", "colour"])
    content = json.loads((tmp_path / "x.json").read_text())
    *done, failed = content["molecules"]
    assert failed == {"smiles": found[-1].smiles, "error": found[-1].error}
    for each, row in zip(found, done, strict=False):
        assert [*row["targets"]] == ["y", "colour"]
        of = row["targets"]["y"]
        assert of["atoms"] == each.targets["y"].atoms.tolist()
        assert sum(of["atoms"]) + of["base"] == pytest.approx(of["value"])
        assert row["attention_of_graph_token"] == each.attention.tolist()
        assert row["fragments"]["brics"][0]["smiles"] == each.fragments["brics"][0].smiles
    top = top_fragments(found, "murcko", "colour")
    assert content["fragments"]["colour"]["murcko"] == [vars(each) for each in top]


def test_impossible_files_are_refused(found, tmp_path):
    with pytest.raises(ConfigError, match=r"x\.pdf: explanations are written as \.html, "):
        require_format("x.pdf", ["y"])
    with pytest.raises(ConfigError, match="a picture shows one target"):
        require_format("x.png", ["y", "active"])
    with pytest.raises(ConfigError, match="no molecule could be explained. The first error: RDKit"):
        write_explanations(found[-1:], tmp_path / "x.png", "runs/x", ["y"])
    with pytest.raises(ConfigError, match="there are no molecules to draw"):
        write_explanations([], tmp_path / "x.png", "runs/x", ["y"])
    assert not [*tmp_path.iterdir()]
