"""Structural alerts: those of RDKit's catalogs, whatever the SMILES of a molecule."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules.alerts import alerts_text, structural_alerts
from support import spelling

CATECHOL = "O=[N+]([O-])c1ccc(cc1)OCc1cc(O)c(O)cc1C=CC=O"


@pytest.mark.parametrize("name", ["PAINS", "BRENK", "NIH"])
def test_alerts_are_those_of_each_catalog(name):
    catalog = FilterCatalog(FilterCatalogParams(getattr(FilterCatalogParams.FilterCatalogs, name)))
    expected = [each.GetDescription() for each in catalog.GetMatches(Chem.MolFromSmiles(CATECHOL))]
    found = structural_alerts(CATECHOL)
    assert expected and expected == [
        each.description for each in found if each.catalog.upper() == name
    ]


def test_atoms_are_those_of_the_substructure():
    nitro = Chem.MolFromSmiles(CATECHOL).GetSubstructMatch(Chem.MolFromSmarts("[N+](=O)[O-]"))
    (found,) = (each for each in structural_alerts(CATECHOL) if each.description == "nitro_group")
    assert found.atoms == tuple(sorted(nitro))


@pytest.mark.parametrize("seed", range(3))
def test_alerts_do_not_depend_on_the_spelling(seed):
    assert sorted(alerts_text(spelling(CATECHOL, seed)).split("; ")) == sorted(
        alerts_text(CATECHOL).split("; ")
    )


def test_an_invalid_molecule_has_no_alerts():
    with pytest.raises(InvalidMolecule):
        structural_alerts("C1CC")
