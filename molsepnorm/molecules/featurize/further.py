"""Further molecules of a row, such as a solvent: the cells of a column of SMILES."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from molsepnorm.errors import DataError, InvalidMolecule
from molsepnorm.molecules.featurize.standardize import Level, standardized
from molsepnorm.molecules.molecule import MolGraph


def standard_cells(
    name: str, cells: Iterable[str], level: Level
) -> dict[str, str | InvalidMolecule]:
    """Return the canonical SMILES of the standardised molecule of each distinct cell, or an error
    that names the cell and its column.

    >>> standard_cells("solvent", ["OC", "CO", "C.O"], "none")
    {'OC': 'CO', 'CO': 'CO', 'C.O': 'C.O'}
    >>> standard_cells("base", ["CC>>CO"], "none")["CC>>CO"]
    InvalidMolecule("'CC>>CO' in column 'base': it is a reaction; reactants and products may be ...
    """
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    found: dict[str, str | InvalidMolecule] = {}
    for cell in dict.fromkeys(cells):
        try:
            if ">" in cell.replace("->", ""):
                raise InvalidMolecule(
                    "it is a reaction; reactants and products may be two columns of molecules"
                )
            found[cell] = canonical_smiles(standardized([cell], level)[0])
        except InvalidMolecule as error:
            found[cell] = InvalidMolecule(f"'{cell:.80}' in column '{name}': {error}")
    return found


def with_further(
    graphs: Iterable[MolGraph | InvalidMolecule],
    columns: Mapping[str, Sequence[str]],
    level: Level,
) -> Iterator[MolGraph | InvalidMolecule]:
    """Yield the graph of each row, or an error if it or a further molecule is invalid. Empty cells
    are no molecules."""
    invalid: list[list[str | InvalidMolecule]] = []
    for name, cells in columns.items():
        known = standard_cells(name, filter(None, cells), level)
        invalid.append([known.get(cell, "") for cell in cells])
    for graph, *others in zip(graphs, *invalid, strict=True):
        errors = (each for each in (graph, *others) if isinstance(each, InvalidMolecule))
        yield next(errors, graph)


def refuse_molecules(words: Sequence[str], name: str, source: object) -> None:
    """Raise a `DataError` about a column whose words are molecules, unless it is declared."""
    if _are_molecules(words):
        raise DataError(
            f"{source}, column '{name}': its words are SMILES, such as '{words[-1]}'. To read them "
            f"as molecules: --feature-columns {name}:molecule. As words, such as names of assays, "
            f"that predictions share: {name}:category"
        )


def _are_molecules(words: Sequence[str]) -> bool:
    """Return whether more than three quarters of the words are SMILES, most of several atoms.

    >>> _are_molecules(["CO", "O", "CC#N"]), _are_molecules(["CHO"]), _are_molecules(["C", "N"])
    (True, False, False)
    """
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        atoms = [0 if (m := Chem.MolFromSmiles(w)) is None else m.GetNumAtoms() for w in words]
    read = sum(count > 0 for count in atoms)
    return 4 * read > 3 * len(words) and 2 * sum(count > 1 for count in atoms) > read
