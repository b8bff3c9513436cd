"""The content of `metrics.json`: tables as text, the score that compares runs, and leaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from molsepnorm.errors import counted
from molsepnorm.tasks.metrics import METRICS, between, significant

INTERVAL = "95 % interval"
"""Title of the column of intervals."""

MAX_TARGETS = 12
"""Maximum number of targets that are listed one by one."""

_NOTES = {
    INTERVAL: "Intervals are bootstrap intervals of the test scores.",
    "trivial baseline": "The trivial baseline predicts the same for all molecules.",
    "without forest": "The model averages a network or kernel regression with the random forest; "
    "the column without forest has the scores of the former.",
    "random forest": "The random forest reads Morgan fingerprints and descriptors, and was trained "
    "on the same molecules.",
}


_RELATIVE = "A relative error is divided by the standard deviation of the target's training labels."


def score_columns(metrics: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the columns of a table of scores by their titles, from the content of `metrics.json`.

    They are the validation and the test scores, the intervals of the latter, and the test scores of
    the trivial baseline, of the networks without the forest they are blended with, and of the
    random forest, as far as the run has them.
    """
    blend, baseline = metrics.get("blend", {}), metrics.get("baseline", {})
    columns = {
        "validation": metrics.get("val"),
        "test": metrics.get("test"),
        INTERVAL: metrics.get("test_interval_95") or None,
        "trivial baseline": metrics.get("test_constant"),
        "without forest": blend.get("network", {}).get("test"),
        "random forest": baseline.get("test"),
    }
    return {title: each for title, each in columns.items() if each is not None}


def score_rows(columns: Mapping[str, Mapping[str, Any]], digits: int = 4) -> dict[str, list[str]]:
    """Return the cells of each metric as text, from columns of scores or of intervals."""

    def cell(value: Any) -> str:
        if isinstance(value, list | tuple):
            return between(value, digits)
        return significant(value, digits, none="—")

    first, *_ = columns.values()
    return {name: [cell(each.get(name)) for each in columns.values()] for name in first}


def listed_metrics(names: Iterable[str]) -> list[str]:
    """Return the metrics of a short table: with many targets, only the means over all of them."""
    names = list(names)
    is_long = len({name.partition("/")[2] for name in names} - {""}) > MAX_TARGETS
    return [name for name in names if "/" not in name] if is_long else names


def is_relative(name: str, names: Iterable[str]) -> bool:
    """Return whether a score is the mean of errors of several targets, each divided by the standard
    deviation of the training labels.

    >>> is_relative("rmse", ["rmse", "rmse/pKa", "rmse/logP"]), is_relative("rmse", ["rmse", "r2"])
    (True, False)

    Args:
        names: names of all scores of the model.
    """
    several = any(each.startswith(f"{name}/") for each in names)
    return several and name in METRICS and METRICS[name].has_unit


def score_notes(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Return sentences that explain the rows and columns of scores."""
    names = next(iter(columns.values()))
    notes = [_RELATIVE] * any(is_relative(name, names) for name in names)
    notes += [text for title, text in _NOTES.items() if title in columns]
    if "trivial baseline" in columns and "random forest" not in columns:
        notes.append("The run has no forest beside it.")
    return " ".join(notes)


def calibration_table(metrics: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of a table of the intervals and sets of each target."""
    rows = []
    for name, found in metrics["calibration"].items():
        size, unit, signal = found.get("classes"), "classes", "class"
        if "width" in found:
            size, unit, signal = found["width"], "wide", found.get("signal") or "—"
        covered = found.get("coverage")
        shown = ["—" if covered is None else f"{covered:.1%}"]
        shown.append("—" if size is None else f"{significant(size, 3)} {unit}")
        rows.append(
            [name, f"{found['level']:.0%}", *shown, f"{found.get('molecules', 0):,}", signal]
        )
    return ["target", "level", "coverage", "mean size", "fitted to molecules", "depends on"], rows


def domain_errors(domain: Mapping[str, Any], split: str) -> str:
    """Return the mean errors of a split inside and outside the domain, from the entry `domain` of
    `metrics.json`."""
    parts = []
    for side in ("inside", "outside"):
        found = domain.get(side, {}).get(split, {})
        error = found.get("error")
        mean = "" if error is None else f" with a mean error of {significant(error, 3)}"
        parts.append(f"{found.get('molecules', 0):,} molecules {side}{mean}")
    return ", ".join(parts)


def headline(summary: Mapping[str, Any]) -> str:
    """Return the metric that compares runs.

    It is the metric that selected the best epochs. If the loss selected them, which is not among
    the scores, it is the first score.

    >>> headline({"chosen_by": "loss, rmse", "test": {"mae": {}, "rmse": {}}})
    'rmse'

    Args:
        summary: the content of `summary.json`, or of `metrics.json` of one run.
    """
    scores = [*summary["test"]]
    named = [name for name in summary["chosen_by"].split(", ") if name in scores]
    return (named or scores)[0]


def leaks(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why the scores of a run are too optimistic."""
    if shared := metrics.get("molecules_in_several_splits"):
        are = "is" if shared == 1 else "are"
        yield f"{counted(shared, 'molecule')} {are} in more than one split"
    if known := metrics.get("molecules_trained_on_before"):
        yield (
            f"the model that training started from was trained on {counted(known, 'molecule')} of "
            "the validation and test splits"
        )
    if "leak" in metrics:
        yield metrics["leak"]
