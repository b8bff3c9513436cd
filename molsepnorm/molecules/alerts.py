"""Structural alerts: substructures that published filters warn of."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams

from molsepnorm.molecules.featurize.smiles import read_smiles

_CATALOGS = "PAINS", "BRENK", "NIH"  # names of RDKit


class Alert(NamedTuple):
    """A substructure of a molecule that a filter warns of."""

    catalog: str
    """PAINS, Brenk or NIH."""
    description: str
    """Name of the filter, such as catechol_A(92)."""
    atoms: tuple[int, ...]
    """Sorted indices in `rdkit.Chem.MolFromSmiles` of the atoms of one of its occurrences."""


def structural_alerts(smiles: str) -> list[Alert]:
    """Return the alerts of a molecule, in the order of the catalogs.

    An alert is no prediction: many drugs have one, and many reactive molecules have none. It takes
    about 15 ms for a molecule.

    >>> [(alert.catalog, alert.description) for alert in structural_alerts("Oc1ccccc1O")]
    [('PAINS', 'catechol_A(92)'), ('Brenk', 'catechol'), ('NIH', 'ortho_hydroquinone')]

    Raises:
        InvalidMolecule: the SMILES is invalid.

    Source: PAINS, Baell and Holloway, J. Med. Chem. 2010, 53, 2719; Brenk et al., ChemMedChem 2008,
    3, 435; NIH, Jadhav et al., J. Med. Chem. 2010, 53, 37; all as in RDKit.
    """
    mol = read_smiles(smiles)
    alerts = []
    for entry in _filters().GetMatches(mol):
        places = {atom for match in entry.GetFilterMatches(mol) for _, atom in match.atomPairs}
        catalog = entry.GetProp("FilterSet").partition("_")[0]  # PAINS has families A, B and C
        alerts.append(Alert(catalog, entry.GetDescription(), tuple(sorted(places))))
    return alerts


def alerts_text(smiles: str) -> str:
    """Return the alerts of a molecule as text, empty if it has none.

    >>> alerts_text("CC(=O)Oc1ccccc1C(=O)O"), alerts_text("CCO")
    ('Brenk: phenol_ester', '')
    """
    return "; ".join(f"{each.catalog}: {each.description}" for each in structural_alerts(smiles))


@cache
def _filters() -> FilterCatalog:
    params = FilterCatalogParams()
    for name in _CATALOGS:
        params.AddCatalog(getattr(FilterCatalogParams.FilterCatalogs, name))
    return FilterCatalog(params)
