"""Drawings of molecules: the colours of the atoms, and what a page may not contain."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from molsepnorm.molecules.drawing import (
    DIVERGING,
    Panel,
    draw,
    draw_grid,
    draw_structure,
    hexadecimal,
)

ETHANOL = Panel("CCO", np.array([-1.0, 0.0, 0.5]), 'a <b> & "c"')


def test_atoms_have_the_colours_of_their_numbers():
    text = draw(ETHANOL, DIVERGING, 2.0, ["one", "two", "three"], (200, 150))
    found = dict(re.findall(r"class='atom-(\d)'\s+style='fill:(#\w+)", text))
    expected = {"0": DIVERGING(-0.5), "2": DIVERGING(0.25)}
    assert {atom: colour.lower() for atom, colour in found.items()}.keys() == expected.keys()
    for atom, colour in found.items():
        drawn = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        np.testing.assert_allclose(drawn, expected[atom], atol=0.005)


def test_an_element_of_a_page_is_xml_with_escaped_texts():
    root = ET.fromstring(draw(ETHANOL, DIVERGING, 1.0, ["<i>", "&", "z"], (200, 150)))
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["<i>", "&", "z"]
    assert root.attrib["aria-label"] == 'a <b> & "c"'
    assert not {each.tag.rpartition("}")[2] for each in root.iter()} & {"script", "image", "rect"}


@pytest.mark.parametrize(("count", "size"), [(1, (280, 310)), (5, (1120, 550))])
def test_a_grid_has_a_place_for_every_molecule(count, size):
    panels = [ETHANOL] * count
    png = draw_grid(panels, 1.0, "contribution to µ", png=True)
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == size
    root = ET.fromstring(draw_grid(panels, 1.0, "contribution to µ", png=False))
    ellipses = [each for each in root.iter() if each.tag.endswith("ellipse")]
    assert len(ellipses) == 2 * count


def test_without_contributions_nothing_is_coloured():
    text = draw(Panel("CCO", np.zeros(3)), DIVERGING, 1.0, ["", "", ""], (200, 150))
    assert "ellipse" not in text and hexadecimal(DIVERGING(0.0)) == "#ffffff"


def drawn_atoms(svg: str) -> set[str]:
    """Classes of the atoms and bonds of a drawing."""
    assert svg.startswith("<svg") and "<script" not in svg
    ET.fromstring(svg)
    return set(re.findall(r"(?:atom|bond)-\d+", svg))


def test_large_molecules_are_not_drawn():
    assert draw_structure("C" * 201, (200, 100)) is None
    for invalid in ("C1CC", "", "C\0", "C\0O"):
        assert draw_structure(invalid, (200, 100)) is None
    assert "bond-0" in drawn_atoms(draw_structure("CO", (200, 100)))
