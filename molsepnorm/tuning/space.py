"""The search space: settings, and the values that they may take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from molsepnorm.errors import ConfigError
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.finetuning import is_architecture
from molsepnorm.training.parsing import shown
from molsepnorm.training.recipes import config_folder, encoding, read_yaml

_SECTIONS = ("model", "optim", "finetune", "run")
_NOT_TUNED = {
    **dict.fromkeys(
        ("seed", "device", "threads", "precision", "step"), "it is no property of a recipe"
    ),
    "metric": "it compares the trials",
    "budget": "the length of a trial is tuned by run.epochs",
    "ensemble": "a trial trains one network per split",
    **dict.fromkeys(("baseline", "blend"), "trials compare networks, without random forests"),
    "refit": "trials are compared before anything is fitted again",
    **dict.fromkeys(("start", "weights_sha256", "allow_leak"), "all trials have the same start"),
}
"""Settings of `run` and `finetune` that a space cannot have, and why."""


class Range(NamedTuple):
    """Numbers from `low` to `high`, both included; integers if both ends are integers."""

    low: float
    high: float
    log: bool
    """Search on a logarithmic scale."""


Space: TypeAlias = dict[str, Range | tuple[Any, ...]]
"""A range or a tuple of choices for each setting, by its dotted name."""


def make_space(
    config: TrainConfig,
    source: Path | str | Mapping[str, Any] | None = None,
    fixed: Collection[str] = (),
) -> Space:
    """Return the search space for a recipe, which includes the recipe's own values.

    Args:
        config: the recipe.
        source: a YAML file of sections, or values by dotted name. A value is a list of choices, or
            a mapping with `low`, `high` and optionally `log`. By default `configs/tune.yaml`,
            without the settings that do not fit the recipe.
        fixed: dotted names of settings that must keep the recipe's value.

    Raises:
        ConfigError: a setting is unknown or cannot be tuned, a value is invalid, or no setting is
            left.
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


def _values(
    config: TrainConfig, name: str, given: Any, fixed: Collection[str]
) -> Range | tuple[Any, ...]:
    """Return the values of a setting, with the recipe's own."""
    if isinstance(given, list):
        wanted = given
    elif isinstance(given, dict) and {"low", "high"} <= given.keys() <= {"low", "high", "log"}:
        wanted = [given["low"], given["high"]]
    else:
        raise ConfigError(
            f"{name} must be a list of choices, such as [0.0, 0.1], or a range, such as "
            f"{{low: 0.0001, high: 0.01, log: true}}; got {shown(given)}"
        )
    section, _, key = str(name).partition(".")
    if key in config.content().get(section, {}):
        _require_tunable(config, name, fixed)
    changed = [config.changed({name: value}) for value in wanted]  # refuses unknown settings
    own = value_of(config, name)
    values = [value_of(each, name) for each in changed]
    if any(encoding(each) != encoding(config) for each in changed):
        raise ConfigError(f"{name} cannot be tuned: it changes how the molecules are encoded")
    if isinstance(given, list):
        choices = tuple(dict.fromkeys([*values, own]))
        if not all(each is None or isinstance(each, bool | int | float | str) for each in choices):
            raise ConfigError(f"{name} cannot be tuned: its values are not numbers or words")
        if len(choices) < 2:
            raise ConfigError(f"{name} has one value, {shown(own)}: give two choices or more")
        return choices
    if not all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in [*values, own]
    ):
        raise ConfigError(
            f"{name} is {shown(own)} in the recipe, and a range holds numbers: write a list of "
            "choices"
        )
    low, high = values
    if not low < high:
        raise ConfigError(f"{name}: the range is empty, since low {low} is not below high {high}")
    log = given.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError(f"{name}: log must be true or false; got {shown(log)}")
    low, high = min(low, own), max(high, own)
    if log and low <= 0:
        raise ConfigError(
            f"{name}: a logarithmic range starts above 0, and its lowest value (that of the recipe "
            f"included) is {low}: leave log out, or choose another value"
        )
    return Range(low, high, log)


def _require_tunable(config: TrainConfig, name: str, fixed: Collection[str]) -> None:
    section, _, key = name.partition(".")
    start = config.finetune.start
    if name in fixed:
        raise ConfigError(
            f"{name} is set on its own as well, and a setting is either set or tuned: leave one out"
        )
    if section not in _SECTIONS:
        raise ConfigError(f"{name} cannot be tuned: all trials have the same data and objective")
    if section in ("run", "finetune") and key in _NOT_TUNED:
        raise ConfigError(f"{name} cannot be tuned: {_NOT_TUNED[key]}")
    if start is not None and is_architecture(name):
        raise ConfigError(
            f"{name} cannot be tuned: the model that training starts from, {start}, fixes the "
            "architecture. Leave the setting out, or train from random weights (--from none)"
        )
    if start is None and section == "finetune":
        raise ConfigError(f"{name} has no effect without a model to start from: leave it out")
