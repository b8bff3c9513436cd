"""`tune`: train one recipe with many settings, and find those with the best validation score."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import ConfigError, DivergedError
from molsepnorm.files.digests import short_digest
from molsepnorm.files.writing import replacing
from molsepnorm.model import SUPERVISED
from molsepnorm.optional import require_package
from molsepnorm.tasks.metrics import METRICS, Metric
from molsepnorm.training import run as course
from molsepnorm.training.callback import Callback, Callbacks, EpochRecord, StopWhen, TrainingResult
from molsepnorm.training.completing.baseline import may_blend
from molsepnorm.training.config import TrainConfig, seconds_of
from molsepnorm.training.objectives import OBJECTIVES
from molsepnorm.training.recipes import load_config, load_dataset
from molsepnorm.training.run import train_on
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.start import with_epochs, with_unseen_start

if TYPE_CHECKING:
    from optuna.trial import Trial

_MARKS = 4  # times per run at which a trial may be stopped
_MOLECULES, _MAX_SPLITS = 500, 5  # validation molecules of a trial, and its splits


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    number: int
    state: str
    """complete, stopped early, interrupted (it does not count), or running."""
    score: float | None
    """Mean over the splits of the best validation score, of those so far if the trial was stopped
    early. None if there is none."""
    scores: tuple[float, ...]
    """Best validation score of each finished split."""
    seconds: float | None
    """Duration; None while the trial runs."""
    settings: dict[str, Any]
    """The tuned settings by their dotted names."""
    recipe: bool
    """True if the settings are those of the recipe."""


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`."""

    folder: Path
    metric: Metric
    splits: int
    """Number of splits of each trial."""
    config: TrainConfig
    """The recipe."""
    trials: tuple[TrialRecord, ...] = ()
    """All trials in the folder, in the order in which they began."""
    importance: dict[str, float] | None = None
    """Share of each setting in the variance of the scores, once the search has ended with enough
    complete trials."""
    finished: bool = True
    """False if a callback stopped the search; the same call continues it."""

    @property
    def others_run(self) -> bool:
        """True if other processes still run trials in the folder."""
        return any(trial.state == "running" for trial in self.trials)

    @property
    def ranked(self) -> list[TrialRecord]:
        """The complete trials, the best one first; of equal scores, the earlier one."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        sign = -1 if self.metric.higher_is_better else 1
        return sorted(complete, key=lambda trial: sign * (trial.score or 0.0))

    @property
    def recipe(self) -> TrialRecord | None:
        """The trial of the recipe, once it is complete."""
        return next((trial for trial in self.ranked if trial.recipe), None)

    @property
    def best(self) -> TrainConfig | None:
        """The configuration of the best trial, once there is a complete one."""
        if not self.ranked:
            return None
        settings = dict(self.ranked[0].settings)
        if "optim.regression_loss" in settings and self.config.run.metric is None:
            settings["run.metric"] = self.metric.name  # the default depends on the loss
        return self.config.changed(settings)


def tune(
    config: TrainConfig,
    folder: Path | str,
    *,
    trials: int | None = None,
    budget: str | None = None,
    space: Path | str | Mapping[str, Any] | None = None,
    fixed: Collection[str] = (),
    splits: int | None = None,
    callback: Callback | Iterable[Callback] | None = None,
    report: Callable[[TrialRecord, Tuning], None] = lambda trial, tuning: None,
) -> Tuning:
    """Search for the settings with the best validation score, without the test split.

    The first trial is the recipe. Further trials are drawn by Optuna's tree-structured Parzen
    estimator, and stopped early if they are worse than the median at the same point of training.
    The same call continues a search, and several processes with the same call share the work.

    A score is the mean over several splits: the folds if `data.folds` is set, and otherwise
    replicates with the same test molecules, by default as many as it takes to validate on 500
    molecules, at most five.

    Args:
        config: the recipe.
        folder: folder of the trials and of the results.
        trials: number of trials in the folder, the recipe's and those stopped early included.
        budget: time of the search, such as 1h; the recipe's trial is always completed.
        space, fixed: see `make_space`.
        callback: one or several, which receive the events of every run and may stop the search.
        report: called with each trial that has ended in this process, and the result so far.

    Raises:
        ConfigError: a package is missing, a setting of the space cannot be tuned, the metric is
            undefined on a validation split, or the folder holds other trials.
        DivergedError: the training of the recipe diverged.
    """
    optuna = require_package("optuna", "tune", "a search for settings")
    from molsepnorm.tuning.study import Interrupted, make_space, open_study, run_trials

    budgeted = check_search(config, trials, budget)
    data = load_splits(config, splits)
    config, _ = with_unseen_start(with_epochs(config, data[0]), data[0])
    data = [*map(_without_test, data)]
    values = make_space(config, space, fixed)
    may_blend(config, data[0])  # for the best configuration
    metric = common_metric(config, data)
    if metric.name == "loss" and values.keys() & {"optim.regression_loss", "optim.class_weight"}:
        raise ConfigError("the loss cannot be tuned, since it compares the trials: set --metric")
    tuning = Tuning(Path(folder), metric, len(data), config)
    common = [config.resolved().content(), repr(values), [each.digest for each in data]]
    digest = short_digest(json.dumps([common, [each.split_rows() for each in data]]))
    recipe = config.changed({"run.metric": metric.name, "finetune.otherwise": None})

    def train(trial: Trial, settings: dict[str, Any], seconds: float) -> float:
        try:
            tried = recipe.changed(settings)
        except ConfigError:  # each value is valid, but not all of them together
            raise optuna.TrialPruned from None
        tried = tried.model_copy(update={"run": tried.run.network_alone(own_networks=False)})
        end = time.monotonic() + seconds
        watch = _Watch(trial, metric.name, len(data))
        stops = [watch, Callbacks(callback), StopWhen(lambda: time.monotonic() > end)]
        try:
            for dataset in data:
                result = train_on(tried, dataset, callback=stops)
                if not result.finished and not (watch.behind or time.monotonic() > end):
                    raise Interrupted
                if not result.finished or not watch.end_split():
                    raise optuna.TrialPruned
        except DivergedError:
            if trial.user_attrs.get("recipe"):
                raise
            raise optuna.TrialPruned from None
        finally:
            trial.set_user_attr("scores", watch.scores)
        return float(np.mean(watch.scores))

    with open_study(tuning, values, digest) as study:
        return run_trials(study, tuning, values, trials or math.inf, budgeted, train, report)


def train_best(
    tuning: Tuning, callback: Callback | Iterable[Callback] | None = None
) -> TrainingResult:
    """Train the best configuration in the folder `best`, and score it once on the test split. A
    stopped run is continued, and a finished one is returned.

    Raises:
        ConfigError: no trial is complete, or the folder has a run of another configuration.
    """
    best, run = tuning.best, RunFolder(tuning.folder / "best")
    if best is None:
        raise ConfigError(f"{tuning.folder} has no complete trial: continue the search first")
    begun = run.has_begun
    if begun and load_config(config=run.config) != best.resolved():
        raise ConfigError(
            f"{run.path} has other settings than the best trial, which happens when trials are "
            "added. Rename it and repeat the command, which then trains the best configuration"
        )
    if (metrics := run.complete_metrics()) is not None:
        return TrainingResult(run.path, True, run.kept(), metrics.to_json())
    return course.train(None if begun else best, run.path, resume=begun, callback=callback)


class _Watch(Callback):
    """Keeps the validation scores of a trial, and stops it early."""

    def __init__(self, trial: Trial, metric: str, splits: int) -> None:
        self.scores: list[float] = []
        self.behind = False
        self._trial, self._metric, self._splits = trial, metric, splits
        self._kept, self._mark = math.nan, 0

    def on_epoch(self, record: EpochRecord, epochs: int) -> bool:
        if record.kept:
            self._kept = {"loss": record.val_loss, **record.scores}[self._metric]
        mark = _MARKS * record.epoch // max(epochs, 1)
        step = len(self.scores) * _MARKS + mark
        if mark > self._mark and step < self._splits * _MARKS and math.isfinite(self._kept):
            self._mark = mark
            self._trial.report(float(np.mean([*self.scores, self._kept])), step)
            self.behind = self._trial.should_prune()
        return self.behind

    def end_split(self) -> bool:
        """Keep the score of the kept epoch of this split; return False if it is undefined."""
        kept, self._kept, self._mark = self._kept, math.nan, 0
        if math.isfinite(kept):
            self.scores.append(kept)
        return math.isfinite(kept)


def check_search(config: TrainConfig, trials: int | None, budget: str | None) -> float:
    """Check the arguments of `tune` without the data; return the budget in seconds."""
    data, objective = config.data, config.objective.name
    data.require_split()
    if trials is None and budget is None:
        raise ConfigError(
            "give the number of trials (--trials 50), a budget (--budget 1h), or both"
        )
    if trials is not None and trials < 1:
        raise ConfigError(f"at least one trial is needed; got {trials}")
    if objective != SUPERVISED:
        raise ConfigError(f"objective.name is {objective}: only {SUPERVISED} is tuned")
    if config.run.budget is not None:
        raise ConfigError(
            "run.budget is not used in a search, where run.epochs is the length of a trial: leave "
            "it out"
        )
    if data.folds is not None and not data.test_set:
        raise ConfigError(
            "data.test_set: false (--no-test) makes each fold a test split in turn, so a search "
            "would choose settings by molecules that score the best one later: leave it out"
        )
    try:
        return math.inf if budget is None else seconds_of(budget)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def load_splits(config: TrainConfig, splits: int | None) -> list[Dataset]:
    """Load the data set with each of its splits."""
    first = load_dataset(config)
    first.require_test("The best configuration of a search")
    folds = config.data.folds
    if folds is not None and splits not in (None, folds):
        raise ConfigError(
            f"data.folds is {folds}, and a trial is trained on every fold; got {splits} splits"
        )
    if splits is None:
        splits = folds or _default_splits(config, first)
    if splits < 1:
        raise ConfigError(f"at least one split is needed; got {splits}")
    others = range(config.data.fold + 1, config.data.fold + splits)
    numbers = (fold % folds if folds else fold for fold in others)
    return [first, *(load_dataset(config.changed({"data.fold": fold})) for fold in numbers)]


def _default_splits(config: TrainConfig, data: Dataset) -> int:
    """Return how many splits to validate on; 1 if the split cannot be drawn again."""
    try:
        config.changed({"data.fold": config.data.fold + 1})
    except ConfigError:
        return 1
    if config.data.splits_file is not None:
        return 1
    molecules = len(np.unique(data.molecule_ids[data.splits["val"]]))
    return min(_MAX_SPLITS, math.ceil(_MOLECULES / molecules))


def _without_test(dataset: Dataset) -> Dataset:
    """Return the data set without the test split, and without the labels of its molecules."""
    splits = {**dataset.splits, "test": np.empty(0, np.int64)}
    used = np.concatenate([splits["train"], splits["val"]])
    labels = np.full_like(dataset.labels, np.nan)
    labels[used] = dataset.labels[used]
    return replace(dataset, labels=labels, splits=splits)


def common_metric(config: TrainConfig, data: Sequence[Dataset]) -> Metric:
    """Return the metric that compares trials, which all validation splits must define."""
    fit_task = OBJECTIVES[config.objective.name].fit_task
    names = {fit_task(config, each)[0].metric for each in data}
    if len(names) > 1 or config.run.metric not in (None, *names):
        raise ConfigError(
            "the metric is undefined on the validation molecules of a split (too few labels, or "
            "all of one class): try --split-type stratified, a larger validation split, or "
            "--metric loss"
        )
    return METRICS[names.pop()]


def write_files(tuning: Tuning) -> None:
    """Write the table of trials, the best configuration, and the importance of the settings."""
    rows = []
    for trial in tuning.trials:
        row = {"trial": trial.number, "state": trial.state, "recipe": int(trial.recipe)}
        row |= {"seconds": trial.seconds, "score": trial.score}
        scores = {f"score_{number}": score for number, score in enumerate(trial.scores)}
        rows.append(row | scores | trial.settings)
    with replacing(tuning.folder / "trials.csv") as scratch:
        pd.DataFrame(rows, dtype=object).to_csv(scratch, index=False)
    if tuning.best is not None:
        tuning.best.save(tuning.folder / "best.yaml")
    if tuning.importance:
        shares = pd.Series(tuning.importance, name="importance")
        with replacing(tuning.folder / "importance.csv") as scratch:
            shares.to_csv(scratch, index_label="setting")
