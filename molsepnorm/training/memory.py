"""`RunInMemory`: a training run without a folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Task
from molsepnorm.training.callback import EpochRecord
from molsepnorm.training.config import TrainConfig

__all__ = ["RunInMemory"]


class RunInMemory:
    """Takes the place of `RunFolder`: it keeps the best model and writes nothing."""

    path = None

    def __init__(self) -> None:
        self._best: PropertyModel | None = None

    def begin(self, config: TrainConfig, dataset: Dataset) -> None:
        """Do nothing."""

    def keep_model(self, model: PropertyModel) -> None:
        """Keep a copy of the best model so far, on the CPU and in evaluation mode."""
        with torch.random.fork_rng():  # the weights drawn here are replaced
            network = Graphormer(model.network.config)
        network.load_state_dict(model.network.state_dict())
        self._best = replace(model, network=network.eval())

    def best_model(self) -> PropertyModel:
        """Return the best model."""
        assert self._best is not None
        return self._best

    def append_history(self, record: EpochRecord) -> None:
        """Do nothing."""

    def save_checkpoint(self, *parts: Any) -> None:
        """Do nothing."""

    def finished_metrics(self) -> None:
        """Return None: there is no earlier run."""

    def finish(self, dataset: Dataset, task: Task, predictions: Any, metrics: Any) -> None:
        """Do nothing."""
