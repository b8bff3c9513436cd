"""Draw molecules as SVG and PNG, also with atoms that are coloured by numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.featurize.registry import SIZES
from molsepnorm.molecules.featurize.smiles import read_smiles
from molsepnorm.molecules.featurize.zinc import ATOM_LABELS
from molsepnorm.molecules.molecule import MolGraph

__all__ = [
    "DIVERGING",
    "SEQUENTIAL",
    "Colours",
    "Panel",
    "atom_names",
    "draw",
    "draw_graph",
    "draw_grid",
    "draw_structure",
    "hexadecimal",
]

Colour: TypeAlias = "tuple[float, float, float]"


@dataclass(frozen=True)
class Colours:
    """A colour scale, linear on both sides of white.

    Its ends are light enough for black letters, and differ for every kind of colour vision.

    Source: Okabe and Ito, "Color Universal Design", 2008.
    """

    negative: Colour
    """Colour of -1, as red, green and blue between 0 and 1."""
    positive: Colour
    """Colour of 1."""

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
"""Sky blue, white, orange."""

SEQUENTIAL = Colours(negative=(1.0, 1.0, 1.0), positive=(0.35, 0.78, 0.65))
"""White, green: for numbers that are not negative."""


def hexadecimal(colour: Colour) -> str:
    """Return a colour as in CSS.

    >>> hexadecimal((1.0, 0.5, 0.0))
    '#ff8000'
    """
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in colour)


@dataclass(frozen=True, eq=False)
class Panel:
    """A molecule and a number for each atom."""

    smiles: str
    values: np.ndarray
    """float [N]: in the order of `Chem.MolFromSmiles`."""
    caption: str = ""

    def highlights(self, colours: Colours, limit: float) -> tuple[Chem.Mol, dict[int, Colour]]:
        """Return the molecule, and the colour of each atom whose number is not 0."""
        shares = self.values / limit if limit > 0 else self.values
        chosen = {atom: colours(each) for atom, each in enumerate(shares.tolist()) if each}
        return _molecule(self.smiles), chosen


def atom_names(smiles: str) -> list[str]:
    """Return the element and index of each atom of `Chem.MolFromSmiles`.

    >>> atom_names("CCO")
    ['C 0', 'C 1', 'O 2']
    """
    atoms = _molecule(smiles).GetAtoms()
    return [f"{atom.GetSymbol()} {atom.GetIdx()}" for atom in atoms]


def _molecule(smiles: str) -> Chem.Mol:
    """Return the molecule of `Chem.MolFromSmiles`, without the warnings that RDKit prints."""
    with rdBase.BlockLogs():
        return Chem.MolFromSmiles(smiles)


def draw(
    panel: Panel, colours: Colours, limit: float, titles: Sequence[str], size: tuple[int, int]
) -> str:
    """Return an SVG element for a page.

    Args:
        panel: the molecule; its caption is the text for screen readers.
        colours: the colour scale.
        limit: the number with the strongest colour.
        titles: text that is shown while the pointer is on an atom.
        size: width and height in pixels.
    """
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


def draw_grid(
    panels: Sequence[Panel], colours: Colours, limit: float, unit: str, png: bool
) -> bytes:
    """Return a picture of all molecules with their captions, and a colour bar.

    Args:
        panels: one or more molecules.
        colours: the colour scale.
        limit: the number with the strongest colour.
        unit: text below the colour bar.
        png: return a PNG; otherwise an SVG.
    """
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * _PANEL[0], rows * _PANEL[1]
    make = rdMolDraw2D.MolDraw2DCairo if png else rdMolDraw2D.MolDraw2DSVG
    drawer: Any = make(width, height + _BAR, *_PANEL)
    _set_options(drawer)
    drawer.drawOptions().legendFraction = 0.14
    drawer.drawOptions().drawMolsSameScale = False
    mols, chosen = zip(*(each.highlights(colours, limit) for each in panels), strict=True)
    drawer.DrawMolecules(
        [*mols],
        legends=[_printable(each.caption) for each in panels],
        highlightAtoms=[[*each] for each in chosen],
        highlightBonds=[[] for _ in panels],
        highlightAtomColors=[*chosen],
    )
    _draw_bar(drawer, width, height, colours, limit, unit)
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    return text if isinstance(text, bytes) else text.encode("latin-1")


def _draw_bar(drawer: Any, width: int, top: int, colours: Colours, limit: float, unit: str) -> None:
    """Draw a colour bar with its ends, its middle and its unit."""
    left, length = 0.1 * width, 0.8 * width
    drawer.SetOffset(0, 0)
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(1)
    drawer.SetFontSize(15)
    for step in range(_STEPS):
        drawer.SetColour(colours(2 * (step + 0.5) / _STEPS - 1))
        x = left + length * step / _STEPS
        drawer.DrawRect(Point2D(x, top + 8), Point2D(x + length / _STEPS, top + 22), rawCoords=True)
    drawer.SetColour((0.0, 0.0, 0.0))
    for share, text in ((0.0, f"{-limit:.3g}"), (0.5, "0"), (1.0, f"+{limit:.3g}")):
        drawer.DrawString(text, Point2D(left + share * length, top + 34), rawCoords=True)
    drawer.SetFontSize(min(15, 1.6 * width / len(unit)))
    # without an alignment, RDKit breaks the text at capitals as if it were a group of atoms
    drawer.DrawString(_printable(unit), Point2D(width / 2, top + 56), 0, rawCoords=True)


def _printable(text: str) -> str:
    """Return the text in the characters that RDKit's font has."""
    return text.encode("ascii", "replace").decode()


