"""Units of concentrations, converted to nM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from molsepnorm.errors import DataError, InvalidMolecule, listed

_NANOMOLAR = {"pM": 1e-3, "nM": 1.0, "uM": 1e3, "µM": 1e3, "μM": 1e3, "mM": 1e6, "M": 1e9}
_GRAMS = {"ng/mL": 1e3, "ug/mL": 1e6, "µg/mL": 1e6, "ug.mL-1": 1e6, "mg/mL": 1e9}
"""Units, and the number of nM in one of them; of mass units, times the molar mass in g/mol."""

UNITS = {*_NANOMOLAR, *_GRAMS}


def factors_to_nanomolar(
    units: Sequence[str], smiles: Sequence[str], where: Callable[[int], str]
) -> np.ndarray | None:
    """Return the factors that convert the rows to nM, float64 (rows,), NaN without a unit; None if
    the only unit is another one, such as mV. Units of mass need the SMILES. An unknown one of
    several units is a `DataError`, with `where` of its row."""
    distinct = {*units} - {""}
    unknown = sorted(distinct - UNITS)
    if unknown and len(distinct) == 1:
        return None
    if unknown:
        raise DataError(
            f"{where(units.index(unknown[0]))}: the unit '{unknown[0]}' cannot be converted "
            f"beside others ({listed(sorted(distinct))}): known are "
            f"{', '.join((*_NANOMOLAR, *_GRAMS))}. Convert these numbers, or leave such rows out"
        )
    factors = np.array([_NANOMOLAR.get(unit, np.nan) for unit in units])
    for row, unit in enumerate(units):
        if unit in _GRAMS:
            factors[row] = _GRAMS[unit] / _molar_mass(smiles[row])
    return factors


def _molar_mass(smiles: str) -> float:
    from molsepnorm.molecules.featurize.descriptors import structure_inputs

    try:
        return float(structure_inputs([smiles], False, ("MolWt",), False)[1][0, 0])
    except InvalidMolecule:  # the row is left out
        return np.nan
