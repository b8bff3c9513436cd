"""Batch-norm statistics of the current weights."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.nn.batch import GraphBatch

__all__ = ["estimate_statistics"]


@torch.no_grad()
def estimate_statistics(network: nn.Module, batches: Iterable[GraphBatch]) -> None:
    """Replace the running statistics of every batch norm by their mean over training batches.

    Running averages lag behind the weights. In the first hundred steps they are still close to
    their initial values, which degrades scores on small data sets, and an average of the weights
    has no running averages of its own. Dropout is off. The network is left in evaluation mode.
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
