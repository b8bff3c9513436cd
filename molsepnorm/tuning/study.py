"""The search space and the trials: an Optuna study in one SQLite file, for several processes."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import optuna
from filelock import FileLock
from optuna import distributions
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback, fail_stale_trials
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from molsepnorm.errors import ConfigError, StorageError
from molsepnorm.files.writing import clear_errors
from molsepnorm.tasks.metrics import Metric
from molsepnorm.training.config import TrainConfig, is_architecture, shown
from molsepnorm.training.recipes import config_folder, encoding, read_yaml
from molsepnorm.tuning.search import TrialRecord, Tuning, write_files

_SECTIONS = ("model", "optim", "finetune", "run")
_NOT_TUNED = {
    *("seed", "device", "threads", "precision", "metric", "budget", "baseline", "blend"),
    *("ensemble", "refit", "start", "weights_sha256", "allow_leak"),
}
"""Settings of `run` and `finetune` that all trials share."""

Space: TypeAlias = dict[str, distributions.BaseDistribution]
"""The values of each setting, by its dotted name."""

_FILE = "trials.db"
_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "stopped early",
    TrialState.FAIL: "interrupted",
    TrialState.RUNNING: "running",
}
_COUNTED = TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED
_STARTUP = 5  # trials that are drawn at random, or complete before one is stopped early
_HEARTBEAT, _GRACE = 15, 60  # seconds between a trial's signs of life, or without, to repeat it


def make_space(
    config: TrainConfig,
    source: Path | str | Mapping[str, Any] | None = None,
    fixed: Collection[str] = (),
) -> Space:
    """Return the search space for a recipe, which includes the recipe's own values.

    Args:
        source: a YAML file of sections, or values by dotted name. A value is a list of choices, or
            a mapping with `low`, `high` and optionally `log`. By default `configs/tune.yaml`,
            without the settings that do not fit the recipe.
        fixed: dotted names of settings that must keep the recipe's value.

    Raises:
        ConfigError: a setting cannot be tuned, a value is invalid, or no setting is left.
    """
    where: Path | str = "the search space"
    values = source
    if not isinstance(values, Mapping):
        where = config_folder() / "tune.yaml" if values is None else Path(values)
        sections = read_yaml(where).items()
        values = {f"{name}.{key}": value for name, keys in sections for key, value in keys.items()}
    space: Space = {}
    for name, value in values.items():
        try:
            space[name] = _distribution(config, name, value, fixed)
        except ConfigError as error:
            if source is not None:
                lines = (line.replace("the configuration: ", "") for line in error.lines)
                raise ConfigError(*(f"{where}: {line}" for line in lines)) from None
    if not space:
        raise ConfigError(f"{where} has no setting to tune, such as optim.lr")
    return space


def _value(config: TrainConfig, name: str) -> Any:
    section, _, key = name.partition(".")
    return config.content()[section][key]


def _distribution(
    config: TrainConfig, name: str, values: Any, fixed: Collection[str]
) -> distributions.BaseDistribution:
    """Return the values of a setting, with the recipe's."""
    ends = {"low", "high"}
    is_range = isinstance(values, dict) and ends <= values.keys() <= {*ends, "log"}
    log = values.get("log", False) if is_range else False
    is_list = isinstance(values, list) and values
    if not (is_range or is_list) or not isinstance(log, bool):
        raise ConfigError(
            f"{name} must be a list of choices, such as [0.0, 0.1], or a range, such as "
            f"{{low: 0.0001, high: 0.01, log: true}}; got {shown(values)}"
        )
    _require_tunable(config, name, fixed)
    wanted = [values["low"], values["high"]] if is_range else values
    changed = [config.changed({name: value}) for value in wanted]  # refuses unknown settings
    if any(encoding(each) != encoding(config) for each in changed):
        raise ConfigError(f"{name} cannot be tuned: it changes how the molecules are encoded")
    plain = [_value(each, name) for each in [*changed, config]]
    try:
        if not is_range:
            return distributions.CategoricalDistribution(tuple(dict.fromkeys(plain)))
        kinds = {*map(type, plain)}
        if not kinds <= {int, float}:
            raise ValueError(
                f"the recipe has {shown(plain[-1])}, and a range holds numbers: write a list of "
                "choices"
            )
        is_int = kinds == {int}
        kind: Any = distributions.IntDistribution if is_int else distributions.FloatDistribution
        kind(*plain[:2], log=log)  # refuses an empty range, and 0 on a logarithmic scale
        return kind(min(plain), max(plain), log=log)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: {error}") from None


