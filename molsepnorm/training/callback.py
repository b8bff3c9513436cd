"""Callbacks: the events of a training run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.training.config import TrainConfig


@dataclass(frozen=True)
class EpochRecord:
    """One line of `history.csv`: a validation and the epochs since the previous one."""

    epoch: int
    """Epochs finished; 0 in a run without epochs, whose model is the probe."""
    step: int
    """Optimiser steps taken so far."""
    lr: float
    """Learning rate of the last step."""
    train_loss: float
    """Mean loss of all labels in these epochs, at the weights of each step; NaN for epoch 0."""
    val_loss: float
    scores: dict[str, float]
    """Scores of the validation split by metric."""
    seconds: float
    """Time of the steps in these epochs, without validation."""
    graphs_per_second: float
    kept: bool
    """True if this model is kept: always, or with `run.patience` if it is the best so far."""

    def line(self) -> dict[str, Any]:
        line = {**vars(self), "kept": int(self.kept)}
        line["train_loss"] = None if math.isnan(self.train_loss) else self.train_loss
        return line | {f"val_{name}": score for name, score in line.pop("scores").items()}


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run."""

    folder: Path | None
    """The run folder; None for a run in memory."""
    finished: bool
    """False if a callback stopped the run before its last epoch; `resume=True` continues it."""
    model: PropertyModel | None
    """The kept model; None if no epoch ended."""
    metrics: dict[str, Any]
    """The content of `metrics.json`; empty if the run is not finished or not scored."""


class Callback:
    """Receives the events of training; override the methods that you need.

    `on_step` and `on_epoch` may return True to stop the run. A run with a folder saves its state,
    and `train(folder=..., resume=True)` continues it exactly.

    >>> class StopAtLoss(Callback):
    ...     def on_epoch(self, record, epochs):
    ...         return record.val_loss < 0.1
    """

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        """Called when training starts or continues; `model` is trained in place."""

    def on_warning(self, message: str) -> None:
        """Called when something is not done as configured."""

    def on_progress(self, done: int, of: int) -> None:
        """Called while descriptors or fingerprint counts of molecules are computed."""

    def on_step(self, epoch: int, done: int, of: int, loss: float, rate: float) -> bool | None:
        """Called after every step; return True to stop the run.

        Args:
            epoch: epochs finished, counted from 0 again in each further fit of a network.
            done, of: steps taken in this epoch, and all its steps.
            loss: on a CPU, the mean loss of the step. On a GPU, the mean loss up to the last
                validation, and NaN before the first one.
            rate: molecules per second in these epochs.
        """

    def on_epoch(self, record: EpochRecord, epochs: int) -> bool | None:
        """Called after every validation of a run of `epochs` epochs; return True to stop it."""

    def on_end(self, result: TrainingResult) -> None:
        """Called when the run is finished or stopped."""


class StopWhen(Callback):
    """Stops the run after the first step at which a condition holds."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition = condition

    def on_step(self, epoch: int, done: int, of: int, loss: float, rate: float) -> bool:
        return self.condition()


class Callbacks(Callback):
    """Calls several callbacks in order; the run stops if any of them returns True."""

    def __init__(self, callbacks: Callback | Iterable[Callback] | None) -> None:
        if isinstance(callbacks, Callback):
            callbacks = [callbacks]
        self.callbacks = list(callbacks or ())

    def _call(self, event: str, *args: Any) -> bool:
        stops = [getattr(each, event)(*args) for each in self.callbacks]  # every one is called
        return any(stops)


for _event in [name for name in vars(Callback) if name.startswith("on_")]:
    setattr(Callbacks, _event, partialmethod(Callbacks._call, _event))
