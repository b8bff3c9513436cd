"""Pre-training on structures: a weighted sum of losses that need no labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.tasks import Task
from molsepnorm.training.config import PretrainingConfig, TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives.objective import Examples, Objective, refuse_metric
from molsepnorm.training.objectives.pretext import PRETEXTS


class Pretraining(Objective):
    """The weighted sum of the losses whose weight is not 0, over one forward pass.

    The model has no targets, and its head has no outputs: each loss has a head of its own, which is
    not part of the model.

    Raises:
        ConfigError: all weights are 0, or a loss cannot be used with this network or data set.
    """

    def __init__(self, model: PropertyModel, examples: Examples, config: TrainConfig) -> None:
        super().__init__(model, examples, config)
        settings = _settings(config)
        self.weights = _weights(settings)
        losses = {name: PRETEXTS[name] for name in self.weights}
        self.losses = torch.nn.ModuleDict(
            {name: loss(self.network, examples, settings) for name, loss in losses.items()}
        )

    @staticmethod
    def prepare(
        config: TrainConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
        settings = _settings(config)
        for name in _weights(settings):
            dataset = PRETEXTS[name].prepare(settings, dataset, progress)
        return dataset

    @staticmethod
    def fit_task(config: TrainConfig, dataset: Dataset) -> tuple[Task, Dataset]:
        """Return a task without targets. The model is chosen by the validation loss."""
        refuse_metric(config)
        return Task((), "loss"), dataset

    def forward(self, batch: GraphBatch, graphs: Tensor) -> tuple[Tensor, Tensor]:
        losses = zip(self.weights.values(), self._means(batch, graphs), strict=True)
        loss = torch.stack([weight * mean for weight, mean in losses]).sum()
        return loss * len(graphs), loss.new_full((), len(graphs))

    def _means(self, batch: GraphBatch, graphs: Tensor) -> list[Tensor]:
        """Return the mean of each loss over a batch."""
        read = self.network.embed(batch)  # (B, R)
        return [self.losses[name](self.network, read, batch, graphs) for name in self.weights]

    def validate(
        self, graphs: np.ndarray, world: DistributedContext
    ) -> tuple[float, dict[str, float]]:
        """Return the loss, and the mean of each loss without its weight.

        The random numbers are the same at every validation.
        """

        def sums(batch: GraphBatch, indices: Tensor) -> Tensor:
            means = torch.stack(self._means(batch, indices))
            return len(indices) * torch.cat([means, means.new_ones(1)])

        device = self.examples.labels.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(self.config.run.seed)
            *totals, count = self.totals(sums, len(self.weights) + 1, graphs, world)
        scores = {name: total / count for name, total in zip(self.weights, totals, strict=True)}
        return sum(self.weights[name] * score for name, score in scores.items()), scores


def _settings(config: TrainConfig) -> PretrainingConfig:
    assert isinstance(config.objective, PretrainingConfig)
    return config.objective


def _weights(settings: PretrainingConfig) -> dict[str, float]:
    weights = {name: getattr(settings, name) for name in PRETEXTS}
    if not any(weights.values()):
        raise ConfigError(
            "all weights of the objective pretraining are 0, so there is nothing to learn: set one "
            f"of {', '.join(f'objective.{name}' for name in PRETEXTS)} above 0"
        )
    return {name: weight for name, weight in weights.items() if weight}
