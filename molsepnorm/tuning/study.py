"""The trials of a search: an Optuna study in one SQLite file, which several processes share.

A process takes a trial while it holds a lock, so that no trial is counted or started twice. Each
process also locks a file of its own until it ends, even if it is killed. The unfinished trials of a
process without this lock are marked as interrupted, and do not count.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from filelock import FileLock
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.files.lock import locked
from molsepnorm.files.writing import clear_errors
from molsepnorm.tasks.metrics import Metric
from molsepnorm.tuning.result import TrialRecord
from molsepnorm.tuning.space import Range, Space

FILE = "trials.db"
_STATES = {
    "complete": TrialState.COMPLETE,
    "stopped early": TrialState.PRUNED,
    "interrupted": TrialState.FAIL,
}
_STARTUP = 5
"""Number of trials that are drawn at random, and of finished trials before one is stopped early."""
_SECONDS = 60.0  # that a process waits for another one that writes to the file


@contextmanager
def opened(
    folder: Path,
    space: Space,
    recipe: Mapping[str, Any],
    metric: Metric,
    seed: int,
    record: Mapping[str, Any],
) -> Iterator[Study]:
    """Open the trials in a folder, and take part in them until the block ends.

    Args:
        folder: the folder, which is created if necessary.
        space: the search space.
        recipe: the settings of the first trial.
        metric: the metric that compares the trials.
        seed: random seed of the search.
        record: everything that the trials have in common, by name, as JSON values.

    Raises:
        ConfigError: the folder holds something else, or trials that have something else in common.
        StorageError: the file cannot be read or written.
    """
    verbosity = optuna.logging.get_verbosity()
    try:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with ExitStack() as stack:
            yield Study(folder, space, recipe, metric, seed, record, stack)
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StorageError(
            f"the trials in {folder / FILE} cannot be read or written: {reason}. If the disk is "
            "not full, remove the file or choose another folder"
        ) from error
    finally:
        optuna.logging.set_verbosity(verbosity)


class Study:
    """The trials in a folder, as `opened` yields them."""

    def __init__(
        self,
        folder: Path,
        space: Space,
        recipe: Mapping[str, Any],
        metric: Metric,
        seed: int,
        record: Mapping[str, Any],
        stack: ExitStack,
    ) -> None:
        self._recipe, self._metric, self._seed = dict(recipe), metric, seed
        self._space = {name: _distribution(values) for name, values in space.items()}
        self._started, self._folder = time.time(), folder
        self._process = f"{os.getpid()}-{secrets.token_hex(4)}"
        with clear_errors(folder, "write"):
            names = os.listdir(folder) if folder.exists() else []
            if FILE not in names and any(not name.startswith(".") for name in names):
                raise ConfigError(f"{folder} exists and holds no trials: choose another folder")
            self._workers.mkdir(parents=True, exist_ok=True)
            self._turn = FileLock(folder / ".turn.lock")
        with self._turn:
            self._taking_part = stack.enter_context(ExitStack())
            self._taking_part.enter_context(locked(self._workers / self._process))
            url = URL.create("sqlite", database=str((folder / FILE).resolve()))
            storage = optuna.storages.RDBStorage(
                url.render_as_string(), engine_kwargs={"connect_args": {"timeout": _SECONDS}}
            )
            stack.callback(storage.engine.dispose)
            self._study = optuna.create_study(
                storage=storage,
                study_name="tune",
                direction="maximize" if metric.higher_is_better else "minimize",
                load_if_exists=True,
            )
            self._require_same(record)

    @property
    def _workers(self) -> Path:
        return self._folder / ".processes"

    def _require_same(self, record: Mapping[str, Any]) -> None:
        known = self._study.user_attrs
        for name, value in record.items():
            text = json.dumps(value, sort_keys=True)
            if name not in known:
                self._study.set_user_attr(name, text)
            elif known[name] != text:
                raise ConfigError(
                    f"{self._folder} holds trials with another {name}: choose another folder, or "
                    "repeat the command that began them"
                )

    def records(self) -> tuple[TrialRecord, ...]:
        """Return all trials, in the order of their numbers."""
        return tuple(map(_record, self._trials()))

    def ask(self, wanted: int | None, budget: float | None, closed: bool) -> Trial | None:
        """Return the next trial, or None if the search is finished.

        The first trial is the recipe, whatever the budget.

        Args:
            wanted: number of trials, with those that run and those that were stopped early.
            budget: seconds of the search.
            closed: raise an error in place of a trial.

        Raises:
            ConfigError: a trial is due, and the search is closed.
        """
        with self._turn:
            self._end_lost_trials()
            counted = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
            trials = [each for each in self._trials() if each.state in counted]
            recipe = any(each.user_attrs.get("recipe") for each in trials)
            enough = wanted is not None and len(trials) >= wanted
            if recipe and (enough or (budget is not None and self.seconds() >= budget)):
                return None
            if closed:
                raise ConfigError(
                    f"the best configuration in {self._folder} was trained and scored on the test "
                    "split, so no trial is added: choose another folder"
                )
            if not recipe:
                self._study.enqueue_trial(self._recipe, user_attrs={"recipe": True})
            # a seed of its own for each trial, so that processes do not repeat each other's
            self._study.sampler = optuna.samplers.TPESampler(
                n_startup_trials=_STARTUP, seed=(self._seed + len(self._trials())) % (1 << 32)
            )
            trial = self._study.ask(self._space)
            trial.set_user_attr("process", self._process)
        return trial

    def is_behind(self, trial: Trial, step: int, score: float) -> bool:
        """Record the score of a trial at a step, and return whether the trial should be stopped.

        It is stopped if its score is worse than the median score of the complete trials at this
        step. `optuna.pruners.MedianPruner` would compare the best score up to this step, which is
        misleading here, since a score is a mean over the splits so far.

        Source: Golovin et al., "Google Vizier: A Service for Black-Box Optimization", KDD 2017,
        section 3.2.2, with the score at the step in place of the best score up to it.
        """
        trial.report(score, step)
        complete = [each for each in self._trials() if each.state == TrialState.COMPLETE]
        scores = [
            each.intermediate_values[step] for each in complete if step in each.intermediate_values
        ]
        if len(scores) < _STARTUP or trial.user_attrs.get("recipe"):
            return False
        return self._metric.better(float(np.median(scores)), score)

    def tell(self, trial: Trial, state: str, scores: list[float]) -> None:
        """Record the end of a trial, in one of `_STATES`, with its score on each split."""
        trial.set_user_attr("scores", scores)
        score = float(np.mean(scores)) if state == "complete" else None
        self._study.tell(trial, score, _STATES[state])
        self._study.set_user_attr(f"time of {self._process}", [self._started, time.time()])

    def seconds(self) -> float:
        """Return the wall-clock time during which at least one process has searched."""
        attributes = self._study.user_attrs.items()
        spans = [span for name, span in attributes if name.startswith("time of ")]
        total, end = 0.0, 0.0
        for first, last in sorted([*spans, [self._started, time.time()]]):
            total += max(0.0, last - max(first, end))
            end = max(end, last)
        return total

    def leave(self) -> bool:
        """Stop taking part in the search; return whether other processes still run trials.

        Of several processes, the last one to leave gets False.
        """
        with self._turn:
            others = [path for path in self._workers.iterdir() if path.name != self._process]
            self._taking_part.close()
            return any(not _has_ended(path) for path in others)

    def importance(self) -> dict[str, float]:
        """Return the share of each setting in the variance of the scores of complete trials.

        The result is empty if there are too few trials, or all scores are equal.

        Source: Hutter et al., "An Efficient Approach for Assessing Hyperparameter Importance"
        (fANOVA), ICML 2014.
        """
        values = [each.value for each in self._trials() if each.state == TrialState.COMPLETE]
        if len(values) < _STARTUP or len(set(values)) == 1:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        found = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
        return {name: float(value) for name, value in found.items()}

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _end_lost_trials(self) -> None:
        """Mark the trials of processes that have ended as interrupted."""
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            process = trial.user_attrs.get("process")  # none: it ended while it took the trial
            if process is None or (
                process != self._process and _has_ended(self._workers / process)
            ):
                self._study.tell(trial.number, state=TrialState.FAIL)


def _record(trial: FrozenTrial) -> TrialRecord:
    names = {state: name for name, state in _STATES.items()}
    return TrialRecord(
        number=trial.number,
        state=names.get(trial.state, "running"),
        score=trial.value,
        scores=tuple(trial.user_attrs.get("scores", ())),
        seconds=None if trial.duration is None else trial.duration.total_seconds(),
        settings=trial.params,
        recipe=bool(trial.user_attrs.get("recipe")),
    )


def _distribution(values: Range | tuple[Any, ...]) -> BaseDistribution:
    if not isinstance(values, Range):
        return CategoricalDistribution(values)
    low, high, log = values
    if isinstance(low, int) and isinstance(high, int):
        return IntDistribution(low, high, log=log)
    return FloatDistribution(low, high, log=log)


def _has_ended(path: Path) -> bool:
    """Return whether the process that locks this folder has ended."""
    try:
        with locked(path):
            pass
    except ConfigError:
        return False
    with suppress(OSError):
        path.rmdir()
    return True
