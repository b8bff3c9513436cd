"""`Objective`: what a network learns from a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.batching import GraphTensors, epoch_batches
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError, DivergedError
from molsepnorm.model import ExtraArrays, Inputs, PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.tasks import Task
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext

TINY = 1e-12  # replaces a sum of weights that is zero, as the sum of the losses then is


@dataclass(frozen=True)
class Examples:
    """The molecules of a data set and their labels, on the device."""

    inputs: Inputs
    graphs: GraphTensors  # as the network that is trained reads them
    labels: Tensor  # float32 [G, T]
    weights: Tensor | None  # float32 [G, T]; None if all labels have the same weight
    arrays: Mapping[str, Tensor]  # of `Objective.prepare`
    dataset: Dataset

    @staticmethod
    def of(
        dataset: Dataset, extra: ExtraArrays, model: PropertyModel, device: torch.device
    ) -> Examples:
        def on_device(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        inputs = Inputs.of(dataset.store, extra, device)
        return Examples(
            inputs,
            model.graphs(inputs),
            on_device(dataset.labels[:]),
            None if dataset.label_weights is None else on_device(dataset.label_weights),
            {name: on_device(array) for name, array in dataset.arrays.items()},
            dataset,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Examples:
        """Return the same object: copies of an objective share the data."""
        return self


class Objective(nn.Module, ABC):
    """The network with everything else that is trained, and its loss.

    A subclass implements `forward`, and `validate` where the mean loss is not enough. Modules that
    it adds, such as a head, are trained, averaged and saved in checkpoints. They must not contain
    batch norms. `register` makes an objective available under a name.
    """

    uses_all_outputs = False
    """True if every parameter of the network gets a gradient in every step."""

    def __init__(self, model: PropertyModel, examples: Examples, config: TrainConfig) -> None:
        super().__init__()
        self.network = model.network
        self.task, self.examples, self.config = model.task, examples, config

    @staticmethod
    def prepare(
        config: TrainConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
        """Return the data set with the arrays that the objective reads from `Examples`."""
        return dataset

    @staticmethod
    def fit_task(config: TrainConfig, dataset: Dataset) -> tuple[Task, Dataset]:
        """Return the task of the model, and the data set, possibly with another warning."""
        refuse_metric(config)
        labels = dataset.labels[dataset.splits["train"]]
        return Task.fit(dataset.targets, labels, "loss", strict=False), dataset

    @abstractmethod
    def forward(self, batch: GraphBatch, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum of a batch's losses and the sum of their weights, both scalars.

        It should not read values from the device, because a GPU would wait.

        Args:
            batch: B molecules. `batch.graph_token[i]` is the slot of molecule `graphs[i]`.
            graphs: int64 [B], the indices of the molecules in `examples`.
        """

    def validate(
        self, graphs: np.ndarray, world: DistributedContext
    ) -> tuple[float, dict[str, float]]:
        """Return the loss and the scores of a split, the same in all processes.

        By default this is the mean loss over random batches, always the same ones, and no score.
        """
        loss_sum, count = self.totals(lambda *batch: torch.stack(self(*batch)), 2, graphs, world)
        return loss_sum / max(count, TINY), {}

    def totals(
        self,
        sums: Callable[[GraphBatch, Tensor], Tensor],
        width: int,
        graphs: np.ndarray,
        world: DistributedContext,
    ) -> list[float]:
        """Return the total of `sums`, numbers (width,) of a batch, over fixed random batches."""
        run, tensors = self.config.run, self.examples.graphs
        totals = torch.zeros(width, dtype=torch.float64, device=self.examples.labels.device)
        rng = np.random.default_rng(run.seed)
        batches = epoch_batches(
            graphs, tensors.sizes, run.batch_size, rng, run.max_groups, run.max_pairs
        )
        for batch in batches[world.rank :: world.size]:
            indices = torch.from_numpy(batch).to(totals.device)
            with torch.no_grad():
                totals += sums(tensors.cut(batch, run.max_groups), indices)
        world.sum(totals)
        return totals.tolist()


def refuse_metric(config: TrainConfig) -> None:
    if config.run.metric not in (None, "loss"):
        raise ConfigError(
            f"run.metric: {config.run.metric} needs the objective supervised; the objective "
            f"{config.objective.name} chooses by its validation loss"
        )


def diverged(what: str, config: TrainConfig) -> DivergedError:
    return DivergedError(
        f"{what}: training diverged. Try a lower optim.lr (now {config.optim.lr:g}), a longer "
        "optim.warmup, or optim.clip_norm"
    )
