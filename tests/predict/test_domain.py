"""Predictions with their most similar training molecule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import NetworkPart
from molsepnorm.model.training_molecules import TRAINING_FILE, TrainingMolecules
from molsepnorm.molecules.featurize.fingerprints import packed_morgan
from molsepnorm.predict import Predictor, TableRows, predict_rows
from molsepnorm.predict import uncertainty as module
from molsepnorm.predict.encode import EncodedRows
from molsepnorm.tasks import ExtraInputs, FeatureColumn, Target
from molsepnorm.tasks.domain import GRID, Domain
from support import similarities, tiny_model

KNOWN = ("CCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "CCCCCC")
TARGETS = (
    Target("y", "regression"),
    Target("z", "binary"),
    Target("k", "multiclass", classes=("low", "high", "none")),
)
LABELS = [[1.25, 0, 2], [np.nan, 1, 0], [-3, np.nan, np.nan], [7.5, 0, 1]]
DOMAIN = Domain(0.5, (tuple(2.0 - GRID), None, tuple(0.0 * GRID + 0.25)))
QUERIES = ["CCCO", "C1CC", "Oc1ccccc1", "CC(=O)Nc1ccccc1", "CCCCCCC", "FC1CC1"]


@pytest.fixture(scope="module")
def model() -> PropertyModel:
    molecules = TrainingMolecules(
        KNOWN, packed_morgan(KNOWN), np.array(LABELS), np.zeros((4, 3), np.int8)
    )
    return tiny_model(*TARGETS, domain=DOMAIN, structures=(molecules,))


def table(predictor, smiles, path, **options) -> pd.DataFrame:
    rows = TableRows([pd.DataFrame({"smiles": smiles})], "smiles", "x")
    predict_rows(predictor, rows, path, **options)
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def test_the_columns_are_those_of_the_nearest_training_molecule(model, tmp_path):
    """By RDKit, one pair after the other; the labels are those of the table. Each target has a
    nearest molecule with a label, because one target lacks labels of others."""
    found = table(Predictor(model, domain=True), QUERIES, tmp_path / "out.csv")
    added = ["similarity", "in_domain", "nearest_smiles"]
    of_target = ("expected_error", "nearest", "similarity", "nearest_smiles")
    added += [f"{name}_{column}" for name in "yzk" for column in of_target]
    assert [*found.columns][-16:] == [*added, "error"]
    for row, text in enumerate(QUERIES):
        cells = [found[name][row] for name in added]
        if text == "C1CC":
            assert cells == [""] * 15 and "unclosed ring" in found["error"][row]
            continue
        (each,) = similarities([text], KNOWN)
        if not each.any():  # it is like none of them
            expected = ["0", "no", "", "2", "", "0", "", "", "", "0", "", "0.25", "", "0", ""]
            assert cells == expected
            continue
        names = {"y": "{:g}".format, "z": "{:g}".format}
        names["k"] = lambda label: ("low", "high", "none")[int(label)]
        expected = [f"{each.max():.6g}", "yes" if each.max() >= 0.5 else "no", KNOWN[each.argmax()]]
        for own, name in zip(np.transpose(LABELS), "yzk", strict=True):
            best = int(np.where(np.isnan(own), -1, each).argmax())
            errors = {"y": f"{2 - each[best]:.6g}", "z": "", "k": "0.25"}
            near = KNOWN[best] if each[best] else ""
            label = names[name](own[best]) if each[best] else ""
            expected += [errors[name], label, f"{each[best]:.6g}", near]
        assert cells == expected
    assert {*found["in_domain"]} == {"yes", "no", ""}


def test_the_smallest_similarity_itself_is_inside(model):
    """The similarity of hexane and heptane, exactly."""
    (found,) = Predictor(model, domain=True).predict(["CCCCCCC"])
    lowest = found.domain["similarity"]
    for value, inside in ((lowest, True), (np.nextafter(lowest, 1), False)):
        other = replace(model, domain=replace(DOMAIN, lowest=value))
        (found,) = Predictor(other, domain=True).predict(["CCCCCCC"])
        assert found.domain["in_domain"] is inside


def test_labels_that_are_bounds_are_written_as_bounds(model):
    (molecules,) = model.structures
    bounds = np.zeros((4, 3), np.int8)
    bounds[0, 0], bounds[3, 0] = 1, -1
    other = replace(model, structures=(replace(molecules, bounds=bounds),))
    predictor = Predictor(other, domain=True)
    found = [each.domain["y_nearest"] for each in predictor.predict(KNOWN)]
    assert found == [">1.25", "-3", "-3", "<7.5"]
    assert predictor.columns["y_nearest"].kind == "O"


@pytest.mark.parametrize("columns", [(), (FeatureColumn("pH"),)])
def test_labels_are_those_of_all_rows_of_the_molecule(model, columns):
    """The first one, exact before a bound; none if several depend on feature columns."""
    smiles = ("CCO", "CCO", "CCO", "c1ccccc1O", "c1ccccc1O")
    nan = np.nan
    labels = [[nan, nan, 2], [1.0, 1, nan], [2.0, nan, nan], [5.0, 0, 1], [4.0, 0, 0]]
    bounds = np.zeros((5, 3), np.int8)
    bounds[3, 0] = 1
    molecules = TrainingMolecules(smiles, packed_morgan(smiles), np.array(labels), bounds)
    reader = model.with_parts([NetworkPart(model.network, ExtraInputs(columns))], (1.0,))
    nearest = np.repeat([[0], [3]], 4, axis=1)
    rows = EncodedRows([None] * 2, [], nearest, np.ones((2, 4)))
    found = module.domain_columns(reader, molecules, rows)
    assert found["y_nearest"].tolist() == ["" if columns else "1", "4"]
    assert found["z_nearest"].tolist() == [1, 0]
    assert found["k_nearest"].tolist() == ["none", "" if columns else "high"]


def test_a_number_outside_the_range_of_training_is_outside_the_domain(model):
    (molecules,) = model.structures
    outside = np.array([[False, False], [False, True], [False, False]])
    similarity, nearest = np.repeat([[0.9], [0.9], [0.1]], 4, axis=1), np.zeros((3, 4), int)
    rows = EncodedRows([None] * 3, [], nearest, similarity, outside)
    found = module.domain_columns(model, molecules, rows)
    assert found["in_domain"].tolist() == [True, False, False]


def test_a_training_molecule_is_its_own_nearest_one(model):
    """Not another one with the same fingerprint: an alkane of another length, an enantiomer."""
    smiles = [*("C" * n for n in range(8, 40)), "C[C@H](N)c1ccccc1", "C[C@@H](N)c1ccccc1"]
    known = tuple(smiles)
    labels = np.column_stack([np.arange(len(known)), np.full((len(known), 2), np.nan)])
    molecules = TrainingMolecules(
        known, packed_morgan(known), labels.astype(float), np.zeros(labels.shape, np.int8)
    )
    predictor = Predictor(replace(model, structures=(molecules,)), domain=True)
    queries = ["C(CCCC)" + "C" * 15, "N[C@H](C)c1ccccc1", "NC(C)c1ccccc1"]
    found = [each.domain["nearest_smiles"] for each in predictor.predict(queries)]
    assert found[:2] == ["C" * 20, "C[C@@H](N)c1ccccc1"]
    assert found[2] == "C[C@H](N)c1ccccc1"  # the first of those with its fingerprint


def test_the_file_is_read_only_if_it_is_wanted(model, tmp_path):
    model.save_pretrained(tmp_path)
    path = tmp_path / TRAINING_FILE
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    Predictor.from_pretrained(tmp_path).predict(["CCO"])
    with pytest.raises(ModelError, match="does not match its digest"):
        Predictor.from_pretrained(tmp_path, domain=True)
    path.unlink()
    with pytest.raises(ConfigError, match=r"\(--no-training-structures\) or shared"):
        Predictor.from_pretrained(tmp_path, domain=True)
