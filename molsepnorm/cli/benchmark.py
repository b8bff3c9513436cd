"""`molsepnorm benchmark`: several runs of one recipe, or of variants of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from molsepnorm.cli.console import print_json
from molsepnorm.cli.options import (
    GroupedCommand,
    configuration,
    given_settings,
    json_option,
    named_texts,
    option,
    output_option,
    seeds_option,
    training_options,
)
from molsepnorm.cli.signals import stop_on_signal
from molsepnorm.errors import counted

if TYPE_CHECKING:
    from molsepnorm.cli.display import ReplicatesDisplay
    from molsepnorm.training import Ablation, Replicates

    Runs = TypeVar("Runs", Replicates, Ablation)


def _parse_vary(
    _: click.Context, __: click.Parameter, texts: tuple[str, ...]
) -> dict[str, list[Any]]:
    """A callback: `name=value,value,…`, the values read as YAML."""
    from molsepnorm.training.recipes import parse_yaml

    vary = {}
    example = "model.layers=4,8,12"
    for name, text in named_texts(texts, example).items():
        try:
            values = parse_yaml(f"[{text}]")
        except ValueError:
            values = []
        if not values:
            raise click.BadParameter(f"'{name}={text}' should look like {example}")
        vary[name] = values
    return vary


@click.command(cls=GroupedCommand)
@training_options("run.seed")
@seeds_option
@option(
    "--replicates",
    type=click.IntRange(min=1),
    help="Number of splits: training and validation molecules are drawn again for each, the test "
    "molecules stay the same. Not needed with --folds, which trains on every fold.",
)
@option(
    "--vary",
    multiple=True,
    metavar="NAME=VALUE,VALUE…",
    callback=_parse_vary,
    help="Setting and the values to compare, such as norm=shared,sep or model.layers=4,8. Given "
    "several times, all combinations are trained. The first variant is the baseline.",
)
@output_option(
    "Folder of the runs. Finished runs in it are not repeated. [default: runs/<name>-benchmark, or "
    "runs/<name>-ablation with --vary]"
)
@json_option
def benchmark(
    seeds: list[int] | None,
    replicates: int | None,
    vary: dict[str, list[Any]],
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train with several seeds, splits or settings, and print mean and standard deviation.

    Each run has a folder of its own; summary.json is updated after each run. Run the same command
    again to continue after an interruption.

    With --folds 5 --no-test every fold is a test set once: oof_predictions.csv has a prediction for
    each row by the model that was trained without its fold.

    With --vary, variants of the recipe are compared over the same seeds: each with the first one,
    over pairs of runs, with a 95 % interval and the p-value of a paired t-test. On a table,
    training starts from random weights (--from none) if a setting of the architecture varies.

    \b
    molsepnorm benchmark --dataset ogbg-molhiv --seeds 0-9
    molsepnorm benchmark --data my.csv --targets logS --folds 5 --no-test
    molsepnorm benchmark --data my.csv --targets logS --folds 5 --seeds 0
    molsepnorm benchmark --data my.csv --split-type scaffold --replicates 3 --seeds 0,1
    molsepnorm benchmark --dataset zinc --vary norm=shared,sep,sep-ln --seeds 0-4 --budget 8m
    """
    from molsepnorm.cli.display import (
        ReplicatesDisplay,
        folds_table,
        label_notes,
        leak_notes,
        replicates_table,
    )
    from molsepnorm.training import train_replicates
    from molsepnorm.training.results.summary import conclusion_of_folds

    display = ReplicatesDisplay(quiet=as_json)
    if vary:
        if replicates is not None:
            raise click.UsageError("--replicates has no effect with --vary: use --seeds")
        _compare(vary, seeds, output, as_json, display, options)
        return

    result = _train_all(
        train_replicates, options, display, output, "benchmark", seeds=seeds, splits=replicates
    )
    summary = result.summary
    if as_json:
        print_json(summary)
        return
    pooled = summary.get("out_of_fold")
    if pooled is not None:
        display.console.print(folds_table(summary))
    display.console.print(replicates_table(summary))
    for line in label_notes(summary.get("labels", {}) if pooled is None else pooled["labels"]):
        display.console.print(line)
    for line in leak_notes(summary):
        display.console.print(line, style="yellow")
    if pooled is not None:
        if sentence := conclusion_of_folds(summary):
            display.console.print(sentence)
        display.console.print(f"Out-of-fold predictions: {result.folder / pooled['file']}")
    display.console.print(
        f"{counted(len(result.runs), 'run')}, {summary['parameters']:,} parameters, "
        f"{summary['seconds']['mean']:.0f} s of training each. All figures: "
        f"{result.folder / 'summary.json'}"
    )


def _compare(
    vary: dict[str, list[Any]],
    seeds: list[int] | None,
    output: Path | None,
    as_json: bool,
    display: ReplicatesDisplay,
    options: dict[str, Any],
) -> None:
    from molsepnorm.cli.display import ablation_tables, leak_notes
    from molsepnorm.training import ablate
    from molsepnorm.training.comparing.ablation import variants_of
    from molsepnorm.training.config import is_architecture

    first = next(iter(variants_of(vary).values()))
    if both := sorted(given_settings(options).keys() & first.keys()):
        raise click.UsageError(
            f"{both[0]} is set on its own as well, and a setting is either set or varied: leave "
            "one out"
        )
    own = {name: value for name, value in first.items() if is_architecture(name)}
    ablation = _train_all(ablate, options, display, output, "ablation", own, vary=vary, seeds=seeds)
    if as_json:
        print_json(ablation.to_json())
        return
    for table in ablation_tables(ablation):
        display.console.print(table)
    for name, each in ablation.replicates.items():
        for line in leak_notes(each.summary):
            display.console.print(f"{name}: {line}", style="yellow")
    display.console.print(f"All figures: {ablation.folder / 'ablation.json'}")


def _train_all(
    train: Callable[..., Runs],
    options: dict[str, Any],
    display: ReplicatesDisplay,
    output: Path | None,
    suffix: str,
    varied: Mapping[str, Any] | None = None,
    *,
    seeds: list[int] | None,
    **arguments: Any,
) -> Runs:
    """Train the runs of a recipe, which depends on the settings of an architecture that vary."""
    from molsepnorm.training import StopWhen

    assigned = options.get("settings", {})
    if "run.seed" in assigned:
        raise click.UsageError("--set run.seed has no effect here: --seeds sets the seeds of runs")
    config = configuration(options, varied)
    if (arguments.get("splits") or config.data.folds) and (
        options.get("fold") or "data.fold" in assigned
    ):
        raise click.UsageError("--fold has no effect here: there is a run for every fold")
    if seeds is None:  # a cross-validation of one seed already has several runs
        seeds = list(range(10 if config.data.test_set else 1))
    folder = output or Path("runs") / f"{config.data.label}-{suffix}"
    with stop_on_signal(lambda: display.training) as stop:
        callback = [display, StopWhen(lambda: stop.signal is not None)]
        runs = train(config, folder, callback=callback, seeds=seeds, **arguments)
    if not runs.finished:
        stop.leave()
    return runs
