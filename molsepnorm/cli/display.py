"""What a person sees of training: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from molsepnorm.datasets import SPLITS, Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.listener import EpochRecord, Listener, TrainingResult

__all__ = ["TrainingDisplay", "scores_table", "splits_table"]

_LINES_PER_RUN = 20  # most epochs that a run tells of where there is no terminal


class TrainingDisplay(Listener):
    """Prints a run's progress.

    Args:
        quiet: print nothing but the final scores.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.quiet = quiet
        self._live: Progress | None = None
        self._ended = ""
        self._begun = time.perf_counter()

    def started(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path
    ) -> None:
        if self.quiet:
            return
        count = sum(p.numel() for p in model.network.parameters())
        self.console.print(f"Data: {dataset.name}")
        for target in model.task.targets:
            self.console.print(f"Target: {target.name} ({_KINDS[target.kind]})")
        if dataset.rejected:
            first = dataset.rejected[0]
            self.console.print(
                f"Left out: {len(dataset.rejected)} row(s) that cannot be read, such as row "
                f"{first.row}: {first.reason}. All are in {folder / 'rejected.csv'}",
                style="yellow",
                markup=False,
            )
        self.console.print(splits_table(dataset))
        self.console.print(
            f"Model: {config.model.layers} layers, {config.model.width} wide, "
            f"{count:,} parameters; run folder: {folder}"
        )
        self._metric = model.task.metric
        self._begun = time.perf_counter()
        if self.console.is_terminal:
            self._start_bar(config.run.epochs)

    def stepped(self, epoch: int, done: int, of: int, loss: float, rate: float) -> None:
        if self._live is None:
            return
        left = self._time_left(epoch + done / of, rate)
        self._live.update(
            self._bar,
            completed=epoch + done / of,
            text=f"epoch {epoch + 1}  loss {loss:.4f}{self._ended}  {rate:,.0f} graphs/s  {left}",
        )

    def epoch_ended(self, record: EpochRecord, epochs: int) -> None:
        self._ended = f"  val {self._metric} {self._score(record):.4f}" if not self.quiet else ""
        every = max(1, epochs // _LINES_PER_RUN)
        if self.quiet or self._live is not None:
            return
        if record.epoch % every == 0 or record.epoch in (1, epochs):
            left = (time.perf_counter() - self._begun) / record.epoch * (epochs - record.epoch)
            self.console.print(
                f"epoch {record.epoch}/{epochs}  loss {record.train_loss:.4f}"
                f"{self._ended}{' *' if record.best else ''}  "
                f"{record.graphs_per_second:,.0f} graphs/s  {_clock(left)} left"
            )

    def finished(self, result: TrainingResult) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not result.finished:
            return
        metrics = result.metrics
        self.console.print(
            f"Best epoch: {metrics['best_epoch']} of {metrics['epochs']}, by validation "
            f"{metrics['chosen_by']}; {metrics['seconds']:,.0f} s"
        )
        self.console.print(scores_table({name: metrics[name] for name in ("val", "test")}))
        self.console.print(f"Predict: molsepnorm predict --model {result.folder} --smiles CCO")

    def _start_bar(self, epochs: int) -> None:
        self._live = Progress(
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._bar = self._live.add_task("training", total=epochs, text="")
        self._live.start()

    def _time_left(self, done: float, rate: float) -> str:
        assert self._live is not None
        task = self._live.tasks[self._bar]
        if not hasattr(self, "_first"):
            self._first = (time.perf_counter(), done)
        begun, at = self._first
        if done <= at or task.total is None:
            return ""
        return f"{_clock((time.perf_counter() - begun) / (done - at) * (task.total - done))} left"

    def _score(self, record: EpochRecord) -> float:
        return record.scores.get(self._metric, record.val_loss)


_KINDS = {"regression": "a number", "binary": "yes / no"}


def splits_table(dataset: Dataset) -> Table:
    """Molecules of each split, and what its labels look like."""
    table = Table(title="Splits")
    for heading in ("split", "molecules", "target", "labels", "missing", "distribution"):
        table.add_column(heading, justify="right" if heading in _NUMERIC else "left")
    for split in SPLITS:
        labels = dataset.store.labels[dataset.splits[split]]
        for i, (name, kind) in enumerate(zip(dataset.targets, dataset.kinds, strict=True)):
            present = labels[:, i][~np.isnan(labels[:, i])].astype(float)
            if not len(present):
                shape = "-"
            elif kind == "binary":
                shape = f"{present.mean():.1%} yes"
            else:
                shape = f"{present.mean():.3f} ± {present.std():.3f}"
            first = (split, f"{len(labels):,}") if i == 0 else ("", "")
            counts = (f"{len(present):,}", f"{len(labels) - len(present):,}")
            table.add_row(*first, name, *counts, shape)
    return table


_NUMERIC = ("molecules", "labels", "missing")


def scores_table(scores: dict[str, dict[str, float | None]]) -> Table:
    """A column for each split, a row for each metric."""
    table = Table(title="Scores")
    table.add_column("metric")
    for split in scores:
        table.add_column(split, justify="right")
    for metric in next(iter(scores.values())):
        values = (scores[split][metric] for split in scores)
        cells = ("undefined" if v is None or np.isnan(v) else f"{v:.4f}" for v in values)
        table.add_row(metric, *cells)
    return table


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
