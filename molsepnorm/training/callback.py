"""How training reports: the library prints nothing, it tells a callback."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.training.config import TrainConfig

__all__ = ["Callback", "EpochRecord", "TrainingResult"]


@dataclass(frozen=True)
class EpochRecord:
    """One line of `history.csv`: the epochs since the last validation, up to this one's."""

    epoch: int
    """Epochs finished, so the first one's record says 1."""
    step: int
    """Optimiser steps taken so far."""
    lr: float
    """Learning rate of the last step."""
    train_loss: float
    """Mean over all labels of these epochs, each under the weights of its step, dropout on."""
    val_loss: float
    scores: dict[str, float]
    """Of the validation split, by the metric's name."""
    seconds: float
    """Of training in these epochs, validation aside."""
    graphs_per_second: float
    best: bool
    """Whether the model of this epoch became the one that is kept."""
    threads: int | None = None
    """Number of CPU threads at the end of these epochs."""


@dataclass(frozen=True)
class TrainingResult:
    """What a run came to."""

    folder: Path
    finished: bool
    """False where it was stopped before its last epoch; `train(resume=...)` goes on."""
    model: PropertyModel | None
    """The best one by validation; None where no epoch ended."""
    metrics: dict[str, Any]
    """The content of `metrics.json`; empty where the run did not finish."""


class Callback:
    """Override what you want to hear of; every method here does nothing."""

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path
    ) -> None:
        """The data are loaded and training begins or goes on."""

    def on_warning(self, remark: str) -> None:
        """Something is not done in the way that was asked for."""

    def on_step(self, epoch: int, done: int, of: int, loss: float, rate: float) -> None:
        """A step was taken: `done` of `of` in this epoch (counted from 0), at `rate` graphs/s.

        `loss` is the step's on a CPU. A GPU is not waited for: there it is the mean of the epochs
        before the last validation, NaN until the first, and the step may still be under way.
        """

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        """An epoch of `epochs` ended with a validation."""

    def on_end(self, result: TrainingResult) -> None:
        """The run's folder is complete, or the run was stopped."""
