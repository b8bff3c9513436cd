"""Progress and results of training: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from molsepnorm.cli.console import make_console, make_table, print_dataset
from molsepnorm.data.datasets import SPLITS, Dataset
from molsepnorm.errors import counted
from molsepnorm.model import PropertyModel
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.ablation import Ablation
from molsepnorm.training.callback import Callback, EpochRecord, TrainingResult
from molsepnorm.training.comparisons import score_columns
from molsepnorm.training.conclusion import conclusion, headline, significant
from molsepnorm.training.config import TrainConfig

if TYPE_CHECKING:
    from molsepnorm.tuning import TrialRecord, Tuning

_MAX_EPOCH_LINES = 20  # maximum number of epochs that a run prints without a terminal
_MAX_TARGETS = 12  # maximum number of targets that are listed one by one
_KINDS = {"regression": "a number", "binary": "yes / no"}


class TrainingDisplay(Callback):
    """Prints a run's progress, or with `quiet` only the final scores."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = make_console()
        self.quiet = quiet
        self.training = False
        self._live: Progress | None = None
        self._describing = False  # whether features are being computed
        self._score = ""
        self._last_printed = 0  # epoch
        self._start: tuple[float, float] | None = None  # time and epoch of the first step

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        self.training = True
        self._metric, self._predicts = model.task.metric, bool(model.task.targets)
        if self.quiet:
            return
        count = model.parameters
        self.console.print(f"Data: {dataset.name}")
        targets = model.task.targets
        for target in targets[:_MAX_TARGETS]:
            kind = ", ".join(target.classes) if target.classes else _KINDS[target.kind]
            self.console.print(f"Target: {target.name} ({kind})")
        if len(targets) > _MAX_TARGETS:
            self.console.print(
                f"{_MAX_TARGETS} of {len(targets)} targets are listed. "
                f"All are in {folder}/targets.csv"
            )
        print_dataset(self.console, dataset, f". All are in {folder}/rejected.csv")
        self.console.print(_splits_table(dataset) if targets else _sizes(dataset))
        self.console.print(
            f"Model: layers {config.model.layers}, width {config.model.width}, "
            f"{count:,} parameters. Folder: {folder}"
        )
        self._epochs = config.run.epochs
        if self.console.is_terminal:
            text = TextColumn("{task.fields[text]}", markup=False)
            self._live = Progress(BarColumn(), text, TimeElapsedColumn(), console=self.console)
            self._bar = self._live.add_task("training", total=self._epochs, text="")
            self._live.start()
        else:
            self.console.print(f"* marks the best epoch so far by validation {self._metric}")

    def on_warning(self, warning: str) -> None:
        if not self.quiet:
            self.console.print(warning, style="yellow")

    def on_progress(self, done: int, of: int) -> None:
        if self.quiet:
            return
        if not self._describing:
            self.close()  # the bar of training
        if not self._describing and self.console.is_terminal:
            columns = (TextColumn("Features"), BarColumn(), MofNCompleteColumn())
            self._live = Progress(*columns, TimeRemainingColumn(), console=self.console)
            self._bar = self._live.add_task("features", total=of)
            self._live.start()
        self._describing = done < of
        if self._live is not None:
            self._live.update(self._bar, completed=done)
        if done == of:
            self.close()
            self.console.print(f"Features of {of:,} molecules are computed.")

    def on_step(self, epoch: int, done: int, of: int, loss: float, rate: float) -> None:
        position = epoch + done / of
        if self._start is None:
            self._start = (time.perf_counter(), position)
        if self._live is None:
            return
        text = f"epoch {epoch + 1}{'' if math.isnan(loss) else f'  loss {loss:.4f}'}{self._score}"
        text += f"  {rate:,.0f} graphs/s  {self._time_left(position)}"
        self._live.update(self._bar, completed=position, text=text)

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        score = record.scores.get(self._metric, record.val_loss)
        self._score = f"  val {self._metric} {score:.4f}"
        if self.quiet or self._live is not None:
            return
        every = max(1, epochs // _MAX_EPOCH_LINES)
        due = self._last_printed == 0 or record.epoch // every > self._last_printed // every
        if due or record.epoch == epochs:
            self._last_printed = record.epoch
            loss = "" if math.isnan(record.train_loss) else f"  loss {record.train_loss:.4f}"
            speed = f"  {record.graphs_per_second:,.0f} graphs/s  {self._time_left(record.epoch)}"
            self.console.print(
                f"epoch {record.epoch}/{epochs}{loss}{self._score}{' *' if record.best else ''}"
                f"{speed if record.step else ''}"
            )

    def on_end(self, result: TrainingResult) -> None:
        self.close()
        if not result.finished:
            return
        metrics = result.metrics
        if not self.quiet:
            made = f"Best epoch: {metrics['best_epoch']} of {metrics['epochs']}, by validation "
            made += metrics["chosen_by"]
            if "members" in metrics:
                made = f"Mean of {len(metrics['members'])} models"
            self.console.print(f"{made}. Time: {_clock(metrics['seconds'])}")
        self.console.print(
            scores_table(score_columns(metrics), metrics.get("test_interval_95", {}))
        )
        for line in label_notes(metrics.get("labels", {})):
            self.console.print(line)
        if sentences := conclusion(metrics):
            self.console.print("Conclusion:")
        for sentence in sentences:
            self.console.print(f"- {sentence}")
        if not self.quiet:
            if self._predicts:
                use = f"Predict: molsepnorm predict --model {result.folder} --smiles CCO"
            else:
                use = f"Fine-tune: molsepnorm train --data FILE --from {result.folder}"
            self.console.print(use)

    def close(self) -> None:
        """Remove the bar from the terminal; may be called at any time."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _time_left(self, position: float) -> str:
        """Return the time to the last epoch, at the speed since this process began to train."""
        start, first = self._start or (0.0, position)
        if position <= first:
            return ""
        seconds_per_epoch = (time.perf_counter() - start) / (position - first)
        return f"{_clock(seconds_per_epoch * (self._epochs - position))} left"


class SeriesDisplay(Callback):
    """Prints a line for each run of a benchmark, or with `several` variants of an ablation."""

    def __init__(self, quiet: bool = False, several: bool = False) -> None:
        self.console = make_console()
        self.quiet, self.several = quiet, several
        self.training = False
        self._warnings: set[str] = set()

    def on_warning(self, warning: str) -> None:
        if not self.quiet and warning not in self._warnings:  # of the first run that has it
            self.console.print(warning, style="yellow")
        self._warnings.add(warning)

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        if not self.quiet and not self.training:
            print_dataset(self.console, dataset)
            self.console.print(_splits_table(dataset))
        self.training = True

    def on_end(self, result: TrainingResult) -> None:
        metrics, folder = result.metrics, result.folder
        if not result.finished or self.quiet or folder is None:
            return
        name = headline(metrics)
        scores = (f"{split} {name} {_number(metrics[split][name])}" for split in ("val", "test"))
        run = f"{folder.parent.name} {folder.name}" if self.several else folder.name
        self.console.print(f"{run}: {', '.join(scores)}, {_clock(metrics['seconds'])}")


class TuningDisplay(Callback):
    """Prints a line for each trial of a search."""

    def __init__(self) -> None:
        self.console = make_console()
        self.training = False

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        if not self.training:
            print_dataset(self.console, dataset)
            train, val = (len(dataset.splits[name]) for name in ("train", "val"))
            self.console.print(
                f"Molecules: {train:,} train, {val:,} val. The test split is unused."
            )
        self.training = True

    def on_trial(self, trial: TrialRecord, tuning: Tuning) -> None:
        """Print a trial that has ended; * marks the best one so far."""
        kind = ", the recipe" if trial.recipe else ""
        best = " *" if trial in tuning.ranked[:1] else ""
        score = "" if trial.score is None else f", val {tuning.metric.name} {trial.score:.4f}{best}"
        clock = _clock(trial.seconds or 0.0)
        self.console.print(f"trial {trial.number}{kind}: {trial.state}{score}, {clock}")


def tuning_table(tuning: Tuning, count: int = 5) -> Table:
    """Return the recipe and the best trials of a search, with their settings."""
    recipe, ranked = tuning.recipe, tuning.ranked
    early = sum(each.state == "stopped early" for each in tuning.trials)
    title = (
        f"Best of {len(ranked) + early} trials, {early} of them stopped early: mean validation "
        f"{tuning.metric.label} of {counted(tuning.splits, 'split')}"
    )
    names = list(ranked[0].settings) if ranked else []
    table = make_table(
        title, "trial", f">val {tuning.metric.name}", *(f">{n.rpartition('.')[2]}" for n in names)
    )

    def add(each: TrialRecord) -> None:
        values = (each.settings[name] for name in names)
        cells = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in values)
        table.add_row("recipe" if each.recipe else str(each.number), _number(each.score), *cells)

    for each in ranked[:count]:
        add(each)
    if recipe is not None and recipe not in ranked[:count]:
        add(recipe)
    return table


def _sizes(dataset: Dataset) -> str:
    """Return the number of molecules of each split, for a data set without labels."""
    sizes = (f"{len(dataset.splits[split]):,} {split}" for split in SPLITS)
    return f"Molecules: {', '.join(sizes)}"


def _splits_table(dataset: Dataset) -> Table:
    """Return the number of molecules and labels of each split, and the labels' distribution."""
    headings = ("split", ">molecules", "target", ">labels", ">missing", "distribution")
    table = make_table("Splits", *headings)
    for split in SPLITS:
        labels = dataset.labels[dataset.splits[split]]
        for i, name in enumerate(dataset.targets[:_MAX_TARGETS]):
            present = labels[:, i][~np.isnan(labels[:, i])].astype(float)
            first = (split, f"{len(labels):,}") if i == 0 else ("", "")
            counts = (f"{len(present):,}", f"{len(labels) - len(present):,}")
            classes = dataset.classes[i] if dataset.classes else ()
            shape = _distribution(present, dataset.kinds[i], classes)
            table.add_row(*first, name, *counts, shape)
    return table


def _distribution(labels: np.ndarray, kind: str, classes: Sequence[str]) -> str:
    if not len(labels):
        return "-"
    if kind == "binary":
        return f"{labels.mean():.1%} yes"
    if kind == "multiclass":
        shares = np.bincount(labels.astype(int), minlength=len(classes)) / len(labels)
        return ", ".join(f"{share:.0%} {name}" for name, share in zip(classes, shares, strict=True))
    return f"{significant(labels.mean())} ± {significant(labels.std())}"


def scores_table(
    scores: Mapping[str, Mapping[str, float | None]],
    intervals: Mapping[str, Sequence[float]] | None = None,
) -> Table:
    """Return a table with a row for each metric and a column for each title.

    With many targets, only the means over all targets are shown. The intervals are 95 % intervals
    of the test scores; their column is that after `test`.
    """
    table = make_table("Scores", "metric")
    for title in scores:
        table.add_column(title, justify="right", no_wrap=" " not in title)  # titles wrap at spaces
        if title == "test" and intervals:
            table.add_column("95 % interval", justify="right", no_wrap=True)
    metrics = list(next(iter(scores.values())))
    if len(metrics) > _MAX_TARGETS * 4:
        metrics = [name for name in metrics if "/" not in name]
    for metric in metrics:
        cells = []
        for title, column in scores.items():
            cells.append(_number(column[metric]))
            if title == "test" and intervals:
                ends = intervals.get(metric)
                cells.append(f"{_number(ends[0])} to {_number(ends[1])}" if ends else "")
        table.add_row(metric, *cells)
    return table


def label_notes(labels: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a reader of scores needs to know about the labels, from `Dataset.about_labels`."""
    for name, about in labels.items():
        if "scale" in about:
            yield f"{name}: the scores are those of {about['scale']}."
        if "bounds" in about:
            counts = ", ".join(f"{count:,} {split}" for split, count in about["bounds"].items())
            yield f"{name}: bounds are not scored ({counts})."
        if "replicates" in about:
            molecules, sd = about["replicates"]["molecules"], about["replicates"]["sd"]
            yield (
                f"{name}: the labels of {counted(molecules, 'molecule')} with several rows have a "
                f"pooled standard deviation of {sd:.3g}, about the lowest RMSE of any model."
            )


def series_table(summary: Mapping[str, Any]) -> Table:
    """Return the mean and standard deviation over several runs or folds, a row for each metric."""
    pooled = summary.get("out_of_fold")
    what = counted(len(summary["runs"]), "run")
    columns = {"val": summary["val"], "test": summary["test"]}
    if pooled is not None:
        what = counted(len(pooled["molecules"]), "fold")
        columns = {"out of fold": summary["test"]}
    if "test_constant" in summary:
        columns["trivial baseline"] = summary["test_constant"]
    if "baseline" in summary:
        columns["forest"] = summary["baseline"]["test"]
    headings = [f">{name}" for name in columns] + [">all rows"] * (pooled is not None)
    table = make_table(f"{summary['data']}: mean ± sd of {what}", "metric", *headings)
    for metric in summary["test"]:
        if "/" not in metric:
            cells = [_mean_and_sd(column.get(metric)) for column in columns.values()]
            if pooled is not None:
                cells.append(_number(pooled["scores"][metric]))
            table.add_row(metric, *cells)
    return table


def folds_table(summary: Mapping[str, Any]) -> Table:
    """Return the score of each fold, from a summary with out-of-fold predictions."""
    metric = headline(summary)
    columns = {"model": summary["test"], "trivial baseline": summary["test_constant"]}
    if "baseline" in summary:
        columns["forest"] = summary["baseline"]["test"]
    title = f"{METRICS[metric].label} of each fold"
    table = make_table(title, "fold", ">molecules", *(f">{name}" for name in columns))
    for fold, count in enumerate(summary["out_of_fold"]["molecules"]):
        cells = (_number(column[metric]["values"][fold]) for column in columns.values())
        table.add_row(str(fold), f"{count:,}", *cells)
    return table


def ablation_tables(ablation: Ablation) -> tuple[Table, Table]:
    """Return the scores of each variant, and the differences from the first one on each split."""
    first, *_ = ablation.replicates
    label = METRICS[ablation.metric].label
    title = f"{label}: mean ± sd of {counted(len(ablation.replicates[first].runs), 'run')}"
    scores = make_table(title, "variant", ">val", ">test", ">parameters")
    for name, series in ablation.replicates.items():
        spreads = _spreads(series.summary, ablation.metric)
        scores.add_row(name, *spreads, f"{series.summary['parameters']:,}")
    title = f"{label}: difference from {first}, by pairs of runs"
    differences = make_table(title, "variant", "split", ">mean", ">95 % interval", ">p")
    for name, by_split in ablation.differences.items():
        for split, each in by_split.items():
            ends = f"{each.interval[0]:+.4f} to {each.interval[1]:+.4f}" if each.interval else ""
            p = "" if each.p is None else f"{each.p:.2g}"
            differences.add_row(name, split, f"{each.mean:+.4f}", ends, p)
    return scores, differences


def _spreads(summary: Mapping[str, Any], metric: str) -> Iterator[str]:
    for split in ("val", "test"):
        yield _mean_and_sd(summary[split][metric])


def _mean_and_sd(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return ""
    sd = "" if figures["sd"] is None else f" ± {significant(figures['sd'])}"
    return f"{_number(figures['mean'])}{sd}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else significant(value)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
