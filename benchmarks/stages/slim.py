"""Graphormer-SLIM of both sides, and the same batches for both; what several stages begin with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from floors import in_blocks, matrix_products
from molecules import Sample, sample
from peers import PeerMissing, hf_graphormer
from settings import Settings
from torch import Tensor, nn

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.training.config import OptimConfig, RunConfig
from molsepnorm.training.optim import make_optimizer

__all__ = ["Ours", "Theirs", "num_bytes", "our_side", "products", "sides", "threads", "train_step"]

BLOCKS = RunConfig().blocks
CLIP = 5.0


@dataclass(frozen=True)
class Ours:
    """This package's side."""

    sample: Sample
    tensors: GraphTensors

    def cut(self, batch: np.ndarray) -> GraphBatch:
        """A batch as training cuts it."""
        return self.tensors.cut(batch, BLOCKS)

    def network(self, **settings: Any) -> Graphormer:
        """SLIM with SepNorm and dropout, unless the settings say otherwise."""
        return Graphormer(GraphormerConfig(**settings))


@dataclass(frozen=True)
class Theirs:
    """transformers' side; its molecules are preprocessed already."""

    sample: Sample
    items: list[dict[str, Any]]
    collate: Callable[[list[dict[str, Any]]], dict[str, Tensor]]

    def cut(self, batch: np.ndarray) -> dict[str, Tensor]:
        """A batch as its collator makes it."""
        return self.collate(self.sample.of(batch, self.items))

    def network(self) -> tuple[nn.Module, Callable[[dict[str, Tensor]], Tensor]]:
        """SLIM, and what calls it."""
        network = hf_graphormer.slim()
        return network, lambda batch: hf_graphormer.outputs(network, batch)


def our_side(settings: Settings, batches: int) -> Ours:
    """So many batches of 256 molecules."""
    molecules = sample(settings, batches)
    return Ours(molecules, molecules.tensors())


def sides(settings: Settings, batches: int) -> tuple[Ours, Theirs | None, str]:
    """Both sides with the same batches of 256 molecules; why, where there is no other side."""
    ours = our_side(settings, batches)
    molecules = ours.sample
    try:
        preprocess, collate = hf_graphormer.preprocessor(), hf_graphormer.collator()
        hf_graphormer.slim()
    except PeerMissing as missing:
        return ours, None, f"{threads()}; no peer: {missing}"
    labelled = zip(molecules.graphs, molecules.labels[:, 0].tolist(), strict=True)
    items = [preprocess(hf_graphormer.raw_item(graph, label)) for graph, label in labelled]
    return ours, Theirs(molecules, items, collate), threads()


def train_step(
    network: nn.Module, outputs: Callable[[Any], Tensor]
) -> Callable[[Any, Tensor], Tensor]:
    """A function that takes one training step on a batch and its labels, the same for both."""
    optimizer = make_optimizer(network, OptimConfig(lr=2e-4))
    network.train()

    def step(batch: Any, labels: Tensor) -> Tensor:
        loss = (outputs(batch) - labels).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), CLIP)
        optimizer.step()
        return loss.detach()

    return step


def products(
    molecules: Sample, batch: np.ndarray, blocks: int, backward: bool
) -> Callable[[], None]:
    """SLIM's matrix products for a batch whose graphs are padded in so many blocks."""
    slots = np.array([graph.num_atoms + 1 for graph in molecules.of(batch, molecules.graphs)])
    return matrix_products(in_blocks(slots, blocks), backward)


def num_bytes(batch: GraphBatch) -> int:
    """Of a batch's tensors, the path table's aside, which all batches share."""
    values = (getattr(batch, field.name) for field in fields(batch))
    return sum(value.nbytes for value in values if isinstance(value, Tensor))


def threads() -> str:
    """How many threads torch takes for an operation."""
    return f"{torch.get_num_threads()} threads"
