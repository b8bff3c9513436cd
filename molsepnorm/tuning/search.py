"""`tune`: train one recipe with many settings, and find those with the best validation score."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from molsepnorm.analysis.geometry.figure import new_figure
from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import ConfigError, DivergedError
from molsepnorm.files.digests import short_digest
from molsepnorm.model import PropertyModel
from molsepnorm.optional import require_package
from molsepnorm.tasks.metrics import Metric
from molsepnorm.training.callback import Callback, Callbacks, EpochRecord, StopWhen, TrainingResult
from molsepnorm.training.completing.blending import require_blendable
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.ensemble import train
from molsepnorm.training.finetuning import open_start
from molsepnorm.training.inputs import fit_inputs
from molsepnorm.training.recipes import load_config
from molsepnorm.training.run import train_on, with_epochs, with_length
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.tuning.preparing import check_search, common_metric, load_splits
from molsepnorm.tuning.report import write_files
from molsepnorm.tuning.result import TrialRecord, Tuning
from molsepnorm.tuning.space import make_space, value_of

if TYPE_CHECKING:
    from optuna.trial import Trial

    from molsepnorm.tuning.study import Study

_MARKS = 4
"""Number of times per run at which a trial may be stopped."""


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
    """Search for the settings with the best validation score; the test split is not used.

    The first trial is the recipe. Further trials are drawn by Optuna's tree-structured Parzen
    estimator. A trial is stopped early if it is worse than the median of the complete trials at the
    same point of training. `trials.db` in the folder holds all trials: the same call continues a
    search that was stopped or killed, and several processes with the same call share the work.

    A score is the mean over several splits, because the validation split of a small table is small:
    the best of many trials on 50 molecules is often the luckiest one. By default there are as many
    splits as it takes to validate on 500 molecules, at most five. They are the folds if
    `data.folds` is set, and replicates otherwise; all have the same test molecules. A data set, a
    column or a file that defines its split has one.

    >>> config = load_config("my.csv", overrides={"data.targets": ["logS"]})    # doctest: +SKIP
    >>> tuning = tune(config, "runs/tune-logS", budget="1h")                    # doctest: +SKIP
    >>> train_best(tuning).metrics["test"]                                      # doctest: +SKIP

    Args:
        config: the recipe.
        folder: the folder for `trials.db`, `trials.csv`, `best.yaml` and `importance.png`.
        trials: number of trials in the folder, the recipe's and those stopped early included.
        budget: time of the search, such as 1h; the recipe's trial is always completed.
        space, fixed: the search space, see `make_space`.
        splits: number of splits of each trial.
        callback: receives the events of every run and may stop the search; one or several.
        report: called with each trial that has ended in this process, and the result so far.

    Raises:
        ConfigError: Optuna or matplotlib is not installed, there is neither a number of trials nor
            a budget, a setting of the space cannot be tuned, the recipe's split has no replicates,
            the metric is undefined on a validation split, the folder holds other trials, or as in
            `train`.
        DivergedError: the training of the recipe diverged.
        DataError, ModelError, StorageError: as in `train`.
    """
    require_package("optuna", "tune", "a search for settings")
    from molsepnorm.tuning.study import opened

    new_figure()  # needs matplotlib
    seconds = check_search(config, trials, budget)
    start = open_start(config.finetune)
    data = load_splits(config, splits)
    config = with_length(config, data[0])
    values = make_space(config, space, fixed)
    inputs = fit_inputs(config, data[0])
    require_blendable(config, data[0], inputs)  # for the best configuration, at the end
    callback = Callbacks(callback)
    metric = common_metric(config, data, callback)
    if metric.name == "loss":
        for name in ("optim.regression_loss", "optim.class_weight"):
            if name in values:
                raise ConfigError(f"{name} cannot be tuned: the trials are compared by the loss")
    folder = Path(folder)
    record = {
        "configuration": config.resolved().content(),
        "search space": values,
        "number of splits": len(data),
        "data": [each.digest for each in data],
        "splits": [short_digest(json.dumps(each.split_rows())) for each in data],
    }
    recipe = {name: value_of(config, name) for name in values}
    with opened(folder, values, recipe, metric, config.run.seed, record) as study:
        of_trials = config.changed({"run.metric": metric.name})
        search = _Search(of_trials, study, metric, start, data, callback)
        tuning = Tuning(folder, metric, len(data), config, study.records(), {}, finished=False)
        finished = True
        while finished:
            closed = RunFolder(folder / "best").metrics.exists()
            trial = study.ask(trials, seconds, closed)
            if trial is None:
                break
            finished = search.run(trial, None if seconds is None else seconds - study.seconds())
            tuning = replace(tuning, trials=study.records())
            write_files(tuning)
            report(tuning.trials[trial.number], tuning)
        tuning = replace(tuning, trials=study.records(), finished=finished)
        if finished:
            tuning = replace(tuning, importance=study.importance(), others_run=study.leave())
        write_files(tuning)
    return tuning


def train_best(
    tuning: Tuning, callback: Callback | Iterable[Callback] | None = None
) -> TrainingResult:
    """Train the best configuration in the folder `best`, and score it once on the test split.

    A run that was stopped is continued, and a finished one is returned.

    Raises:
        ConfigError: no trial is complete, or the folder has a run of another configuration.
        DataError, ModelError, StorageError: as in `train`.
    """
    best, run = tuning.best, RunFolder(tuning.folder / "best")
    if best is None:
        raise ConfigError(f"{tuning.folder} has no complete trial: continue the search first")
    begun = run.checkpoint.exists() or run.members.exists()
    if begun:
        own, expected = load_config(config=run.config), best
        if "earlier" in run.written_metrics():  # it was trained for longer afterwards
            expected = with_epochs(best, own.run.epochs)
        if own != expected.resolved():
            raise ConfigError(
                f"{run.path} has other settings than the best trial, which happens when trials are "
                "added. Rename it and repeat the command, which then trains the best configuration"
            )
    if (metrics := run.complete_metrics()) is not None:
        return TrainingResult(run.path, True, run.best()[0], metrics)
    return train(None if begun else best, run.path, resume=begun, callback=callback)


@dataclass
class _Search:
    """Runs the trials of one process."""

    config: TrainConfig
    study: Study
    metric: Metric
    start: PropertyModel | None
    data: list[Dataset]
    callback: Callback

    def run(self, trial: Trial, seconds: float | None) -> bool:
        """Run a trial on all splits; return False if a callback stopped it.

        Args:
            trial: the trial.
            seconds: time that is left, after which the trial is given up unless it is the recipe's.
        """
        limited = seconds is not None and not trial.user_attrs.get("recipe")
        end = time.monotonic() + (seconds or 0.0) if limited else math.inf
        watch, state = _Watch(self.study, trial, self.metric, len(self.data)), "interrupted"
        try:
            state = self._train(trial, watch, end)
        finally:
            self.study.tell(trial, state, watch.scores)
        return state != "interrupted" or time.monotonic() > end

    def _train(self, trial: Trial, watch: _Watch, end: float) -> str:
        try:
            config = self.config.changed(trial.params)
        except ConfigError:  # each value is valid, but not all of them together
            return "stopped early"
        config = config.model_copy(update={"run": config.run.network_alone()})
        callbacks = [watch, self.callback, StopWhen(lambda: time.monotonic() > end)]
        try:
            for dataset in self.data:
                result = train_on(config, dataset, model=self.start, callback=callbacks)
                if not result.finished:
                    return "stopped early" if watch.behind else "interrupted"
                if not watch.end_split():
                    return "stopped early"
        except DivergedError:
            if trial.user_attrs.get("recipe"):
                raise
            return "stopped early"
        return "complete"


class _Watch(Callback):
    """Follows the validation scores of a trial, and stops it if it is behind."""

    def __init__(self, study: Study, trial: Trial, metric: Metric, splits: int) -> None:
        self.scores: list[float] = []
        self.behind = False
        self._study, self._trial, self._metric, self._splits = study, trial, metric, splits
        self._best, self._mark = math.nan, 0

    def on_epoch(self, record: EpochRecord, epochs: int) -> bool:
        name = self._metric.name
        score = record.val_loss if name == "loss" else record.scores[name]
        if record.best:
            self._best = score
        mark = _MARKS * record.epoch // max(epochs, 1)
        step = len(self.scores) * _MARKS + mark
        if mark > self._mark and step < self._splits * _MARKS and math.isfinite(self._best):
            self._mark = mark
            mean = float(np.mean([*self.scores, self._best]))
            self.behind = self._study.is_behind(self._trial, step, mean)
        return self.behind

    def end_split(self) -> bool:
        """Keep the score of the best epoch of this split; return False if it is undefined."""
        best, self._best, self._mark = self._best, math.nan, 0
        if math.isfinite(best):
            self.scores.append(best)
        return math.isfinite(best)