def _require_tunable(config: TrainConfig, name: str, fixed: Collection[str]) -> None:
    section, _, key = str(name).partition(".")
    start, reason = config.finetune.start, None
    if key not in config.content().get(section, {}):
        return
    if name in fixed:
        reason = "is set on its own as well, and a setting is either set or tuned: leave one out"
    elif section not in _SECTIONS or (section in ("run", "finetune") and key in _NOT_TUNED):
        reason = "cannot be tuned: all trials are single networks with the same data and start"
    elif start is not None and is_architecture(name):
        reason = (
            f"cannot be tuned: the start, {start}, fixes the architecture. Leave the setting out, "
            "or train from random weights (--from none)"
        )
    elif start is None and section == "finetune":
        reason = "has no effect without a model to start from: leave it out"
    if reason is not None:
        raise ConfigError(f"{name} {reason}")


@contextmanager
def open_study(tuning: Tuning, space: Space, digest: str) -> Iterator[optuna.Study]:
    """Open the trials in a folder, which is created if necessary; the recipe is the first one."""
    folder = tuning.folder
    with clear_errors(folder, "write"):
        names = os.listdir(folder) if folder.exists() else []
        if _FILE not in names and any(not name.startswith(".") for name in names):
            raise ConfigError(f"{folder} exists and holds no trials: choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings(), FileLock(folder / ".turn.lock"):
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            storage = RDBStorage(
                URL.create("sqlite", database=str((folder / _FILE).resolve())).render_as_string(),
                engine_kwargs={"connect_args": {"timeout": 60.0}},
                heartbeat_interval=_HEARTBEAT,
                grace_period=_GRACE,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=1),
            )
            study = optuna.create_study(
                storage=storage,
                study_name="tune",
                direction="maximize" if tuning.metric.higher_is_better else "minimize",
                load_if_exists=True,
                pruner=_Median(tuning.metric),
            )
            if study.user_attrs.get("search", digest) != digest:
                raise ConfigError(
                    f"{folder} holds trials of another search (other data, splits, settings or "
                    "space): choose another folder, or repeat the command that began them"
                )
            study.set_user_attr("search", digest)
            fail_stale_trials(study)
            known = study.get_trials(states=(*_COUNTED, TrialState.WAITING))
            if not any(trial.user_attrs.get("recipe") for trial in known):
                recipe = {name: _value(tuning.config, name) for name in space}
                study.enqueue_trial(recipe, user_attrs={"recipe": True})
        yield study
        storage.engine.dispose()
    except (optuna.exceptions.StorageInternalError, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise StorageError(
            f"the trials in {folder / _FILE} cannot be read or written: {reason}. If the disk is "
            "not full, remove the file or choose another folder"
        ) from error
    finally:
        optuna.logging.set_verbosity(verbosity)


class _Median(optuna.pruners.BasePruner):
    """Stop a trial whose score is worse than the median of the complete trials at this step.

    `optuna.pruners.MedianPruner` compares the best score up to the step, but here a score is a mean
    over the splits so far.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        step = trial.last_step
        if step is None or trial.user_attrs.get("recipe"):
            return False
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        values = [other.intermediate_values.get(step) for other in complete]
        scores = [value for value in values if value is not None]
        score = trial.intermediate_values[step]
        return len(scores) >= _STARTUP and self._metric.better(float(np.median(scores)), score)


class Interrupted(Exception):
    """A callback stopped a trial."""


def run_trials(
    study: optuna.Study,
    tuning: Tuning,
    space: Space,
    trials: float,
    seconds: float,
    train: Callable[[Trial, dict[str, Any], float], float],
    report: Callable[[TrialRecord, Tuning], None],
) -> Tuning:
    """Run trials until there are enough, or a callback stops one, and return the result.

    `train` returns the score of a trial with these settings within some seconds, which are infinite
    for the recipe.
    """

    def is_done() -> bool:
        if not study.get_trials(states=(TrialState.WAITING,)):
            counted = study.get_trials(deepcopy=False, states=_COUNTED)
            if len(counted) >= trials or _spent(study) >= seconds:
                return True
        if (tuning.folder / "best" / "metrics.json").exists():
            raise ConfigError(
                f"the best configuration in {tuning.folder} was trained and scored on the test "
                "split, so no trial is added: choose another folder"
            )
        return False

    def objective(trial: Trial) -> float:
        # each trial has another seed, so that processes do not repeat each other's
        seed = (tuning.config.run.seed + trial.number) % (1 << 32)
        study.sampler = optuna.samplers.TPESampler(n_startup_trials=_STARTUP, seed=seed)
        settings = {name: _suggest(trial, name, space) for name in space}
        left = math.inf if trial.user_attrs.get("recipe") else seconds - _spent(study)
        return train(trial, settings, left)

    def after(_: optuna.Study, trial: FrozenTrial) -> None:
        nonlocal tuning
        finished = trial.state != TrialState.FAIL
        tuning = replace(tuning, trials=_records(study), finished=finished)
        write_files(tuning)
        report(_record(trial), tuning)
        if not finished or is_done():
            study.stop()

    if not is_done():
        study.optimize(objective, callbacks=[after], catch=Interrupted)
    tuning = replace(tuning, trials=_records(study))
    if tuning.finished:
        tuning = replace(tuning, importance=_importance(study))
    write_files(tuning)
    return tuning


def _suggest(trial: Trial, name: str, space: Space) -> Any:
    values: Any = space[name]
    if isinstance(values, distributions.CategoricalDistribution):
        return trial.suggest_categorical(name, values.choices)
    is_int = isinstance(values, distributions.IntDistribution)
    draw = trial.suggest_int if is_int else trial.suggest_float
    return draw(name, values.low, values.high, log=values.log)


def _spent(study: optuna.Study) -> float:
    """Return the seconds during which at least one trial ran; interrupted ones are not counted."""
    trials, now = study.get_trials(deepcopy=False, states=_COUNTED), datetime.now()
    spans = [(trial.datetime_start or now, trial.datetime_complete or now) for trial in trials]
    total, end = 0.0, datetime.min
    for first, last in sorted(spans):
        total += max(0.0, (last - max(first, end)).total_seconds())
        end = max(end, last)
    return total


def _importance(study: optuna.Study) -> dict[str, float] | None:
    """Return the share of each setting in the variance of the scores of complete trials; None if
    there are too few, or all scores are equal.

    Source: Hutter et al., "An Efficient Approach for Assessing Hyperparameter Importance"
    (fANOVA), ICML 2014.
    """
    values = [trial.value for trial in study.get_trials(states=(TrialState.COMPLETE,))]
    if len(values) < _STARTUP or len(set(values)) == 1:
        return None
    return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))


def _records(study: optuna.Study) -> tuple[TrialRecord, ...]:
    return tuple(map(_record, study.get_trials(deepcopy=False, states=tuple(_STATES))))


def _record(trial: FrozenTrial) -> TrialRecord:
    return TrialRecord(
        number=trial.number,
        state=_STATES[trial.state],
        score=trial.value,
        scores=tuple(trial.user_attrs.get("scores", ())),
        seconds=None if trial.duration is None else trial.duration.total_seconds(),
        settings=trial.params,
        recipe=trial.user_attrs.get("recipe", False),
    )
