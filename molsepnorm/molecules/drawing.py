"""Draw molecules as SVG and PNG, with atoms coloured by numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.smiles import read_smiles

Colour: TypeAlias = "tuple[float, float, float]"


@dataclass(frozen=True)
class Colours:
    """A colour scale, linear on both sides of white, with ends light enough for black letters."""

    negative: Colour
    """Colour of -1, as red, green and blue between 0 and 1."""
    positive: Colour

    def __call__(self, share: float) -> Colour:
        """Return the colour of a number between -1 and 1.

        >>> DIVERGING(0.0), DIVERGING(2.0) == DIVERGING.positive
        ((1.0, 1.0, 1.0), True)
        """
        end = self.positive if share > 0 else self.negative
        weight = min(abs(share), 1.0)
        red, green, blue = (1 + weight * (channel - 1) for channel in end)
        return red, green, blue


DIVERGING = Colours(negative=(0.337, 0.706, 0.914), positive=(0.902, 0.624, 0.0))
"""Sky blue, white, orange, which differ for every kind of colour vision (Okabe and Ito, 2008)."""

SEQUENTIAL = Colours(negative=(1.0, 1.0, 1.0), positive=(0.35, 0.78, 0.65))
"""White, green: for numbers that are not negative."""


def hexadecimal(colour: Colour) -> str:
    """Return a colour as in CSS, such as #ff8000."""
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in colour)


@dataclass(frozen=True, eq=False)
class Panel:
    """A molecule and a number for each atom, in the order of `Chem.MolFromSmiles`."""

    smiles: str
    values: np.ndarray
    caption: str = ""

    def highlights(self, colours: Colours, limit: float) -> tuple[Chem.Mol, dict[int, Colour]]:
        """Return the molecule and the colours of atoms with a number other than 0."""
        shares = self.values / limit if limit > 0 else self.values
        chosen = {atom: colours(each) for atom, each in enumerate(shares.tolist()) if each}
        return _molecule(self.smiles), chosen


def atom_names(smiles: str) -> list[str]:
    """Return the element and index of each atom of `Chem.MolFromSmiles`, such as C 0."""
    atoms = _molecule(smiles).GetAtoms()
    return [f"{atom.GetSymbol()} {atom.GetIdx()}" for atom in atoms]


def _molecule(smiles: str) -> Chem.Mol:
    with rdBase.BlockLogs():
        return Chem.MolFromSmiles(smiles)


def draw(
    panel: Panel, colours: Colours, limit: float, titles: Sequence[str], size: tuple[int, int]
) -> str:
    """Return an SVG element for a page. `limit` is the number with the strongest colour, `titles`
    are the tooltips of the atoms; screen readers read the caption of the panel."""
    mol, chosen = panel.highlights(colours, limit)
    drawer: Any = rdMolDraw2D.MolDraw2DSVG(*size)
    _set_options(drawer)
    drawer.drawOptions().clearBackground = False
    drawer.DrawMolecule(
        mol, highlightAtoms=[*chosen], highlightBonds=[], highlightAtomColors=chosen
    )
    places = [drawer.GetDrawCoords(atom) for atom in range(mol.GetNumAtoms())]
    drawer.FinishDrawing()
    content = drawer.GetDrawingText().partition("<!-- END OF HEADER -->")[2]
    circles = "".join(
        f'<circle cx="{place.x:.1f}" cy="{place.y:.1f}" r="9" fill="none" pointer-events="all">'
        f"<title>{escape(title)}</title></circle>"
        for place, title in zip(places, titles, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'aria-label="{escape(panel.caption)}">{content.rpartition("</svg>")[0]}{circles}</svg>'
    )


_PANEL = 280, 240  # pixels of a molecule in a grid
_BAR = 70  # pixels below the molecules, for the colour bar
_STEPS = 60  # rectangles of the colour bar


def draw_grid(panels: Sequence[Panel], limit: float, unit: str, png: bool) -> bytes:
    """Return a PNG or SVG of all molecules with their captions, and a colour bar up to `limit` with
    the text `unit`."""
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * _PANEL[0], rows * _PANEL[1]
    make = rdMolDraw2D.MolDraw2DCairo if png else rdMolDraw2D.MolDraw2DSVG
    drawer: Any = make(width, height + _BAR, *_PANEL)
    _set_options(drawer)
    drawer.drawOptions().legendFraction = 0.14
    drawer.drawOptions().drawMolsSameScale = False
    mols, chosen = zip(*(panel.highlights(DIVERGING, limit) for panel in panels), strict=True)
    drawer.DrawMolecules(
        [*mols],
        legends=[_printable(panel.caption) for panel in panels],
        highlightAtoms=[[*atoms] for atoms in chosen],
        highlightBonds=[[] for _ in panels],
        highlightAtomColors=[*chosen],
    )
    _draw_bar(drawer, width, height, limit, unit)
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    return text if isinstance(text, bytes) else text.encode("latin-1")


def _draw_bar(drawer: Any, width: int, top: int, limit: float, unit: str) -> None:
    left, length = 0.1 * width, 0.8 * width
    drawer.SetOffset(0, 0)
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(1)
    drawer.SetFontSize(15)
    for step in range(_STEPS):
        drawer.SetColour(DIVERGING(2 * (step + 0.5) / _STEPS - 1))
        x = left + length * step / _STEPS
        drawer.DrawRect(Point2D(x, top + 8), Point2D(x + length / _STEPS, top + 22), rawCoords=True)
    drawer.SetColour((0.0, 0.0, 0.0))
    for share, text in ((0.0, f"{-limit:.3g}"), (0.5, "0"), (1.0, f"+{limit:.3g}")):
        drawer.DrawString(text, Point2D(left + share * length, top + 34), rawCoords=True)
    drawer.SetFontSize(min(15, 1.6 * width / len(unit)))
    # without an alignment, RDKit breaks the text at capitals as if it were a group of atoms
    drawer.DrawString(_printable(unit), Point2D(width / 2, top + 56), 0, rawCoords=True)


def _printable(text: str) -> str:
    return text.encode("ascii", "replace").decode()  # the characters that RDKit's font has


def _set_options(drawer: Any) -> None:
    options = drawer.drawOptions()
    options.useBWAtomPalette()  # the colours of atoms are those of their numbers
    options.highlightRadius = 0.38
    options.fixedBondLength = 32
    options.legendFontSize = 15


def draw_structure(smiles: str, size: tuple[int, int], atoms: Sequence[int] = ()) -> str | None:
    """Return an SVG element on white, with some atoms marked; None for an invalid or too large
    molecule. Atoms that it does not have are ignored."""
    try:
        mol = read_smiles(smiles)
    except InvalidMolecule:
        return None
    if not 0 < mol.GetNumAtoms() <= 200:  # a larger drawing cannot be read
        return None
    drawer: Any = rdMolDraw2D.MolDraw2DSVG(*size)
    drawer.drawOptions().fixedBondLength = 32
    marked = [atom for atom in atoms if 0 <= atom < mol.GetNumAtoms()]
    drawer.DrawMolecule(mol, highlightAtoms=marked)
    drawer.FinishDrawing()
    text: str = drawer.GetDrawingText()
    return text[text.index("<svg") :]
