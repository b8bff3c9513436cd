"""The sentences about the scores of a run: each appears exactly where it applies."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

import molsepnorm
from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.model import encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.tasks import Task, json_scores
from molsepnorm.tasks.metrics import draw_resamples, score
from molsepnorm.training import train
from molsepnorm.training.recipes import architecture
from molsepnorm.training.results import comparisons as module
from molsepnorm.training.results import split_facts
from molsepnorm.training.results.comparisons import comparisons
from molsepnorm.training.results.conclusion import conclusion, conclusion_of_folds
from molsepnorm.training.results.split_facts import about_split

ONE_EPOCH = {"run.epochs": 1, "run.threads": 1}


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
RANKED = (
    "The model is better than the trivial baseline (the same prediction for all molecules) on "
    "the test molecules: ROC-AUC 0.800 against 0.500, a difference of 0.300 (95 % interval 0.250 "
    "to 0.350)."
)


@pytest.mark.parametrize(
    ("targets", "label"),
    [
        (["pKa"], "RMSE of pKa 0.600"),
        (["pKa", "logP", "logS"], "RMSE of pKa, logP and logS 0.600"),
        (list("abcd"), "RMSE 0.600"),
    ],
)
def test_the_targets_of_a_score_are_named(targets, label):
    first, *_ = conclusion(metrics(scored_targets={"rmse": targets}))
    assert f"test molecules: {label} against 2.00" in first


def test_too_few_validation_molecules_for_intervals_and_sets():
    calibration = {
        "y": {"width": None, "molecules": 8},
        "z": {"width": 1.2, "molecules": 9},
        "active": {"always": ["1"], "molecules": 40},
        "kind": {"always": ["mid", "low"], "molecules": 40},
        "word": {"always": [], "molecules": 40},
    }
    _, numbers, sets = conclusion(metrics(calibration=calibration))
    assert numbers.startswith("Intervals (--uncertainty) at the level 0.9 need 9 validation")
    assert "exact label: y has 8." in numbers
    assert sets.endswith("fewer than 9 validation molecules: 1 of active; mid and low of kind.")


def test_sentences_that_name_several_targets_quote_no_numbers_and_classes():
    """A comma separates thousands and classes here, not names."""
    narrow = {"level": 0.9, "width": 1.0, "molecules": 4000, "coverage": 0.7}
    calibration = {
        "y": {**narrow, "test_molecules": 1234},
        "z": {**narrow, "test_molecules": 500},
        "kind": {"always": ["a", "b", "c"], "molecules": 40},
    }
    _, sets, intervals = conclusion(metrics(calibration=calibration))
    assert ": a, b and c of kind." in sets
    assert ": 70 % of 1,234 for y; 70 % of 500 for z." in intervals


@pytest.mark.parametrize(("coverage", "narrow"), [(0.7, True), (0.75, True), (0.8, False)])
def test_intervals_that_contain_too_few_test_labels(coverage, narrow):
    """At most 15 of 20 have a probability of 4.3 %, at most 16 one of 13 %."""
    known = {"level": 0.9, "width": 1.0, "molecules": 20, "coverage": coverage}
    calibration = {
        "y": {**known, "test_molecules": 20},
        "without test labels": {**known, "coverage": None, "test_molecules": 0},
    }
    texts = conclusion(metrics(calibration=calibration))[1:]
    expected = (
        "Intervals and sets of classes (--uncertainty) at the level 0.9 contain clearly fewer than "
        f"90 % of the test labels: {100 * coverage:.0f} % of 20 for y. They are too narrow for "
        "such molecules."
    )
    assert texts == [expected] * narrow


def test_a_good_model_has_one_sentence():
    assert conclusion(metrics()) == [TRIVIAL]
    assert conclusion(classes()) == [RANKED]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"molecules_in_several_splits": 1}, "1 molecule is in more than one split"),
        ({"molecules_in_several_splits": 20}, "20 molecules are in more than one split"),
        (
            {"molecules_trained_on_before": 20},
            "the model that training started from was trained on 20 molecules of the validation "
            "and test splits",
        ),
        ({"leak": "its labels are known"}, "its labels are known"),
    ],
)
def test_known_leaks_come_first(entry, reason):
    sentence = f"The scores are too optimistic: {reason}."
    assert conclusion(metrics(**entry)) == [sentence, TRIVIAL]
    assert conclusion(metrics(molecules_in_several_splits=0)) == [TRIVIAL]


def test_metrics_of_an_earlier_version_have_none():
    assert conclusion({"val": {"rmse": 1.0}, "test": {"rmse": 1.0}, "chosen_by": "rmse"}) == []


@pytest.mark.parametrize(
    ("made", "score", "found", "word", "by", "ends"),
    [
        (metrics, 1.9, entry(-0.1, -0.3, 0.1), "not clearly better", "0.100", "-0.100 to 0.300"),
        (metrics, 2.1, entry(0.1, -0.1, 0.3), "not clearly better", "0.100", "-0.100 to 0.300"),
        (metrics, 2.5, entry(0.5, 0.2, 0.9), "worse", "0.500", "0.200 to 0.900"),
        (metrics, 2.0, entry(0.0, 0.0, 0.0), "not clearly better", "0.00", "0.00 to 0.00"),
        (classes, 0.52, entry(0.02, -0.1, 0.1), "not clearly better", "0.0200", "-0.100 to 0.100"),
        (classes, 0.3, entry(-0.2, -0.3, -0.1), "worse", "0.200", "0.100 to 0.300"),
    ],
)
def test_a_model_without_a_clear_gain_is_not_to_be_relied_on(made, score, found, word, by, ends):
    content = made()
    (name,) = content["headlines"]
    content["test"] = {**content["test"], name: score}
    content["constant_difference"] = {**content["constant_difference"], name: found}
    text, *_ = conclusion(content)
    assert text.startswith(f"The model is {word} than the trivial baseline")
    assert f"a difference of {by} (95 % interval {ends}). Do not rely on its predictions" in text


@pytest.mark.parametrize(
    ("count", "found", "undecided"),
    [
        (49, entry(-0.1, -0.3, 0.1), True),
        (50, entry(-0.1, -0.3, 0.1), False),
        (49, entry(0.1, -0.1, 0.3), False),
    ],
)
def test_a_gain_with_few_test_molecules_is_undecided(count, found, undecided):
    text, *_ = conclusion(
        metrics(molecules={"test": count}, constant_difference={"rmse": found}),
    )
    advice = (
        f"So few test molecules ({count}) cannot decide it: `molsepnorm benchmark --folds 5 "
        "--no-test` scores every molecule once."
    )
    assert text.endswith(advice) == undecided
    assert ("Do not rely" in text) != undecided


@pytest.mark.parametrize(
    ("found", "word", "advice"),
    [
        (entry(-0.05, -0.09, -0.01), "better", ""),
        (entry(-0.05, -0.11, 0.01), "not clearly better", ""),
        (entry(0.05, -0.01, 0.11), "not clearly better", ""),
        (entry(0.05, 0.01, 0.09), "worse", " Prefer a forest for"),
    ],
)
def test_the_forest_is_compared(found, word, advice):
    forest = {"test": {"rmse": 0.65}}
    content = metrics(baseline=forest, baseline_difference={"rmse": found})
    trivial, text = conclusion(content)
    assert trivial == TRIVIAL
    start = f"The model is {word} than a random forest on the test molecules: RMSE 0.600 against"
    assert text.startswith(f"{start} 0.650, a difference of 0.0500 (95 % interval ")
    assert text.endswith(f").{advice} this table." if advice else ").")
    blended = conclusion({**content, "blend": {"forest_share": 0.5}})[1]
    assert blended.startswith(f"The blend is {word}") and "--blend" not in blended
    forest_alone = conclusion({**content, "blend": {"forest_share": 1.0}})[1]
    assert forest_alone.startswith("The model is the random forest alone")
    assert conclusion({**content, "members": []})[1].startswith(f"The ensemble is {word}")


@pytest.mark.parametrize(
    ("probable", "ranked", "word", "use"),
    [
        (entry(0.3, 0.1, 0.5), True, "worse", "Use them to rank molecules, not as probabilities"),
        (entry(-0.1, -0.3, 0.1), True, "not clearly better", "Use them to rank"),
        (entry(0.3, 0.1, 0.5), False, "worse", "To improve them, choose the epoch"),
        (entry(-0.1, -0.3, 0.1), False, None, ""),
        (entry(-0.2, -0.3, -0.1), True, None, ""),
        (entry(-0.2, -0.3, -0.1), False, None, ""),
    ],
)
def test_probabilities_that_are_no_better_than_class_frequencies(probable, ranked, word, use):
    """Unclear ones have no sentence if the model does not rank molecules either."""
    own = entry(0.3, 0.25, 0.35) if ranked else entry(0.01, -0.1, 0.1)
    found = conclusion(classes(constant_difference={"roc_auc": own, "log_loss": probable}))[1:]
    assert len(found) == (word is not None)
    for text in found:
        assert f"are {word} than the class frequencies of the training molecules: log loss" in text
        assert "0.500 against 0.690" in text
        assert use in text and "--metric log_loss" in text


@pytest.mark.parametrize("name", ["roc_auc", "log_loss", "brier"])
@pytest.mark.parametrize("is_binary", [True, False])
def test_class_weights_shift_probabilities(name, is_binary):
    """They are shifted back by calibration."""
    ranked = "roc_auc" if is_binary else "accuracy"
    scores = {ranked: 0.8, "log_loss": 0.9, "brier": 0.3}
    texts = conclusion(
        classes(
            headlines=[ranked if name == "roc_auc" else name],
            class_weight="balanced",
            test=scores,
            test_constant={ranked: 0.5, "log_loss": 0.69, "brier": 0.25},
            test_interval_95={},
            constant_difference={
                ranked: entry(0.3, 0.25, 0.35),
                "log_loss": entry(0.21, 0.1, 0.3),
                "brier": entry(0.05, 0.01, 0.1),
            },
        )
    )
    (text,) = (each for each in texts if "Balanced class weights shift the probabilities" in each)
    assert "calibrated probabilities (`predict --uncertainty`)" in text
    assert text.endswith("leave --class-weight out.")
    assert not any("Do not rely" in each or "--metric" in each for each in texts)


def test_a_bad_log_loss_alone_is_no_reason_to_discard_a_model():
    content = classes(headlines=["log_loss"])
    content["constant_difference"]["log_loss"] = entry(0.1, -0.05, 0.2)
    (text,) = conclusion(content)
    assert text.endswith(
        "Use the predictions to rank molecules, or use the calibrated probabilities (`predict "
        "--uncertainty`)."
    )
    content["constant_difference"]["roc_auc"] = entry(0.01, -0.1, 0.1)
    assert "Do not rely on its predictions" in conclusion(content)[0]


def test_probabilities_are_not_named_twice():
    content = classes(headlines=["log_loss"])
    content["constant_difference"]["log_loss"] = entry(0.1, 0.05, 0.2)
    (text,) = conclusion(content)
    assert "worse than the trivial baseline" in text and "log loss 0.500 against 0.690" in text


@pytest.mark.parametrize(
    ("made", "found", "far"),
    [
        (metrics, entry(-0.5, -0.7, -0.3), True),
        (metrics, entry(-0.5, -1.1, 0.1), False),
        (metrics, entry(-0.19, -0.2, -0.18), False),
        (metrics, entry(0.5, 0.3, 0.7), False),
        (classes, entry(0.3, 0.2, 0.4), True),
        (classes, entry(0.04, 0.03, 0.05), False),
        (classes, entry(-0.3, -0.4, -0.2), False),
    ],
)
def test_a_validation_score_far_better_than_the_test_score(made, found, far):
    """By more than its interval, and by a tenth of the gain of a perfect model."""
    (name,) = made()["headlines"]
    for split, said in (("scaffold split", " (scaffold split)"), (None, "")):
        content = made(val_test_difference={name: found})
        if split is not None:
            content["split"] = split
        texts = conclusion(content)[1:]
        assert len(texts) == far
        for text in texts:
            assert "is better than the test" in text and "Rely on the test score." in text
            assert f"the validation molecules{said}, or the best epoch" in text


@pytest.mark.parametrize(
    ("median", "end"),
    [
        (0.8, "0.80 (random split), so the scores hold for close analogues: expect lower ones"),
        (0.6, "0.60 (random split), so the scores hold for close analogues: expect lower ones"),
        (0.5, "0.50 (random split)."),
        (0.4, "0.40 (random split)."),
        (0.39, "0.39 (random split): few of them have a close analogue in the training set."),
    ],
)
def test_the_similarity_of_the_test_molecules(median, end):
    nearest = {"median": median, "test": 100, "train": 800}
    trivial, text = conclusion(metrics(split="random split", nearest_train_similarity=nearest))
    assert trivial == TRIVIAL
    assert f"to the nearest training molecule is {end}" in text


@pytest.mark.parametrize(
    ("count", "ends", "uncertain"),
    [
        (100, [0.3, 0.96], False),
        (100, [0.3, 0.97], True),  # wider than a third of the error of the trivial baseline, 2.0
        (50, [0.5, 0.7], False),
        (49, [0.5, 0.7], True),
    ],
)
def test_an_uncertain_test_score(count, ends, uncertain):
    texts = conclusion(
        metrics(molecules={"test": count}, test_interval_95={"rmse": ends}),
    )[1:]
    low, high = (f"{end:.3f}" for end in ends)
    expected = (
        f"The test RMSE is uncertain: its 95 % interval is {low} to {high} with {count} test "
        "molecules. A larger test split narrows it."
    )
    assert texts == [expected] * uncertain


@pytest.mark.parametrize(("train", "small"), [(399, True), (400, False)])
def test_small_tables_need_cross_validation(train, small):
    (_, text) = conclusion(metrics(molecules={"train": train, "test": 20}))
    advice = "Cross-validation (`molsepnorm benchmark --folds 5 --no-test`) narrows it."
    assert text.endswith(advice if small else "A larger test split narrows it.")


def test_one_test_molecule_decides_nothing():
    content = metrics(molecules={"test": 1}, test_interval_95={}, constant_difference={})
    assert conclusion(content) == [
        "The test RMSE is that of a single molecule, which cannot show whether the model is better "
        "than another: `molsepnorm benchmark --folds 5 --no-test` scores every molecule once."
    ]


def test_one_test_molecule_whose_class_is_right():
    scores = {"accuracy": 1.0, "log_loss": 0.1}
    content = classes(headlines=["accuracy"], test=scores, molecules={"test": 1})
    content |= {"test_interval_95": {}, "constant_difference": {}}
    last = conclusion(content)[-1]
    assert last.startswith("The test accuracy is that of a single molecule, which cannot show")


def test_a_perfect_score_has_no_interval():
    scores = {"roc_auc": 1.0, "log_loss": 0.1}
    content = classes(test=scores, molecules={"test": 12}, test_interval_95={})
    content["constant_difference"]["roc_auc"] = entry(0.5, 0.5, 0.5)
    trivial, *_, last = conclusion(content)
    assert trivial.endswith("a difference of 0.500, the same in all bootstrap resamples.")
    assert last == (
        "The test ROC-AUC of 1 has no interval, because it is the same for all resamples of the 12 "
        "test molecules: other molecules may be harder."
    )


def test_an_undefined_score():
    content = classes(
        test={"roc_auc": None, "log_loss": 0.5},
        test_interval_95={"log_loss": [0.4, 0.6]},
        constant_difference={"log_loss": entry(-0.19, -0.25, -0.1)},
    )
    (text,) = conclusion(content)
    assert text.startswith("The ROC-AUC is undefined on the test molecules, which have too few")
    assert text.endswith("choose another split.")
    (text,) = conclusion({**content, "split": "random split"})
    assert text.endswith("choose another split, such as `--split-type stratified`.")


def test_spearman_is_undefined_for_the_trivial_baseline():
    """The model is compared by another metric of its targets."""
    (text,) = conclusion(
        metrics(
            headlines=["spearman"],
            test={"rmse": 0.6, "spearman": 0.9},
            test_constant={"rmse": 2.0, "spearman": None},
            test_interval_95={"spearman": [0.85, 0.95]},
        )
    )
    assert text == TRIVIAL


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
    assert text == (
        "The model is better than the trivial baseline for each of the 3 targets; the smallest "
        "gain is that of b (RMSE 0.800 against 1.00)."
    )
    found = {"a": (0.5, 0.1), "b": (0.05, 0.1), "c/d": (-0.4, 0.1), "e": (0.01, 0.1)}
    start = "targets the model is not clearly better than the trivial baseline, worst first:"
    assert conclusion(many(found))[1] == f"For 3 of 4 {start} c/d, e, b."
    found["f"] = (-0.5, 0.1)
    assert conclusion(many(found))[1] == f"For 4 of 5 {start} f, c/d, e and 1 more."
    content = many(found)
    content["test"]["rmse/g"] = None
    assert conclusion(content)[1].endswith("more. 1 more cannot be scored: too few test labels.")


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
        (None, ["regression"], "mse", ("rmse",)),
        ("spearman", ["regression"], "l1", ("spearman",)),
        ("loss", ["binary"], "l1", ("roc_auc",)),
        (None, ["regression", "binary", "regression"], "l1", ("mae", "roc_auc")),
        ("accuracy", ["binary", "multiclass"], "l1", ("accuracy",)),
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


def test_the_similarity_counts_molecules(configure):
    """Further rows of a molecule do not change it."""
    config = configure({"data.split": [0.5, 0.2, 0.3]})
    dataset = loaded(config)
    expected = about_split(config.data, dataset)["nearest_train_similarity"]
    parts = dataset.splits
    splits = {name: np.append(part, part[:1].repeat(20)) for name, part in parts.items()}
    found = about_split(config.data, replace(dataset, splits=splits))
    assert found["nearest_train_similarity"] == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "random split"),
        ({"split_type": "scaffold"}, "scaffold split"),
        ({"split_type": "scaffold-ogb"}, "scaffold split"),
        ({"split_type": "butina"}, "cluster split"),
        ({"split_type": "time", "time_column": "t"}, "split by time"),
        ({"splits_column": "part"}, "split of the column part"),
        ({"splits_file": "/secret/splits.json"}, "split of a file"),
        ({"in_memory": True, "table": None}, None),
    ],
)
def test_the_split_is_named(configure, settings, expected):
    dataset = loaded(configure())
    data = DataConfig(**{"table": "data.csv", **settings})
    assert about_split(data, dataset).get("split") == expected


def test_molecules_that_are_not_smiles_have_no_similarity(small_zinc):
    graphs = list(featurize.get("ogb").stream(["C" * n for n in range(1, 21)]))
    settings = {"model.layers": 1, **ONE_EPOCH}
    values = [n / 10 for n in range(20)]
    result = molsepnorm.fit(graphs, values, overrides=settings)
    assert result.metrics["molecules"] == {"train": 16, "val": 2, "test": 2}
    assert not {"nearest_train_similarity", "split"} & result.metrics.keys()
    assert not any("Tanimoto" in text for text in conclusion(result.metrics))


def test_texts_of_another_featuriser_have_no_similarity(configure, monkeypatch):
    config = configure()
    dataset = loaded(config)
    odd = molsepnorm.errors.InvalidMolecule("not a SMILES")
    monkeypatch.setattr(
        "molsepnorm.molecules.featurize.fingerprints.packed_morgan",
        lambda texts: (_ for _ in ()).throw(odd),
    )
    known = {"molecules", "labelled", "labelled_test", "split"}
    assert about_split(config.data, dataset).keys() == known


def test_shuffled_labels_are_not_predicted(with_columns):
    """Each molecule has a random label, so no model is better than one number for all."""
    values = np.random.default_rng(3).normal(size=30).round(3).tolist()
    settings = {"data.targets": ["y"], "data.split": [0.5, 0.2, 0.3], **ONE_EPOCH}
    sentences = conclusion(train(with_columns({"y": values}, settings)).metrics)
    assert "Do not rely on its predictions" in sentences[0]
    assert "is uncertain" in sentences[-1]


def test_an_ensemble_has_the_numbers_of_all_its_members(configure, tmp_path):
    settings = {**ONE_EPOCH, "run.ensemble": 3}
    config = configure(settings)
    made = train(config, tmp_path / "run").metrics
    sizes = {"train": 23, "val": 3, "test": 3}
    assert made["molecules"].items() >= sizes.items()
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == made
    assert made["nearest_train_similarity"]["train"] == sizes["train"]
    assert conclusion(made)[0].startswith("The ensemble is ")
