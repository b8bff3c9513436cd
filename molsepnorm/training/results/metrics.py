"""`Metrics`: the content of `metrics.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat

from molsepnorm.errors import counted
from molsepnorm.files.reading import check_types

Scores = dict[str, FiniteFloat | None]
"""Scores by metric; "rmse/logS" is that of one of several targets, and "rmse" their mean. An
undefined score is None."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class Gap(_Record):
    """Score of the model minus that of another one, with the interval of a paired bootstrap."""

    difference: float
    interval_95: tuple[float, float]


class ForestScores(_Record):
    """Scores of the random forest, its number of trees for each target, and its time."""

    val: Scores = {}
    test: Scores = {}
    trees: int | None = None
    seconds: float | None = None


class Blend(_Record):
    """Share of the forest in the model, and the scores of the networks alone by split."""

    forest_share: float = 0.0
    network: dict[str, Scores] = {}


class OwnNetwork(_Record):
    """A network of one target, beside the common network of all targets."""

    share: float  # in the mean with the common network; of an ensemble the mean over the members
    kept_epoch: int = 0  # 0 for an ensemble


class _Coverage(_Record):
    level: float
    coverage: float | None  # share of labels inside; None if unknown
    molecules: int  # labelled validation molecules, to which intervals or sets are fitted
    test_molecules: int


class IntervalCoverage(_Coverage):
    """Intervals of a target, compared with the test molecules."""

    width: float | None  # the mean of the intervals
    signal: str | None  # that the width depends on


class SetCoverage(_Coverage):
    """Sets of classes of a target, compared with the test molecules."""

    always: list[str]  # classes in every set, because too few validation molecules have them
    classes: float | None = None  # mean number in a set


class NoiseScores(_Record):
    """Scores of the test predictions of a target beside the errors of their labels."""

    unexplained: float  # τ, see `tasks.label_errors`
    inside: float  # share of the predictions in the 95 % interval of their label
    mae_beyond: float  # mean absolute error, where an error inside the interval is 0
    best_mae: float  # expected of a model that predicts the true values
    best_r2: float | None


class Bin(_Record):
    low: float
    high: float
    molecules: int
    error: float


class DomainErrors(_Record):
    """Errors by the similarity to the most similar training molecule, see `Domain`."""

    error: str  # definition of the errors in `bins`
    lowest: float
    similarity: list[float]
    expected: dict[str, list[float] | None]  # of each target at these similarities
    bins: dict[str, list[Bin]]  # of the validation and the test molecules


class Metrics(_Record):
    """The content of `metrics.json`."""

    data: str  # name of the data set
    chosen_by: str  # the metric that compares epochs and trials
    parameters: int
    seed: int
    kept_epoch: int | None  # None for an ensemble
    epochs: int
    steps: int
    seconds: float
    molecules_in_several_splits: int | None  # None if they cannot be compared
    molecules_trained_on_before: int = 0
    network_share: float | None = None  # in the mean with a kernel regression
    class_weight: str | None = None
    val: Scores
    test: Scores = {}  # empty if there is no test split
    test_constant: Scores = {}  # of the trivial baseline, the same prediction for all molecules
    test_interval_95: dict[str, tuple[float, float]] | None = None
    headlines: list[str] = []  # the usual metric of each kind of targets
    constant_difference: dict[str, Gap] | None = None
    baseline: ForestScores = ForestScores()
    baseline_difference: dict[str, Gap] | None = None
    blend: Blend = Blend()
    own_networks: dict[str, OwnNetwork] = {}  # by target
    test_without_own: Scores = {}  # of the model with the common network alone
    own_difference: dict[str, Gap] | None = None
    shares: dict[str, dict[str, float]] = {}  # of each of several targets, by kind of part
    labels: dict[str, dict[str, Any]] = {}  # see `Dataset.about_labels`
    label_errors: dict[str, NoiseScores] = {}
    calibration: dict[str, IntervalCoverage | SetCoverage] = {}
    domain: DomainErrors | None = None
    auxiliary: list[str] = []  # names of the predictions of auxiliary models, which the model reads
    refit: list[str] = []  # parts that are also fitted to the validation molecules
    molecules: dict[str, int] = {}  # number of different molecules of each split
    labelled_test: dict[str, int] = {}  # test molecules with an exact label of each target
    split: str = ""  # how the molecules were split, if that is known
    # median Tanimoto similarity (Morgan, radius 2, 2,048 bits) of so many test molecules to the
    # nearest of so many training molecules
    nearest_train_similarity: dict[str, int | float] = {}
    members: list[dict[str, Any]] = []  # seed, kept epoch and scores of each member of an ensemble
    leak: str | None = None  # why the model must not be scored on this data set

    @staticmethod
    def from_json(content: Mapping[str, Any], what: str = "metrics.json is damaged") -> Metrics:
        """Return the record; a `ModelError` that begins with `what` names an invalid entry."""
        metrics: Metrics = check_types(Metrics, content, what)
        return metrics

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def leaks(self) -> list[str]:
        """The reasons why the scores are too optimistic."""
        reasons = []
        if shared := self.molecules_in_several_splits:
            are = "is" if shared == 1 else "are"
            reasons.append(f"{counted(shared, 'molecule')} {are} in more than one split")
        if known := self.molecules_trained_on_before:
            scored = self.molecules.get("val", 0) + self.molecules.get("test", 0)
            reasons.append(
                f"the model that training started from was trained on {known:,} of the {scored:,} "
                "molecules of the validation and test splits"
            )
        return reasons if self.leak is None else [*reasons, self.leak]


def headline(chosen_by: str, scores: Iterable[str]) -> str:
    """Return the metric that compares runs: the first one among the scores that selected the best
    epochs, such as rmse of "loss, rmse", or else the first score."""
    names = [*scores]
    return next((name for name in chosen_by.split(", ") if name in names), names[0])
