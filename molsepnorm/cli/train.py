"""The commands that train: `train`, `pretrain`, `benchmark` and `tune`."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from molsepnorm.cli import options as cli
from molsepnorm.cli.console import print_json, say
from molsepnorm.cli.signals import rank, stop_on_signal
from molsepnorm.errors import MolsepnormError, StorageError, counted

if TYPE_CHECKING:
    from rich.console import Console

    from molsepnorm.training import Ablation, Replicates, TrainConfig


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --output, --resume and --quiet to a command."""
    resume = cli.option(
        "--resume",
        type=cli.FILE,
        help="Continue the interrupted run in this folder.",
    )
    quiet = cli.option("-q", "--quiet", is_flag=True, help="Print only the final scores.")
    output = cli.output_option("Folder of the run. [default: runs/<name>-<number>]")
    return output(resume(quiet(command)))


@cli.command()
@cli.training_options()
@run_options
@click.pass_context
def train(
    ctx: click.Context, output: Path | None, resume: Path | None, quiet: bool, **options: Any
) -> None:
    """Train a model on a data set or a table.

    \b
    molsepnorm train --dataset zinc
    molsepnorm train --data my.csv --targets logS --ensemble 5
    molsepnorm train --data my.csv --targets active --split-type scaffold
    molsepnorm train --config configs/zinc.yaml --set model.layers=6
    molsepnorm train --resume runs/zinc-1
    torchrun --nproc-per-node 4 -m molsepnorm train --dataset zinc
    """
    _train(ctx, None if resume else cli.configuration(options), output, resume, quiet)


def _train(
    ctx: click.Context,
    config: TrainConfig | None,
    output: Path | None,
    resume: Path | None,
    quiet: bool,
) -> None:
    """Train with a configuration, or continue a run, and exit if a signal stops it."""
    from molsepnorm.cli.display import RunLog, TrainingDisplay
    from molsepnorm.training import StopWhen
    from molsepnorm.training import train as start
    from molsepnorm.training.run_folder.folder import RunFolder

    silent = bool(rank())  # of torchrun's processes, only the first prints and writes the log
    display = TrainingDisplay(quiet or silent)
    display.console.quiet = silent
    if resume is not None:
        _require_nothing_else(ctx)
        folder = resume
    else:
        assert config is not None
        folder = output or RunFolder.numbered(config.data.label)
    log = RunLog(folder)
    with stop_on_signal(lambda: display.training) as stop, display.heartbeat():
        callback = [display, StopWhen(lambda: stop.signal is not None), *([] if silent else [log])]
        try:
            result = start(config, folder, resume=resume is not None, callback=callback)
        except MolsepnormError as error:
            with suppress(StorageError):  # of the log; the disk may be full
                log.console.print(f"Error: {error}")
            raise
        finally:
            display.close()
    if not result.finished:
        if not silent:
            command = f"molsepnorm {ctx.info_name} --resume {shlex.quote(str(result.folder))}"
            log.console.print(stopped := f"Stopped and saved. Continue: {command}")
            say(stopped, err=True)
        # without a signal here, another process received it
        sys.exit(128 + (stop.signal or signal.SIGTERM))


