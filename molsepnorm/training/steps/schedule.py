"""`Schedule`: the molecules of every step."""

from __future__ import annotations

import numpy as np

from molsepnorm.data.batching.bucketing import epoch_batches, max_batch_pairs, num_batches
from molsepnorm.training.config import RunConfig

_SAMPLE = 1024  # molecules, enough for accurate batch-norm statistics


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
        return self._batches(self.graphs, np.random.default_rng((self.run.seed, epoch)))

    def statistics_batches(self) -> list[np.ndarray]:
        """Return batches of some molecules, for `estimate_statistics`.

        They are the same for all seeds, so that networks with equal weights have equal statistics.
        """
        rng = np.random.default_rng(0)
        return self._batches(rng.permutation(self.graphs)[:_SAMPLE], rng)

    def _batches(self, graphs: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        run = self.run
        return epoch_batches(
            graphs, self.sizes, run.batch_size, rng, run.max_groups, run.max_pairs, self.min_batch
        )

    def count_steps(self, epochs: int) -> int:
        """Return the number of steps in the first epochs."""
        size = self.run.batch_size
        if max_batch_pairs(self.graphs, self.sizes, size) <= self.run.max_pairs:
            return epochs * num_batches(len(self.graphs), size)
        return sum(len(self.batches(epoch)) for epoch in range(epochs))
