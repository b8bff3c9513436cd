"""The attention bias."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, SELF, UNREACHABLE
from molsepnorm.nn.batch import GraphBatch, PathTable
from molsepnorm.nn.gradients import is_transformed, to_dense
from molsepnorm.sepnorm.kernels import at_least_float32


class AttentionBias(nn.Module):
    r"""One bias per head and slot pair, computed once per step and shared by all layers.

    For atoms i, j at distance D along the canonical path e_1 … e_D, with D' = min(D, L):

    .. math:: b_{ij} = s_D + \frac{1}{D'} \sum_{k=1}^{D'} W_k \, \mathrm{emb}(e_k)

    Pairs with the graph token share a learned bias, atoms of different fragments another, and
    padding has −∞.

    The sum depends only on the bonds of the path, so it is computed once for every entry of the
    path vocabulary. The bias is then a single look-up, and no tensor of shape (B, N, N, L, H) is
    needed. The gradient of `F.embedding`, unlike that of indexing, is summed in a fixed order.

    Source: Ying et al., NeurIPS 2021, arXiv 2106.05234, sections 3.1.2, 3.1.3 and 3.2. The paths
    are canonical here; those of the reference depend on the order of the atoms.

    Args:
        bond_sizes: number of values of each bond feature. The embeddings of a bond's features are
            averaged, as in the reference.
        max_distance: the largest distance with its own bias.
        max_path_length: L.
    """

    def __init__(
        self, heads: int, bond_sizes: tuple[int, ...], max_distance: int, max_path_length: int
    ) -> None:
        super().__init__()
        self.max_path_length = max_path_length
        self.graph_token = nn.Parameter(torch.empty(heads))
        self.unreachable = nn.Parameter(torch.empty(heads))
        self.spatial = nn.Parameter(torch.empty(max_distance + 1, heads))
        self.bonds = nn.ParameterList([torch.empty(size, heads) for size in bond_sizes])
        self.positions = nn.Parameter(torch.empty(max_path_length, heads, heads))

    def forward(self, batch: GraphBatch) -> list[Tensor]:  # for each group (H, graphs, S, S)
        with torch.autocast(batch.pairs.device.type, enabled=False):
            bias = F.embedding(batch.pairs, self.table(batch.paths))  # (P, H)
        return by_head(bias, batch)

    def table(self, paths: PathTable) -> Tensor:  # (V, H)
        """Return the bias of every path code."""
        bonds = label_embeddings(self.bonds)  # (K, H)
        terms = torch.einsum("lhk,ek->leh", self.positions, bonds)  # (L, K, H)
        longest = paths.bonds.shape[1] // paths.labels
        terms = terms[:longest, : paths.labels].flatten(0, 1)
        wide = at_least_float32(terms)  # a CPU has no sparse product of a lower precision
        sums = self.path_sums(paths, wide) / paths.lengths[:, None]
        # in the order of the codes
        assert (PADDING, GRAPH_TOKEN, UNREACHABLE, SELF) == (0, 1, 2, 3)
        padding = torch.full_like(self.graph_token, -torch.inf)
        special = torch.stack([padding, self.graph_token, self.unreachable])
        of_paths = (sums + F.embedding(paths.distances, self.spatial))[SELF:]
        return torch.cat([special, of_paths.to(terms.dtype)])

    def path_sums(self, paths: PathTable, terms: Tensor) -> Tensor:  # (V, H)
        """Return the sum of the terms (L·K, H) of every path's bonds."""
        return to_dense(paths.bonds).to(terms.dtype) @ terms


def by_head(values: Tensor, batch: GraphBatch) -> list[Tensor]:  # for each group (H, graphs, S, S)
    """Return values (P, H) of the slot pairs, group by group, with the heads first."""
    return [
        part.flatten(0, 2).T.contiguous().view(-1, *part.shape[:3])
        for part in batch.by_group(values)
    ]


def label_embeddings(tables: Iterable[Tensor]) -> Tensor:  # (K, …)
    """Return the vector of every bond label: the mean of the embeddings of its features.

    Args:
        tables: (values, …) for each bond feature. In a label the first feature changes fastest.
    """
    first, *others = tables
    labels = first
    for table in others:
        labels = (table[:, None] + labels).flatten(0, 1)
    return labels / (1 + len(others))


class FastAttentionBias(AttentionBias):
    """`AttentionBias` whose gradient reads the transposed path table, which PyTorch would otherwise
    transpose at every step."""

    def path_sums(self, paths: PathTable, terms: Tensor) -> Tensor:  # (V, H)
        if is_transformed():
            return super().path_sums(paths, terms)
        return _Product.apply(paths.bonds, paths.bonds_transposed, terms)


class _Product(Function):
    """Product of a constant matrix (V, R), sparse or dense, and a matrix (R, H)."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:  # (V, H)
        ctx.matrices = transposed, matrix
        return matrix.to(x.dtype) @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        transposed, matrix = ctx.matrices
        if is_transformed(grad):
            return None, None, to_dense(transposed).to(grad.dtype) @ grad
        return None, None, _Product.apply(transposed, matrix, grad)