def _set_options(drawer: Any) -> None:
    options = drawer.drawOptions()
    options.useBWAtomPalette()  # the colours of atoms are those of their numbers
    options.highlightRadius = 0.38
    options.fixedBondLength = 32
    options.legendFontSize = 15


_GRAPH = 300, 220  # pixels of a graph
_MAX_DRAWN = 200  # atoms; a larger drawing cannot be read
_ORDERS = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE, Chem.BondType.AROMATIC)
_NO_CHARGE = 5  # index of the charge 0 in OGB's features, which begin at -5


def draw_structure(smiles: str, size: tuple[int, int]) -> str | None:
    """Return an SVG element of a molecule; None if it is invalid or too large.

    Args:
        smiles: the SMILES.
        size: width and height in pixels.
    """
    try:
        mol = read_smiles(smiles)
    except InvalidMolecule:
        return None
    if not 0 < mol.GetNumAtoms() <= _MAX_DRAWN:
        return None
    return _svg(mol, size, prepare=True)


def draw_graph(graph: MolGraph) -> str | None:
    """Return an SVG element of the atoms and bonds of a graph; None if it is too large.

    The number and the range of the features show which featuriser made the graph. The elements,
    charges and bonds of zinc, ogb and rich are drawn, without stereochemistry. If no or several
    featurisers fit, an atom is drawn as its first feature, a number, and all bonds are single.
    """
    if graph.num_atoms > _MAX_DRAWN:
        return None
    fitting = [name for name, sizes in SIZES.items() if _fits(graph, sizes.atoms, sizes.bonds)]
    name = fitting[0] if len(fitting) == 1 else None
    mol = Chem.RWMol()
    for features in graph.atom_features.tolist():
        if name == "zinc":
            mol.AddAtom(_zinc_atom(ATOM_LABELS[features[0]]))
        elif name in ("ogb", "rich"):
            mol.AddAtom(_ogb_atom(features))
        else:
            atom = Chem.Atom(0)
            atom.SetProp("atomLabel", str(features[0]) if features else "*")
            mol.AddAtom(atom)
    known = name in ("zinc", "ogb", "rich")
    for (one, other), features in zip(
        graph.bonds.tolist(), graph.bond_features.tolist(), strict=True
    ):
        kind = features[0] if known else 0
        mol.AddBond(one, other, _ORDERS[kind] if kind < len(_ORDERS) else Chem.BondType.ZERO)
    with rdBase.BlockLogs():
        mol.UpdatePropertyCache(strict=False)
        Chem.FastFindRings(mol)
        with suppress(Chem.KekulizeException):  # otherwise aromatic bonds are drawn dashed
            Chem.Kekulize(mol, clearAromaticFlags=True)
    return _svg(mol, _GRAPH, prepare=False)


def _fits(graph: MolGraph, atoms: Sequence[int], bonds: Sequence[int]) -> bool:
    """Return whether the features of a graph are in the range of a featuriser."""
    parts = ((graph.atom_features, atoms), (graph.bond_features, bonds))
    return all(
        not len(values) or (values.shape[1] == len(sizes) and (values < np.array(sizes)).all())
        for values, sizes in parts
    )


def _zinc_atom(label: str) -> Chem.Atom:
    """Return the atom of a label such as "N H2 +"."""
    element, *marks = label.split()
    atom = Chem.Atom(element)
    for mark in marks:
        if mark in "+-":
            atom.SetFormalCharge(1 if mark == "+" else -1)
        else:
            atom.SetNumExplicitHs(int(mark[1:]))
    atom.SetNoImplicit(bool(marks))
    return atom


def _ogb_atom(features: Sequence[int]) -> Chem.Atom:
    """Return the atom of OGB's features."""
    element, _, _, charge, hydrogens = features[:5]
    last = [size - 1 for size in SIZES["ogb"].atoms]  # stands for all other values
    atom = Chem.Atom(element + 1 if element < last[0] else 0)
    atom.SetFormalCharge(charge - _NO_CHARGE if charge < last[3] else 0)
    atom.SetNumExplicitHs(hydrogens)
    atom.SetNoImplicit(True)
    atom.SetIsAromatic(bool(features[7]))
    return atom


def _svg(mol: Chem.Mol, size: tuple[int, int], prepare: bool) -> str:
    """Return an SVG element on white, so that it can be read on dark pages, too."""
    drawer: Any = rdMolDraw2D.MolDraw2DSVG(*size)
    options = drawer.drawOptions()
    options.fixedBondLength = 32
    options.prepareMolsBeforeDrawing = prepare
    if not prepare:
        rdDepictor.Compute2DCoords(mol)
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    text: str = drawer.GetDrawingText()
    return text[text.index("<svg") :]
