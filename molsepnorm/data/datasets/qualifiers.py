"""Columns that qualify the numbers beside them: relations such as >, and units such as nM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.tables.formats import locate
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule, listed

NONE = "none"
"""In place of a column: there is none."""
_RELATIONS = {"": "", "=": "", "==": "", "~": "", ">": ">", ">>": ">", "<": "<", "<<": "<"}
_RELATIONS |= {">=": ">=", "≥": ">=", "<=": "<=", "≤": "<="}
"""Relations, without quotation marks, and the sign that a number gets."""
_NANOMOLAR = {"pM": 1e-3, "nM": 1.0, "uM": 1e3, "µM": 1e3, "μM": 1e3, "mM": 1e6, "M": 1e9}
_GRAMS = {"ng/mL": 1e3, "ug/mL": 1e6, "µg/mL": 1e6, "ug.mL-1": 1e6, "mg/mL": 1e9}
"""Units, and the number of nM in one of them; of mass units, times the molar mass in g/mol."""
_MAX_WORDS = 20  # of a column of relations or units


class Qualifiers(NamedTuple):
    """The columns that belong to the target."""

    relation: str | None = None
    unit: str | None = None


_CHEMBL = {
    "Standard Value": Qualifiers("Standard Relation", "Standard Units"),
    "standard_value": Qualifiers("standard_relation", "standard_units"),
}
"""Columns of exports of ChEMBL, by the exact name of the target."""


def exported_target(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the target of an export of ChEMBL; None for another table."""
    found = [target for target, others in _CHEMBL.items() if {target, *others} <= {*names}]
    return tuple(found[:1]) or None


def qualifiers_of(
    names: Sequence[str], targets: Sequence[str], relation: str | None, unit: str | None
) -> Qualifiers:
    """Return the columns of relations and units of the only target, among columns of these names.

    The configured `relation` and `unit` are `NONE` if there is none, and None if the names of an
    export of ChEMBL decide. They need exactly one target; otherwise it is a `ConfigError`.
    """
    if len(targets) != 1 and {relation, unit} - {None, NONE}:
        raise ConfigError(
            "data.relation_column and data.unit_column belong to one target: name it (--targets)"
        )
    known = _CHEMBL.get(targets[0]) if len(targets) == 1 else None
    if known is None or not {*known} <= {*names}:
        known = Qualifiers()
    chosen = relation or known.relation, unit or known.unit
    return Qualifiers(*(None if each == NONE else each for each in chosen))


def with_relations(cells: pd.Series, relations: pd.Series, source: Path | str) -> pd.Series:
    """Return the cells of a target after the signs of a column of relations.

    >>> with_relations(pd.Series(["5", "50", ""]), pd.Series(["=", "'>'", ">"]), "my.csv").tolist()
    ['5', '>50', '']

    Raises:
        DataError: a cell is no relation.
    """
    signs = relations.map(_plain).map(_RELATIONS)
    if signs.isna().any():
        odd = int(signs.isna().to_numpy().argmax())
        raise DataError(
            f"{locate(source, relations.index[odd])}, column '{relations.name}': "
            f"'{relations.iloc[odd]}' is no relation. Expected are "
            f"{', '.join(filter(None, _RELATIONS))}, or a blank for ="
        )
    return (signs + cells.str.strip()).where(cells.str.strip() != "", "")


def factors_to_nanomolar(
    units: Sequence[str], smiles: Sequence[str], where: Callable[[int], str]
) -> np.ndarray | None:
    """Return the factors that convert the rows to nM, float64 (rows,), NaN without a unit; None if
    the only unit is another one, such as mV. Units of mass need the SMILES. An unknown one of
    several units is a `DataError`, with `where` of its row."""
    written = [*map(_plain, units)]
    found = {*written} - {""}
    if len(found) == 1 and not found <= {*_NANOMOLAR, *_GRAMS}:
        return None
    if unknown := sorted(found - {*_NANOMOLAR, *_GRAMS}):
        raise DataError(
            f"{where(written.index(unknown[0]))}: the unit '{unknown[0]}' cannot be converted "
            f"beside others ({listed(sorted(found))}): known are "
            f"{', '.join((*_NANOMOLAR, *_GRAMS))}. Convert these numbers, or leave such rows out"
        )
    factors = np.array([_NANOMOLAR.get(unit, np.nan) for unit in written])
    for row, unit in enumerate(written):
        if unit in _GRAMS:
            factors[row] = _GRAMS[unit] / _molar_mass(smiles[row])
    return factors


def require_declared(
    words: Mapping[str, set[str]],
    relation: str | None,
    unit: str | None,
    target: str,
    source: Path | str,
) -> None:
    """Raise a `DataError` if an unused column holds relations other than =, or several units, and
    the settings do not say `NONE`. `words` are those of `Columns.words`."""
    for name, cells in words.items():
        plain = {_plain(cell) for cell in cells}
        signs = {_RELATIONS.get(each) for each in plain}
        if relation is None and None not in signs and signs - {""}:
            raise DataError(
                f"{source}: the column '{name}' holds relations such as '{max(plain)}'. If they "
                f"belong to '{target}', its numbers are bounds: --relation-column '{name}'. "
                f"Otherwise: --relation-column {NONE}"
            )
        units = plain - {""}
        if unit is None and len(units) > 1 and units <= {*_NANOMOLAR, *_GRAMS}:
            raise DataError(
                f"{source}: the column '{name}' holds the units {listed(sorted(units))}. If they "
                f"belong to '{target}', its numbers are converted to nM: --unit-column '{name}'. "
                f"Otherwise: --unit-column {NONE}"
            )


def few_words(cells: pd.Series) -> set[str] | None:
    """Return the distinct cells of a column; None if they are many."""
    for part in (cells.head(_MAX_WORDS * 10), cells):
        if len(found := {*part.unique()}) > _MAX_WORDS:
            return None
    return found


def _plain(cell: str) -> str:
    return cell.strip().strip("'\"").strip()


def _molar_mass(smiles: str) -> float:
    from molsepnorm.molecules.featurize.descriptors import structure_inputs

    try:
        return float(structure_inputs([smiles], False, ("MolWt",), False)[1][0, 0])
    except InvalidMolecule:  # the row is left out
        return np.nan
