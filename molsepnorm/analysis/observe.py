"""The outputs of modules inside a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.readout import FastReadout


def embedding_sites(network: Graphormer) -> tuple[str, ...]:
    """Return the names of the sites of `layer_embeddings`, in order."""
    return (*(f"layer {n}" for n in range(1, network.config.layers + 1)), "last norm")


def layer_embeddings(network: Graphormer, batch: GraphBatch) -> Tensor:  # (B, 2, sites, C)
    """Return each molecule's graph token [:, 0] and mean of its atoms [:, 1] at every site; NaN for
    the mean after a last layer that computes the graph token only."""
    modules = *network.layers, network.last_norm
    pairs = observed(network, batch, modules, lambda x: _token_and_mean(x, batch))
    return torch.stack(pairs, dim=2)


def observed(
    network: Graphormer,
    batch: GraphBatch,
    modules: Iterable[nn.Module],
    read: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """Embed a batch, and return `read` of the output of each module."""
    values: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> None:
        values.append(read(output))

    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(keep))
        network.embed(batch)
    return values


def _token_and_mean(x: Tensor, batch: GraphBatch) -> Tensor:  # (B, 2, C)
    if len(x) == len(batch):  # graph tokens only
        tokens = x.index_select(0, batch.order)
        return torch.stack([tokens, torch.full_like(tokens, torch.nan)], dim=1)
    width = x.shape[1]
    return torch.stack([FastReadout(kind, width)(x, batch) for kind in ("token", "mean")], dim=1)
