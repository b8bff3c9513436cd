"""Sentences that say what the scores of a run mean, from the numbers of `metrics.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from molsepnorm.errors import counted, first_of, listed
from molsepnorm.tasks.metrics import METRICS, between, label_of, significant
from molsepnorm.training.results.comparisons import (
    MAX_NAMED,
    Gain,
    comparable_metric,
    comparison,
    largest_gain,
    metric_label,
    metric_of_targets,
)
from molsepnorm.training.results.scores import headline, leaks

_FEW = 50  # test molecules below which a score is called uncertain
_SMALL = 400  # training molecules below which a larger test split is not advised
_WIDE = 1 / 3  # width of an interval that is called uncertain, see `largest_gain`
_FAR = 0.1  # difference between validation and test that is called large, see `largest_gain`
_SIMILAR, _DISSIMILAR = 0.6, 0.4  # Tanimoto similarities to the nearest training molecule
_MIN = 9  # validation molecules of an interval or a class at the level 0.9
_PROBABILITIES = ("log_loss", "brier")  # metrics of probabilities; others need only a ranking
_CROSS_VALIDATION = "`molsepnorm benchmark --folds 5 --no-test`"


def conclusion(metrics: Mapping[str, Any]) -> list[str]:
    """Return what the scores of a run mean, in a few sentences.

    A sentence appears only where it applies and where its numbers are defined. A difference is
    clear if its 95 % interval does not contain 0.

    Args:
        metrics: the content of `metrics.json`.
    """
    names, gains = metrics.get("headlines", ()), metrics.get("constant_difference", {})
    sentences = [f"The scores are too optimistic: {reason}." for reason in leaks(metrics)]
    for name in names:
        if metrics["test"][name] is None:
            has_classes = "regression" not in METRICS[name].kinds
            is_random = metrics.get("split") == "random split"
            sentences.append(
                f"The {metric_of_targets(metrics, name)} is undefined on the test molecules, which "
                "have too few labels or labels of one class: choose another split"
                f"{', such as `--split-type stratified`' if has_classes and is_random else ''}."
            )
        elif (own := comparable_metric(name, gains)) is not None:
            sentences.append(_against_constant(metrics, own, Gain.of(own, gains[own])))
    sentences += _targets(metrics)
    if metrics.get("blend", {}).get("forest_share") == 1:
        sentences.append(
            "The model is the random forest alone: any share of the network makes the validation "
            "loss higher."
        )
    else:
        for name in names:
            if (found := metrics.get("baseline_difference", {}).get(name)) is not None:
                sentences.append(_against_forest(metrics, name, Gain.of(name, found)))
        scores = metrics["test"], metrics.get("baseline", {}).get("test", {})
        sentences += _behind_forest(names, metrics.get("baseline_difference", {}), *scores)
    sentences += _calibration(metrics)
    sentences += _intervals(metrics)
    for name in names:
        sentences += _shift(metrics, name)
    sentences += _similarity(metrics)
    for name in names:
        sentences += _uncertainty(metrics, name)
    return sentences


def conclusion_of_folds(summary: Mapping[str, Any]) -> str | None:
    """Return sentences that compare the model with its forest over the folds; None if there is no
    forest, or the difference is undefined.

    Args:
        summary: the content of `summary.json`.
    """
    name = headline(summary)
    found = summary.get("baseline_difference", {}).get(name)
    if found is None or found["difference"] is None or found["interval_95"] is None:
        return None
    gain = Gain.of(name, found)
    scores = (
        {key: each["mean"] for key, each in part["test"].items()}
        for part in (summary, summary["baseline"])
    )
    return " ".join(
        [
            f"The model is {gain.word} than a random forest, {metric_label(summary, name)} on "
            f"average over the folds: {gain}, with the correction of Nadeau and Bengio for "
            "overlapping training sets.",
            *_behind_forest([name], summary["baseline_difference"], *scores),
        ]
    )


def _against_constant(metrics: Mapping[str, Any], name: str, gain: Gain) -> str:
    than = "the trivial baseline (the same prediction for all molecules)"
    text = comparison(metrics, name, gain, than, metrics["test_constant"][name])
    if gain.low > 0:
        return text
    if name in _PROBABILITIES and _ranks(metrics):
        return f"{text} {_use_of_probabilities(metrics)}"
    count = _test_molecules(metrics, name)
    if gain.by > 0 and count is not None and count < _FEW:
        return (
            f"{text} So few test molecules ({count}) cannot decide it: {_CROSS_VALIDATION} scores "
            "every molecule once."
        )
    return f"{text} Do not rely on its predictions; `molsepnorm data check` examines the labels."


def _against_forest(metrics: Mapping[str, Any], name: str, gain: Gain) -> str:
    text = comparison(metrics, name, gain, "a random forest", metrics["baseline"]["test"][name])
    if gain.high < 0 and "blend" not in metrics:
        return f"{text} Prefer a forest for this table."
    return text


def _behind_forest(
    names: Sequence[str],
    differences: Mapping[str, Any],
    ours: Mapping[str, float],
    forest: Mapping[str, float],
) -> Iterator[str]:
    """Yield a sentence about the targets for which the model is clearly worse than the forest.

    Args:
        names: the metrics.
        differences: see `molsepnorm.training.results.comparisons.differences`.
        ours, forest: test scores of the model and the forest.
    """
    gains = {
        key: Gain.of(key, found)
        for key, found in differences.items()
        if "/" in key and key.partition("/")[0] in names and found["interval_95"] is not None
    }
    worse = [key for key, gain in gains.items() if gain.high < 0]
    if worse:
        worse.sort(key=lambda key: gains[key].by / (abs(forest[key]) or 1))
        named = [
            f"{key.partition('/')[2]} ({label_of(key.partition('/')[0])} "
            f"{significant(ours[key], 3)} against {significant(forest[key], 3)}, {gains[key]})"
            for key in worse
        ]
        yield (
            f"For {len(worse)} of {len(gains)} targets the model is worse than a random forest, "
            f"worst first: {first_of(named, MAX_NAMED, ';')}."
        )


def _targets(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about the targets with the smallest gain, if there are several."""
    found: dict[str, tuple[float, str, Gain]] = {}
    gains, targets = metrics.get("constant_difference", {}), set()
    used = {comparable_metric(name, gains) for name in metrics.get("headlines", ())}
    if not used <= {key.partition("/")[0] for key in metrics["test"] if "/" in key}:
        return  # a metric has one target, which the sentences would leave out
    for key in metrics["test"]:
        metric, _, target = key.partition("/")
        if target and metric in used:
            targets.add(target)
            if key in gains and target not in found:
                gain = Gain.of(key, gains[key])
                found[target] = gain.by / (largest_gain(metrics, key) or 1), key, gain
    if len(found) < 2:
        return
    undefined = len(targets) - len(found)
    others = f" {undefined} more cannot be scored: too few test labels." if undefined else ""
    worst = sorted(found, key=lambda target: found[target][0])
    if unclear := [target for target in worst if found[target][2].low <= 0]:
        yield (
            f"For {len(unclear)} of {len(found)} targets the model is not clearly better than the "
            f"trivial baseline, worst first: {first_of(unclear, MAX_NAMED)}.{others}"
        )
        return
    _, key, _ = found[worst[0]]
    own, other = (significant(metrics[each][key], 3) for each in ("test", "test_constant"))
    yield (
        f"The model is better than the trivial baseline for each of the {len(found)} targets; the "
        f"smallest gain is that of {worst[0]} ({label_of(key.partition('/')[0])} {own} against "
        f"{other})."
        f"{others}"
    )