def _require_nothing_else(ctx: click.Context) -> None:
    """Refuse options that a resumed run would ignore."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        ignored = parameter.name not in ("resume", "quiet")
        if ignored and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                "--resume continues a run with its own configuration, so it takes no other option "
                f"than --quiet; got {max(parameter.opts, key=len)}. To train a finished model "
                "further: --from"
            )


@cli.command()
@cli.option(
    "--data",
    "files",
    heading="Data",
    type=cli.FILE,
    multiple=True,
    help="File with SMILES: CSV, TSV, Parquet, SDF or .smi; may be repeated.",
)
@cli.option(
    "--teacher",
    type=cli.FILE,
    help="Parquet file, or folder of them, with embeddings of these molecules by another model, in "
    "the columns smiles and embedding.",
)
@cli.reading_options()
@cli.setting_options("data.featurizer", "data.on_invalid")
@cli.recipe_options
@cli.setting_options(
    "model", "optim.lr", "run", without=("run.metric", "run.baseline", "run.blend", "run.refit")
)
@run_options
@click.pass_context
def pretrain(
    ctx: click.Context,
    files: tuple[Path, ...],
    teacher: Path | None,
    output: Path | None,
    resume: Path | None,
    quiet: bool,
    settings: dict[str, Any],
    **options: Any,
) -> None:
    """Train a model on structures without labels, as a start for `train --from`.

    The weights of the losses are settings: objective.teacher and objective.descriptors.

    \b
    molsepnorm pretrain --data molecules.smi --output runs/pretrained
    molsepnorm pretrain --data molecules.smi --teacher vectors.parquet
    molsepnorm pretrain --data a.csv --data b.parquet --epochs 5
    molsepnorm pretrain --resume runs/pretrained
    molsepnorm train --data my.csv --targets logS --from runs/pretrained
    """
    config = None
    if resume is None:
        if not files:
            raise click.UsageError("name the molecules: --data FILE")
        sources: dict[str, Any] = {"data.structures": [str(file) for file in files]}
        if teacher is not None:
            sources |= {"objective.teacher": 1.0, "objective.teacher_vectors": str(teacher)}
        config = cli.configuration({**options, "settings": {**sources, **settings}})
    _train(ctx, config, output, resume, quiet)


def _parse_vary(_: Any, __: Any, texts: tuple[str, ...]) -> dict[str, list[Any]]:
    """A callback that reads the values of `name=value,value,…` as YAML."""
    from molsepnorm.training.recipes import parse_yaml

    vary = {}
    example = "model.layers=4,8,12"
    for name, text in cli.named_texts(texts, example).items():
        with suppress(ValueError):
            vary[name] = parse_yaml(f"[{text}]")
        if not vary.get(name):
            raise click.BadParameter(f"'{name}={text}' should look like {example}")
    return vary


@cli.command()
@cli.training_options("run.seed")
@cli.seeds_option
@cli.option(
    "--replicates",
    type=click.IntRange(min=1),
    help="Number of splits: training and validation molecules are drawn again for each, the test "
    "molecules stay the same. Not needed with --folds, which trains on every fold.",
)
@cli.option(
    "--vary",
    multiple=True,
    metavar="NAME=VALUE,VALUE…",
    callback=_parse_vary,
    help="Setting and the values to compare, such as norm=shared,sep or model.layers=4,8. Given "
    "several times, all combinations are trained. The first variant is the baseline.",
)
@cli.output_option(
    "Folder of the runs. Finished runs in it are not repeated. [default: runs/<name>-benchmark, or "
    "runs/<name>-ablation with --vary]"
)
@cli.json_option
def benchmark(
    seeds: list[int] | None,
    replicates: int | None,
    vary: dict[str, list[Any]],
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train with several seeds, splits or settings, and print mean and standard deviation.

    Each run has its own folder; summary.json is updated after each run. Run the same command again
    to continue after an interruption.

    With --folds 5 --no-test every fold is a test set once: oof_predictions.csv has a prediction for
    each row by the model that was trained without its fold.

    With --vary, variants of the recipe are compared over the same seeds: each with the first one,
    over pairs of runs, with a 95 % interval. On a table, training starts from random weights
    (--from none) if a setting of the architecture varies.

    \b
    molsepnorm benchmark --dataset ogbg-molhiv --seeds 0-9
    molsepnorm benchmark --data my.csv --targets logS --folds 5 --no-test
    molsepnorm benchmark --data my.csv --targets logS --folds 5 --seeds 0
    molsepnorm benchmark --data my.csv --split-type scaffold --replicates 3 --seeds 0,1
    molsepnorm benchmark --dataset zinc --vary norm=shared,sep,sep-ln --seeds 0-4 --budget 8m
    """
    from molsepnorm.cli.display import ReplicatesDisplay
    from molsepnorm.training import StopWhen, ablate, train_replicates
    from molsepnorm.training.comparing.ablation import variants_of
    from molsepnorm.training.config import is_architecture

    assigned = options["settings"]
    if vary and replicates is not None:
        raise click.UsageError("--replicates has no effect with --vary: use --seeds")
    if "run.seed" in assigned:
        raise click.UsageError("--set run.seed has no effect here: --seeds sets the seeds of runs")
    first = next(iter(variants_of(vary).values())) if vary else {}
    if both := sorted(cli.given_settings(options).keys() & first.keys()):
        raise click.UsageError(
            f"{both[0]} is set on its own as well, and a setting is either set or varied: leave "
            "one out"
        )
    varied = {name: value for name, value in first.items() if is_architecture(name)}
    config = cli.configuration(options, varied)
    has_fold = options["fold"] or "data.fold" in assigned
    if has_fold and (replicates or config.data.folds):
        raise click.UsageError("--fold has no effect here: there is a run for every fold")
    if seeds is None:  # a cross-validation of one seed already has several runs
        seeds = list(range(10 if config.data.test_set else 1))
    kind = "ablation" if vary else "benchmark"
    folder = output or Path("runs") / f"{config.data.label}-{kind}"
    display = ReplicatesDisplay(quiet=as_json)
    train: Any = partial(ablate, vary=vary) if vary else train_replicates
    if replicates is not None:
        train = partial(train, splits=replicates)
    with stop_on_signal(lambda: display.training) as stop:
        callback = [display, StopWhen(lambda: stop.signal is not None)]
        runs = train(config, folder, seeds=seeds, callback=callback)
    if not runs.finished:
        stop.leave()
    if as_json:
        print_json(runs.to_json() if vary else runs.summary)
    elif vary:
        _print_ablation(runs, display.console)
    else:
        _print_replicates(runs, display.console)


