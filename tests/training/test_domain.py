"""A trained model knows which molecules are like its training molecules."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel, join
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.predict import Predictor
from molsepnorm.training import train, train_on
from molsepnorm.training.completing import complete as module
from molsepnorm.training.recipes import load_dataset
from runs import rows_in, rows_of, write_rows
from support import similarities

SETTINGS = {"data.targets": ["y", "active"], "data.split": [0.4, 0.4, 0.2], "run.epochs": 1}


@pytest.fixture
def run(trained):
    return trained(SETTINGS).folder


def test_the_model_folder_holds_the_training_molecules(run):
    """With their labels, in the order of the split."""
    model = PropertyModel.from_pretrained(run)
    molecules, rows = model.training_molecules(), rows_in(run, "train")
    by_smiles = {row["smiles"]: row for row in rows}
    assert sorted(molecules.smiles) == sorted(by_smiles) and len(rows) == len(molecules)
    for text, labels in zip(molecules.smiles, molecules.labels, strict=True):
        expected = [float(by_smiles[text][name] or "nan") for name in ("y", "active")]
        np.testing.assert_array_equal(labels, expected)
    assert not molecules.bounds.any()
    found = Predictor(model, domain=True).predict([row["smiles"] for row in rows])
    assert {each.domain["similarity"] for each in found} == {1.0}


def test_the_entry_of_the_metrics_is_that_of_plain_code(run):
    """The errors by similarity, from the files of the run, and the expected ones."""
    metrics = json.loads((run / "metrics.json").read_text())["domain"]
    train_smiles = [row["smiles"] for row in rows_in(run, "train")]
    scale = None
    for split in ("val", "test"):
        rows = rows_of(run / f"predictions_{split}.csv")
        errors = np.full((len(rows), 2), np.nan)
        for own, row in zip(errors, rows, strict=True):
            if row["y"]:
                own[0] = abs(float(row["y"]) - float(row["y_pred"]))
            if row["active"]:
                own[1] = (float(row["active_pred"]) >= 0.5) != float(row["active"])
        similarity = similarities([row["smiles"] for row in rows], train_smiles).max(axis=1)
        if scale is None:
            scale = np.nanmean(errors, axis=0)
            assert metrics["lowest"] == pytest.approx(similarity.min())
            assert metrics["expected"]["y"] == sorted(metrics["expected"]["y"], reverse=True)
            assert metrics["expected"]["y"][0] == pytest.approx(scale[0], rel=1e-4)  # one bin
        errors = np.nanmean(errors / np.where(scale > 0, scale, 1), axis=1)
        total = 0
        for each in metrics["bins"][split]:
            assert each["high"] == pytest.approx(each["low"] + 0.1)
            inside = (similarity >= each["low"] - 1e-9) & (similarity < each["high"] - 1e-9)
            inside |= (similarity == 1) & (each["high"] == 1)
            assert each["molecules"] == inside.sum() > 0
            assert each["error"] == pytest.approx(errors[inside].mean(), rel=1e-4)
            total += each["molecules"]
        assert total == len(rows)
    model = PropertyModel.from_pretrained(run)
    assert model.domain.lowest == metrics["lowest"]
    assert list(model.domain.errors[0]) == metrics["expected"]["y"]


def test_a_model_can_leave_its_training_molecules_out(configure, tmp_path):
    """It has the expected errors, and none of the structures, in any file of its folder."""
    train(configure({**SETTINGS, "run.training_structures": False}), tmp_path / "run")
    folder = tmp_path / "run" / "model"
    assert not (folder / TRAINING_FILE).exists()
    model = PropertyModel.from_pretrained(folder)
    assert model.domain is not None
    with pytest.raises(ConfigError, match="left out when it was trained"):
        Predictor(model, domain=True)
    smiles = [row["smiles"] for row in rows_of(tmp_path / "run" / "predictions_train.csv")]
    content = b"".join(path.read_bytes() for path in folder.iterdir() if path.suffix != ".md")
    assert not [text for text in smiles if len(text) > 4 and text.encode() in content]
    card = (folder / "README.md").read_text()
    assert f"{TRAINING_FILE} is not included" in card


def test_written_smiles_are_kept_and_standardised_ones_compared(with_columns, tmp_path):
    settings = {"data.standardize": "salts", "data.smiles_column": "smiles", "run.epochs": 1}
    config = with_columns(
        {"y": [1.0, 2.0, 3.0, 5.0]},
        {**settings, "data.split": [0.6, 0.2, 0.2], "data.split_seed": 2},
    )
    path = tmp_path / "columns.csv"
    path.write_text(path.read_text().replace("\nCCCCC(=O)O,", "\n[Na+].CCCCC(=O)[O-],"))
    train(config, tmp_path / "run")
    predictor = Predictor.from_pretrained(tmp_path / "run", domain=True)
    molecules = predictor.model.training_molecules()
    assert "[Na+].CCCCC(=O)[O-]" in molecules.smiles
    (found,) = predictor.predict(["[K+].CCCCC(=O)[O-]"])
    assert found.domain["nearest_smiles"] == "[Na+].CCCCC(=O)[O-]"
    assert found.domain["similarity"] == 1.0


def test_joined_models_have_the_molecules_of_all_and_the_mean_error(trained):
    models = [trained({**SETTINGS, "data.split_seed": seed}).model for seed in (1, 2)]
    both = join(models)
    similarity = np.array([[0.3, 0.5], [0.9, 0.1]])
    expected = [each.domain.expected(similarity) for each in models]
    np.testing.assert_allclose(both.domain.expected(similarity), np.mean(expected, axis=0))
    assert {*both.training_molecules().smiles} == {
        text for each in models for text in each.training_molecules().smiles
    }
    assert join([replace(models[0], domain=None), models[1]]).domain is None


@pytest.fixture
def measured_twice(with_columns, tmp_path):
    """A run on a table with 16 molecules, each measured at two temperatures, split by molecule."""
    settings = {"data.targets": ["y"], "data.feature_columns": ["T"], "run.epochs": 1}
    config = with_columns(
        {"T": [1, 2]}, {**settings, "data.splits_column": "part", "name": "t.csv"}
    )
    smiles = [f"{'C' * length}{end}" for length in range(1, 9) for end in ("O", "N")]
    parts = ["train"] * 8 + ["val"] * 4 + ["test"] * 4
    rows = (
        [text, kelvin, number + kelvin / 100, part]
        for number, (text, part) in enumerate(zip(smiles, parts, strict=True))
        for kelvin in (280, 320)
    )
    write_rows(tmp_path / "t.csv", ["smiles", "T", "y", "part"], *rows)
    return train(config, tmp_path / "run")


def test_rows_of_one_molecule_count_as_one(measured_twice):
    """The four validation molecules with eight rows are too few for an expected error."""
    metrics = measured_twice.metrics
    domain = metrics["domain"]
    assert domain["expected"] == {"y": None}
    assert sum(each["molecules"] for each in domain["bins"]["test"]) == 4
    assert metrics["molecules"] == {"train": 8, "val": 4, "test": 4}
    assert metrics["calibration"]["y"]["molecules"] == 4
    assert len(measured_twice.model.calibration[0].scores) == 4


def test_a_model_without_smiles_or_targets_has_no_domain(configure, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_TRAIN", 3)
    result = train(configure(SETTINGS), tmp_path / "run")
    assert "domain" not in result.metrics and result.model.domain is None
    with pytest.raises(ConfigError, match="or its run is not finished"):
        Predictor(result.model, domain=True)


def test_the_domain_does_not_depend_on_the_test_molecules(configure, monkeypatch):
    """A sample of the test molecules leaves those of the other splits as they are."""
    monkeypatch.setattr(module, "_MAX_COMPARED", 5)
    config = configure(SETTINGS)
    dataset = load_dataset(config)
    untested = replace(dataset, splits={**dataset.splits, "test": np.empty(0, np.int64)})
    domains = [train_on(config, each).model.domain for each in (dataset, untested)]
    assert domains[0].errors == (None, None) and domains[0] == domains[1]
