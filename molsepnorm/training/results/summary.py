"""Texts of terminal, model card and report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.errors import first_of
from molsepnorm.files.page import template
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import KernelPart, NetworkPart
from molsepnorm.tasks.metrics import METRICS, between, label_of, significant
from molsepnorm.training.results.metrics import (
    Gap,
    Metrics,
    NoiseScores,
    Scores,
    SetCoverage,
)

INTERVAL = "95 % interval"
MAX_TARGETS = 12  # that are listed one by one

_NOTES = {
    INTERVAL: "Intervals are bootstrap intervals of the test scores.",
    "trivial baseline": "The trivial baseline predicts the same for all molecules.",
    "without forest": "Without forest is the network or kernel regression by itself.",
    "random forest": "The random forest reads fingerprints and descriptors of the same molecules.",
}
_RELATIVE = "A relative error is divided by the standard deviation of the target's training labels."
_FEW = 50  # test molecules below which a score is called uncertain
_TOO_FEW = 20  # test molecules below which models are not compared
_NAMED = 3  # targets that a sentence names
_FOREST = "a random forest"


def score_columns(metrics: Metrics) -> dict[str, Mapping[str, Any]]:
    columns: dict[str, Mapping[str, Any] | None] = {
        "validation": metrics.val,
        "test": metrics.test,
        INTERVAL: metrics.test_interval_95,
        "trivial baseline": metrics.test_constant,
        "without forest": metrics.blend.network.get("test"),
        "random forest": metrics.baseline.test,
    }
    return {title: scores for title, scores in columns.items() if scores}


def score_rows(columns: Mapping[str, Mapping[str, Any]], digits: int = 4) -> dict[str, list[str]]:
    def cell(name: str, value: Any) -> str:
        if isinstance(value, list | tuple):
            return " to ".join(cell(name, end) for end in value)
        metric = METRICS.get(name.partition("/")[0])
        if value is None or metric is None or metric.has_unit or abs(value) >= 1:
            return significant(value, digits, none="—")
        return f"{value:.{digits}f}"

    first, *_ = columns.values()
    return {name: [cell(name, scores.get(name)) for scores in columns.values()] for name in first}


def listed_metrics(names: Iterable[str]) -> list[str]:
    """Return the metrics of a short table: with many targets, only the means over them."""
    names = list(names)
    is_long = len({name.partition("/")[2] for name in names} - {""}) > MAX_TARGETS
    return [name for name in names if "/" not in name] if is_long else names


def is_relative(name: str, names: Iterable[str]) -> bool:
    """Return whether a score is the mean error of several targets, in standard deviations.

    >>> is_relative("rmse", ["rmse", "rmse/pKa", "rmse/logP"]), is_relative("rmse", ["rmse", "r2"])
    (True, False)
    """
    several = any(other.startswith(f"{name}/") for other in names)
    return several and name in METRICS and METRICS[name].has_unit


def score_notes(columns: Mapping[str, Mapping[str, Any]]) -> str:
    names = next(iter(columns.values()))
    notes = [_RELATIVE] * any(is_relative(name, names) for name in names)
    notes += [text for title, text in _NOTES.items() if title in columns]
    if "trivial baseline" in columns and "random forest" not in columns:
        notes.append("The run has no forest beside it.")
    return " ".join(notes)


def calibration_table(metrics: Metrics) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of a table of the intervals and sets of each target."""
    rows = []
    for name, calibration in metrics.calibration.items():
        if isinstance(calibration, SetCoverage):
            size, unit, signal = calibration.classes, "classes", "class"
        else:
            size, unit, signal = calibration.width, "wide", calibration.signal or "—"
        coverage = "—" if calibration.coverage is None else f"{calibration.coverage:.1%}"
        mean_size = "—" if size is None else f"{significant(size, 3)} {unit}"
        molecules = f"{calibration.molecules:,}"
        rows.append([name, f"{calibration.level:.0%}", coverage, mean_size, molecules, signal])
    return ["target", "level", "coverage", "mean size", "fitted to molecules", "depends on"], rows


def metric_label(scores: Mapping[str, Any], name: str) -> str:
    """Return the name of a score in text, such as "mean relative RMSE" of several targets."""
    of_targets = [score for key, score in scores.items() if key.startswith(f"{name}/")]
    is_mean = len(of_targets) > 1 and sum(score is not None for score in of_targets) != 1
    relative = "relative " * is_relative(name, scores)
    return f"{'mean ' if is_mean else ''}{relative}{label_of(name)}"


def composition(model: PropertyModel, epochs: int) -> str:
    """Return the parts of a model, such as "35 % kernel regression, 65 % random forest", which are
    means over the targets."""
    every = model.weights if model.task.targets else np.ones((len(model.parts), 1))
    shares, counts = dict[str, float](), dict[str, int]()
    for kind in dict.fromkeys(part.kind for part in model.parts):
        weights = every[[part.kind == kind for part in model.parts]]
        shares[kind] = float(weights.sum(axis=0).mean())
        counts[kind] = int((weights > 0).sum(axis=0).max())  # of one target
    used = {name: name for name, share in shares.items() if share}
    used |= {name: f"{name} (mean of {counts[name]})" for name in used if counts[name] > 1}
    text = ", ".join(f"{100 * shares[name]:.0f} % {title}" for name, title in used.items())
    if len(used) == 1:
        text = f"the {''.join(used.values())} alone"
    elif np.ptp(every, axis=1).any():
        text += " (of all targets on average)"
    if epochs and KernelPart.kind in used and NetworkPart.kind not in used:
        text += "; the fine-tuned network did not improve the validation score and is not used"
    return text


