"""transformers' Graphormer on the same batches as ours.

Its collator is slow Python on a CPU. So its inputs are made from our store, before the timing. They
equal those of its own preprocessing and collator, except that of several equally short paths, in
even rings, ours is the canonical one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from peers import hf_graphormer
from torch import Tensor, nn

from molsepnorm.data.store import GraphStore
from molsepnorm.molecules.codes import UNREACHABLE
from molsepnorm.molecules.encodings import PathVocabulary
from molsepnorm.predict.inference import Precision, autocast, products_in

__all__ = ["TrainStep", "carried", "inputs", "make_step"]

TrainStep = Callable[[Mapping[str, Tensor]], Tensor]

_UNREACHABLE = 510
_BEYOND = 20  # shifted distance from which its collator masks pairs of atoms
_LONGEST = 20


def carried() -> str | None:
    """Return the folder of the transformers version that pack.sh fetched."""
    folder = os.environ.get("MOLSEPNORM_PEER", "")
    return folder if Path(folder).is_dir() else None


def inputs(store: GraphStore, graphs: np.ndarray) -> dict[str, Tensor]:
    """Return a batch of ZINC's molecules as the network reads it, in order.

    Returns:
        The output of its collator: input_nodes (B, N, 1), in_degree and out_degree (B, N),
        spatial_pos (B, N, N), input_edges (B, N, N, L, 1), attn_edge_type (B, N, N, 1),
        attn_bias (B, N + 1, N + 1) and labels (B,).
    """
    along = _bonds_along(store.paths)  # (V, L)
    distance = np.where(store.paths.depths < 0, _UNREACHABLE, store.paths.depths).astype(np.int64)
    firsts = np.cumsum(store.sizes) - store.sizes, np.cumsum(store.sizes**2) - store.sizes**2
    largest, count = int(store.sizes[graphs].max()), len(graphs)
    codes = np.zeros((count, largest, largest), dtype=np.int64)
    nodes = np.zeros((count, largest, 1), dtype=np.int64)
    degree = np.zeros((count, largest), dtype=np.int64)
    for i, graph in enumerate(graphs.tolist()):
        n, atom, pair = int(store.sizes[graph]), int(firsts[0][graph]), int(firsts[1][graph])
        codes[i, :n, :n] = store.pairs[pair : pair + n * n].reshape(n, n)
        nodes[i, :n, 0] = store.atoms[atom : atom + n, 0].astype(np.int64) + 3
        degree[i, :n] = store.degrees[atom : atom + n].astype(np.int64) + 1
    real = codes >= UNREACHABLE  # pairs of atoms; the rest is padding
    spatial = np.where(real, distance[codes] + 1, 0)
    longest = min(_LONGEST, int(distance[codes[codes > UNREACHABLE]].max(initial=1)))
    bias = np.zeros((count, largest + 1, largest + 1), dtype=np.float32)
    bias[:, 1:, 1:][spatial >= _BEYOND] = -np.inf
    arrays = {
        "input_nodes": nodes,
        "in_degree": degree,
        "out_degree": degree,
        "spatial_pos": spatial,
        "input_edges": along[codes, :longest, None],
        "attn_edge_type": np.where(spatial == 2, along[codes, 0] - 1, 0)[..., None],
        "attn_bias": bias,
        "labels": labels[graphs, 0],
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _bonds_along(paths: PathVocabulary) -> np.ndarray:
    """Return int64 (V, L): the bonds of every path as the network numbers them, padded by 0."""
    bonds = np.zeros((len(paths), _LONGEST), dtype=np.int64)
    starts = paths.level_starts
    for depth, (begin, end) in enumerate(pairwise(starts[1:])):
        bonds[begin:end] = bonds[paths.parents[begin:end]]
        if depth < _LONGEST:
            bonds[begin:end, depth] = paths.bonds[begin:end].astype(np.int64) + 4
    return bonds


def make_step(device: torch.device, precision: Precision) -> tuple[nn.Module, TrainStep]:
    """Return its SLIM, and its training step: forward, loss, backward, clipping, AdamW.

    A step of ours also cuts its batch, sets the learning rate and averages the weights.

    Raises:
        PeerMissing: transformers 4.57.6 is not installed.
    """
    network = hf_graphormer.slim().to(device).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-4, weight_decay=0.01, fused=True)

    def step(batch: Mapping[str, Tensor]) -> Tensor:
        with products_in(precision, device):
            with autocast(precision, device):
                outputs = hf_graphormer.outputs(network, batch)
            loss = (outputs.float()[:, 0] - batch["labels"]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        return loss.detach()

    return network, step
