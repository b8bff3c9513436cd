"""Standard errors weigh the labels in every part of a model, and change nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm import fit
from molsepnorm.data import datasets
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.model import encoding_of
from molsepnorm.training import train
from molsepnorm.training.completing import baseline
from molsepnorm.training.inputs import fit_inputs
from molsepnorm.training.preparing import with_unexplained
from molsepnorm.training.recipes import architecture
from runs import outcome, require_exact_resume, rows_of, split_rows

Y, Z = [0.5, 2, -1.5, 3, 1, 2.5, 0.2], [4, 1, 2, 5, 3]
SE = [0.1, 0.8, "", 0.4, 0, 0.2]
ONE = {"data.targets": ["y"]}
WITH = {**ONE, "data.error_column": "se"}


def read(config):
    """The data set of a configuration, with the weights of its labels."""
    dataset = datasets.load(config.data, encoding_of(architecture(config)))
    return with_unexplained(dataset, fit_inputs(config, dataset), lambda *_: None)


def test_equal_errors_change_nothing(with_columns, tmp_path, baselines):
    """The run equals one without errors, bit by bit, in all parts."""
    columns = {"y": Y, "se": [0.3]}
    settings = {"run.epochs": 2, "run.refit": True}
    train(with_columns(columns, {**ONE, **settings}), tmp_path / "without")
    train(with_columns(columns, {**WITH, **settings}), tmp_path / "equal")
    without, equal = (outcome(tmp_path / name) for name in ("without", "equal"))
    assert equal["metrics"].pop("label_errors")
    assert equal == without


def test_each_label_has_the_weight_of_its_error(with_columns):
    """That of the row times 1 / (σ² + τ²), with the mean 1 over the training labels of a target;
    an empty cell is the median. Targets without errors have the weights of the rows."""
    settings = {"data.targets": ["y", "z"], "data.error_column": {"y": "se"}}
    columns = {"y": [*Y, ""], "z": Z, "se": SE, "w": [1, 2, 0.5]}
    plain = read(with_columns(columns, settings))
    weighted = read(with_columns(columns, {**settings, "data.weight_column": "w"}))
    rows = np.arange(30)
    errors = np.array([0.2 if se == "" else se for se in SE])[rows % len(SE)]
    precisions = 1 / (errors**2 + plain.unexplained["y"] ** 2)
    known = [row for row in plain.splits["train"] if np.isfinite(plain.labels[row, 0])]
    expected = precisions / precisions[known].mean()
    np.testing.assert_allclose(plain.label_weights[:, 0], expected, rtol=1e-5)
    assert (plain.label_weights[:, 1] == 1).all()
    of_rows = np.array([1, 2, 0.5])[rows % 3, None]
    np.testing.assert_allclose(weighted.label_weights, plain.label_weights * of_rows, rtol=1e-5)
    assert list(plain.unexplained) == ["y"]


def test_a_run_equals_one_with_these_weights_of_rows(
    with_columns, trained, tmp_path, baselines, monkeypatch
):
    """Bit by bit, in network, kernel regression and forest."""
    monkeypatch.setattr(baseline, "_errors", lambda *_: np.zeros(1))  # so each part has a share
    monkeypatch.setattr(baseline, "_OF_FOREST", (10**9, 0.5))
    start = trained({"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"}).folder
    settings = {"finetune.start": str(start), "run.epochs": 2}
    columns = {"y": Y, "se": SE}
    config = with_columns(columns, {**WITH, **settings})
    model = train(config, tmp_path / "errors").model
    assert {part.kind for part in model.parts} == {"network", "kernel regression", "random forest"}
    columns["w"] = [repr(float(weight)) for weight in read(config).label_weights[:, 0]]
    train(
        with_columns(columns, {**ONE, **settings, "data.weight_column": "w"}), tmp_path / "weights"
    )
    errors, weights = (outcome(tmp_path / name) for name in ("errors", "weights"))
    assert errors["metrics"].pop("label_errors")
    assert errors == weights


def test_scores_beside_the_errors(with_columns, tmp_path):
    """They equal those that numpy computes from the written test predictions."""
    settings = {"data.targets": ["y", "z"], "data.error_column": {"z": "se"}}
    config = with_columns({"y": Y, "z": Z, "se": [0.3, 0.9, 0.1]}, settings)
    metrics = train(config, tmp_path / "run").metrics
    ((name, found),) = metrics["label_errors"].items()
    rows = np.array(split_rows(tmp_path / "run")["test"])
    predicted = [float(row["z_pred"]) for row in rows_of(tmp_path / "run" / "predictions_test.csv")]
    labels, errors = np.resize(Z, 30)[rows], np.resize([0.3, 0.9, 0.1], 30)[rows]
    misses = np.abs(np.array(predicted) - labels)
    assert name == "z" and found["unexplained"] > 0
    assert found["inside"] == pytest.approx((misses <= 1.96 * errors).mean())
    assert found["mae_beyond"] == pytest.approx(np.maximum(misses - 1.96 * errors, 0).mean(), 1e-5)
    assert found["best_r2"] == pytest.approx(1 - (errors**2).mean() / labels.var(), rel=1e-5)


def test_a_run_with_errors_is_resumed_and_joined(with_columns, tmp_path):
    """Exactly, and an ensemble has the same unexplained part as its members."""
    config = with_columns({"y": Y, "se": SE}, WITH)
    whole = train(config, tmp_path / "whole").metrics["label_errors"]["y"]
    require_exact_resume(config, tmp_path / "whole", tmp_path / "parts", 4)
    both = train(config.changed({"run.ensemble": 2, "run.epochs": 1}), tmp_path / "both").metrics
    assert both["label_errors"]["y"]["unexplained"] == whole["unexplained"]


def test_merged_labels_have_merged_errors(with_columns):
    """By the weights of the rows; without an exact label the error stays."""
    rows = {"y": [1.0, 2.0], "se": [0.1, 0.4], "w": [1, 3]}
    settings = {**WITH, "data.duplicates": "mean", "data.weight_column": "w"}
    config = with_columns(rows, settings)
    with open(config.data.table, "a") as file:
        file.write("CO,3.0,0.2,2\nCO,,0.7,1\nCO,>9,0.7,1\n")
    dataset = read(config)
    assert dataset.labels[0, 0] == pytest.approx((1.0 + 2 * 3.0) / 3)
    assert dataset.errors[0, 0] == pytest.approx(np.hypot(0.1, 2 * 0.2) / 3)
    assert dataset.errors[1, 0] == np.float32(0.4)


def test_errors_have_the_unit_of_their_label(with_columns):
    """Micromoles and nanomoles, under pic50."""
    columns = {"ic50_nM": [2.0, 500.0], "se": [0.4, 50.0], "unit": ["uM", "nM"]}
    settings = {"data.targets": ["ic50_nM"], "data.transform": {"ic50_nM": "pic50"}}
    settings |= {"data.error_column": "se", "data.unit_column": "unit"}
    dataset = datasets.load(
        (config := with_columns(columns, settings)).data, encoding_of(architecture(config))
    )
    np.testing.assert_allclose(dataset.errors[:2, 0], np.array([0.2, 0.1]) / np.log(10), rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"data.error_column": {"y": "bad"}}, DataError, "line 3, column 'bad': '-1'"),
        ({"data.error_column": {"y": "empty"}}, DataError, "column 'empty': no label"),
        ({"data.error_column": {"y": "large"}}, DataError, "column 'large': the median error"),
        ({"data.error_column": {"yes": "se"}}, ConfigError, "'yes' is binary"),
        ({"data.error_column": {"y": "z"}}, ConfigError, "cannot be a target"),
    ],
)
def test_errors_that_cannot_be_used(with_columns, settings, error, message):
    columns = {"y": Y, "z": Z, "yes": [0, 1], "se": [0.1], "bad": [0.1, -1]}
    columns |= {"empty": [""], "large": [12.0]}
    config = with_columns(columns, {"data.targets": ["y", "z", "yes"], **settings})
    with pytest.raises(error, match=message):
        datasets.load(config.data, encoding_of(architecture(config)))


def test_errors_of_labels_in_memory(with_columns, tmp_path):
    """A model of lists equals that of a table."""
    errors = [0.2 if se == "" else se for se in SE]
    config = with_columns({"y": Y, "se": errors}, WITH)
    table = train(config, tmp_path / "run").model
    smiles = [row["smiles"] for row in rows_of(config.data.table)]
    content = config.resolved().content()
    settings = {
        f"{section}.{name}": value
        for section in ("model", "optim", "run", "finetune")
        for name, value in content[section].items()
    }
    settings["data.featurizer"] = config.data.featurizer
    given = {"y": np.resize(Y, 30), "errors": np.resize(errors, 30)}
    memory = fit(smiles, **given, targets=["y"], overrides=settings).model
    for one, other in zip(table.network.parameters(), memory.network.parameters(), strict=True):
        assert (one == other).all()
    with pytest.raises(ConfigError, match="errors has 3 rows"):
        fit(smiles, given["y"], errors=[1, 2, 3])