def _calibration(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence if the probabilities are no better than the frequencies of the classes."""
    names, gains = metrics.get("headlines", ()), metrics.get("constant_difference", {})
    if {*_PROBABILITIES}.intersection(names) or "log_loss" not in gains:
        return
    gain = Gain.of("log_loss", gains["log_loss"])
    ranks = _ranks(metrics)
    if gain.low > 0 or (gain.high >= 0 and not ranks):  # the latter is clear from the headline
        return
    own, other = (significant(metrics[e]["log_loss"], 3) for e in ("test", "test_constant"))
    use = "Use them to rank molecules, not as probabilities, or" if ranks else "To improve them,"
    use += " choose the epoch by their log loss (--metric log_loss)."
    yield (
        f"The probabilities are {gain.word} than the class frequencies of the training molecules: "
        f"{metric_label(metrics, 'log_loss')} {own} against {other}, {gain}. "
        f"{_use_of_probabilities(metrics) if 'class_weight' in metrics else use}"
    )


def _ranks(metrics: Mapping[str, Any]) -> bool:
    """Return whether the order of the predicted classes is clearly better than chance."""
    gains = metrics["constant_difference"]
    return any(
        Gain.of(name, gains[name]).low > 0
        for name in gains
        if "/" not in name and name not in _PROBABILITIES and METRICS[name].kinds != ("regression",)
    )


def _use_of_probabilities(metrics: Mapping[str, Any]) -> str:
    """Return what to do with probabilities that are no better than the class frequencies."""
    calibrated = "use the calibrated probabilities (`predict --uncertainty`)"
    if "class_weight" not in metrics:
        return f"Use the predictions to rank molecules, or {calibrated}."
    use = f"{calibrated}, or leave --class-weight out"
    return f"Balanced class weights shift the probabilities: {use}."


def _intervals(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about targets whose intervals or sets have too few validation molecules, or
    which are too narrow."""
    found = metrics.get("calibration", {})
    without = [
        f"{name} has {each['molecules']}"
        for name, each in found.items()
        if "width" in each and each["molecules"] < _MIN
    ]
    full = [
        f"{listed(each['always'])} of {name}" for name, each in found.items() if each.get("always")
    ]
    if without:
        yield (
            f"Intervals (--uncertainty) at the level 0.9 need {_MIN} validation molecules "
            f"with an exact label: {first_of(without, MAX_NAMED, ';')}. A larger validation split "
            "gives more."
        )
    if full:
        yield (
            f"Sets of classes (--uncertainty) at the level 0.9 always contain each class with "
            f"fewer than {_MIN} validation molecules: {first_of(full, MAX_NAMED, ';')}."
        )
    narrow = [
        f"{100 * each['coverage']:.0f} % of {each['test_molecules']:,} for {name}"
        for name, each in found.items()
        if _is_narrow(each)
    ]
    if narrow:
        yield (
            "Intervals and sets of classes (--uncertainty) at the level 0.9 contain clearly fewer "
            f"than 90 % of the test labels: {first_of(narrow, MAX_NAMED, ';')}. They are too "
            "narrow for such molecules."
        )


def _is_narrow(entry: Mapping[str, Any]) -> bool:
    """Return whether intervals or sets contain fewer test labels than their level, by a binomial
    test at 5 %."""
    count, coverage = entry.get("test_molecules"), entry.get("coverage")
    if count is None or coverage is None:
        return False
    from scipy.stats import binom

    return bool(binom.cdf(round(coverage * count), count, entry["level"]) < 0.05)


def _shift(metrics: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield a sentence if the validation score is far better than the test score."""
    found = metrics.get("val_test_difference", {}).get(name)
    if found is None:
        return
    gain, metric = Gain.of(name, found), metric_label(metrics, name)
    if gain.low <= 0 or gain.by <= _FAR * largest_gain(metrics, name):
        return
    val, test = (significant(metrics[split][name], 3) for split in ("val", "test"))
    split = f" ({metrics['split']})" if "split" in metrics else ""
    yield (
        f"The validation {metric} of {val} is better than the test {metric} of {test} by more than "
        f"chance explains, {gain}: the test molecules differ from the validation molecules{split}, "
        "or the best epoch fits the validation molecules too closely. Rely on the test score."
    )


def _similarity(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about the similarity of the test molecules to the training molecules."""
    if (found := metrics.get("nearest_train_similarity")) is None:
        return
    split = f" ({metrics['split']})" if "split" in metrics else ""
    means = ""
    if found["median"] >= _SIMILAR:
        means = ", so the scores hold for close analogues: expect lower ones for new chemistry"
    elif found["median"] < _DISSIMILAR:
        means = ": few of them have a close analogue in the training set"
    yield (
        "The median Tanimoto similarity of a test molecule to the nearest training molecule is "
        f"{found['median']:.2f}{split}{means}."
    )


def _uncertainty(metrics: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield a sentence if the test score has a wide interval or none, or few molecules or one."""
    ends = metrics.get("test_interval_95", {}).get(name)
    count, score = _test_molecules(metrics, name), metrics["test"][name]
    if count is None or score is None:
        return
    if ends is None:
        if count == 1:
            yield (
                f"The test {metric_of_targets(metrics, name)} is that of a single molecule, which "
                f"cannot show whether the model is better than another: {_CROSS_VALIDATION} scores "
                "every molecule once."
            )
        elif METRICS[name].higher_is_better and score == 1:
            yield (
                f"The test {metric_label(metrics, name)} of 1 has no interval, because it is the "
                f"same for all resamples of the {count:,} test molecules: other molecules may be "
                "harder."
            )
        return
    if count >= _FEW and ends[1] - ends[0] <= _WIDE * largest_gain(metrics, name):
        return
    is_small = metrics.get("molecules", {}).get("train", _SMALL) < _SMALL
    what = f"Cross-validation ({_CROSS_VALIDATION})" if is_small else "A larger test split"
    yield (
        f"The test {metric_label(metrics, name)} is uncertain: its 95 % interval is "
        f"{between(ends, 3)} with {counted(count, 'test molecule')}. {what} narrows it."
    )


def _test_molecules(metrics: Mapping[str, Any], name: str) -> int | None:
    """Return the number of test molecules with a label of the targets that a metric scores, of
    several the largest; None if it is not known."""
    if (counts := metrics.get("labelled_test")) is not None:
        return max(counts[each] for each in metrics.get("scored_targets", {}).get(name, counts))
    return metrics.get("labelled", metrics.get("molecules", {})).get("test")
