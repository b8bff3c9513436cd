"""Options that several commands share, and how they become settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from molsepnorm.training import TrainConfig

__all__ = [
    "PLACE",
    "column_options",
    "configuration",
    "data_dir_option",
    "device_option",
    "model_option",
    "options",
    "precision_option",
    "recipe_options",
    "seeds_option",
    "series_configuration",
    "source_options",
    "table_options",
]

Command = Callable[..., Any]


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
        from molsepnorm.training.settings import parse_yaml

        try:
            settings[name.strip()] = parse_yaml(value)
        except ValueError:
            settings[name.strip()] = value
    return settings


_KINDS = ("regression", "binary", "multiclass")


def _parse_kinds(
    _: click.Context, __: click.Parameter, value: str | None
) -> str | dict[str, str] | None:
    """A callback: one kind for all targets, or `target=kind` pairs."""
    if value is None:
        return None
    kinds = {}
    for part in value.split(","):
        name, _equals, kind = part.rpartition("=")
        kind = {"classification": "binary"}.get(kind.strip(), kind.strip())
        if kind not in _KINDS:
            raise click.BadParameter(
                f"'{kind}' is none of {', '.join(_KINDS)}; give one of them for all targets, or "
                "pairs such as activity=binary,colour=multiclass"
            )
        kinds[name.strip()] = kind
    if "" not in kinds:
        return kinds
    if len(kinds) > 1:
        raise click.BadParameter(f"'{value}' should be one kind, or target=kind pairs throughout")
    return kinds[""]


def _parse_shares(_: click.Context, __: click.Parameter, value: str | None) -> list[float] | None:
    """A callback: numbers separated by commas or blanks."""
    if value is None:
        return None
    try:
        train, val, test = (float(share) for share in value.replace(",", " ").split())
    except ValueError:
        raise click.BadParameter(f"'{value}' should look like 0.8,0.1,0.1") from None
    return [train, val, test]


class PlaceType(click.Path):
    """A file or a folder, which has a name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip() or "\0" in str(value):
            self.fail(f"{str(value)!a} is no path", param, ctx)
        return super().convert(value, param, ctx)


PLACE = PlaceType(path_type=Path)

data_dir_option = click.option(
    "--data-dir",
    type=PLACE,
    help="Where raw files of named data sets lie. [default: $MOLSEPNORM_DATA]",
)

source_options = (
    click.option("--dataset", help="A data set by name; `molsepnorm data list` shows them."),
    click.option(
        "--data",
        type=PLACE,
        help="A file with SMILES and labels: CSV, TSV, Parquet, SDF or .smi, also compressed.",
    ),
    data_dir_option,
)
"""Where molecules come from."""

column_options = (
    click.option("--smiles-column", "--smiles-columns", help="Column of SMILES. [default: smiles]"),
    click.option(
        "--targets",
        "--target-columns",
        callback=split_names,
        help="Columns to predict, separated by commas. [default: every column of numbers]",
    ),
)
"""Which columns are which, as every command needs it."""

table_options = (
    *column_options,
    click.option(
        "--task-type",
        callback=_parse_kinds,
        help="regression, binary or multiclass, or pairs such as a=binary,b=multiclass. "
        "[default: by the labels]",
    ),
    click.option(
        "--ignore-columns", callback=split_names, help="Columns that are never taken for targets."
    ),
    click.option("--weight-column", help="Column by which each row counts in the loss."),
    click.option("--splits-column", help="Column that says train, val (or valid) or test."),
    click.option(
        "--splits-file", type=PLACE, help="Rows of each split, in the form of splits.json."
    ),
    click.option(
        "--split-type",
        help="random, scaffold or scaffold-ogb: how molecules are drawn. [default: random]",
    ),
    click.option(
        "--split",
        callback=_parse_shares,
        help="Shares of train, val and test. [default: 0.8,0.1,0.1]",
    ),
    click.option("--split-seed", type=int, help="Of the drawing. [default: 0]"),
    click.option("--folds", type=int, help="Cut all but the test molecules in so many folds."),
    click.option("--fold", type=int, help="Which fold validates, or which entry of --splits-file."),
    click.option("--featurizer", help="Atom and bond features of a table: ogb, rich or zinc."),
    click.option(
        "--on-invalid", help="skip or fail: what to do with a SMILES that cannot be read."
    ),
)
"""How a table is read and split."""

