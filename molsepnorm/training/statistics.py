"""Batch-norm statistics of the weights as they are, not as they were."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.nn.batch import GraphBatch

__all__ = ["estimate_statistics"]


@torch.no_grad()
def estimate_statistics(network: nn.Module, batches: Iterable[GraphBatch]) -> None:
    """Replace the running statistics of every batch norm by their mean over these batches.

    Running averages lag behind: in the first hundred steps they still hold their initial values,
    which spoils the evaluation of a small data set, and under an average of weights they belong
    to other weights. This is done without dropout, as in evaluation; the network is left in
    evaluation mode.

    Args:
        network: whose statistics to replace.
        batches: random ones, of the training molecules.
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
