"""`GraphBatch`: the tensors that the network reads.

The slots of all graphs are concatenated along one axis, M, so a linear layer, a norm or a dropout
is one call for the whole batch. Attention needs rectangular tensors, so graphs of similar size form
a padded group.

Lightning sets the fields of a copied batch, so these dataclasses are not frozen. It reads the size
of a batch from its first tensor, `graph_token`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor


@dataclass(eq=False)
class PathTable:
    """The path vocabulary as tensors; see `molecules.encodings.PathVocabulary`."""

    bonds: Tensor
    """float32 [V, L·K]: 1 in column k·K + e if the k-th bond of a path has label e. Bonds beyond
    the longest labelled path are left out. Sparse (CSR) on a CPU, dense elsewhere."""
    bonds_transposed: Tensor
    """float32 [L·K, V]: the transpose of `bonds`."""
    lengths: Tensor
    """float32 [V]: D', the number of labelled bonds of a path; 1 if there are none."""
    distances: Tensor
    """int64 [V]: the hop distance; 0 below `SELF`."""
    first_bonds: Tensor
    """int64 [V]: the label of a path's first bond; 0 if the path has no bonds."""
    labels: int
    """K: the number of bond labels in use, which are 0 … K − 1."""

    def to(self, device: torch.device | str) -> PathTable:
        dense = torch.device(device).type != "cpu"  # a few megabytes, and no sparse kernels
        matrices = (self.bonds, self.bonds_transposed)
        bonds, transposed = (matrix.to_dense() if dense else matrix for matrix in matrices)
        return replace(
            self,
            bonds=bonds.to(device),
            bonds_transposed=transposed.to(device),
            lengths=self.lengths.to(device),
            distances=self.distances.to(device),
            first_bonds=self.first_bonds.to(device),
        )


class PaddedGroup(NamedTuple):
    """The shape of a rectangle of slots: `graphs` graphs, each padded to `slots` slots."""

    graphs: int
    slots: int


@dataclass(eq=False)
class GraphBatch:
    """B molecules, encoded for the network. Outputs have the order of `graph_token`."""

    graph_token: Tensor
    """int64 [B]: the slot of each molecule's graph token."""
    atoms: Tensor
    """int64 [M, A]: atom features; 0 in slots without an atom."""
    degrees: Tensor
    """int64 [M]: atom degrees; 0 in slots without an atom."""
    mask: Tensor
    """bool [M]: true if a slot holds an atom, false for graph tokens and padding."""
    pairs: Tensor
    """int64 [P]: path codes, group after group, each (graphs, S, S) in row-major order."""
    groups: tuple[PaddedGroup, ...]
    """The shapes of the padded groups, in the order of slots and pairs."""
    paths: PathTable
    """The path vocabulary that the codes index."""
    max_bonds: int
    """D: maximum number of bonds on any atom of the data set."""
    features: Tensor | None = None
    """float32 [B, F]: molecule-level features, if there are any."""

    def __len__(self) -> int:
        return len(self.graph_token)

    def to(self, device: torch.device | str) -> GraphBatch:
        """Return the batch on another device."""
        moved: dict[str, Any] = {
            field.name: value.to(device)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), (Tensor, PathTable))
        }
        return replace(self, **moved)

    def by_group(self, values: Tensor) -> tuple[Tensor, ...]:
        """Split values (P, …) of the slot pairs: (graphs, S, S, …) for each group."""
        parts = values.split([group.graphs * group.slots**2 for group in self.groups])
        return tuple(
            part.unflatten(0, (group.graphs, group.slots, group.slots))
            for part, group in zip(parts, self.groups, strict=True)
        )

    @property
    def order(self) -> Tensor:
        """int64 [B]: the row of each molecule when all groups are concatenated."""
        return self.graph_token.argsort().argsort()

    @property
    def padding(self) -> float:
        """Fraction of slots that hold neither an atom nor a graph token."""
        return 1.0 - (int(self.mask.sum()) + len(self)) / len(self.mask)
