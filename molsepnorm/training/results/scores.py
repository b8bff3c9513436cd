"""The scores in `metrics.json`: the columns of a table, the one that compares runs, and leaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from molsepnorm.errors import counted

__all__ = ["headline", "leaks", "score_columns"]


def score_columns(metrics: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the columns of a table of scores by their titles, from the content of `metrics.json`.

    They are the validation and the test scores, and the test scores of the trivial baseline, of the
    networks without the forest they are blended with, and of the random forest, as far as the run
    has them.
    """
    blend, baseline = metrics.get("blend", {}), metrics.get("baseline", {})
    columns = {
        "validation": metrics.get("val"),
        "test": metrics.get("test"),
        "trivial baseline": metrics.get("test_constant"),
        "without forest": blend.get("network", {}).get("test"),
        "random forest": baseline.get("test"),
    }
    return {title: scores for title, scores in columns.items() if scores is not None}


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
    """Yield the reasons why the scores of a run are too optimistic.

    Args:
        metrics: the content of `metrics.json`.
    """
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
