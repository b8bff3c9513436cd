"""Options that several commands share, and the configuration that they make. The options of
settings come from the generated `settings.json`, so `--help` needs neither pydantic nor torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from molsepnorm.cli.console import say

if TYPE_CHECKING:
    from molsepnorm.training import TrainConfig

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

HELP_OPTIONS = ["-h", "--help"]


class GroupedCommand(click.Command):
    """A command that lists its options under headings. A heading holds until the next one. Only
    --help-all lists the options that are not `common`. An option that is given twice is an error;
    click would use the last one."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        # click keeps the help option of a command's first context, which may have no parent
        attributes.setdefault("context_settings", {"help_option_names": HELP_OPTIONS})
        super().__init__(*args, **attributes)
        if not all(getattr(param, "common", True) for param in self.params):
            self.params.append(
                _Option(
                    ["--help-all"],
                    heading="Help",
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_print_all_options,
                    help="Show all options and exit.",
                )
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for param in order:
            if isinstance(param, click.Option) and not param.multiple and order.count(param) > 1:
                ctx.fail(f"{max(param.opts, key=len)} was given {order.count(param)} times")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        heading = "Options"
        for param in self.get_params(ctx):
            if not getattr(param, "common", True) and not ctx.meta.get(_ALL):
                continue
            if isinstance(param, click.Option) and (line := param.get_help_record(ctx)):
                default = "Help" if "--help" in param.opts else heading
                heading = getattr(param, "heading", None) or default
                groups.setdefault(heading, []).append(line)
        for name, lines in groups.items():
            with formatter.section(name):
                formatter.write_dl(lines)


_ALL = "molsepnorm.all_options"  # in the context's `meta`


def _print_all_options(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class _Option(click.Option):
    """An option with the heading under which the help lists it, and whether `--help` does."""

    def __init__(
        self, *args: Any, heading: str | None = None, common: bool = True, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.heading, self.common = heading, common


option = partial(click.option, cls=_Option)
command = partial(click.command, cls=GroupedCommand)


def split_names(_: Any, __: Any, value: str | None) -> list[str] | None:
    """A callback that splits names at commas, see `column_names`. There must be at least one."""
    from molsepnorm.tasks.inputs import column_names

    names = [name.strip() for name in column_names(value or "") if name.strip(" ,")]
    if value is not None and not names:
        raise click.BadParameter(f"'{value}' has no name: write names such as a,b, or leave it out")
    return names or None


class _FileType(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip() or "\0" in str(value):
            self.fail(f"{str(value)!a} is not a path", param, ctx)
        return super().convert(value, param, ctx)


FILE = _FileType(path_type=Path)
"""The path of a file or folder, which cannot be empty."""

_SETTINGS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("settings.json").read_text(encoding="utf-8")
)
_COMMON = {
    *("data.dataset", "data.table", "data.smiles_column", "data.targets", "data.feature_columns"),
    *("data.transform", "data.split_type", "data.splits_column", "data.folds"),
    *("finetune.start", "run.epochs", "run.budget", "run.ensemble", "run.seed", "run.device"),
}
"""Settings whose options `train --help` lists."""
_REPEATED = {"data.auxiliary"}
"""Settings whose options may be repeated."""
_TYPES = {"integer": click.INT, "number": click.FLOAT, "path": FILE}


def _parameter(setting: dict[str, Any]) -> str:
    return setting["options"][0].partition("/")[0].lstrip("-").replace("-", "_")


def setting_options(
    *names: str,
    without: Sequence[str] = (),
    defaults: bool = False,
    common: Collection[str] | None = None,
    help: str | None = None,
) -> Decorator:
    """Add the options of some settings to a command.

    Args:
        names: settings such as `data.targets`, or sections such as `data`; by default all.
        without: settings or sections that are left out.
        defaults: pass the default if an option is not given; otherwise None.
        common: names of the settings that `--help` lists; by default all.
        help: text that replaces the setting's own.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for setting in reversed(_SETTINGS):
            either = {setting["name"], setting["name"].partition(".")[0]}
            if (names and not either & {*names}) or either & {*without}:
                continue
            choice = click.Choice(setting["choices"]) if setting["choices"] else None
            flag: dict[str, Any] = {"is_flag": True}
            if setting["default"] is not None:
                flag["flag_value"] = not setting["default"]
            function = option(
                _parameter(setting),
                *setting["options"],
                heading=setting["heading"],
                type=choice or _TYPES.get(setting["type"]),
                **(flag if setting["type"] == "yes or no" else {}),
                multiple=setting["name"] in _REPEATED,
                callback=split_names if setting["type"] == "list" else None,
                default=setting["default"] if defaults else None,
                show_default=False,
                common=common is None or setting["name"] in common,
                help=help or setting["help"],
            )(function)
        return function

    return decorate


READING = ("smiles_column", "decimal", "encoding", "sheet", "header_row")
"""Settings of the data on how a table is written, see `ReadOptions`."""
reading_options = partial(setting_options, *(f"data.{name}" for name in READING))


def named_texts(texts: Sequence[str], example: str) -> dict[str, str]:
    """Split `name=text` pairs, and return the texts by name."""
    by_name: dict[str, str] = {}
    for pair in texts:
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise click.BadParameter(f"'{pair}' should look like {example}")
        if name in by_name:
            raise click.BadParameter(f"{name} was given twice: {by_name[name]} and {text}")
        by_name[name] = text
    return by_name


def _parse_settings(_: Any, __: Any, pairs: tuple[str, ...]) -> dict[str, Any]:
    """A callback that reads the values of `section.name=value` as YAML, or else as text."""
    settings: dict[str, Any] = {}
    for name, text in named_texts(pairs, "model.layers=6").items():
        from molsepnorm.training.recipes import parse_yaml

        settings[name] = text
        with suppress(ValueError):
            settings[name] = parse_yaml(text)
    return settings


def recipe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --config, --preset and --set to a command."""
    set_option = option(
        "--set",
        "settings",
        multiple=True,
        metavar="SECTION.NAME=VALUE",
        callback=_parse_settings,
        help="Any setting by its name, such as model.layers=6; may be repeated. "
        "docs/settings.md lists all settings.",
    )
    preset = option(
        "--preset", metavar="[mini|slim|base]", common=False, help="Architecture of the network."
    )
    config = option("--config", heading="Recipe", type=FILE, help="YAML file of settings.")
    return config(preset(set_option(command)))


def training_options(*without: str) -> Decorator:
    """Add `recipe_options` and the options of all settings except `without` to a command."""
    others = setting_options(without=("data", *without), common=_COMMON)
    data = setting_options("data", common=_COMMON)
    return lambda command: data(recipe_options(others(command)))


def configuration(options: dict[str, Any], varied: Mapping[str, Any] | None = None) -> TrainConfig:
    """Return the configuration for the options of a command, which override `varied`."""
    from molsepnorm.training import load_config
    from molsepnorm.training.config import is_architecture

    if options.get("dataset") and options.get("data"):
        raise click.UsageError("--dataset and --data are both sources: give one of them")
    table, file, preset = (options.get(name) for name in ("data", "config", "preset"))
    overrides = {**(varied or {}), **given_settings(options)}
    source = options.get("dataset") or table
    config = load_config(source, config=file, preset=preset, overrides=overrides)
    may_start = table and "from" in options and not file
    if may_start and config.finetune.start is None and "finetune.start" not in overrides:
        reasons = [*filter(is_architecture, overrides), f"the preset {preset}"]
        say(
            f"Training starts from random weights, because {reasons[0]} changes the architecture "
            "of the pre-trained network. Confirm with --from none.",
            err=True,
        )
    return config


def given_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the options of a command set, by their dotted names."""
    assigned = options.get("settings", {})
    overrides = {}
    for setting in _SETTINGS:
        name, value = setting["name"], options.get(_parameter(setting))
        if value in (None, ()) or name in ("data.dataset", "data.table"):
            continue
        if name in assigned and assigned[name] != value:
            raise click.UsageError(
                f"{setting['options'][0]} and --set {name} are the same setting, with different "
                "values: give one of them"
            )
        overrides[name] = value
    return {**overrides, **assigned}


_MAX_SEEDS = 10_000


def _parse_seeds(_: Any, __: Any, value: str | None) -> list[int] | None:
    """A callback that reads seeds such as 0-9 or 0,3,7."""
    if value is None:
        return None
    seeds: list[int] = []
    try:
        for part in value.split(","):
            first, dash, last = part.partition("-")
            seeds += range(int(first), int(last if dash else first) + 1)[:_MAX_SEEDS]
    except ValueError:
        raise click.BadParameter(f"'{value}' should look like 0-9 or 0,3,7") from None
    if len(seeds) >= _MAX_SEEDS:
        raise click.BadParameter(f"'{value}' names {_MAX_SEEDS:,} seeds or more")
    return seeds


seeds_option = option(
    "--seeds",
    heading="Runs",
    callback=_parse_seeds,
    help="Random seeds of the runs, such as 0-9 or 0,3,7. [default: 0-9, or 0 with --no-test]",
)
_MODEL = "Folder of a run or of a saved model, or a name that `molsepnorm models` lists"
_model_option = partial(option, "--model", heading="Model", required=True, type=FILE)
model_option = _model_option("model_folder", help=f"{_MODEL}.")
optional_model_option = _model_option("model_folder", required=False, help=f"{_MODEL}.")


def models_option(
    purpose: str = "to average the predictions of models with the same targets",
    default: str | None = None,
) -> Decorator:
    """Add --model, which may be repeated, to a command; it is required unless the command has a
    default."""
    help = f"{_MODEL}; may be repeated, {purpose}."
    help += f" [default: {default}]" if default else ""
    return _model_option("model_folders", multiple=True, required=default is None, help=help)


def output_option(help: str, **attributes: Any) -> Decorator:
    """Add -o or --output to a command."""
    return option("-o", "--output", heading="Output", type=FILE, help=help, **attributes)


json_option = option("--json", "as_json", heading="Output", is_flag=True, help="Print JSON.")