class _Gain(NamedTuple):
    """Gain of one score over another: positive if it is better, with its 95 % interval."""

    by: float
    low: float
    high: float

    @property
    def word(self) -> str:
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "not clearly better"

    def __str__(self) -> str:
        low, high = (self.low, self.high) if self.by >= 0 else (-self.high, -self.low)
        ends = between((low, high), 3)
        return f"a difference of {significant(abs(self.by), 3)} (95 % interval {ends})"


def _gains(differences: Mapping[str, Gap] | None) -> dict[str, _Gain]:
    gains = {}
    for name, gap in (differences or {}).items():
        sign = 1 if METRICS[name.partition("/")[0]].higher_is_better else -1
        gains[name] = _Gain(sign * gap.difference, *sorted(sign * end for end in gap.interval_95))
    return gains


def conclusion(metrics: Metrics) -> list[str]:
    """Return the sentences of `conclusion.txt` whose numbers are defined."""
    count = max(metrics.labelled_test.values(), default=_FEW)
    alone, enough = metrics.blend.forest_share == 1, count >= _TOO_FEW
    constant = _gains(metrics.constant_difference) if enough else {}
    forest = {} if alone or not enough else _gains(metrics.baseline_difference)
    names = [*dict.fromkeys(_comparable(name, constant) for name in metrics.headlines)]
    test, trivial, of_forest = metrics.test, metrics.test_constant, metrics.baseline.test
    unclear = [name for name in names if name in constant and constant[name].low <= 0]
    loss = constant.get("log_loss")
    improbable = loss.word if loss is not None and loss.low <= 0 else ""
    sentences = template("molsepnorm.training.results", "conclusion.txt")
    values = sentences.new_context(
        {
            "metrics": metrics,
            "constant": _comparison(names, constant, test, trivial),
            "forest": _comparison(names, forest, test, of_forest),
            "own": _own(metrics, _gains(metrics.own_difference) if enough else {}),
            "weak": [
                *_weak(names, constant, test, trivial, "the trivial baseline"),
                *_weak(names, forest, test, of_forest, _FOREST, ("worse",)),
            ],
            "noise": "; ".join(_inside(*pair) for pair in [*metrics.label_errors.items()][:_NAMED]),
            "similarity": metrics.nearest_train_similarity.get("median"),
            "undefined": [metric_label(test, n) for n in metrics.headlines if test[n] is None],
            "rare": [label_of(name) for name in names if enough and _is_rare(name, constant)],
            "few": count if count < _FEW else 0,
            "too_few": not enough,
            "useless": any(constant[name].by <= 0 or count >= _FEW for name in unclear),
            "worse": any(n in forest and forest[n].high < 0 for n in names),
            "improbable": improbable,
        }
    )
    texts = ("".join(block(values)) for block in sentences.blocks.values())
    return [" ".join(text.split()) for text in texts if text.strip()]


def _is_rare(name: str, gains: Iterable[str]) -> bool:
    """Return whether a score of classes has no interval; see `Task.intervals`."""
    return name not in gains and "regression" not in METRICS[name].kinds


def _inside(name: str, noise: NoiseScores) -> str:
    return (
        f"{100 * noise.inside:.0f} % of the predictions of {name} are in the 95 % interval of the "
        f"measurement, and a perfect model would have an MAE of {significant(noise.best_mae, 3)}"
    )


def _own(metrics: Metrics, gains: Mapping[str, _Gain]) -> list[str]:
    """Return the shares of own networks, and the targets whose test scores they change."""
    own = [f"{100 * each.share:.0f} % of {name}" for name, each in metrics.own_networks.items()]
    changes = []
    for key, gain in gains.items():
        name, _, target = key.partition("/")
        if name in metrics.headlines and target and gain.word != "not clearly better":
            scores = metrics.test[key], metrics.test_without_own[key]
            one, other = (significant(score, 3) for score in scores)
            label = label_of(name)
            changes.append(f"{target} is {gain.word} with it ({label} {one} against {other})")
    return [first_of(own, MAX_TARGETS), first_of(changes, MAX_TARGETS)] if own else []


def _comparable(name: str, gains: Iterable[str]) -> str:
    """Return the metric, or one of the same targets if it is undefined for the trivial baseline."""
    others = (n for n in gains if "/" not in n and n != "log_loss")
    same = (n for n in others if {*METRICS[name].kinds} & {*METRICS[n].kinds})
    return name if name in gains else next(same, name)


def _comparison(
    names: Sequence[str], gains: Mapping[str, _Gain], ours: Scores, others: Scores
) -> list[str]:
    """Return the word of the first gain, and the scores beside those of another model."""
    parts: list[str] = []
    for name in names:
        if name in gains:
            parts.append(f"; {gains[name].word}: " if parts else gains[name].word)
            score, other = (significant(scores[name], 3) for scores in (ours, others))
            parts.append(f"{metric_label(ours, name)} {score} against {other}, {gains[name]}")
    return [parts[0], "".join(parts[1:])] if parts else []


def _weak(
    names: Sequence[str],
    gains: Mapping[str, _Gain],
    ours: Scores,
    others: Scores,
    than: str,
    words: Sequence[str] = ("worse", "not clearly better"),
) -> Iterator[str]:
    """Yield a clause about the targets, of several, whose comparison has one of these words."""
    keys = [key for key in gains if "/" in key and key.partition("/")[0] in names]
    weak = [key for key in keys if gains[key].word in words]
    weak.sort(key=lambda key: gains[key].by / (abs(others[key] or 0) or 1))
    if weak:
        named = [
            f"{key.partition('/')[2]} ({label_of(key.partition('/')[0])} "
            f"{significant(ours[key], 3)} against {significant(others[key], 3)})"
            for key in weak
        ]
        yield (
            f"for {len(weak)} of {len(keys)} targets the model is {words[-1]} than {than}, worst "
            f"first: {first_of(named, _NAMED)}"
        )
