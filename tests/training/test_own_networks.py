"""Networks of single targets beside the common network."""

from __future__ import annotations

import json

import numpy as np
import pytest

from molsepnorm.model import Inputs, PropertyModel
from molsepnorm.model.parts import KernelPart, NetworkPart
from molsepnorm.predict import Predictor
from molsepnorm.training import load_config, train
from molsepnorm.training.completing import baseline
from molsepnorm.training.completing import networks as module
from molsepnorm.training.evaluation import select
from runs import require_exact_resume, rows_of
from support import Recorder

TABLE = {
    "y": [1.0, 2.5, "", 3.1, 4.0, 2.2, 0.2],
    "z": [3.0, "", 1.0, 0.5, 2.0, 4.0, 1.5, 0.1],
    "split": ["train", "test", "train", "val", "train"],
}


@pytest.fixture(autouse=True)
def few(monkeypatch, settings, scripted):
    """Targets of a few labels have networks, and no part counts as bad. The last epoch is best."""
    scripted("rmse", [0.0] * 2)
    monkeypatch.setattr(module, "_LABELS", 10)
    monkeypatch.setattr(module, "OF_OWN_NETWORK", (2, 0.5))
    monkeypatch.setattr(baseline, "_errors", lambda task, *_: np.zeros(len(task.targets)))


@pytest.fixture(scope="module")
def settings(other_target):
    """Settings of a run that starts from a model of another target."""
    return {
        "data.targets": ["y", "z"],
        "data.splits_column": "split",
        "finetune.start": str(other_target),
        "run.metric": "rmse",
        "run.epochs": 2,
        "run.refit": True,
    }


def networks(model: PropertyModel) -> list[np.ndarray]:
    """The weights in the model of each of its networks, (P, T)."""
    pairs = zip(model.parts, model.weights, strict=True)
    return [weights for part, weights in pairs if isinstance(part, NetworkPart)]


@pytest.mark.usefixtures("baselines")
def test_each_target_is_the_mean_with_its_own_network(with_columns, settings, tmp_path):
    """The shares are in metrics.json, as are the scores of the model without own networks."""
    result = train(with_columns(TABLE, settings), tmp_path / "run")
    metrics, model = result.metrics, PropertyModel.from_pretrained(tmp_path / "run")
    kinds = [part.kind for part in model.parts]
    assert kinds == ["network", "kernel regression", "network", "network", "random forest"]
    own = [metrics["own_networks"][name]["share"] for name in ("y", "z")]
    shares = [metrics["shares"][name] for name in ("y", "z")]
    for target, (share, of_target) in enumerate(zip(own, shares, strict=True)):
        assert 0 < share < 1
        weights = model.weights[:, target]
        assert weights[3 - target] == 0
        assert weights[2 + target] == pytest.approx(share * of_target["network"])
        assert weights[0] == pytest.approx((1 - share) * of_target["network"])
    config = load_config(config=tmp_path / "run" / "config.yaml")
    model, dataset, extra, _, rows, _ = select(model, config.data, "all")
    inputs = Inputs.of(dataset.store, extra)
    each = [values_of(model, place, inputs, rows) for place in range(len(model.parts))]
    mixture = sum(w * values for w, values in zip(model.weights, each, strict=True))
    smiles = [dataset.smiles[row] for row in dataset.store.rows[rows]]
    found = [list(each.values.values()) for each in Predictor(model).predict(smiles)]
    np.testing.assert_allclose(found, mixture, rtol=1e-4, atol=1e-5)
    by_text = dict(zip(smiles, mixture, strict=True))
    written = rows_of(tmp_path / "run" / "predictions_test.csv")
    for row in written:
        expected = by_text[row["smiles"]]
        assert [float(row["y_pred"]), float(row["z_pred"])] == pytest.approx(expected, abs=1e-3)
    gap = metrics["own_difference"]["mae/y"]["difference"]
    assert gap == pytest.approx(metrics["test"]["mae/y"] - metrics["test_without_own"]["mae/y"])
    plain = with_columns(TABLE, {**settings, "run.own_networks": False})
    without = train(plain, tmp_path / "plain").metrics
    assert "own_networks" not in without
    for name, score in without["test"].items():
        assert metrics["test_without_own"][name] == pytest.approx(score, rel=1e-4), name


