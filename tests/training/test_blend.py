"""Blends: a random forest and networks as one model."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.forest.forest import Forest
from molsepnorm.model import SCHEMA, PropertyModel
from molsepnorm.molecules.featurize.descriptors import FAST_DESCRIPTORS, structure_inputs
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.tasks import NO_INPUTS, Loss, Target, Task
from molsepnorm.training import Callback, evaluate, join, load_config, train
from molsepnorm.training.baseline import forest_inputs
from molsepnorm.training.folder import RunFolder

SETTINGS = {"run.epochs": 1, "run.blend": "forest"}


@pytest.fixture(autouse=True)
def small(monkeypatch, baselines):
    """Forests of a few trees."""
    from molsepnorm.training import baseline

    monkeypatch.setattr(baseline, "TREES", 12)


def of(table, settings=None):
    """Labels that the structure determines, and two kinds of targets."""
    return table({"y": [1.0, 2.5, 0.2, 3.1, 4.0, 2.2], "active": [0, 1, 0, 1, 1]}, settings or {})


def predicted(model: PropertyModel, smiles: list[str]) -> np.ndarray:
    return np.array([list(each.values.values()) for each in Predictor(model).predict(smiles)])


def test_a_blend_is_the_mean_with_the_smallest_validation_loss(with_columns, tmp_path, rows_of):
    """Its predictions, its scores, and those of both parts in metrics.json."""
    config = of(with_columns, {**SETTINGS, "data.targets": ["y", "active"]})
    metrics = train(config, tmp_path / "run").metrics
    share = metrics["blend"]["forest_share"]
    assert 0 < share <= 1
    model = PropertyModel.from_pretrained(tmp_path / "run")
    assert model.forest_share == share and len(model.forests) == 1
    alone = PropertyModel(model.network, model.featurizer, model.task)
    table = load_config(config=tmp_path / "run" / "config.yaml").data
    losses = {}
    for split in ("val", "test"):
        dataset = evaluate(tmp_path / "run", table, split).dataset
        smiles = [dataset.smiles[row] for row in dataset.store.rows[dataset.splits[split]]]
        own = predicted(alone, smiles)
        forest = model.forests[0].predict(structure_inputs(smiles, True, FAST_DESCRIPTORS))
        both = (1 - share) * own + share * forest
        np.testing.assert_allclose(predicted(model, smiles), both, rtol=1e-4, atol=1e-5)
        labels = torch.from_numpy(dataset.labels[dataset.splits[split]])
        found = metrics[split], metrics["blend"]["network"][split], metrics["baseline"][split]
        for entries, each in zip(found, (both, own, forest), strict=True):
            scores = model.task.scores(each.astype(np.float32), labels.numpy())
            assert entries["mae"] == pytest.approx(scores["mae"], rel=1e-4)
        if split == "val":
            for step in range(21):
                mixed = torch.from_numpy((1 - step / 20) * own + step / 20 * forest)
                loss, _ = Loss(model.task)(model.task.outputs_of(mixed), labels)
                losses[step / 20] = float(loss)
    assert min(losses, key=losses.get) == share
    row = rows_of(tmp_path / "run" / "predictions_test.csv")[0]
    assert float(row["y_pred"]) == pytest.approx(both[0, 0], rel=1e-4)
    assert float(row["y_forest"]) == pytest.approx(forest[0, 0], rel=1e-4)
    for split in ("train", "val"):
        rows = rows_of(tmp_path / "run" / f"predictions_{split}.csv")
        both = predicted(model, [row["smiles"] for row in rows])
        for number, name in enumerate(("y", "active")):
            written = [float(row[f"{name}_pred"]) for row in rows]
            np.testing.assert_allclose(written, both[:, number], rtol=1e-4, atol=1e-5)


def test_a_forest_that_does_not_help_is_left_out(with_columns, tmp_path, monkeypatch):
    monkeypatch.setattr(
        Forest, "predict", lambda self, features: np.full((len(features), 1), -99, np.float32)
    )
    said = []

    class Spy(Callback):
        def on_warning(self, message):
            said.append(message)

    result = train(
        of(with_columns, {**SETTINGS, "data.targets": ["y"]}), tmp_path / "run", callback=Spy()
    )
    assert "blend" not in result.metrics and not result.model.forests
    assert any("is not blended in, because the validation loss is lower without" in s for s in said)


def test_a_blend_without_a_folder(with_columns):
    import molsepnorm

    smiles = ["C" * n for n in range(1, 30)]
    settings = {**SETTINGS, "model.layers": 1, "run.batch_size": 8}
    result = molsepnorm.fit(smiles, [float(n) for n in range(29)], overrides=settings)
    assert bool(result.model.forests) == ("blend" in result.metrics)


@pytest.mark.parametrize("by", ["seeds", "folds"])
def test_an_ensemble_is_blended_as_a_whole(with_columns, tmp_path, by):
    """By folds it has a forest for each fold."""
    settings = {**SETTINGS, "data.targets": ["y"], "run.ensemble": 3, "run.ensemble_by": by}
    result = train(of(with_columns, settings), tmp_path / "run")
    assert result.finished and len(result.metrics["members"]) == 3
    if share := result.metrics.get("blend", {}).get("forest_share"):
        model = PropertyModel.from_pretrained(tmp_path / "run")
        assert model.forest_share == share
        assert len(model.forests) == (3 if by == "folds" else 1)
        table = load_config(config=tmp_path / "run" / "config.yaml").data
        scores = evaluate(tmp_path / "run", table, "test").scores
        assert scores["mae"] == pytest.approx(result.metrics["test"]["mae"], rel=1e-4)


def test_a_saved_blend_is_read_back_and_damage_is_refused(with_columns, tmp_path):
    train(of(with_columns, {**SETTINGS, "data.targets": ["y"]}), tmp_path / "run")
    model = PropertyModel.from_pretrained(tmp_path / "run")
    assert model.forests
    model.save_pretrained(tmp_path / "copy")
    smiles = ["CCO", "c1ccccc1O", "CCCCN"]
    again = PropertyModel.from_pretrained(tmp_path / "copy")
    np.testing.assert_array_equal(predicted(again, smiles), predicted(model, smiles))
    path = tmp_path / "copy" / "config.json"
    about = json.loads(path.read_text())
    assert about["schema"] == SCHEMA and len(model.networks) == 1
    del about["sha256"]
    path.write_text(json.dumps(about))  # without digests, all types are checked
    assert PropertyModel.from_pretrained(tmp_path / "copy").forest_share == model.forest_share
    del about["forest_share"]
    path.write_text(json.dumps(about))
    with pytest.raises(ModelError):
        PropertyModel.from_pretrained(tmp_path / "copy")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"run.baseline": False}, "run.blend: forest needs the random forest of the baseline"),
        ({"data.molecule_features": ["rdkit"]}, "has rdkit without morgan: name both or neither"),
        ({"objective.name": "pretraining"}, "the objective pretraining has no predictions"),
    ],
)
def test_blends_that_cannot_be_made(with_columns, tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        train(of(with_columns, {**SETTINGS, "data.targets": ["y"], **settings}), tmp_path / "run")


@pytest.mark.parametrize("shares", [(0.3, 0.0, 0.8), (1.0, 1.0, 1.0), (0.5, 1.0, 0.25)])
def test_joined_blends_predict_their_mean(shares):
    """With other shares and numbers of forests, and beside a model without a forest."""
    smiles = ["CCO", "c1ccccc1O", "CC(=O)O", "CCCl"]
    task = Task((Target("y", "regression"), Target("active", "binary")), "mae")
    features = structure_inputs(smiles, True, FAST_DESCRIPTORS)
    labels = np.array([[1.0, 0], [2.5, 1], [0.2, 1], [3.1, 0]])
    forests = [Forest.fit(features, labels * [s, 1], task, seed=s, trees=3) for s in range(1, 4)]
    models = []
    for number, share in enumerate(shares):
        torch.manual_seed(number)
        config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2, outputs=2)
        own = tuple(forests[: number + 1]) if share else ()
        inputs = forest_inputs(NO_INPUTS) if share else NO_INPUTS
        model = PropertyModel(
            Graphormer(config).eval(), "zinc", task, inputs=inputs, forests=own, forest_share=share
        )
        models.append(model)
    expected = np.average([predicted(model, smiles) for model in models], 0, [1, 2, 5])
    joined = join(models, [1, 2, 5])
    assert len(joined.networks) == 3
    np.testing.assert_allclose(predicted(joined, smiles), expected, rtol=1e-4, atol=1e-5)


def test_a_table_is_blended_by_default(with_columns, tmp_path):
    """And not with `none`, without the baseline, or where the table is large."""
    plain = of(with_columns, {"run.epochs": 1, "data.targets": ["y"]})
    assert "blend" in train(plain, tmp_path / "run").metrics
    for name, change in (("none", {"run.blend": "none"}), ("off", {"run.baseline": False})):
        assert "blend" not in train(plain.changed(change), tmp_path / name).metrics


def test_a_large_table_is_blended_only_if_named(with_columns, tmp_path, monkeypatch):
    from molsepnorm.training import baseline

    monkeypatch.setattr(baseline, "_MAX_LABELS", 23)
    config = of(with_columns, {"run.epochs": 1, "data.targets": ["y"]})
    metrics = train(config, tmp_path / "run").metrics
    assert "blend" not in metrics
    assert metrics["baseline"]["trees"] == 12
    named = config.changed({"run.blend": "forest"})
    assert "blend" in train(named, tmp_path / "named").metrics


def test_what_cannot_be_blended_is_not_by_default(with_columns, tmp_path):
    """Descriptors without counts are no inputs that a forest can share with the network."""
    settings = {"run.epochs": 1, "data.targets": ["y"], "data.molecule_features": ["rdkit"]}
    assert "blend" not in train(of(with_columns, settings), tmp_path / "run").metrics


def test_the_null_of_earlier_versions_means_no_blend(with_columns):
    assert of(with_columns, {"run.blend": None}).run.blend == "none"


@pytest.mark.parametrize(
    ("labels", "trees"), [(100, 500), (20_000, 500), (40_000, 250), (50_000, 200), (10**6, 200)]
)
def test_the_trees_of_a_blend_depend_on_the_labels_alone(monkeypatch, labels, trees):
    from types import SimpleNamespace

    from molsepnorm.training import baseline

    monkeypatch.setattr(baseline, "TREES", 500)
    values = np.concatenate([np.zeros(labels, np.float32), np.full(7, np.nan, np.float32)])
    dataset = SimpleNamespace(labels=values[:, None], splits={"train": np.arange(labels + 7)})
    assert baseline._blended_trees(dataset) == trees


def test_a_damaged_entry_of_a_blend_is_named(with_columns, tmp_path):
    train(of(with_columns, {**SETTINGS, "data.targets": ["y"]}), tmp_path / "run")
    path = tmp_path / "run" / "metrics.json"
    metrics = json.loads(path.read_text())
    path.write_text(json.dumps({**metrics, "blend": {"forest_share": 0.5, "network": []}}))
    with pytest.raises(ModelError, match="metrics.json is damaged: blend.network"):
        RunFolder(tmp_path / "run").finished_metrics()
