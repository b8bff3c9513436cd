"""`load_config`: from the recipes in `configs/` and single settings to a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.files.writing import clear_errors
from molsepnorm.model import encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.training.config import (
    NO_START,
    TrainConfig,
    is_architecture,
    shown,
    validated,
    with_settings,
    with_start,
)

_PRESETS = ("mini", "slim", "base")


def load_config(
    source: str | Path | None = None,
    *,
    config: Path | str | None = None,
    preset: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> TrainConfig:
    """Combine a recipe, a file, a preset and single settings into a configuration.

    Later ones override earlier ones. The recipe in `configs/` is that of the data: `<name>.yaml` or
    `ogbg.yaml` for a named set, `table.yaml` for a table, or `scratch.yaml` to train from random
    weights, and `pretrain.yaml` for structures without labels.

    Args:
        source: name of a data set, or path of a table; by default that of the settings.
        config: a YAML file of settings.
        preset: replace the architecture by that of `configs/<preset>.yaml`: mini, slim or base.
        overrides: single settings by their dotted names.

    >>> recipe = load_config("zinc", overrides={"model.layers": 6, "optim.lr": 1e-3})
    >>> recipe.data.dataset, recipe.model.layers, recipe.optim.lr
    ('zinc', 6, 0.001)

    Raises:
        ConfigError: a setting is unknown (the message names the nearest), or a value is invalid.
    """
    for value, name in ((source, "source"), (config, "config"), (preset, "preset")):
        text = str(value) if isinstance(value, str | Path) else ""
        if value is not None and (not text.strip() or "\0" in text):
            raise ConfigError(
                f"{name} must be a name or a path; got {shown(value)}. Save a DataFrame to a file"
            )
    overrides = {} if overrides is None else overrides
    if not isinstance(overrides, Mapping):
        raise ConfigError(
            "overrides must be a dictionary of settings, such as {'model.layers': 6}; got "
            f"{shown(overrides)}"
        )
    of_file = {} if config is None else read_yaml(Path(config))
    if source is not None:
        is_file = isinstance(source, Path) or "." in source or "/" in source
        named, other = ("table", "dataset") if is_file else ("dataset", "table")
        of_file = with_settings(of_file, {f"data.{named}": str(source), f"data.{other}": None})
    given = {f"{name}.{key}": each for name in of_file for key, each in of_file[name].items()}
    content = read_recipe({**given, **overrides}, preset)
    if "finetune.start" in given:
        content.pop("finetune", None)
    content |= {name: {**content.get(name, {}), **section} for name, section in of_file.items()}
    if preset is not None:
        if preset not in _PRESETS:
            raise ConfigError(f"unknown preset '{preset}'. {did_you_mean(preset, _PRESETS)}")
        content["model"] = read_yaml(config_folder() / f"{preset}.yaml")["model"]
    content = with_settings(with_start(content, overrides, preset), overrides)
    where = "the configuration" if overrides or config is None else config
    result = validated(content, where)
    result.data.require_effect([str(name) for name in overrides])
    return result


def read_recipe(settings: Mapping[str, Any], preset: str | None = None) -> dict[str, Any]:
    """Return the recipe for the data that settings name."""
    dataset = settings.get("data.dataset")
    name = "ogbg" if str(dataset).startswith("ogbg-") else str(dataset)
    if settings.get("data.structures"):
        name = "pretrain"
    elif dataset not in datasets.NAMES:
        chosen = preset is not None or any(is_architecture(str(key)) for key in settings)
        start = settings.get("finetune.start", NO_START if chosen else "that of the recipe")
        name = "scratch" if start is None or str(start) == NO_START else "table"
    return read_yaml(config_folder() / f"{name}.yaml")


def config_folder() -> Path:
    """Folder of the recipes: inside an installed package, or at the top level of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def read_yaml(path: Path) -> dict[str, Any]:
    try:
        with clear_errors(path, "read"):
            content = parse_yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:  # includes UnicodeDecodeError
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if content is None:
        return {}
    sections = content.items() if isinstance(content, dict) else [(None, None)]
    if not all(isinstance(name, str) and isinstance(each, dict) for name, each in sections):
        raise ConfigError(
            f"{path} must have sections with settings, such as 'optim:' with 'lr: 0.001' below it. "
            f"Sections: {', '.join(TrainConfig.model_fields)}"
        )
    return content


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [str(name.value) for name, _ in node.value]
        if again := [name for name in names if names.count(name) > 1]:
            problem = f"{shown(again[0])} is given twice"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text, or raise a `ValueError` with a message of one line."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem}") from None
    except Exception as error:  # PyYAML raises many kinds, for example for the date 2024-13-45
        raise ValueError(" ".join(str(error).split())) from None


def architecture(config: TrainConfig) -> GraphormerConfig:
    sizes = featurize.SIZES[datasets.featurizer_of(config.data)]
    atoms, bonds, width = sizes.atoms, sizes.bonds, len(sizes.molecule)
    return replace(config.model, atom_sizes=atoms, bond_sizes=bonds, molecule_features=width)


def encoding(config: TrainConfig) -> EncodingSpec:
    return encoding_of(architecture(config))


def load_dataset(config: TrainConfig) -> Dataset:
    return datasets.load(config.data, encoding(config))
