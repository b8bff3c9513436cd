"""What a person sees of training: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from molsepnorm.cli.console import cell, make_console
from molsepnorm.data.datasets import SPLITS, Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.tasks import Task
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.ablation import Ablation
from molsepnorm.training.callback import Callback, EpochRecord, TrainingResult
from molsepnorm.training.config import TrainConfig

__all__ = [
    "SeriesDisplay",
    "TrainingDisplay",
    "ablation_tables",
    "scores_table",
    "series_table",
    "splits_table",
]

_LINES_PER_RUN = 20  # most epochs that a run tells of where there is no terminal


class TrainingDisplay(Callback):
    """Prints a run's progress.

    Args:
        quiet: print nothing but the final scores.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = make_console()
        self.quiet = quiet
        self.training = False
        self._live: Progress | None = None
        self._ended = ""
        self._told = 0  # the last epoch that a line was printed of
        self._since: tuple[float, float] | None = None  # when, and at which epoch, it was started

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        self.training = True
        self._metric = model.task.metric
        if self.quiet:
            return
        count = sum(p.numel() for p in model.network.parameters())
        self.console.print(f"Data: {dataset.name}")
        self._tell_targets(model.task)
        for remark in dataset.remarks:
            self.console.print(remark)
        if dataset.rejected:
            first = dataset.rejected[0]
            self.console.print(
                f"Left out: {len(dataset.rejected)} row(s) that cannot be read, such as "
                f"'{first.smiles}': {first.reason}. All are in {folder}/rejected.csv",
                style="yellow",
            )
        self.console.print(splits_table(dataset))
        self.console.print(
            f"Model: layers {config.model.layers}, width {config.model.width}, "
            f"{count:,} parameters. Folder: {folder}"
        )
        if self.console.is_terminal:
            self._start_bar(config.run.epochs)
        else:
            self.console.print(f"* marks the best epoch so far by validation {self._metric}")

    def on_warning(self, remark: str) -> None:
        if not self.quiet:
            self.console.print(remark, style="yellow")

    def on_step(self, epoch: int, done: int, of: int, loss: float, rate: float) -> None:
        at = epoch + done / of
        if self._since is None:
            self._since = (time.perf_counter(), at)
        if self._live is None:
            return
        left = self._left(at, self._epochs)
        known = "" if math.isnan(loss) else f"  loss {loss:.4f}"
        self._live.update(
            self._bar,
            completed=at,
            text=f"epoch {epoch + 1}{known}{self._ended}  {rate:,.0f} graphs/s  {left}",
        )

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        score = record.scores.get(self._metric, record.val_loss)
        self._ended = f"  val {self._metric} {score:.4f}"
        every = max(1, epochs // _LINES_PER_RUN)
        if self.quiet or self._live is not None:
            return
        if self._told == 0 or record.epoch // every > self._told // every or record.epoch == epochs:
            self._told = record.epoch
            self.console.print(
                f"epoch {record.epoch}/{epochs}  loss {record.train_loss:.4f}"
                f"{self._ended}{' *' if record.best else ''}  "
                f"{record.graphs_per_second:,.0f} graphs/s  {self._left(record.epoch, epochs)}"
            )

    def on_end(self, result: TrainingResult) -> None:
        self.close()
        if not result.finished:
            return
        metrics = result.metrics
        if not self.quiet:
            self.console.print(
                f"Best epoch: {metrics['best_epoch']} of {metrics['epochs']}, by validation "
                f"{metrics['chosen_by']}. Time: {_clock(metrics['seconds'])}"
            )
        headings = {"val": "val", "test": "test", "test_constant": "test, if constant"}
        columns = {headings[name]: metrics[name] for name in headings if name in metrics}
        self.console.print(scores_table(columns, metrics.get("test_interval_95", {})))
        if not self.quiet:
            self.console.print(f"Predict: molsepnorm predict --model {result.folder} --smiles CCO")

    def close(self) -> None:
        """Take the bar off the terminal; safe to call at any time."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _tell_targets(self, task: Task) -> None:
        for target in task.targets[:_MANY]:
            kind = ", ".join(target.classes) if target.classes else _KINDS[target.kind]
            self.console.print(f"Target: {target.name} ({kind})")
        if len(task.targets) > _MANY:
            self.console.print(f"… {len(task.targets)} targets in all")

    def _start_bar(self, epochs: int) -> None:
        self._epochs = epochs
        self._live = Progress(
            BarColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._bar = self._live.add_task("training", total=epochs, text="")
        self._live.start()

    def _left(self, at: float, epochs: int) -> str:
        """Time left, from the pace since this process began to train."""
        begun, first = self._since or (0.0, at)
        if at <= first:
            return ""
        pace = (time.perf_counter() - begun) / (at - first)
        return f"{_clock(pace * (epochs - at))} left"


class SeriesDisplay(Callback):
    """Prints a line for each run of a series.

    Args:
        quiet: print nothing.
        several: name the series too, there being several.
    """

    def __init__(self, quiet: bool = False, several: bool = False) -> None:
        self.console = make_console()
        self.quiet, self.several = quiet, several
        self.training = False

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        if not self.quiet and not self.training:
            for remark in dataset.remarks:
                self.console.print(remark)
            self.console.print(splits_table(dataset))
        self.training = True

    def on_end(self, result: TrainingResult) -> None:
        if not result.finished or self.quiet:
            return
        metrics = result.metrics
        name = metrics["chosen_by"]
        if name not in metrics["val"]:  # the loss, which is no score
            name = next(iter(metrics["val"]))
        scores = (f"{split} {name} {_number(metrics[split][name])}" for split in ("val", "test"))
        took = _clock(metrics["seconds"])
        folder = result.folder
        assert folder is not None
        run = f"{folder.parent.name} {folder.name}" if self.several else folder.name
        self.console.print(f"{run}: {', '.join(scores)}, {took}")


_KINDS = {"regression": "a number", "binary": "yes / no"}
_MANY = 12  # targets of which each is shown


def splits_table(dataset: Dataset) -> Table:
    """Molecules of each split, and what its labels look like."""
    table = Table(title="Splits")
    for heading in ("split", "molecules", "target", "labels", "missing", "distribution"):
        table.add_column(heading, justify="right" if heading in _NUMERIC else "left")
    for split in SPLITS:
        labels = dataset.store.labels[dataset.splits[split]]
        of_target = list(zip(dataset.targets, dataset.kinds, strict=True))
        for i, (name, kind) in enumerate(of_target[:_MANY]):
            present = labels[:, i][~np.isnan(labels[:, i])].astype(float)
            if not len(present):
                shape = "-"
            elif kind == "binary":
                shape = f"{present.mean():.1%} yes"
            elif kind == "multiclass":
                found = np.bincount(present.astype(int), minlength=len(dataset.classes[i]))
                shares = zip(dataset.classes[i], found / len(present), strict=True)
                shape = ", ".join(f"{share:.0%} {each}" for each, share in shares)
            else:
                shape = f"{present.mean():.3f} ± {present.std():.3f}"
            first = (split, f"{len(labels):,}") if i == 0 else ("", "")
            counts = (f"{len(present):,}", f"{len(labels) - len(present):,}")
            table.add_row(*first, cell(name), *counts, shape)
    return table


_NUMERIC = ("molecules", "labels", "missing")


def scores_table(
    scores: dict[str, dict[str, float | None]],
    intervals: Mapping[str, Sequence[float]] | None = None,
) -> Table:
    """A column for each split, a row for each metric; None where one is undefined. `intervals`
    are those of the test split. Of many targets the means alone are shown."""
    table = Table(title="Scores")
    table.add_column("metric")
    for split in scores:
        table.add_column(split, justify="right")
    if intervals:
        table.add_column("test, 95 % interval", justify="right")
    metrics = next(iter(scores.values()))
    if len(metrics) > _MANY * 4:
        metrics = {name: value for name, value in metrics.items() if "/" not in name}
    for metric in metrics:
        cells = [_number(scores[split][metric]) for split in scores]
        if intervals:
            between = intervals.get(metric)
            cells.append(f"{between[0]:.4f} to {between[1]:.4f}" if between else "")
        table.add_row(cell(metric), *cells)
    return table


def series_table(summary: Mapping[str, Any]) -> Table:
    """Mean and standard deviation over a series' runs, a row for each metric."""
    table = Table(title=f"{summary['data']}: mean ± sd of {len(summary['runs'])} run(s)")
    table.add_column("metric")
    for split in ("val", "test"):
        table.add_column(split, justify="right")
    for metric in summary["test"]:
        if "/" not in metric:
            cells = (_spread(summary[split][metric]) for split in ("val", "test"))
            table.add_row(cell(metric), *cells)
    return table


def ablation_tables(ablation: Ablation) -> tuple[Table, Table]:
    """A row for each variant, and a row for how each differs from the first one on each split."""
    first, *_ = ablation.replicates
    runs = len(ablation.replicates[first].runs)
    label = METRICS[ablation.metric].label
    scores = Table(title=f"{label}: mean ± sd of {runs} run(s)")
    scores.add_column("variant")
    for heading in ("val", "test", "parameters"):
        scores.add_column(heading, justify="right")
    for name, series in ablation.replicates.items():
        cells = (_spread(series.summary[split][ablation.metric]) for split in ("val", "test"))
        scores.add_row(cell(name), *cells, f"{series.summary['parameters']:,}")
    differences = Table(title=f"{label}: difference from {first}, by pairs of runs")
    differences.add_column("variant")
    differences.add_column("split")
    for heading in ("mean", "95 % interval", "p"):
        differences.add_column(heading, justify="right")
    for name, by_split in ablation.differences.items():
        for split, each in by_split.items():
            between = f"{each.interval[0]:+.4f} to {each.interval[1]:+.4f}" if each.interval else ""
            p = "" if each.p is None else f"{each.p:.2g}"
            differences.add_row(cell(name), split, f"{each.mean:+.4f}", between, p)
    return scores, differences


def _spread(figures: Mapping[str, Any]) -> str:
    sd = "" if figures["sd"] is None else f" ± {figures['sd']:.4f}"
    return f"{_number(figures['mean'])}{sd}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
