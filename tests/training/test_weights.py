"""Weights of rows and of classes scale the loss and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.predict import Predictor
from molsepnorm.training import train
from runs import outcome, rows_of, split_rows

YES_NO = [0, 1, 0, 0, 1, 0, 0, 0, 1, 0]
COLOURS = ["red", "blue", "red", "green", "red", "red", "green"]
SOME = [0.5, 3, 1, 0, 0.25, 2, 1.7]


def _probabilities(folder, smiles, target) -> np.ndarray:  # (n, K)
    found = Predictor.from_pretrained(folder).predict(smiles)
    if found[0].probabilities:
        return np.array([list(each.probabilities[target].values()) for each in found])
    yes = np.array([each.values[target] for each in found])
    return np.stack([1 - yes, yes], axis=1)


def _cross_entropy(probabilities, classes, weights) -> float:
    each = -np.log(probabilities[np.arange(len(classes)), classes])
    return float((each * weights).sum() / weights.sum())


def test_only_the_proportion_of_weights_counts(with_columns, tmp_path):
    """Weights times a power of two give the same run, bit by bit, even if the weights of a batch
    sum to less than one; other proportions do not. An empty cell is a weight of one."""
    columns = {"a": YES_NO, "w": SOME, "v": [w / 2**20 for w in SOME], "u": ["", 1.0, "nan"]}
    for name, weight in (("one", "w"), ("scaled", "v"), ("none", None), ("equal", "u")):
        settings = {"data.targets": ["a"], "data.weight_column": weight, "run.epochs": 2}
        train(with_columns(columns, settings), tmp_path / name)
    assert outcome(tmp_path / "scaled") == outcome(tmp_path / "one")
    assert outcome(tmp_path / "equal") == outcome(tmp_path / "none")
    assert outcome(tmp_path / "none")["model"] != outcome(tmp_path / "one")["model"]


def test_rows_of_weight_0_have_no_effect(with_columns, tmp_path):
    """In any split: the run equals one without these labels, bit by bit."""
    labels = [0.5, 2, -1.5, 3, 1, 2.5] * 5
    rows = range(0, 30, 4)
    settings = {"data.targets": ["y"], "data.weight_column": "w"}
    for name, label, weight in (("blank", "", 1), ("weight", 30, 0)):
        y = [label if row in rows else each for row, each in enumerate(labels)]
        w = [weight if row in rows else 1 for row in range(30)]
        train(with_columns({"y": y, "w": w}, settings), tmp_path / name)
    assert outcome(tmp_path / "weight") == outcome(tmp_path / "blank")


@pytest.mark.parametrize(
    ("column", "classes", "weighted", "balanced"),
    [
        (YES_NO, [0, 1], True, False),
        (YES_NO, [0, 1], False, True),
        (COLOURS, ["blue", "green", "red"], True, True),
    ],
)
def test_the_validation_loss_is_weighted_and_scores_are_not(
    with_columns, tmp_path, column, classes, weighted, balanced
):
    """Computed by numpy from the model's predictions: a label has its row's weight times n / (K
    n_c) with n_c of the n training labels in its class."""
    settings = {
        "data.targets": ["a"],
        "data.weight_column": "w" if weighted else None,
        "data.split": [0.5, 0.25, 0.25],
        "data.split_seed": 1,
        "optim.class_weight": "balanced" if balanced else None,
        "run.metric": "loss",
        "run.epochs": 2,
    }
    config = with_columns({"a": column, "w": SOME}, settings)
    result = train(config, tmp_path / "run")
    source, splits = rows_of(config.data.table), split_rows(tmp_path / "run")
    labels = np.array([classes.index(type(classes[0])(row["a"])) for row in source])
    weights = np.array([float(row["w"]) for row in source]) if weighted else np.ones(30)
    if balanced:
        counts = np.bincount(labels[splits["train"]], minlength=len(classes))
        weights = weights * (len(splits["train"]) / (len(classes) * counts))[labels]
    val = splits["val"]
    predicted = _probabilities(tmp_path / "run", [source[row]["smiles"] for row in val], "a")
    expected = _cross_entropy(predicted, labels[val], weights[val])
    best = rows_of(tmp_path / "run" / "history.csv")[result.metrics["kept_epoch"] - 1]
    assert float(best["val_loss"]) == pytest.approx(expected, rel=1e-4)
    plain = _cross_entropy(predicted, labels[val], np.ones(len(val)))
    assert float(best["val_log_loss"]) == pytest.approx(plain, rel=1e-4)
    assert expected != pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("column", [YES_NO, COLOURS])
def test_balanced_classes_equal_a_column_of_weights(with_columns, tmp_path, column):
    """With n / (K n_c) for each row, the run is equal bit by bit."""
    balanced = {"data.targets": ["a"], "optim.class_weight": "balanced"}
    config = with_columns({"a": column, "w": [1]}, balanced)
    train(config, tmp_path / "balanced")
    labels = [row["a"] for row in rows_of(config.data.table)]
    taught = [labels[row] for row in split_rows(tmp_path / "balanced")["train"]]
    weight = {each: len(taught) / (len(set(taught)) * taught.count(each)) for each in set(taught)}
    cells = [repr(weight[label]) for label in labels]
    settings = {"data.targets": ["a"], "data.weight_column": "w"}
    train(with_columns({"a": column, "w": cells}, settings), tmp_path / "column")
    classes, column = (outcome(tmp_path / name) for name in ("balanced", "column"))
    assert classes["metrics"].pop("class_weight") == "balanced"
    assert classes == column


def test_only_the_ratio_of_task_weights_matters(trained):
    """Powers of two for all targets change no bit; a smaller weight of one target does."""
    settings = {"data.targets": ["y", "active"], "run.epochs": 1}
    found = {}
    for weight in (1.0, 4.0, 0.25):
        weights = {"y": 4.0 if weight == 4 else 1.0, "active": weight}
        model = trained({**settings, "optim.task_weights": weights}).model
        found[weight] = model.network.head.weight.numpy(force=True)
    np.testing.assert_array_equal(found[1.0], found[4.0])
    assert np.abs(found[1.0] - found[0.25]).max() > 1e-5
    with pytest.raises(ConfigError, match="'activ', which is no target. Did you mean 'active'"):
        trained({**settings, "optim.task_weights": {"activ": 1.0}})
    with pytest.raises(ConfigError, match="no weight above 0"):
        trained({**settings, "optim.task_weights": {"y": 0.0, "active": 0.0}})
