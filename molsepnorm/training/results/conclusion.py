"""At most six sentences that say how good a model is, against what, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from molsepnorm.errors import counted, first_of, listed
from molsepnorm.tasks.metrics import METRICS, between, label_of, significant
from molsepnorm.training.results.scores import headline, is_relative, leaks

_FEW = 50  # test molecules below which a score is called uncertain
_SMALL = 400  # training molecules below which a larger test split is not advised
_WIDE = 1 / 3  # width of an interval that is called uncertain, relative to the best possible gain
_SIMILAR, _DISSIMILAR = 0.6, 0.4  # Tanimoto similarities to the nearest training molecule
_NAMED = 3  # targets that a sentence names
_PROBABILITIES = ("log_loss", "brier")  # metrics of probabilities; others need only a ranking
_CONSTANT = "the trivial baseline (the same prediction for all molecules)"
_FOREST = "a random forest"
_WORSE, _UNCLEAR = ("worse",), ("worse", "not clearly better")
_CROSS_VALIDATION = "`molsepnorm benchmark --folds 5 --no-test` scores every molecule once"


class _Gain(NamedTuple):
    """Gain of one score over another: positive if it is better, with its 95 % interval."""

    by: float
    low: float
    high: float

    @staticmethod
    def of(name: str, found: Mapping[str, Any]) -> _Gain:
        """Return the gain from an entry of `differences`; `name` is that of the score."""
        sign = 1 if METRICS[name.partition("/")[0]].higher_is_better else -1
        low, high = sorted(sign * end for end in found["interval_95"])
        return _Gain(sign * found["difference"], low, high)

    @property
    def word(self) -> str:
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "not clearly better"

    def __str__(self) -> str:
        low, high = (self.low, self.high) if self.by >= 0 else (-self.high, -self.low)
        ends = between((low, high), 3)
        return f"a difference of {significant(abs(self.by), 3)} (95 % interval {ends})"


def conclusion(metrics: Mapping[str, Any]) -> list[str]:
    """Return what the scores of a run mean; a sentence appears only where its numbers are defined.

    A difference is clear if its 95 % interval does not contain 0.
    """
    test, constant = metrics.get("test", {}), metrics.get("test_constant", {})
    forest = metrics.get("baseline", {}).get("test", {})
    over_constant = _gains(metrics.get("constant_difference", {}))
    over_forest = _gains(metrics.get("baseline_difference", {}))
    names = [_comparable(name, over_constant) for name in metrics.get("headlines", ())]
    sentences = []
    if reasons := [*leaks(metrics)]:
        sentences.append(f"The scores are too optimistic: {'; '.join(reasons)}.")
    sentences += _comparison(metrics, names, over_constant, constant, _CONSTANT)
    if metrics.get("blend", {}).get("forest_share") == 1:
        over_forest = {}
        sentences.append(
            "The model is the random forest alone: any share of the network makes the validation "
            "loss higher."
        )
    sentences += _comparison(metrics, names, over_forest, forest, _FOREST)
    weak = [
        *_weak(names, over_constant, test, constant, "the trivial baseline", _UNCLEAR),
        *_weak(names, over_forest, test, forest, _FOREST, _WORSE),
    ]
    if weak:
        text = "; ".join(weak)
        sentences.append(f"{text[0].upper()}{text[1:]}.")
    sentences += _similarity(metrics)
    sentences += [*_advice(metrics, names, over_constant, over_forest)][:1]
    return sentences


def conclusion_of_folds(summary: Mapping[str, Any]) -> str | None:
    """Return sentences that compare the model with its forest over the folds; None if there is no
    forest, or the difference is undefined.

    Args:
        summary: the content of `summary.json`.
    """
    name, gains = headline(summary), _gains(summary.get("baseline_difference", {}))
    if name not in gains:
        return None
    ours, forest = (
        {key: each["mean"] for key, each in part["test"].items()}
        for part in (summary, summary["baseline"])
    )
    weak = [f"; {each}" for each in _weak([name], gains, ours, forest, _FOREST, _WORSE)]
    return (
        f"The model is {gains[name].word} than {_FOREST}, {metric_label(summary, name)} on average "
        f"over the folds: {gains[name]}, with the correction of Nadeau and Bengio for overlapping "
        f"training sets{''.join(weak)}."
    )


def metric_label(metrics: Mapping[str, Any], name: str) -> str:
    """Return the name of a score in text, such as "RMSE of pKa", or "mean relative RMSE" of several
    targets."""
    own = [score for key, score in metrics["test"].items() if key.startswith(f"{name}/")]
    is_mean = len(own) > 1 and sum(score is not None for score in own) != 1
    relative = "relative " * is_relative(name, metrics["test"])
    return f"{'mean ' if is_mean else ''}{relative}{label_of(name)}"


def _of_targets(metrics: Mapping[str, Any], name: str) -> str:
    """Return the name of a metric with its targets, such as "mean ROC-AUC of NR-AR and SR-p53"."""
    targets = metrics.get("scored_targets", {}).get(name, [])
    of = f" of {listed(targets)}" if 0 < len(targets) <= _NAMED else ""
    return f"{metric_label(metrics, name)}{of}"


def _gains(differences: Mapping[str, Any]) -> dict[str, _Gain]:
    return {
        name: _Gain.of(name, found)
        for name, found in differences.items()
        if found["difference"] is not None and found["interval_95"] is not None
    }


def _comparable(name: str, gains: Mapping[str, _Gain]) -> str:
    """Return the metric, or if it is undefined for the trivial baseline (Spearman), another metric
    of such targets."""
    kinds = {*METRICS[name].kinds}
    names = (n for n in gains if "/" not in n and n != "log_loss")
    others = (n for n in names if kinds.intersection(METRICS[n].kinds))
    return name if name in gains else next(others, name)


def _comparison(
    metrics: Mapping[str, Any],
    names: Sequence[str],
    gains: Mapping[str, _Gain],
    others: Mapping[str, float],
    than: str,
) -> Iterator[str]:
    """Yield the sentence that compares the test scores with those of another model."""
    who = "blend" if "blend" in metrics else "ensemble" if "members" in metrics else "model"
    parts: list[tuple[str, str]] = []
    for name in names:
        if name in gains:
            start = f"{gains[name].word}: " if parts else ""
            own, other = (significant(each[name], 3) for each in (metrics["test"], others))
            of = _of_targets(metrics, name)
            parts.append((gains[name].word, f"{start}{of} {own} against {other}, {gains[name]}"))
    if parts:
        text = "; ".join(part for _, part in parts)
        yield f"The {who} is {parts[0][0]} than {than} on the test molecules: {text}."


def _weak(
    names: Sequence[str],
    gains: Mapping[str, _Gain],
    ours: Mapping[str, float],
    others: Mapping[str, float],
    than: str,
    words: Sequence[str],
) -> Iterator[str]:
    """Yield a clause about the targets, of several, whose comparison has one of these words."""
    own = [key for key in gains if "/" in key and key.partition("/")[0] in names]
    weak = [key for key in own if gains[key].word in words]
    weak.sort(key=lambda key: gains[key].by / (abs(others[key]) or 1))
    if weak:
        named = [
            f"{key.partition('/')[2]} ({label_of(key.partition('/')[0])} "
            f"{significant(ours[key], 3)} against {significant(others[key], 3)})"
            for key in weak
        ]
        yield (
            f"for {len(weak)} of {len(own)} targets the model is {words[-1]} than {than}, worst "
            f"first: {first_of(named, _NAMED)}"
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


def _advice(
    metrics: Mapping[str, Any],
    names: Sequence[str],
    over_constant: Mapping[str, _Gain],
    over_forest: Mapping[str, _Gain],
) -> Iterator[str]:
    """Yield what to do next, the most important first."""
    headlines = metrics.get("headlines", ())
    if undefined := [name for name in headlines if metrics["test"][name] is None]:
        yield (
            f"The {_of_targets(metrics, undefined[0])} is undefined on the test molecules, which "
            "have too few labels or labels of one class: choose another split, such as "
            "`--split-type stratified` for classes."
        )
    ranks = any(
        gain.low > 0
        for name, gain in over_constant.items()
        if "/" not in name
        and name not in _PROBABILITIES
        and "regression" not in METRICS[name].kinds
    )
    probable = [name for name in (*names, "log_loss") if name in _PROBABILITIES]
    unclear = [name for name in names if name in over_constant and over_constant[name].low <= 0]
    if any(name not in probable for name in unclear) or (unclear and not ranks):
        count = _test_molecules(metrics, unclear[0])
        if over_constant[unclear[0]].by > 0 and count is not None and count < _FEW:
            yield f"So few test molecules ({count}) cannot decide it: {_CROSS_VALIDATION}."
        yield "Do not rely on its predictions; `molsepnorm data check` examines the labels."
    worse = [name for name in names if name in over_forest and over_forest[name].high < 0]
    if worse and "blend" not in metrics:
        yield "Prefer a forest for this table."
    if any(name in over_constant and over_constant[name].low <= 0 for name in probable) and ranks:
        why = "The probabilities are not better than the frequencies of the classes"
        if "class_weight" in metrics:
            why = "Balanced class weights shift the probabilities"
        yield (
            f"{why}: use the predictions to rank molecules, or use the calibrated probabilities "
            "(`predict --uncertainty`)."
        )
    for name in headlines:
        yield from _uncertainty(metrics, name)


def _uncertainty(metrics: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield a sentence if a test score has a wide interval or few molecules."""
    ends = metrics.get("test_interval_95", {}).get(name)
    count, score = _test_molecules(metrics, name), metrics["test"][name]
    if count is None or score is None:
        return
    is_wide = False
    if ends is not None:
        constant = metrics["test_constant"].get(name)
        perfect = 1.0 if METRICS[name].higher_is_better else 0.0
        best_gain = 1.0 if constant is None else abs(perfect - constant)
        is_wide = ends[1] - ends[0] > _WIDE * best_gain
    if count < _FEW or is_wide:
        is_small = metrics.get("molecules", {}).get("train", _SMALL) < _SMALL
        interval = "none" if ends is None else between(ends, 3)
        remedy = _CROSS_VALIDATION if is_small else "a larger test split narrows it"
        yield (
            f"The test {metric_label(metrics, name)} is uncertain (95 % interval: {interval}) with "
            f"{counted(count, 'test molecule')}: {remedy}."
        )


def _test_molecules(metrics: Mapping[str, Any], name: str) -> int | None:
    """Return the number of test molecules with a label of the targets that a metric scores, of
    several the largest; None if it is not known."""
    if (counts := metrics.get("labelled_test")) is not None:
        return max(counts[each] for each in metrics.get("scored_targets", {}).get(name, counts))
    return metrics.get("labelled", metrics.get("molecules", {})).get("test")