recipe_options = (
    click.option("--config", type=PLACE, help="A YAML file of settings."),
    click.option("--preset", help="An architecture: mini, slim, base."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="SECTION.NAME=VALUE",
        callback=parse_settings,
        help="Any setting of the configuration, such as model.layers=6; may be repeated.",
    ),
    click.option("--epochs", type=int, help="Passes over the training molecules."),
    click.option(
        "--budget",
        help="640s, 11m, 1.5h: as many epochs as fit into this time, in place of --epochs.",
    ),
    click.option("--batch-size", type=int, help="Molecules per step."),
    click.option("--lr", type=float, help="Learning rate at its peak."),
    click.option("--layers", type=int, help="Layers of the network."),
    click.option(
        "--norm",
        help="shared (one layer norm), sep (the published SepNorm), sep-ln, sep-rms-bn, …: the "
        "norms of graph token and atoms.",
    ),
    click.option("--metric", help="By which the best epoch is chosen: mae, rmse, roc_auc, …"),
    click.option("--patience", type=int, help="Stop after so many epochs without a better one."),
    click.option("--class-weight", help="balanced: rare classes weigh as much as common ones."),
    click.option("--device", help="auto, cpu, cuda, cuda:1, …"),
    click.option(
        "--threads",
        type=int,
        help="Number of CPU threads. A fixed number makes results repeatable to the bit. "
        "[default: $OMP_NUM_THREADS, or the fastest, chosen during training]",
    ),
    click.option("--precision", help="fp32, tf32 or bf16: of matrix products. [default: fp32]"),
)
"""How to train."""

precision_option = click.option(
    "--precision",
    type=click.Choice(["fp32", "tf32", "bf16"]),
    default="fp32",
    help="Precision of matrix products; tf32 needs a GPU.",
)
device_option = click.option("--device", default="auto", help="auto, cpu, cuda, cuda:1, …")

_MOST_SEEDS = 10_000


def _parse_seeds(_: click.Context, __: click.Parameter, value: str) -> list[int]:
    """A callback: 0-9, or 0,3,7, or both."""
    seeds: list[int] = []
    try:
        for part in value.split(","):
            first, dash, last = part.partition("-")
            some = range(int(first), int(last if dash else first) + 1)
            seeds += some[:_MOST_SEEDS]
    except ValueError:
        raise click.BadParameter(f"'{value}' should look like 0-9 or 0,3,7") from None
    if len(seeds) >= _MOST_SEEDS:
        raise click.BadParameter(f"'{value}' are {_MOST_SEEDS:,} seeds or more")
    return seeds


seeds_option = click.option(
    "--seeds", default="0-9", callback=_parse_seeds, help="Such as 0-9 or 0,3,7."
)

model_option = click.option(
    "--model",
    "model_folder",
    required=True,
    type=PLACE,
    help="A run's folder, or a model folder.",
)


def options(*groups: tuple[Callable[[Command], Command], ...]) -> Callable[[Command], Command]:
    """Several groups of options, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


_SETTINGS = {
    **{
        name: f"data.{name}"
        for name in (
            *("data_dir", "smiles_column", "targets", "task_type", "ignore_columns"),
            *("weight_column", "splits_column", "splits_file", "split_type", "split"),
            *("split_seed", "folds", "fold", "featurizer", "on_invalid"),
        )
    },
    **{
        name: f"run.{name}"
        for name in (
            "epochs",
            "budget",
            "batch_size",
            "seed",
            "device",
            "threads",
            "precision",
            "metric",
            "patience",
        )
    },
    **{name: f"optim.{name}" for name in ("lr", "class_weight")},
    **{name: f"model.{name}" for name in ("layers", "norm")},
}
"""Options that stand for a setting."""


def configuration(given: dict[str, Any]) -> TrainConfig:
    """The configuration that a command's options ask for."""
    from molsepnorm.training import load_config

    if given.get("dataset") and given.get("data"):
        raise click.UsageError("--dataset and --data are both sources: give one of them")
    overrides = {
        setting: given[name] for name, setting in _SETTINGS.items() if given.get(name) is not None
    }
    for name, value in given.get("settings", {}).items():
        if name in overrides and overrides[name] != value:
            option = next(each for each, setting in _SETTINGS.items() if setting == name)
            raise click.UsageError(
                f"--{option.replace('_', '-')} and --set {name} are the same setting, with "
                "different values: give one of them"
            )
    return load_config(
        given.get("dataset") or given.get("data"),
        config=given.get("config"),
        preset=given.get("preset"),
        overrides={**overrides, **given.get("settings", {})},
    )


def series_configuration(given: dict[str, Any], replicates: int | None = None) -> TrainConfig:
    """The configuration of several runs, which have their own seeds, and perhaps splits."""
    settings = given.get("settings", {})
    if "run.seed" in settings:
        raise click.UsageError("--set run.seed has no effect here: --seeds names every run's seed")
    config = configuration(given)
    if (replicates or config.data.folds) and (given.get("fold") or "data.fold" in settings):
        raise click.UsageError("--fold has no effect here: every fold, or replicate, is a run")
    return config