def values_of(model, place, inputs, rows):
    return model.with_parts([model.parts[place]], [1.0]).predict(inputs, rows).values


def test_an_own_network_is_that_of_a_run_of_its_target(with_columns, settings, tmp_path):
    """It has seen no label and no molecule of the others, in the second fit, too. Labels of y have
    errors."""
    settings, table = {**settings, "model.dropout": 0.0}, {**TABLE, "se": [0.3, 0.9, 0.1]}
    errors = {"data.error_column": {"y": "se"}}
    config = with_columns(table, {**settings, **errors})
    both = train(config, tmp_path / "both").model
    model, dataset, extra, _, rows, _ = select(both, config.data, "all")
    inputs = Inputs.of(dataset.store, extra)
    for place, name in ((2, "y"), (3, "z")):
        of_target = {"data.targets": [name], **(errors if name == "y" else {})}
        alone = with_columns(table, {**settings, **of_target})
        one = train(alone, tmp_path / name).model
        own = values_of(model, place, inputs, rows)[:, place - 2]
        expected = values_of(one, 0, inputs, rows)[:, 0]
        np.testing.assert_allclose(own, expected, rtol=1e-3, atol=1e-3)
        common = values_of(model, 0, inputs, rows)[:, place - 2]
        assert np.abs(common - expected).max() > 0.01


def test_the_members_of_an_ensemble_have_own_networks(with_columns, settings, tmp_path):
    config = with_columns(TABLE, {**settings, "run.ensemble": 2})
    result = train(config, tmp_path / "run")
    weights = np.stack(networks(PropertyModel.from_pretrained(tmp_path / "run")))
    assert (weights[[1, 4], 1] == 0).all() and (weights[[2, 5], 0] == 0).all()
    assert (weights[[0, 1, 3, 4], 0] > 0).all() and result.metrics["refit"][0] == "network"
    assert result.metrics["own_difference"].keys() >= {"mae/y", "mae/z"}
    members = (tmp_path / "run" / "members").glob("*/metrics.json")
    shares = [json.loads(path.read_text())["own_networks"]["y"]["share"] for path in members]
    assert result.metrics["own_networks"]["y"]["share"] == pytest.approx(np.mean(shares))


def test_a_stopped_own_network_is_trained_when_the_run_is_resumed(with_columns, settings, tmp_path):
    config = with_columns(TABLE, settings)
    train(config, tmp_path / "whole")
    steps = 2 * len(TABLE["split"]) - 1
    require_exact_resume(config, tmp_path / "whole", tmp_path / "parts", steps)


@pytest.mark.parametrize(
    ("changes", "many"),
    [
        ({"run.own_networks": False}, 8),
        ({}, 1),
        ({"run.own_networks": True, "data.targets": ["y"]}, 8),
        ({"run.own_networks": True, "finetune.start": "none"}, 8),
    ],
)
def test_some_runs_have_no_own_networks(
    with_columns, settings, tmp_path, monkeypatch, changes, many
):
    """There is a warning if own networks are set."""
    monkeypatch.setattr(module, "_MOST", many)
    seen = Recorder()
    config = with_columns(TABLE, {**settings, **changes})
    model = train(config, tmp_path / "run", callback=seen).model
    assert len(networks(model)) == 1
    assert sum(isinstance(part, KernelPart) for part in model.parts) == ("none" not in str(changes))
    warned = any("network of its own" in warning for warning in seen.warnings)
    assert warned == changes.get("run.own_networks", False)
