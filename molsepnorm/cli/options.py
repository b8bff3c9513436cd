"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml

__all__ = ["data_options", "model_option", "parse_settings", "split_names"]


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where molecules and labels come from."""
    for option in reversed(
        (
            click.option("--dataset", help="A data set by name: zinc, zinc-full."),
            click.option(
                "--data",
                type=click.Path(path_type=Path),
                help="A CSV file with a column of SMILES and columns of labels.",
            ),
            click.option(
                "--data-dir",
                type=click.Path(path_type=Path),
                help="Where raw files of named data sets lie. [default: $MOLSEPNORM_DATA]",
            ),
            click.option("--smiles-column", help="Column of SMILES. [default: smiles]"),
            click.option(
                "--targets",
                "--target-columns",
                callback=split_names,
                help="Columns to predict, separated by commas. [default: every numeric column]",
            ),
        )
    ):
        command = option(command)
    return command


model_option = click.option(
    "--model",
    "model_folder",
    required=True,
    type=click.Path(path_type=Path),
    help="A run's folder, or a model folder.",
)


def split_names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    """A callback: names separated by commas."""
    names = [name.strip() for name in (value or "").split(",")]
    return [name for name in names if name] or None


def parse_settings(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    """A callback: `section.name=value` pairs, the values read as YAML."""
    settings = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"'{text}' should look like model.layers=6")
        try:
            settings[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            settings[name.strip()] = value
    return settings
