"""`Metrics`: the content of `metrics.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import FiniteFloat

from molsepnorm.errors import counted
from molsepnorm.files.reading import check_types

Scores = dict[str, FiniteFloat | None]
"""Scores by metric; "rmse/logS" is that of one of several targets, and "rmse" their mean. An
undefined score is None."""


@dataclass(frozen=True)
class Gap:
    """Score of the model minus that of another one, with the interval of a paired bootstrap."""

    difference: float
    interval_95: tuple[float, float]


@dataclass(frozen=True)
class Forest:
    """Scores of the random forest, and its number of trees for each target."""

    val: Scores = field(default_factory=dict)
    test: Scores = field(default_factory=dict)
    trees: int = 0


@dataclass(frozen=True)
class Blend:
    """Share of the forest in the model, and the scores of the networks alone by split."""

    forest_share: float = 0.0
    network: dict[str, Scores] = field(default_factory=dict)


@dataclass(frozen=True)
class Coverage:
    """Intervals (or sets of classes) of a target, compared with the test molecules."""

    level: float
    coverage: float | None = None
    """Share of labels inside; None without labels or with too few validation molecules."""
    width: float | None = None
    """Mean width of the intervals."""
    signal: str | None = None
    """The signal that the width depends on."""
    classes: float | None = None
    """Mean number of classes in a set."""
    always: list[str] = field(default_factory=list)
    """Classes in every set, because too few validation molecules have them."""
    molecules: int = 0
    """Labelled validation molecules, to which the intervals are fitted."""


@dataclass(frozen=True)
class MeanError:
    """Mean error of some molecules; `low` and `high` are the ends of a bin of similarities."""

    molecules: int = 0
    error: float | None = None
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True)
class DomainErrors:
    """Mean errors on either side of the domain's threshold, and by similarity, for each split."""

    threshold: float
    error: str
    """Definition of the error of a molecule."""
    inside: dict[str, MeanError]
    outside: dict[str, MeanError]
    bins: dict[str, list[MeanError]]


@dataclass(frozen=True)
class Metrics:
    """The content of `metrics.json`."""

    chosen_by: str
    """The metric that selected the epoch."""
    parameters: int
    best_epoch: int | None
    """None for an ensemble."""
    epochs: int
    seconds: float
    val: Scores
    test: Scores = field(default_factory=dict)
    """Empty if there is no test split."""
    test_constant: Scores = field(default_factory=dict)
    """Test scores of the trivial baseline, the same prediction for all molecules."""
    test_interval_95: dict[str, tuple[float, float]] = field(default_factory=dict)
    headlines: list[str] = field(default_factory=list)
    """The usual metric of each kind of targets."""
    scored_targets: dict[str, list[str]] = field(default_factory=dict)
    """The targets of each headline that have a test score; empty for a single target."""
    constant_difference: dict[str, Gap] = field(default_factory=dict)
    baseline: Forest = field(default_factory=Forest)
    baseline_difference: dict[str, Gap] = field(default_factory=dict)
    blend: Blend = field(default_factory=Blend)
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """See `Dataset.about_labels`."""
    calibration: dict[str, Coverage] = field(default_factory=dict)
    domain: DomainErrors | None = None
    refit: list[str] = field(default_factory=list)
    """Parts that are fitted to the validation molecules, too."""
    molecules: dict[str, int] = field(default_factory=dict)
    """Number of different molecules of each split."""
    labelled_test: dict[str, int] = field(default_factory=dict)
    """Number of test molecules with an exact label of each target."""
    split: str = ""
    """How the molecules were split, if that is known."""
    nearest_train_similarity: dict[str, float] = field(default_factory=dict)
    """Median Tanimoto similarity (Morgan fingerprints of radius 2, 2,048 bits) of so many test
    molecules to the nearest of so many training molecules."""
    class_weight: str | None = None
    members: list[dict[str, Any]] = field(default_factory=list)
    """Seed, best epoch and scores of each member of an ensemble."""
    molecules_in_several_splits: int | None = 0
    molecules_trained_on_before: int = 0
    leak: str | None = None
    """Why the model must not be scored on this data set."""

    @staticmethod
    def from_json(content: Mapping[str, Any], what: str = "metrics.json is damaged") -> Metrics:
        """Return the record; a `ModelError` that begins with `what` names an invalid entry."""
        found: Metrics = check_types(Metrics, content, what)
        return found

    @property
    def leaks(self) -> list[str]:
        """The reasons why the scores are too optimistic."""
        reasons = []
        if shared := self.molecules_in_several_splits:
            are = "is" if shared == 1 else "are"
            reasons.append(f"{counted(shared, 'molecule')} {are} in more than one split")
        if known := self.molecules_trained_on_before:
            molecules = f"{counted(known, 'molecule')} of the validation and test splits"
            reasons.append(f"the model that training started from was trained on {molecules}")
        return reasons if self.leak is None else [*reasons, self.leak]


def headline(chosen_by: str, scores: Iterable[str]) -> str:
    """Return the metric that compares runs: the one that selected the best epochs. If the loss
    selected them, which is not among the scores, it is the first score.

    >>> headline("loss, rmse", ["mae", "rmse"])
    'rmse'
    """
    names = [*scores]
    return next((name for name in chosen_by.split(", ") if name in names), names[0])
