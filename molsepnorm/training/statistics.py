"""Batch-norm statistics of the weights as they are, not as they were."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.data.batching.bucketing import epoch_batches
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.training.config import RunConfig

__all__ = ["estimate_statistics", "statistics_batches"]

_SAMPLE = 1024  # molecules that say enough


def statistics_batches(
    graphs: np.ndarray, sizes: np.ndarray, run: RunConfig, fewest: int = 2
) -> list[np.ndarray]:
    """Random batches of some of the training molecules, for `estimate_statistics`.

    Args:
        graphs: int64 [n]: the training molecules.
        sizes: int64 [G]: atoms of every molecule.
        run: batches are like those of its steps; the same ones for the same seed.
        fewest: molecules of a batch.
    """
    rng = np.random.default_rng(run.seed)
    some = rng.permutation(graphs)[:_SAMPLE]
    return epoch_batches(some, sizes, run.batch_size, rng, run.blocks, run.max_pairs, fewest)


@torch.no_grad()
def estimate_statistics(network: nn.Module, batches: Iterable[GraphBatch]) -> None:
    """Replace the running statistics of every batch norm by their mean over these batches.

    Running averages lag behind: in the first hundred steps they still hold their initial values,
    which spoils the evaluation of a small data set, and under an average of weights they belong
    to other weights. This is done without dropout, as in evaluation; the network is left in
    evaluation mode.

    Args:
        network: whose statistics to replace.
        batches: random ones, of the training molecules, such as those of `statistics_batches`.
    """
    network.eval()
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
        norm.train()
    for batch in batches:
        network(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
