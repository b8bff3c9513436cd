"""Models learn from the validation molecules how large their errors are."""

import json

import numpy as np
import pytest

from molsepnorm.model import PropertyModel
from molsepnorm.predict import Predictor
from molsepnorm.tasks.calibration import ClassSets, Intervals
from molsepnorm.training import train
from runs import rows_in

BOTH = {"data.targets": ["y", "active"], "data.split": [0.5, 0.3, 0.2], "run.epochs": 1}


@pytest.fixture
def run(trained):
    return trained(BOTH).folder


def test_the_scores_are_the_errors_of_the_validation_molecules(run):
    model = PropertyModel.from_pretrained(run)
    numbers, classes = model.calibration
    assert isinstance(numbers, Intervals) and isinstance(classes, ClassSets)
    rows = rows_in(run, "val")
    predicted = Predictor(model).predict([row["smiles"] for row in rows])
    errors = [
        abs(each.values["y"] - float(row["y"]))
        for row, each in zip(rows, predicted, strict=True)
        if row["y"]
    ]
    assert numbers.signal is None  # too few molecules to choose one
    np.testing.assert_allclose(
        np.array(numbers.scores) * np.exp(numbers.intercept), sorted(errors), rtol=1e-4
    )
    labelled = [row["active"] for row in rows if row["active"]]
    assert [len(each) for each in classes.scores] == [labelled.count("0"), labelled.count("1")]


def test_the_coverage_on_the_test_molecules_is_in_the_metrics(run):
    """At level 0.9, which nine validation molecules allow."""
    entry = json.loads((run / "metrics.json").read_text())["calibration"]
    assert {*entry} == {"y", "active"}
    rows = rows_in(run, "test")
    assert entry["y"]["test_molecules"] == sum(bool(row["y"]) for row in rows)
    count = entry["y"]["molecules"]
    assert count == len(PropertyModel.from_pretrained(run).calibration[0].scores) == 9
    found = Predictor.from_pretrained(run, level=0.9).predict([row["smiles"] for row in rows])
    inside = [
        each.uncertainty["y_low"] <= float(row["y"]) <= each.uncertainty["y_high"]
        for row, each in zip(rows, found, strict=True)
        if row["y"]
    ]
    assert entry["y"]["coverage"] == pytest.approx(np.mean(inside))


def test_an_interval_of_a_transformed_target_is_given_on_both_scales(with_columns, tmp_path):
    values = [10.0**power for power in range(1, 6)]
    settings = {"data.transform": {"ic50_nM": "pic50"}, "data.split": [0.5, 0.3, 0.2]}
    config = with_columns({"ic50_nM": values}, {**settings, "run.epochs": 1})
    train(config, tmp_path / "run")
    (found,) = Predictor.from_pretrained(tmp_path / "run", level=0.5).predict(["CCO"])
    sure = found.uncertainty
    assert sure["ic50_nM_low"] < found.values["ic50_nM"] < sure["ic50_nM_high"]
    assert sure["ic50_nM_low"] == pytest.approx(10 ** (9 - sure["ic50_nM_pic50_high"]), rel=1e-5)
    assert sure["ic50_nM_pic50_std"] > 0 and "ic50_nM_std" not in sure
