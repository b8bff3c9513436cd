"""`GraphBatch`: the tensors that the network reads.

The slots of all graphs lie one after the other in one long axis, M, so a linear layer, a norm or a
dropout is one call for the whole batch. Attention needs a rectangle, so graphs of like size form a
*block*, padded to its largest graph; a batch has a few blocks. This keeps padding low although the
graphs of a batch are drawn at random, which the graph token's batch norm needs: batches of graphs
of one size would normalise away whatever the size tells about the target.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

__all__ = ["Block", "GraphBatch", "PathTable"]


@dataclass(frozen=True)
class PathTable:
    """The path vocabulary as tensors; `encodings.PathVocabulary` says what it means."""

    bonds: Tensor
    """float32 [V, L·K]: 1 in column k·K + e where the k-th bond of a path is e, the bonds beyond
    the longest labelled path left out. Sparse (CSR) on a CPU, dense elsewhere."""

    bonds_transposed: Tensor
    """float32 [L·K, V]: the same."""

    lengths: Tensor
    """float32 [V]: D', how many bonds of a path are labelled; 1 where none is."""

    distances: Tensor
    """int64 [V]: the hop distance; 0 below `SELF`."""

    first_bonds: Tensor
    """int64 [V]: the label of a path's first bond, so at distance 1 that of the bond; 0 where there
    is none."""

    labels: int
    """K here: the labels that occur, from 0 on."""

    def to(self, device: torch.device | str) -> PathTable:
        """The same table on another device."""
        dense = torch.device(device).type != "cpu"  # a few megabytes, and no sparse kernels
        matrices = (self.bonds, self.bonds_transposed)
        bonds, transposed = (each.to_dense() if dense else each for each in matrices)
        return replace(
            self,
            bonds=bonds.to(device),
            bonds_transposed=transposed.to(device),
            lengths=self.lengths.to(device),
            distances=self.distances.to(device),
            first_bonds=self.first_bonds.to(device),
        )


@dataclass(frozen=True)
class Block:
    """A rectangle of slots: `graphs` graphs of `slots` slots each."""

    graphs: int
    slots: int


@dataclass(frozen=True)
class GraphBatch:
    """B molecules, ready for the network.

    The molecule asked for at place i of the batch has its graph token at slot `graph_token[i]`, so
    outputs keep the order in which the molecules were asked for, whatever the blocks.
    """

    atoms: Tensor
    """int64 [M, A]: atom features; 0 in slots without an atom."""

    degrees: Tensor
    """int64 [M]: atom degrees; 0 in slots without an atom."""

    mask: Tensor
    """bool [M]: true where a slot holds an atom: neither the graph token nor padding."""

    graph_token: Tensor
    """int64 [B]: the slot of each molecule's graph token."""

    pairs: Tensor
    """int64 [P]: path codes, block after block, each block (graphs, S, S) row by row."""

    blocks: tuple[Block, ...]
    """How slots and pairs are cut into rectangles, in order."""

    paths: PathTable
    """What the path codes mean."""

    max_bonds: int
    """D, as many as any atom has."""

    features: Tensor | None = None
    """float32 [B, F]: molecule-level features, in the order of `graph_token`; None if there are
    none."""

    def __len__(self) -> int:
        return len(self.graph_token)

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same batch on another device."""
        moved: dict[str, Any] = {
            field.name: value.to(device)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), (Tensor, PathTable))
        }
        return replace(self, **moved)

    def by_block(self, values: Tensor) -> tuple[Tensor, ...]:
        """Values (P, …) of the slot pairs, block by block: (graphs·S², …) each."""
        return values.split([block.graphs * block.slots**2 for block in self.blocks])

    @property
    def order(self) -> Tensor:
        """int64 [B]: each molecule's place among the rows of all blocks."""
        return self.graph_token.argsort().argsort()

    @property
    def padding(self) -> float:
        """The share of slots that hold neither an atom nor a graph token."""
        return 1.0 - (int(self.mask.sum()) + len(self)) / len(self.mask)
