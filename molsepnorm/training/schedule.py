"""`Schedule`: the molecules of every step."""

from __future__ import annotations

import numpy as np

from molsepnorm.data.batching.bucketing import epoch_batches, largest_batch, num_batches
from molsepnorm.training.config import RunConfig
from molsepnorm.training.statistics import statistics_batches

__all__ = ["Schedule"]


class Schedule:
    """The batches of a run. They depend only on the configuration and the training split.

    Args:
        run: batch size, seed and limits.
        graphs: int64 [n], the training molecules.
        sizes: int64 [G], the number of atoms of every molecule.
        processes: the number of processes that share each batch.
    """

    def __init__(
        self, run: RunConfig, graphs: np.ndarray, sizes: np.ndarray, processes: int = 1
    ) -> None:
        self.run, self.graphs, self.sizes = run, graphs, sizes
        # a batch norm needs two molecules, and each process at least one
        self.min_batch = max(2, processes)

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Return the molecules of each step of an epoch, over all processes."""
        run, rng = self.run, np.random.default_rng((self.run.seed, epoch))
        return epoch_batches(
            self.graphs, self.sizes, run.batch_size, rng, run.blocks, run.max_pairs, self.min_batch
        )

    def statistics_batches(self) -> list[np.ndarray]:
        """Return the batches from which batch-norm statistics are estimated."""
        return statistics_batches(self.graphs, self.sizes, self.run, self.min_batch)

    def count_steps(self, epochs: int) -> int:
        """Return the number of steps in the first epochs."""
        run = self.run
        if largest_batch(self.graphs, self.sizes, run.batch_size) <= run.max_pairs:
            return epochs * num_batches(len(self.graphs), run.batch_size)
        return sum(len(self.batches(epoch)) for epoch in range(epochs))
