"""Runs on transformed labels, bounds and duplicates: the files, scores and predictions."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn import metrics as sk

from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import DataError
from molsepnorm.predict import Predictor
from molsepnorm.training import evaluate, train
from runs import on_columns, rows_of, split_rows, write_rows

ONE = {"run.epochs": 1, "data.split": [0.5, 0.25, 0.25]}
SETTINGS = {
    **ONE,
    "data.targets": ["ic50_nM"],
    "data.transform": {"ic50_nM": "pic50"},
    "data.duplicates": "mean",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on 30 molecules, each measured twice, every fifth a bound."""
    folder = tmp_path_factory.mktemp("assay")
    config = on_columns(folder, {"ic50_nM": [1]}, SETTINGS)
    smiles = [row["smiles"] for row in rows_of(config.data.table)]
    cells = [f"{10 ** (i / 7):.5g}" for i in range(30)]
    twice = [*cells, *(f"{2 * float(cell):.5g}" for cell in cells)]
    twice = [f">{cell}" if i % 5 == 0 else cell for i, cell in enumerate(twice)]
    write_rows(config.data.table, ["smiles", "ic50_nM"], *zip(smiles * 2, twice, strict=True))
    return config, train(config, folder / "run")


def test_the_test_predictions_have_both_scales(run):
    """A label is the geometric mean of the measurements; a bound is turned by pic50."""
    config, result = run
    source = rows_of(config.data.table)
    predictions = rows_of(result.folder / "predictions_test.csv")
    assert list(predictions[0])[2:6] == [
        *("ic50_nM", "ic50_nM_pic50", "ic50_nM_pred", "ic50_nM_pic50_pred")
    ]
    bounds = 0
    for row in predictions:
        one, two = (source[int(row["line"]) - 2 + more]["ic50_nM"] for more in (0, 30))
        if one[0] == ">":  # both are bounds, and the second one is tighter
            bounds += 1
            assert row["ic50_nM"][0] == ">"
            assert row["ic50_nM_pic50"][0] == "<"
            expected = float(two[1:])
        else:
            expected = math.sqrt(float(one) * float(two))
        assert float(row["ic50_nM"].lstrip(">")) == pytest.approx(expected, rel=1e-5)
        learned = float(row["ic50_nM_pic50"].lstrip("<"))
        assert learned == pytest.approx(9 - math.log10(expected), rel=1e-5)
        predicted = float(row["ic50_nM_pic50_pred"])
        assert float(row["ic50_nM_pred"]) == pytest.approx(10 ** (9 - predicted), rel=1e-4)
    assert bounds > 0


def test_the_scores_are_those_of_exact_labels_on_the_learned_scale(run):
    """With scikit-learn, from the file; metrics.json says how the labels were made."""
    _, result = run
    rows = rows_of(result.folder / "predictions_test.csv")
    exact = [row for row in rows if row["ic50_nM"][0] != ">"]
    truth, predicted = (
        [float(row[name]) for row in exact] for name in ("ic50_nM_pic50", "ic50_nM_pic50_pred")
    )
    metrics = json.loads((result.folder / "metrics.json").read_text())
    assert metrics["test"]["mae"] == pytest.approx(sk.mean_absolute_error(truth, predicted), 1e-4)
    about = metrics["labels"]["ic50_nM"]
    assert about["scale"] == "pic50 = 9 - log10(value in nM)"
    assert about["bounds"]["test"] == len(rows) - len(exact)
    assert sum(about["bounds"].values()) == 6
    # of each of the 24 others, one label is twice the other
    assert about["repeats"]["molecules"] == 24
    assert about["repeats"]["sd"] == pytest.approx(math.log10(2) / math.sqrt(2), rel=1e-4)


def test_no_row_is_lost(run):
    _, result = run
    assert sorted(row for part in split_rows(result.folder).values() for row in part) == list(
        range(60)
    )
    rejected = rows_of(result.folder / "rejected.csv")
    assert [int(row["line"]) for row in rejected] == list(range(32, 62))
    assert all("the same molecule as" in row["reason"] for row in rejected)
    assert result.metrics["molecules_in_several_splits"] == 0


def test_another_table_is_scored_on_the_learned_scale(run, tmp_path):
    """A bound in it does not count, whatever its number."""
    _, result = run
    (prediction,) = Predictor.from_pretrained(result.folder).predict(["CCO"])
    found = []
    for bound in (">1", ">1e9"):
        new = tmp_path / "new.csv"
        new.write_text(f"smiles,ic50_nM\nCCO,10\nCCN,{bound}\n")
        found.append(evaluate(result.folder, DataConfig(table=new)))
    assert found[0].scores == pytest.approx(found[1].scores, nan_ok=True)
    assert found[0].scores["mae"] == pytest.approx(
        abs(prediction.values["ic50_nM_pic50"] - 8), rel=1e-4
    )
    assert found[0].labels["ic50_nM"]["bounds"] == {"all": 1}
    new.write_text("smiles,ic50_nM\nCCO,>10\n")
    assert np.isnan(evaluate(result.folder, DataConfig(table=new)).scores["mae"])
    new.write_text("smiles,ic50_nM\nCCO,0\n")
    with pytest.raises(DataError, match=r"new.csv, line 2, column 'ic50_nM': '0' has no logarithm"):
        evaluate(result.folder, DataConfig(table=new))


def test_a_satisfied_bound_teaches_nothing_and_another_one_does(with_columns, tmp_path):
    """Bounds far on the right side do not change the weights; on the wrong side they do."""
    cells = [f"{0.1 * i:.2f}" for i in range(22)]
    weights = []
    for bound in ("<50", "<90", ">50"):
        settings = {**ONE, "data.targets": ["y"], "name": f"{len(weights)}.csv", "run.threads": 1}
        config = with_columns({"y": [*[bound] * 8, *cells]}, settings)
        train(config, tmp_path / str(len(weights)))
        (tensors,) = (tmp_path / str(len(weights))).glob("model/model.safetensors")
        weights.append(tensors.read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]
