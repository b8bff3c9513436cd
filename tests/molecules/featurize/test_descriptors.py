"""Descriptors and fingerprints equal those of RDKit's own functions."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors, rdFingerprintGenerator

from molsepnorm.molecules.featurize.descriptors import (
    COUNTS,
    DESCRIPTORS,
    FAST_DESCRIPTORS,
    describe,
    morgan_counts,
    structure_inputs,
)
from molsepnorm.molecules.featurize.smiles import oriented_mol

UNUSUAL = [
    *("C", "[H][H]", "CC(=O)[O-].[K+]", "[13CH3]O", "C[N+](C)(C)CC([O-])=O", "*CC", "[U]", "[He]"),
    *("[Fe]", "O=[Pt](Cl)Cl", "C[Si](C)(C)C", "OB(O)c1ccccc1", "N[C@@H](C)C(=O)O", "F/C=C\\F"),
    *("c1ccc2c(c1)[nH]c1ccccc12", "C" * 300, "[O-][Cl+3]([O-])([O-])[O-]"),
]


def close(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-30)


def by_rdkit(mol: Chem.Mol) -> np.ndarray:
    with rdBase.BlockLogs():
        values = Descriptors.CalcMolDescriptors(mol, missingVal=np.nan)
    chosen = np.array([values[name] for name in DESCRIPTORS], dtype=np.float64)
    with np.errstate(over="ignore"):
        single = chosen.astype(np.float32)
    return np.where(np.isfinite(single), single, np.nan)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", UNUSUAL)
def test_descriptors_of_unusual_molecules_are_those_of_rdkit(text):
    mol = Chem.MolFromSmiles(text)
    found = describe(mol)
    assert found.dtype == np.float32
    assert np.isnan(found).sum() < 60
    assert np.isfinite(found[~np.isnan(found)]).all()
    close(found, by_rdkit(mol))


def test_descriptors_of_real_molecules_are_those_of_rdkit(datasets):
    """Also those of the molecule as the featurisers read it, without stereo perception."""
    smiles = []
    for name in ("bace", "esol", "freesolv", "tox21"):
        with open(datasets / "moleculenet" / f"{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        smiles += [row["smiles"] for row in rows[:: len(rows) // 13]]
    assert len(smiles) > 50
    missing = 0
    for text in smiles:
        expected = by_rdkit(Chem.MolFromSmiles(text))
        close(describe(Chem.MolFromSmiles(text)), expected)
        read = describe(oriented_mol(text))
        np.testing.assert_allclose(read, expected, rtol=1e-4, atol=1e-4, err_msg=text)
        missing += np.isnan(expected).sum()
    assert missing < 0.02 * len(smiles) * len(DESCRIPTORS)


@pytest.mark.parametrize(
    "spellings",
    [
        ("Oc1ccc(Cl)cc1", "O[14c]1[14cH][14cH][14c](Cl)[14cH][14cH]1", "[2H]Oc1ccc(Cl)cc1"),
        ("NC(=N)NCc1cccc(I)c1", "NC(=N)NCc1cccc([131I])c1"),
        ("OCC", "[CH2:1](O)[CH3:7]", "[18OH]C[13CH3]"),
        ("CC(C)CO", "[CH3:1][CH:2]([CH3:3])[CH2:4][OH:5]"),  # no stereocentre
        ("[Na+].[Na+].[O-][Se]([O-])=O", "[O-][Se]([O-])=O.[Na+].[Na+]"),
        ("F[P-](F)(F)(F)(F)F.CC[N+]1=CC=CC=C1", "CC[N+]1=CC=CC=C1.F[P-](F)(F)(F)(F)F"),
    ],
)
def test_all_spellings_of_a_molecule_have_the_same_inputs(spellings):
    """With isotopes, which the model ignores, and fragments whose partial charges are unknown."""
    first, *others = np.hstack(structure_inputs(spellings, True, DESCRIPTORS, True))
    for each in others:
        np.testing.assert_allclose(each, first, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("text", [*UNUSUAL, "C" * 600])
def test_counts_are_those_of_rdkit(text):
    mol = Chem.MolFromSmiles(text)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=COUNTS)
    expected = generator.GetCountFingerprint(mol).GetNonzeroElements()
    found = morgan_counts(mol)
    assert found.shape == (COUNTS,)
    assert {int(k): int(found[k]) for k in np.flatnonzero(found)} == expected


@pytest.mark.parametrize("text", UNUSUAL)
def test_named_descriptors_are_those_of_all_in_their_order(text):
    mol = Chem.MolFromSmiles(text)
    values = dict(zip(DESCRIPTORS, describe(mol), strict=True))
    for names in (FAST_DESCRIPTORS, ("BCUT2D_MWHI", "MolWt", "BCUT2D_CHGLO"), ()):
        np.testing.assert_array_equal(describe(mol, names), [values[name] for name in names])