def _print_ablation(ablation: Ablation, console: Console) -> None:
    from molsepnorm.cli.display import ablation_tables, leak_notes

    for table in ablation_tables(ablation):
        console.print(table)
    for name, replicates in ablation.replicates.items():
        for line in leak_notes(replicates.summary):
            console.print(f"{name}: {line}", style="yellow")
    console.print(f"All figures: {ablation.folder / 'ablation.json'}")


def _print_replicates(replicates: Replicates, console: Console) -> None:
    from molsepnorm.cli import display

    folder, summary = replicates.folder, replicates.summary
    pooled = summary.get("out_of_fold")
    if pooled is not None:
        console.print(display.folds_table(summary))
    console.print(display.replicates_table(summary))
    for line in display.label_notes((pooled or summary).get("labels", {})):
        console.print(line)
    for line in display.leak_notes(summary):
        console.print(line, style="yellow")
    if pooled is not None:
        if sentence := display.folds_note(summary):
            console.print(sentence)
        console.print(f"Out-of-fold predictions: {folder / pooled['file']}")
    console.print(
        f"{counted(len(replicates.runs), 'run')}, {summary['parameters']:,} parameters, "
        f"{summary['seconds']['mean']:.0f} s of training each. All figures: "
        f"{folder / 'summary.json'}"
    )


@cli.command()
@cli.training_options("run.budget")
@cli.option(
    "--trials",
    heading="Search",
    type=click.IntRange(min=1),
    help="Number of trials, including those that are stopped early. The first one is the recipe. "
    "Required without --budget.",
)
@cli.option(
    "--budget", help="Time of the search, such as 30m or 1h. At least the recipe is trained."
)
@cli.option(
    "--space",
    type=cli.FILE,
    help="YAML file of settings and their values. [default: configs/tune.yaml, without the "
    "settings that are given here or do not fit the recipe]",
)
@cli.option(
    "--replicates",
    type=click.IntRange(min=1),
    help="Number of splits of each trial, whose validation scores are averaged. [default: every "
    "fold of --folds; otherwise as many as it takes to validate on 500 molecules, at most 5]",
)
@cli.option("--no-train", is_flag=True, help="Do not train the best configuration at the end.")
@cli.output_option(
    "Folder of the search, which several processes can share. [default: runs/<name>-tune]"
)
def tune(
    trials: int | None,
    budget: str | None,
    space: Path | None,
    replicates: int | None,
    no_train: bool,
    output: Path | None,
    **options: Any,
) -> None:
    """Search for the settings with the best validation score, and train with them.

    Bad trials are stopped early. The test split is used once, by the training of the best
    configuration at the end. Run the same command again to continue after an interruption, or
    several times at once to share the work.

    \b
    molsepnorm tune --data my.csv --targets logS --budget 1h
    molsepnorm tune --data my.csv --targets logS --split-type scaffold --trials 50
    molsepnorm tune --data my.csv --targets logS --trials 50 --space space.yaml -o runs/tune-logS
    """
    from molsepnorm.cli.display import TrainingDisplay, TuningDisplay, tuning_table
    from molsepnorm.training import StopWhen
    from molsepnorm.tuning import train_best
    from molsepnorm.tuning import tune as search

    if rank() is not None:
        raise click.UsageError(
            "a trial runs in one process: instead of torchrun, start the command several times "
            "with the same --output"
        )
    config = cli.configuration(options)
    folder = output or Path("runs") / f"{config.data.label}-tune"
    display, training = TuningDisplay(), TrainingDisplay()
    with stop_on_signal(lambda: display.training) as stop:
        stopping = StopWhen(lambda: stop.signal is not None)
        tuning = search(
            config,
            folder,
            trials=trials,
            budget=budget,
            space=space,
            fixed=cli.given_settings(options),
            splits=replicates,
            callback=[display, stopping],
            report=display.on_trial,
        )
        finished = tuning.finished
        if finished:
            display.console.print(tuning_table(tuning))
        if finished and not no_train and not tuning.others_run:
            try:
                finished = train_best(tuning, [training, stopping]).finished
            finally:
                training.close()
    if not finished:
        stop.leave()
    if tuning.others_run:
        say(
            "Another process runs a trial, and trains the best configuration at the end. If it was "
            "killed, run this command again in a minute."
        )
    elif no_train:
        best = shlex.quote(str(folder / "best.yaml"))
        say(f"Train the best configuration: molsepnorm train --config {best}")
    elif not training.training:
        say(f"The best configuration is already trained: {folder / 'best'}")
