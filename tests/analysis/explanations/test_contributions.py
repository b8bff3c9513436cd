"""Explanations of models: which number they explain, and in which order the atoms come."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from sklearn.metrics import roc_auc_score

import molsepnorm
import molsepnorm.analysis.explanations.contributions as module
from explained import CELLS, DRUGS
from molsepnorm.analysis import explain
from molsepnorm.analysis.explanations import top_fragments
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.predict import Predictor, TableRows
from support import spelling, with_marks

NAMES = ("y", "ic50_nM", "active", "colour")
SYMMETRIC = ["Cc1ccccc1", "CC(C)(C)c1ccc(cc1)C(C)(C)C", "FC(F)(F)c1ccc(Cl)cc1", "C1CC2CCC1C2"]


def log_odds(chance: float) -> float:
    return math.log(chance / (1 - chance))


@pytest.mark.parametrize("which", ["plain", "whole"])
def test_contributions_add_up_to_what_predict_returns(which, request):
    """With two networks, a forest, Morgan counts, descriptors and columns of the table, too."""
    predictor = request.getfixturevalue(which)
    cells = CELLS if which == "whole" else None
    found = explain(predictor, DRUGS, cells, pairs=2)
    for each, row in zip(found, predictor.predict(DRUGS, cells), strict=True):
        assert each.error is None and [*each.targets] == [*NAMES]
        for of in each.targets.values():
            total = of.base + of.atoms.sum() + sum(of.inputs.values())
            assert total == pytest.approx(of.value, abs=1e-9)
            expected = ["T", "solvent", "all descriptors"] if which == "whole" else []
            assert [*of.inputs] == expected
        classes = row.probabilities["colour"]
        best = max(classes, key=classes.get)
        values = {
            "y": row.values["y"],
            "ic50_nM": row.values["ic50_nM_pic50"],
            "active": log_odds(row.values["active"]),
            "colour": log_odds(classes[best]),
        }
        units = "y", "ic50_nM_pic50", "log-odds of active = 1", f"log-odds of colour = {best}"
        for name, unit in zip(NAMES, units, strict=True):
            of = each.targets[name]
            assert of.unit == unit
            assert of.value == pytest.approx(values[name], rel=1e-3, abs=1e-3)
        assert each.targets["active"].probability == pytest.approx(row.values["active"], abs=1e-5)
        assert each.targets["colour"].probability == pytest.approx(classes[best], abs=1e-5)
        assert each.targets["y"].probability is None
    if which == "whole":
        inputs = [abs(v) for each in found for v in each.targets["y"].inputs.values()]
        assert np.median(inputs) > 1e-4


@pytest.mark.parametrize("smiles", SYMMETRIC)
def test_atoms_of_equal_rank_have_equal_contributions(plain, smiles):
    (found,) = explain(plain, [smiles], pairs=2)
    ranks = np.array(Chem.CanonicalRankAtoms(Chem.MolFromSmiles(smiles), breakTies=False))
    assert len({*ranks}) < len(ranks)
    for of in found.targets.values():
        for rank in ranks:
            assert np.ptp(of.atoms[ranks == rank]) < 1e-5
        assert np.ptp(of.atoms) > 1e-3


@pytest.mark.parametrize("smiles", DRUGS)
def test_contributions_follow_the_atoms_of_any_spelling(plain, smiles):
    """Atoms are matched through maps in RDKit, with and without isotopes and written hydrogens."""
    mol = Chem.MolFromSmiles(smiles)
    spellings = [spelling(smiles, 1), spelling(smiles, 2), with_marks(smiles, 0, mapped=False)]
    reference, *others = explain(plain, [smiles, *spellings], pairs=2)
    atoms = reference.targets["y"].atoms
    ranks = np.array(Chem.CanonicalRankAtoms(mol, breakTies=False))
    for text, each in zip(spellings, others, strict=True):
        other = Chem.MolFromSmiles(text)
        assert len(each.targets["y"].atoms) == len(each.attention) == other.GetNumAtoms()
        clean = Chem.Mol(other)
        for atom in clean.GetAtoms():
            atom.SetIntProp("place", atom.GetIdx())
            atom.SetIsotope(0)
        clean = Chem.RemoveHs(clean)
        match = clean.GetSubstructMatch(mol, useChirality=True)
        places = [clean.GetAtomWithIdx(atom).GetIntProp("place") for atom in match]
        assert len(places) == len(ranks)
        np.testing.assert_allclose(each.targets["y"].atoms[places], atoms, atol=1e-4)
        np.testing.assert_allclose(each.attention[places], reference.attention, atol=1e-5)
        rest = np.delete(each.targets["y"].atoms, places)
        assert not rest.any()  # marked hydrogens


@pytest.mark.parametrize(
    "smiles", ["C[C@H]1CC[C@@H](O)CC1", "C[C@H]1CC[C@H](C)CC1", "C[C@H]1C[C@@H](F)C1"]
)
def test_halves_that_stereocentres_make_alike_have_equal_contributions(plain, smiles):
    """RDKit's ranks tell the sides of a ring apart, and so do chirality tags those of two equal
    groups; which one comes first depends on the spelling."""
    mol = Chem.MolFromSmiles(smiles)
    texts = [Chem.MolToSmiles(mol, rootedAtAtom=atom.GetIdx()) for atom in mol.GetAtoms()]
    reference, *others = explain(plain, [smiles, *texts], pairs=2)
    pattern = Chem.MolFromSmiles(Chem.MolToSmiles(mol, isomericSmiles=False))
    first = [*mol.GetSubstructMatch(pattern)]
    atoms, attention = reference.targets["y"].atoms[first], reference.attention[first]
    for text, each in zip([smiles, *texts], [reference, *others], strict=True):
        matches = Chem.MolFromSmiles(text).GetSubstructMatches(pattern, uniquify=False)
        assert len(matches) > 1
        for match in map(list, matches):
            np.testing.assert_allclose(each.targets["y"].atoms[match], atoms, atol=1e-4)
            np.testing.assert_allclose(each.attention[match], attention, atol=1e-5)


def test_fragments_have_the_sums_of_their_atoms(plain):
    for each in explain(plain, DRUGS, pairs=2):
        for found in each.fragments.values():
            members = sorted(atom for fragment in found for atom in fragment.atoms)
            assert members == [*range(Chem.MolFromSmiles(each.structure).GetNumAtoms())]
            for fragment in found:
                expected = each.targets["y"].atoms[[*fragment.atoms]].sum()
                assert fragment.contributions["y"] == pytest.approx(expected)


def test_top_fragments_are_means_over_all_occurrences(plain):
    """Rows of one molecule, in any spelling, are occurrences in one molecule."""
    twice = ["Cc1ccccc1", "c1ccccc1C"]
    found = explain(plain, ["c1ccccc1-c1ccccc1", *twice, "bad", "c1ccccc1"], pairs=2)
    values = [
        fragment.contributions["y"]
        for each in found
        for fragment in each.fragments.get("murcko", ())
        if fragment.smiles == "*c1ccccc1"
    ]
    summaries = top_fragments(found, "murcko", "y")
    (phenyl,) = [each for each in summaries if each.smiles == "*c1ccccc1"]
    assert (phenyl.count, phenyl.molecules) == (4, 2)
    assert phenyl.mean == pytest.approx(np.mean(values))
    assert phenyl.spread == pytest.approx(np.std(values))
    means = [each.mean for each in summaries]
    assert means == sorted(means, reverse=True)


def test_contributions_to_different_classes_are_summarised_apart(plain):
    (found,) = explain(plain, ["Cc1ccccc1"], pairs=2)
    summaries = []
    for name in ("red", "blue", "blue"):
        of = replace(found.targets["colour"], unit=f"log-odds of colour = {name}")
        value = 1.0 if name == "red" else -1.0
        parts = [
            replace(part, contributions={"colour": value}) for part in found.fragments["brics"]
        ]
        summaries.append(replace(found, targets={"colour": of}, fragments={"brics": parts}))
    top = top_fragments(summaries, "brics", "colour")
    assert {(each.unit, each.mean, each.spread, each.molecules) for each in top} == {
        ("log-odds of colour = red", 1.0, 0.0, 1),
        ("log-odds of colour = blue", -1.0, 0.0, 1),
    }


def test_rows_that_fail_have_their_reason(plain):
    large = "C" * 201
    found = explain(plain, ["CCO", "C1CC", large, "", "CCN"], pairs=2)
    errors = [each.error for each in found]
    assert errors[0] is None and errors[4] is None and len(found[4].targets) == 4
    assert "unclosed ring" in errors[1] and errors[3] == "empty SMILES"
    assert errors[2] == "201 atoms; molecules of at most 200 atoms are explained"
    assert all(not each.targets and each.attention is None for each in found[1:4])


def test_standardised_structures_are_explained_as_the_model_reads_them(plain):
    predictor = Predictor(replace(plain.model, standardize="parent"))
    (found,) = explain(predictor, ["[Na+].[O-]C(=O)C"], pairs=2)
    (row,) = predictor.predict(["[Na+].[O-]C(=O)C"])
    assert found.smiles == "[Na+].[O-]C(=O)C" and found.structure == "CC(=O)O"
    assert len(found.targets["y"].atoms) == 4
    assert found.targets["y"].value == pytest.approx(row.values["y"], rel=1e-4)


def test_worker_processes_give_the_same(plain, monkeypatch):
    monkeypatch.setattr(module, "_TASK", 2)
    alone = explain(plain, DRUGS, pairs=2)
    together = explain(Predictor(plain.model, processes=2), DRUGS, pairs=2)
    for one, other in zip(alone, together, strict=True):
        assert one.smiles == other.smiles
        np.testing.assert_allclose(
            one.targets["y"].atoms, other.targets["y"].atoms, rtol=1e-3, atol=1e-4
        )


def test_impossible_requests_are_refused(plain, whole):
    with pytest.raises(ConfigError, match="pairs must be 2 or more"):
        explain(plain, ["C"], pairs=1)
    with pytest.raises(ConfigError, match="reads the feature columns T, solvent"):
        explain(whole, ["C"])
    table = TableRows([pd.DataFrame({"smiles": ["C", "C1CC"]})], "smiles", "my.csv", "fail")
    with pytest.raises(DataError, match="my.csv, line 1: .*unclosed ring"):
        module.explain_rows(plain, table, pairs=2)


def test_a_featuriser_with_other_atoms_is_refused(plain, monkeypatch):
    """As one that returns a node for each hydrogen."""
    real = module.traced
    monkeypatch.setattr(module, "traced", lambda text: replace(real(text), places=np.arange(2)))
    with pytest.raises(ConfigError, match="'ogb' returned 3 atoms for the 2 atoms of CCO"):
        explain(plain, ["CCO"])


def nitrogen(mol: Chem.Mol) -> list[int]:
    return [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetAtomicNum() == 7]


def nitro(mol: Chem.Mol) -> list[int]:
    matches = mol.GetSubstructMatches(Chem.MolFromSmarts("[N+](=O)[O-]"))
    return [atom for match in matches for atom in match]


@pytest.mark.parametrize("truth", [nitrogen, nitro], ids=["nitrogen", "nitro"])
def test_the_right_atoms_are_found(truth):
    """Models that count nitrogen atoms and recognise nitro groups, on molecules of neither."""
    with open(Path(__file__).parents[3] / "data" / "demo.csv", encoding="utf-8") as file:
        every = [row["smiles"] for row in csv.DictReader(file)]
    atoms = {smiles: truth(Chem.MolFromSmiles(smiles)) for smiles in every}
    having = [smiles for smiles in every if atoms[smiles]][:140]
    training, unseen = having[:130], having[130:]
    training += [smiles for smiles in every if not atoms[smiles]][:130]
    number = len if truth is nitrogen else bool
    result = molsepnorm.fit(
        training,
        [float(number(atoms[smiles])) for smiles in training],
        targets=["label"],
        overrides={"run.epochs": 0},
    )
    labels, values = [], []
    for each in explain(result.model, unseen, pairs=4):
        of = each.targets["label"].atoms
        labels.append(np.isin(np.arange(len(of)), atoms[each.smiles]))
        values.append(of)
    assert roc_auc_score(np.concatenate(labels), np.concatenate(values)) >= 0.95
