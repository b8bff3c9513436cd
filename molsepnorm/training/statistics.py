"""Batch-norm statistics of the current weights."""

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

_SAMPLE = 1024  # molecules, enough for accurate statistics


def statistics_batches(
    graphs: np.ndarray, sizes: np.ndarray, run: RunConfig, min_batch: int = 2
) -> list[np.ndarray]:
    """Return random batches of some training molecules, for `estimate_statistics`.

    Args:
        graphs: int64 [n]: the training molecules.
        sizes: int64 [G]: atoms of every molecule.
        run: batch size, seed and limits, as for the steps of the run.
        min_batch: the minimum batch size.
    """
    rng = np.random.default_rng(run.seed)
    some = rng.permutation(graphs)[:_SAMPLE]
    return epoch_batches(some, sizes, run.batch_size, rng, run.blocks, run.max_pairs, min_batch)


@torch.no_grad()
def estimate_statistics(network: nn.Module, batches: Iterable[GraphBatch]) -> None:
    """Replace the running statistics of every batch norm by their mean over these batches.

    Running averages lag behind the weights. In the first hundred steps they are still close to
    their initial values, which degrades scores on small data sets, and an average of the weights
    has no running averages of its own. Dropout is off. The network is left in evaluation mode.

    Args:
        network: the network with the batch norms.
        batches: random batches of training molecules, as `statistics_batches` returns them.
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
