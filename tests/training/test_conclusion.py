"""The sentences about the scores of a run, and the numbers in them."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.data import datasets
from molsepnorm.model import encoding_of
from molsepnorm.tasks import Target, Task, json_scores
from molsepnorm.tasks.metrics import draw_resamples
from molsepnorm.training.recipes import architecture
from molsepnorm.training.results.metrics import Metrics
from molsepnorm.training.results.summary import conclusion
from molsepnorm.training.scoring import about_split, gaps
from support import score, similarities


def entry(difference, low, high):
    return {"difference": difference, "interval_95": [low, high]}


def metrics(**changes) -> Metrics:
    """A regression that is clearly better than the trivial baseline; nothing else is to be said."""
    content = {
        "headlines": ["rmse"],
        "val": {"rmse": 0.58},
        "test": {"rmse": 0.6},
        "test_constant": {"rmse": 2.0},
        "constant_difference": {"rmse": entry(-1.4, -1.6, -1.2)},
        "labelled_test": {"y": 100},
    }
    run = {"data": "a.csv", "chosen_by": "rmse", "molecules_in_several_splits": 0}
    numbers = dict.fromkeys(("parameters", "seed", "kept_epoch", "epochs", "steps", "seconds"), 1)
    return Metrics.from_json({**run, **numbers, **content, **changes})


def classes(rank, probable, **changes):
    """A binary target with these differences from the trivial baseline: of the rank, of the log
    loss."""
    scores = {"roc_auc": 0.8, "log_loss": 0.5}
    content = {
        "headlines": ["roc_auc"],
        "val": scores,
        "test": scores,
        "test_constant": {"roc_auc": 0.5, "log_loss": 0.69},
        "constant_difference": {"roc_auc": rank, "log_loss": probable},
    }
    return metrics(**{**content, **changes})


FOREST = {"baseline": {"test": {"rmse": 0.65}}}
UNCLEAR = {"constant_difference": {"rmse": entry(-0.1, -0.3, 0.1)}}
GOOD = entry(0.3, 0.25, 0.35)
NOISE = {"unexplained": 0.5, "inside": 0.604, "mae_beyond": 0.2, "best_mae": 0.1, "best_r2": 0.9}
OWN = {
    "headlines": ["rmse"],
    "test": {"rmse": 0.6, "rmse/a": 0.6, "rmse/b": 0.55},
    "test_without_own": {"rmse": 0.64, "rmse/a": 0.75, "rmse/b": 0.56},
    "own_networks": {"a": {"share": 0.7}, "b": {"share": 0.4}},
    "own_difference": {
        "rmse/a": entry(-0.15, -0.2, -0.1),
        "rmse/b": entry(-0.01, -0.1, 0.08),
    },
}
ALIKE = {
    "headlines": ["roc_auc", "accuracy"],
    "test": {"roc_auc": 1.0, "accuracy": 0.97},
    "test_constant": {"roc_auc": 0.5, "accuracy": 0.3},
    "constant_difference": {"accuracy": entry(0.67, 0.5, 0.8)},
}
CASES = {
    "own networks": (metrics(**OWN), 2, "a is better with it (RMSE 0.600 against 0.750)."),
    "errors of labels": (metrics(label_errors={"y": NOISE}), 2, "60 % of the predictions of y"),
    "good": (metrics(), 1, "0.600 against 2.00"),
    "no better": (metrics(**UNCLEAR), 2, "data check"),
    "a leak": (metrics(molecules_in_several_splits=20), 2, "2.00"),
    "worse than the forest": (
        metrics(**FOREST, baseline_difference={"rmse": entry(0.05, 0.01, 0.09)}),
        3,
        "forest",
    ),
    "the forest alone": (metrics(**FOREST, blend={"forest_share": 1.0}), 2, "forest"),
    "improbable": (classes(GOOD, entry(0.3, 0.1, 0.5)), 2, "are worse than"),
    "one score of two kinds": (metrics(**ALIKE), 1, "0.300, a difference of 0.670 (95 % interval"),
    "too few to compare": (metrics(labelled_test={"y": 19}), 1, "too small to compare"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_appears_exactly_where_it_applies(name):
    content, count, in_last = CASES[name]
    found = conclusion(content)
    assert len(found) == count and found[-1].count(in_last) == 1, found


def test_the_numbers_equal_slow_code():
    """On the same resamples for the trivial baseline."""
    rng = np.random.default_rng(0)
    labels, predictions = rng.random((40, 2)), rng.random((40, 2))
    labels[:, 1] = labels[:, 1] > 0.5
    task = Task.fit([Target("y", "regression"), Target("a", "binary")], labels)
    constant = np.tile([0.4, 0.6], (40, 1))
    scores = (json_scores(task.scores(each, labels)) for each in (predictions, constant))
    names = ("mae", "roc_auc", "log_loss")
    found = gaps(*scores, task.intervals(predictions, labels, minus=constant, only=names))
    assert found.keys() == {*names}
    for column, name in ((0, "mae"), (1, "roc_auc"), (1, "log_loss")):
        truth = labels[:, column]
        both = predictions[:, column], constant[:, column]
        drawn = [np.repeat(np.arange(40), counts) for counts in draw_resamples(40, 1000, 0)]
        apart = [np.subtract(*(score(name, truth[d], each[d]) for each in both)) for d in drawn]
        assert found[name].difference == pytest.approx(
            np.subtract(*(score(name, truth, each) for each in both))
        )
        np.testing.assert_allclose(found[name].interval_95, np.quantile(apart, [0.025, 0.975]))


@pytest.mark.parametrize(
    ("metric", "kinds", "loss", "expected"),
    [
        ("spearman", ["regression"], "l1", ("spearman",)),
        ("loss", ["binary"], "l1", ("roc_auc",)),
        (None, ["regression", "binary", "regression"], "l1", ("mae", "roc_auc")),
        ("roc_auc", ["binary", "multiclass", "regression"], "mse", ("roc_auc", "accuracy", "rmse")),
    ],
)
def test_headlines_are_those_of_every_kind(metric, kinds, loss, expected):
    targets = [
        Target(name, kind, classes=("x", "y") if kind == "multiclass" else ())
        for name, kind in zip("abc", kinds, strict=False)
    ]
    labels = np.array([[0, 1] * 4] * len(kinds), np.float32).T
    task = Task.fit(targets, labels, metric, regression_loss=loss)
    assert task.headlines == expected


def loaded(config):
    return datasets.load(config.data, encoding_of(architecture(config)))


def test_the_similarity_equals_rdkits(configure):
    config = configure({"data.split": [0.5, 0.2, 0.3]})
    dataset = loaded(config)
    found = about_split(config.data, dataset)
    parts = {name: len(part) for name, part in dataset.splits.items()}
    assert (found["molecules"], found["split"]) == (parts, "random split")
    test, train = (
        [dataset.smiles[row] for row in dataset.store.rows[dataset.splits[split]]]
        for split in ("test", "train")
    )
    each = similarities(test, train).max(axis=1)
    nearest = {"median": pytest.approx(np.median(each)), "train": len(train), "test": len(test)}
    assert found["nearest_train_similarity"] == nearest


def test_targets_that_a_simpler_model_predicts_as_well_are_named_worst_first():
    """Also where the mean over the targets is better."""
    gains = {"a": (0.5, 0.1), "b": (0.05, 0.1), "c/d": (-0.4, 0.1)}
    scores = {f"rmse/{name}": 1 - gain for name, (gain, _) in gains.items()}
    found = {f"rmse/{n}": entry(-gain, -gain - h, h - gain) for n, (gain, h) in gains.items()}
    forest = {"rmse": 0.7, "rmse/a": 0.44, "rmse/b": 1.2, "rmse/c/d": 1.5}
    differences = {
        "rmse": entry(-0.1, -0.2, -0.05),
        "rmse/a": entry(0.06, 0.013, 0.11),
        "rmse/b": entry(-0.25, -0.3, -0.01),
        "rmse/c/d": entry(-0.1, -0.15, 0.01),
    }
    content = metrics(
        test={"rmse": 0.6, **scores},
        test_constant={"rmse": 2.0, **dict.fromkeys(scores, 1.0)},
        constant_difference={"rmse": entry(-1.4, -1.6, -1.2), **found},
        baseline={"test": forest},
        baseline_difference=differences,
    )
    sentences = conclusion(content)
    assert "mean relative RMSE 0.600 against 2.00" in sentences[0] and len(sentences) == 3
    first, second = sentences[2].split("; ")
    assert first.endswith("c/d (RMSE 1.40 against 1.00), b (RMSE 0.950 against 1.00)")
    assert second.endswith("a (RMSE 0.500 against 0.440).")
