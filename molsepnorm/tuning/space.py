"""The search space: settings, and the values that they may take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from molsepnorm.errors import ConfigError
from molsepnorm.training.config import TrainConfig, is_architecture, shown
from molsepnorm.training.recipes import config_folder, encoding, read_yaml

_SECTIONS = ("model", "optim", "finetune", "run")
_NOT_TUNED = {
    *("seed", "device", "threads", "precision", "step", "metric", "budget", "baseline", "blend"),
    *("ensemble", "refit", "start", "weights_sha256", "allow_leak"),
}
"""Settings of `run` and `finetune` that all trials share."""

Space: TypeAlias = dict[str, BaseDistribution]
"""The values of each setting, by its dotted name."""


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
    default = source is None
    if not isinstance(source, Mapping):
        where = config_folder() / "tune.yaml" if source is None else Path(source)
        sections = read_yaml(where).items()
        source = {f"{name}.{key}": each for name, own in sections for key, each in own.items()}
    space: Space = {}
    for name, value in source.items():
        try:
            space[name] = _values(config, name, value, fixed)
        except ConfigError as error:
            if not default:
                lines = (line.replace("the configuration: ", "") for line in error.lines)
                raise ConfigError(*(f"{where}: {line}" for line in lines)) from None
    if not space:
        raise ConfigError(f"{where} has no setting to tune, such as optim.lr")
    return space


def value_of(config: TrainConfig, name: str) -> Any:
    """Return the plain value of a setting by its dotted name."""
    section, _, key = name.partition(".")
    return config.content()[section][key]


def _values(config: TrainConfig, name: str, given: Any, fixed: Collection[str]) -> BaseDistribution:
    """Return the values of a setting, with the recipe's own."""
    ends = isinstance(given, dict) and {"low", "high"} <= given.keys() <= {"low", "high", "log"}
    log = given.get("log", False) if ends else False
    if not (ends or isinstance(given, list)) or not isinstance(log, bool):
        raise ConfigError(
            f"{name} must be a list of choices, such as [0.0, 0.1], or a range, such as "
            f"{{low: 0.0001, high: 0.01, log: true}}; got {shown(given)}"
        )
    _require_tunable(config, name, fixed)
    wanted = [given["low"], given["high"]] if ends else given
    changed = [config.changed({name: value}) for value in wanted]  # refuses unknown settings
    own, values = value_of(config, name), [value_of(each, name) for each in changed]
    if any(encoding(each) != encoding(config) for each in changed):
        raise ConfigError(f"{name} cannot be tuned: it changes how the molecules are encoded")
    try:
        if not ends:
            return CategoricalDistribution(tuple(dict.fromkeys([*values, own])))
        kinds = {type(each) for each in (*values, own)}
        if not kinds <= {int, float}:
            raise ValueError(
                f"the recipe has {shown(own)}, and a range holds numbers: write a list of choices"
            )
        kind = IntDistribution if kinds == {int} else FloatDistribution
        kind(values[0], values[1], log=log)  # refuses an empty range, and 0 on a logarithmic scale
        return kind(min(*values, own), max(*values, own), log=log)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: {error}") from None


def _require_tunable(config: TrainConfig, name: str, fixed: Collection[str]) -> None:
    section, _, key = str(name).partition(".")
    start = config.finetune.start
    if key not in config.content().get(section, {}):
        return
    reason = None
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
