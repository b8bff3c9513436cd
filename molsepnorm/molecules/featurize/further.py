"""Further molecules of a row, such as a solvent: the cells of a column of SMILES.

A cell may be a mixture, such as `0.3 CCO + 0.7 O`: the components with their amounts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from molsepnorm.errors import DataError, InvalidMolecule
from molsepnorm.molecules.featurize.standardize import Level, standardized
from molsepnorm.molecules.molecule import MolGraph

PLUS = " + "


def standard_cells(
    name: str, cells: Iterable[str], level: Level
) -> dict[str, str | InvalidMolecule]:
    """Return the canonical SMILES of the standardised molecule of each distinct cell, or an error
    that names the cell and its column. The components of a mixture are sorted, and their shares sum
    to 1.

    >>> standard_cells("solvent", ["OC", "CO", "C.O"], "none")
    {'OC': 'CO', 'CO': 'CO', 'C.O': 'C.O'}
    >>> standard_cells("solvent", ["70 O + 30 OC", "1 OC + 0 O"], "none")
    {'70 O + 30 OC': '0.3 CO + 0.7 O', '1 OC + 0 O': 'CO'}
    >>> standard_cells("base", ["CC>>CO"], "none")["CC>>CO"]
    InvalidMolecule("'CC>>CO' in column 'base': it is a reaction; reactants and products may be ...
    """
    found: dict[str, str | InvalidMolecule] = {}
    for cell in dict.fromkeys(cells):
        try:
            if ">" in cell.replace("->", ""):
                raise InvalidMolecule(
                    "it is a reaction; reactants and products may be two columns of molecules"
                )
            found[cell] = _standard_mixture(cell, level)
        except InvalidMolecule as error:
            found[cell] = InvalidMolecule(f"'{cell:.80}' in column '{name}': {error}")
    return found


def _standard_mixture(cell: str, level: Level) -> str:
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    amounts: dict[str, float] = defaultdict(float)
    for amount, smiles in components(cell):
        amounts[canonical_smiles(standardized([smiles], level)[0])] += amount
    total = sum(amounts.values())
    shares = {smiles: each / total for smiles, each in sorted(amounts.items()) if each}
    if len(shares) == 1:
        return next(iter(shares))
    return PLUS.join(f"{share:.6g} {smiles}" for smiles, share in shares.items())


def components(cell: str) -> list[tuple[float, str]]:
    """Return amount and SMILES of each component, or raise an `InvalidMolecule`.

    >>> components("0.3 CO + 0.7 O"), components("CO")
    ([(0.3, 'CO'), (0.7, 'O')], [(1.0, 'CO')])
    """
    parts = [part.split() for part in cell.split(PLUS)]
    if len(parts) == 1 and (len(parts[0]) != 2 or not _is_amount(parts[0][0])):
        return [(1.0, cell)]
    if not all(len(part) == 2 and _is_amount(part[0]) for part in parts):
        raise InvalidMolecule(
            "a mixture has an amount, 0 or more with a decimal point, before each component: "
            "0.3 CCO + 0.7 O"
        )
    found = [(float(amount), smiles) for amount, smiles in parts]
    if not sum(amount for amount, _ in found):
        raise InvalidMolecule("all amounts of the mixture are 0")
    return found


def _is_amount(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def as_one_molecule(text: str) -> str:
    """Return the components of a cell as one SMILES without amounts, for fingerprints."""
    return ".".join(smiles for _, smiles in components(text))


def first_molecule(cell: str, *further: object) -> str:
    """Return the components of a mixture as one SMILES if a further molecule of the row is the same
    cell, which has the amounts. Other cells stay as they are.

    >>> first_molecule("0.3 OC + 0.7 O", "0.3 OC + 0.7 O"), first_molecule("0.3 OC + 0.7 O", "O")
    ('CO.O', '0.3 OC + 0.7 O')
    """
    from molsepnorm.molecules.featurize.smiles import Unwritten

    if not isinstance(cell, str) or " " not in cell or cell not in map(str, further):
        return cell
    try:
        return as_one_molecule(_standard_mixture(cell, "none"))
    except InvalidMolecule as error:
        return Unwritten(f"'{cell:.80}': {error}")


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
