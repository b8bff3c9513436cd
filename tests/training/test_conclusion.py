"""The sentences about the scores of a run: each appears exactly where it applies."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.model import encoding_of
from molsepnorm.tasks import Task, json_scores
from molsepnorm.tasks.metrics import draw_resamples, score
from molsepnorm.training.recipes import architecture
from molsepnorm.training.results import comparisons as module
from molsepnorm.training.results import split_facts
from molsepnorm.training.results.comparisons import comparisons
from molsepnorm.training.results.conclusion import conclusion, conclusion_of_folds
from molsepnorm.training.results.split_facts import about_split


def entry(difference, low, high):
    return {"difference": difference, "interval_95": [low, high]}


def metrics(**changes):
    """A regression that is clearly better than the trivial baseline; nothing else is to be said."""
    return {
        "headlines": ["rmse"],
        "val": {"rmse": 0.58},
        "test": {"rmse": 0.6},
        "test_constant": {"rmse": 2.0},
        "test_interval_95": {"rmse": [0.5, 0.7]},
        "constant_difference": {"rmse": entry(-1.4, -1.6, -1.2)},
        "val_test_difference": {"rmse": entry(-0.02, -0.2, 0.1)},
        "molecules": {"train": 800, "val": 100, "test": 100},
        **changes,
    }


def classes(**changes):
    """A binary target with probabilities that are clearly better than the class frequencies."""
    scores = {"roc_auc": 0.8, "log_loss": 0.5}
    return metrics(
        **{
            "headlines": ["roc_auc"],
            "val": scores,
            "test": scores,
            "test_constant": {"roc_auc": 0.5, "log_loss": 0.69},
            "test_interval_95": {"roc_auc": [0.75, 0.85], "log_loss": [0.4, 0.6]},
            "constant_difference": {
                "roc_auc": entry(0.3, 0.25, 0.35),
                "log_loss": entry(-0.19, -0.25, -0.1),
            },
            "val_test_difference": {},
            **changes,
        }
    )


TRIVIAL = (
    "The model is better than the trivial baseline (the same prediction for all molecules) on "
    "the test molecules: RMSE 0.600 against 2.00, a difference of 1.40 (95 % interval 1.20 to "
    "1.60)."
)
FOREST = {"baseline": {"test": {"rmse": 0.65}}}
FEW = {"test_interval_95": {}, "constant_difference": {}, "molecules": {"test": 1}}
NARROW = {"level": 0.9, "width": 1.0, "molecules": 4000}
"""Intervals that are calibrated on many molecules."""


def difference(found, **changes):
    """Differences of a regression from the trivial baseline."""
    return metrics(constant_difference={"rmse": found}, **changes)


def ranked(own, probable, **changes):
    """Differences of a binary target from the trivial baseline: of the rank, of the log loss."""
    return classes(constant_difference={"roc_auc": own, "log_loss": probable}, **changes)


GOOD, NONE = entry(0.3, 0.25, 0.35), entry(0.01, -0.1, 0.1)
CASES = {
    "good classes": (classes(), []),
    "no better": (difference(entry(-0.1, -0.3, 0.1)), ["is not clearly better.*Do not rely"]),
    "worse": (difference(entry(0.5, 0.2, 0.9)), [r"is worse than.*0\.500 \(95.*Do not rely"]),
    "undecided": (
        difference(entry(-0.1, -0.3, 0.1), molecules={"test": 49}),
        [r"So few test molecules \(49\) cannot decide it", "RMSE is uncertain"],
    ),
    "a leak": (metrics(molecules_in_several_splits=20), ["too optimistic: 20 molecules are in"]),
    "a known start": (metrics(molecules_trained_on_before=20), ["was trained on 20 molecules of"]),
    "better than the forest": (
        metrics(**FOREST, baseline_difference={"rmse": entry(-0.05, -0.09, -0.01)}),
        ["better than a random forest on the test molecules: RMSE 0.600 against 0.650"],
    ),
    "worse than the forest": (
        metrics(**FOREST, baseline_difference={"rmse": entry(0.05, 0.01, 0.09)}),
        ["worse than a random forest.*Prefer a forest"],
    ),
    "the forest alone": (
        metrics(**FOREST, blend={"forest_share": 1.0}),
        ["The model is the random forest alone"],
    ),
    "improbable headline": (
        ranked(GOOD, entry(0.1, -0.05, 0.2), headlines=["log_loss"], labelled_test={"a": 100}),
        ["not clearly better.*Use the predictions to rank molecules, or use the calibrated"],
    ),
    "improbable": (
        ranked(GOOD, entry(0.3, 0.1, 0.5)),
        ["are worse than the class frequencies.*0.500 against 0.690.*Use them to rank"],
    ),
    "improbable and unranked": (
        ranked(NONE, entry(0.3, 0.1, 0.5)),
        ["Do not rely", "are worse than the class frequencies.*To improve them, choose"],
    ),
    "balanced": (
        ranked(GOOD, entry(0.2, 0.1, 0.3), class_weight="balanced"),
        ["Balanced class weights shift the probabilities.*predict --uncertainty"],
    ),
    "far from validation": (
        metrics(val_test_difference={"rmse": entry(-0.5, -0.7, -0.3)}, split="scaffold split"),
        [r"is better than the test.*\(scaffold split\).*Rely on the test score"],
    ),
    "near validation": (metrics(val_test_difference={"rmse": entry(-0.19, -0.2, -0.18)}), []),
    "similar": (
        metrics(nearest_train_similarity={"median": 0.6, "test": 9, "train": 8}),
        ["0.60.*close analogues: expect lower ones"],
    ),
    "dissimilar": (
        metrics(nearest_train_similarity={"median": 0.39, "test": 9, "train": 8}),
        ["0.39.*few of them have a close analogue"],
    ),
    "uncertain": (metrics(molecules={"test": 49, "train": 400}), ["RMSE is uncertain.*A larger"]),
    "uncertain and small": (
        metrics(molecules={"test": 49, "train": 399}),
        ["RMSE is uncertain.*Cross-validation"],
    ),
    "wide": (
        metrics(test_interval_95={"rmse": [0.3, 0.97]}),
        ["interval is 0.300 to 0.970 with 100"],
    ),
    "not wide": (metrics(test_interval_95={"rmse": [0.3, 0.96]}), []),
    "one molecule": (metrics(**FEW), ["RMSE is that of a single molecule"]),
    "a perfect score": (
        classes(test={"roc_auc": 1.0, "log_loss": 0.5}, test_interval_95={}),
        ["ROC-AUC of 1 has no interval, because it is the same for all resamples of the 100"],
    ),
    "undefined": (
        classes(
            test={"roc_auc": None, "log_loss": 0.5},
            constant_difference={"log_loss": entry(-0.19, -0.25, -0.1)},
            split="random split",
        ),
        ["ROC-AUC is undefined on the test molecules.*--split-type stratified"],
    ),
    "few intervals": (
        metrics(calibration={"y": {"width": None, "molecules": 8}}),
        ["need 9 validation.*y has 8"],
    ),
    "few sets": (
        metrics(calibration={"kind": {"always": ["a", "b", "c"], "molecules": 40}}),
        ["fewer than 9 validation molecules: a, b and c of kind"],
    ),
    # at most 15 of 20 have a probability of 4.3 %, at most 16 one of 13 %
    "narrow": (
        metrics(calibration={"y": {**NARROW, "coverage": 0.75, "test_molecules": 20}}),
        ["clearly fewer than 90 % of the test labels: 75 % of 20 for y."],
    ),
    "not narrow": (
        metrics(calibration={"y": {**NARROW, "coverage": 0.8, "test_molecules": 20}}),
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_sentence_appears_exactly_where_it_applies(name):
    """Beside the comparison with the trivial baseline, if the model is better."""
    content, expected = CASES[name]
    better = "is better than the trivial baseline ("
    found = [text for text in conclusion(content) if better not in text]
    assert len(found) == len(expected), found
    for text, pattern in zip(found, expected, strict=True):
        assert re.search(pattern, text)


def test_a_good_model_has_one_sentence():
    assert conclusion(metrics()) == [TRIVIAL]


def many(gains):
    """Mean RMSE of targets, each with the gain and the half width of its interval; the error of the
    trivial baseline is 1."""
    scores = {f"rmse/{name}": 1 - gain for name, (gain, _) in gains.items()}
    found = {f"rmse/{n}": entry(-gain, -gain - h, h - gain) for n, (gain, h) in gains.items()}
    return metrics(
        test={"rmse": 0.6, **scores},
        test_constant={"rmse": 2.0, **dict.fromkeys(scores, 1.0)},
        constant_difference={"rmse": entry(-1.4, -1.6, -1.2), **found},
    )


def test_many_targets_have_one_sentence_about_the_worst():
    trivial, text = conclusion(many({"a": (0.5, 0.1), "b": (0.2, 0.1), "c/d": (0.4, 0.1)}))
    assert trivial == TRIVIAL.replace("RMSE", "mean relative RMSE")
    assert text.endswith("the smallest gain is that of b (RMSE 0.800 against 1.00).")
    found = {
        "a": (0.5, 0.1),
        "b": (0.05, 0.1),
        "c/d": (-0.4, 0.1),
        "e": (0.01, 0.1),
        "f": (-0.5, 0),
    }
    text = conclusion(many(found))[1]
    assert text.startswith("For 4 of 5 targets") and text.endswith("first: f, c/d, e and 1 more.")


def test_a_target_that_a_forest_predicts_better_is_named():
    """Also where the mean over the targets is better than that of the forest. The folds of a
    cross-validation have the same sentence."""
    content = many({"a": (0.5, 0.1), "b": (0.4, 0.1), "c": (0.3, 0.1)})
    forest = {"rmse": 0.7, "rmse/a": 0.49, "rmse/b": 0.7, "rmse/c": 0.64}
    differences = {
        "rmse": entry(-0.1, -0.2, -0.05),
        "rmse/a": entry(0.01, -0.05, 0.06),
        "rmse/b": entry(-0.1, -0.3, -0.01),
        "rmse/c": entry(0.06, 0.013, 0.11),
    }
    content |= {"baseline": {"test": forest}, "baseline_difference": differences}
    (text,) = (each for each in conclusion(content) if "random forest, worst first" in each)
    assert "For 1 of 3 targets" in text
    assert "c (RMSE 0.700 against 0.640, a difference of 0.0600 (95 % interval 0.0130 to" in text
    means = ({n: {"mean": v} for n, v in each.items()} for each in (content["test"], forest))
    ours, others = ({"test": each} for each in means)
    folds = {**ours, "baseline": others, "baseline_difference": differences, "chosen_by": "rmse"}
    assert conclusion_of_folds(folds).endswith(text)
    differences["rmse/c"]["interval_95"] = None
    assert text not in conclusion_of_folds(folds)


def test_the_numbers_equal_slow_code():
    """On the same resamples for the trivial baseline; the validation split is independent."""
    rng = np.random.default_rng(0)
    labels = {"val": rng.random((30, 2)), "test": rng.random((40, 2))}
    for each in labels.values():
        each[:, 1] = each[:, 1] > 0.5
    predictions = {split: rng.random(each.shape) for split, each in labels.items()}
    task = Task.fit(["y", "a"], ["regression", "binary"], labels["test"])
    constant = np.tile([0.4, 0.6], (40, 1))
    entries = {s: json_scores(task.scores(predictions[s], labels[s])) for s in labels}
    entries["test_constant"] = json_scores(task.scores(constant, labels["test"]))
    entries["test_interval_95"] = task.intervals(predictions["test"], labels["test"])
    molecules = {split: np.arange(len(each)) for split, each in labels.items()}
    found = comparisons(task, entries, predictions, labels, constant, molecules)
    assert found["headlines"] == ["mae", "roc_auc"]
    assert found["constant_difference"].keys() == {"mae", "roc_auc", "log_loss"}
    for column, name in ((0, "mae"), (1, "roc_auc"), (1, "log_loss")):
        truth = labels["test"][:, column]
        both = predictions["test"][:, column], constant[:, column]
        drawn = [np.repeat(np.arange(40), counts) for counts in draw_resamples(40, 1000, 0)]
        gaps = [np.subtract(*(score(name, truth[d], each[d]) for each in both)) for d in drawn]
        own = found["constant_difference"][name]
        assert own["difference"] == pytest.approx(
            np.subtract(*(score(name, truth, each) for each in both))
        )
        np.testing.assert_allclose(own["interval_95"], np.quantile(gaps, [0.025, 0.975]))
    for name in ("mae", "roc_auc"):
        ends = task.intervals(predictions["val"], labels["val"])[name]
        others = entries["test_interval_95"][name]
        val, test = entries["val"][name], entries["test"][name]
        low = val - test - math.sqrt((val - ends[0]) ** 2 + (others[1] - test) ** 2)
        high = val - test + math.sqrt((ends[1] - val) ** 2 + (test - others[0]) ** 2)
        own = found["val_test_difference"][name]
        assert own["difference"] == val - test
        assert own["interval_95"] == pytest.approx([low, high])


@pytest.mark.parametrize("of_one_class", [(), ("val",), ("test",), ("val", "test")])
def test_validation_and_test_are_compared_over_the_same_targets(of_one_class):
    """A mean over another set of targets is higher or lower without any difference of molecules."""
    rng = np.random.default_rng(0)
    labels = {split: (rng.random((40, 2)) > 0.5) * 1.0 for split in ("val", "test")}
    for split in of_one_class:
        labels[split][:, 1] = 1
    predictions = {split: rng.random(each.shape) for split, each in labels.items()}
    task = Task.fit(["a", "b"], ["binary", "binary"], labels["test"], strict=False)
    constant = np.full((40, 2), 0.5)
    entries = {s: json_scores(task.scores(predictions[s], labels[s])) for s in labels}
    entries["test_constant"] = json_scores(task.scores(constant, labels["test"]))
    entries["test_interval_95"] = task.intervals(predictions["test"], labels["test"])
    molecules = {split: np.arange(40) for split in labels}
    found = comparisons(task, entries, predictions, labels, constant, molecules)
    assert None not in (entries["val"]["roc_auc"], entries["test"]["roc_auc"])
    assert ("roc_auc" in found["val_test_difference"]) == (len(of_one_class) != 1)
    scored = ["a"] if "test" in of_one_class else ["a", "b"]
    assert found["scored_targets"]["roc_auc"] == scored
    content = metrics(**{key: entries[key] for key in ("test", "test_constant")}, **found)
    named = "ROC-AUC of a 0." if "test" in of_one_class else "mean ROC-AUC of a and b 0."
    assert named in conclusion(content)[0]


def test_the_interval_of_independent_scores_covers_their_difference():
    """For means of normal numbers in 95 % of 2,000 pairs; standard errors are 1 and 2."""
    rng = np.random.default_rng(1)
    one, other = rng.normal(5, 1, 2000), rng.normal(3, 2, 2000)
    ends = [
        module._independent(a, (a - 1.96, a + 1.96), b, (b - 3.92, b + 3.92))
        for a, b in zip(one, other, strict=True)
    ]
    assert np.mean([low < 2 < high for low, high in ends]) == pytest.approx(0.95, abs=0.015)


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
    names, own = list("abc")[: len(kinds)], [("x", "y") if k == "multiclass" else () for k in kinds]
    labels = np.array([[0, 1] * 4] * len(kinds), np.float32).T
    task = Task.fit(names, kinds, labels, metric, classes=own, regression_loss=loss)
    assert task.headlines == expected


def loaded(config):
    return datasets.load(config.data, encoding_of(architecture(config)))


@pytest.mark.parametrize(("most_train", "most_test"), [(20_000, 500), (7, 3)])
def test_the_similarity_equals_rdkits(configure, monkeypatch, most_train, most_test):
    """The median is that of all molecules, or of as many as are drawn."""
    monkeypatch.setattr(split_facts, "_MAX_TRAIN", most_train)
    monkeypatch.setattr(split_facts, "_MAX_TEST", most_test)
    config = configure({"data.split": [0.5, 0.2, 0.3]})
    dataset = loaded(config)
    found = about_split(config.data, dataset)
    parts = {name: len(part) for name, part in dataset.splits.items()}
    assert (found["molecules"], found["split"]) == (parts, "random split")
    nearest = found["nearest_train_similarity"]
    assert nearest["train"] == min(parts["train"], most_train)
    assert nearest["test"] == min(parts["test"], most_test)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    test, train = (
        [
            generator.GetFingerprint(Chem.MolFromSmiles(dataset.smiles[row]))
            for row in dataset.store.rows[dataset.splits[split]]
        ]
        for split in ("test", "train")
    )
    each = [max(DataStructs.BulkTanimotoSimilarity(one, train)) for one in test]
    if most_test > len(test):
        assert nearest["median"] == pytest.approx(np.median(each))
    else:  # a sample of the training molecules has no closer one
        assert min(each) - 1 < nearest["median"] <= max(each)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "random split"),
        ({"split_type": "scaffold"}, "scaffold split"),
        ({"split_type": "time", "time_column": "t"}, "split by time"),
        ({"splits_column": "part"}, "split of the column part"),
        ({"in_memory": True, "table": None}, None),
    ],
)
def test_the_split_is_named(configure, settings, expected):
    dataset = loaded(configure())
    data = DataConfig(**{"table": "data.csv", **settings})
    assert about_split(data, dataset).get("split") == expected
