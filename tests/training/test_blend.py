"""Blends: a random forest and networks as one model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import molsepnorm
from molsepnorm.model import PropertyModel, join
from molsepnorm.model.parts import Forest, NetworkPart
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import NO_INPUTS, Loss, Target, Task
from molsepnorm.training import Callback, evaluate, load_config, train
from molsepnorm.training.completing import baseline
from molsepnorm.training.completing.baseline import forest_inputs
from runs import LABELS, forest_arrays, rows_of
from support import Recorder, predicted

SETTINGS = {"run.epochs": 1, "run.blend": "forest"}


pytestmark = pytest.mark.usefixtures("baselines")
READS = forest_inputs(NO_INPUTS)


def has_warning(seen, text):
    return any(text in warning for warning in seen.warnings)


def test_a_blend_is_the_mean_with_the_smallest_validation_loss(with_columns, tmp_path, monkeypatch):
    """Its predictions, its scores, and those of both parts in metrics.json."""
    monkeypatch.setattr(baseline, "_OF_FOREST", (0, 0.5))
    config = with_columns(LABELS, {**SETTINGS, "data.targets": ["y", "active"]})
    metrics = train(config, tmp_path / "run").metrics
    shares = [metrics["shares"][name]["random forest"] for name in ("y", "active")]
    assert metrics["blend"]["forest_share"] == np.mean(shares) and 0 < max(shares) <= 1
    model = PropertyModel.from_pretrained(tmp_path / "run")
    _, forest_part = model.parts
    assert model.weights[1].tolist() == model.share(Forest).tolist() == shares
    alone = PropertyModel.of(model.network, model.featurizer, model.task)
    table = load_config(config=tmp_path / "run" / "config.yaml").data
    losses = {}
    for split in ("val", "test"):
        dataset = evaluate(tmp_path / "run", table, split).dataset
        smiles = [dataset.smiles[row] for row in dataset.store.rows[dataset.splits[split]]]
        own = predicted(alone, smiles)
        forest = forest_part.values(forest_arrays(smiles))
        both = (1 - np.array(shares)) * own + shares * forest
        np.testing.assert_allclose(predicted(model, smiles), both, rtol=1e-4, atol=1e-5)
        labels = torch.from_numpy(dataset.labels[dataset.splits[split]])
        found = metrics[split], metrics["blend"]["network"][split], metrics["baseline"][split]
        for entries, each in zip(found, (both, own, forest), strict=True):
            scores = model.task.scores(each.astype(np.float32), labels.numpy())
            assert entries["mae"] == pytest.approx(scores["mae"], rel=1e-4)
        if split == "val":
            for step in range(21):
                mixed = torch.from_numpy((1 - step / 20) * own + step / 20 * forest)
                loss, _ = Loss(model.task).of_labels(model.task.outputs_of(mixed), labels)
                losses[step / 20] = loss.sum(dim=0).tolist()
    for number, share in enumerate(shares):
        assert min(losses, key=lambda step: losses[step][number]) == share
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
    monkeypatch.setattr(baseline, "_OF_FOREST", (0, 0.5))
    monkeypatch.setattr(
        Forest, "values", lambda self, extra: np.full((len(extra.counts), 1), -99, np.float32)
    )
    seen = Recorder()
    result = train(
        with_columns(LABELS, {**SETTINGS, "data.targets": ["y"]}), tmp_path / "run", callback=seen
    )
    assert "blend" not in result.metrics and not result.model.share(Forest).any()
    assert has_warning(seen, "not blended in, because it does not help on the validation split.")


def of_rows(labels, weights, ids) -> SimpleNamespace:
    """Rows to validate on, after one to train on, whose label makes a trivial baseline of -9."""
    labels = np.concatenate([labels, np.full_like(labels[:1], -9.0)])
    weights = None if weights is None else np.append(weights, weights[:1])[:, None]
    last = len(labels) - 1
    splits = {"train": np.array([last]), "val": np.arange(last)}
    ids = np.append(ids, len(labels))
    return SimpleNamespace(
        labels=labels,
        label_weights=weights,
        bounds=None,
        molecule_ids=ids,
        together=np.zeros_like(ids),
        splits=splits,
    )


@pytest.mark.parametrize(
    ("right", "counts"),
    [
        ("forest", {1: 0.5, 20: 0.75, 80: 0.9, 300: 0.95, 2_000: 1.0}),
        ("network", {1: 0.5, 20: 0.25, 80: 0.1, 300: 0.05, 2_000: 0.0}),
    ],
)
def test_a_few_molecules_choose_a_share_near_one_half(right, counts):
    """Each molecule counts once. Rows without a label do not count."""
    task = Task((Target("y", "regression"),), "mae")
    for count, share in counts.items():
        labels = np.float32([[1.0]] * count * 3 + [[np.nan]] * 50)
        rows = np.arange(len(labels))
        good, bad = np.ones((len(rows), 1), np.float32), np.zeros((len(rows), 1), np.float32)
        forest, own = (good, bad) if right == "forest" else (bad, good)
        ids = np.concatenate([np.arange(count * 3) // 3, rows[count * 3 :]])
        dataset, seen = of_rows(labels, None, ids), Recorder()
        assert baseline.forest_shares(task, own, forest, dataset, seen) == share
        assert has_warning(seen, "it does not help on the validation split") == (share == 0)


def test_the_share_counts_molecules_by_their_weights(monkeypatch):
    """The forest is right where a molecule has a weight, and the network for the other one."""
    monkeypatch.setattr(baseline, "_OF_FOREST", (0, 0.5))
    task = Task((Target("y", "regression"),), "mae")
    labels = np.float32([[1.0], [2.0], [3.0]])
    forest, own = np.float32([[1.0], [2.0], [9.0]]), np.float32([[0.0], [1.0], [3.0]])
    for weights, share in ((None, 0.0), (np.float32([1, 1, 0]), 1.0)):
        rows = np.arange(3)
        dataset = of_rows(labels, weights, rows)
        assert baseline.forest_shares(task, own, forest, dataset, Callback()) == share


def test_a_part_that_is_worse_than_the_trivial_baseline_has_no_share():
    """Whatever the number of molecules. Two bad parts, and a confident mistake, keep their rule."""
    rows, task = np.arange(4), Task((Target("y", "regression"),), "mae")
    dataset = of_rows(np.float32([[1.0]] * 4), None, rows)
    good, bad, worse = (np.full((4, 1), value, np.float32) for value in (0.9, 12.0, 300.0))
    for own, forest, share in ((good, bad, 0.0), (bad, good, 1.0), (worse, bad, 0.6)):
        assert baseline.forest_shares(task, own, forest, dataset, Recorder()) == share
    task = Task((Target("active", "binary"),), "roc_auc")
    dataset = of_rows(np.float32([[0], [0], [0], [1]]), None, rows)
    dataset.labels[-1] = 1
    own, forest = np.float32([[0.3], [0.3], [0.3], [0.6]]), np.float32([[0], [0], [0.5], [0]])
    assert 0 < baseline.forest_shares(task, own, forest, dataset, Recorder()) < 0.5


def test_a_run_without_test_split_is_blended(tmp_path):
    """As one with a test split is, and with `auto`; a finished one that is resumed is the same."""
    smiles, labels = ["C" * n for n in range(1, 31)], [float(n) for n in range(30)]
    settings = {"run.epochs": 1, "finetune.start": "none", "model.layers": 1, "run.batch_size": 8}
    parts = {"train": range(20), "val": range(20, 25)}

    def fitted(**others):
        return molsepnorm.fit(smiles, labels, overrides=settings, **others).model

    model = fitted(splits=parts, folder=tmp_path / "run")
    for other in (
        fitted(splits={**parts, "test": range(25, 30)}),
        fitted(splits=parts, folder=tmp_path / "run", resume=True),
    ):
        assert model.share(Forest) == other.share(Forest) > 0
        np.testing.assert_array_equal(predicted(model, smiles), predicted(other, smiles))


@pytest.mark.parametrize("shares", [(0.3, 0.0, 0.8), (1.0, 1.0, 1.0), (0.5, 1.0, 0.25)])
def test_joined_blends_predict_their_mean(shares):
    """With other shares and numbers of forests, other shares of the second target, and beside a
    model without a forest."""
    smiles = ["CCO", "c1ccccc1O", "CC(=O)O", "CCCl"]
    task = Task((Target("y", "regression"), Target("active", "binary")), "mae")
    labels, extra = np.array([[1.0, 0], [2.5, 1], [0.2, 1], [3.1, 0]]), forest_arrays(smiles)
    forests = [
        Forest.fit(READS, extra.stacked(), labels * [s, 1], task, seed=s, trees=3)
        for s in range(1, 4)
    ]
    models = []
    for number, share in enumerate(shares):
        torch.manual_seed(number)
        config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2, outputs=2)
        own = forests[: number + 1] if share else []
        of_each = [share / max(len(own), 1), (1 - share) / max(len(own), 1)]
        weights = np.array([[1 - share, share or 1.0], *[of_each] * len(own)])
        parts = (NetworkPart(Graphormer(config).eval()), *own)
        models.append(PropertyModel(parts, "zinc", task, weights=weights))
    expected = np.average([predicted(model, smiles) for model in models], 0, [1, 2, 5])
    joined = join(models, [1, 2, 5])
    assert sum(isinstance(part, NetworkPart) for part in joined.parts) == 3
    np.testing.assert_allclose(predicted(joined, smiles), expected, rtol=1e-4, atol=1e-5)


def test_a_table_is_blended_by_default(with_columns, tmp_path, monkeypatch):
    """Not with `none`, without the baseline, or where the table is large and it is not named."""
    plain = with_columns(LABELS, {"run.epochs": 1, "data.targets": ["y"]})
    assert "blend" in train(plain, tmp_path / "run").metrics
    for name, change in (("none", {"run.blend": "none"}), ("off", {"run.baseline": False})):
        assert "blend" not in train(plain.changed(change), tmp_path / name).metrics
    monkeypatch.setattr(baseline, "_MAX_LABELS", 23)
    seen = Recorder()
    assert "blend" not in train(plain, tmp_path / "large", callback=seen).metrics
    assert has_warning(seen, "not blended in, because there are more than 23 training labels")
    named = plain.changed({"run.blend": "forest"})
    assert "blend" in train(named, tmp_path / "named").metrics
