"""The unavoidable part of a stage's work: parsing or multiplying alone.

A bound is the time that this machine needs for that part, with the same libraries and the same
number of threads. Each function does, or returns, the work of one round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool

import numpy as np
import torch
from torch import Tensor

__all__ = ["matrix_products", "padded_groups", "parse", "parse_on_all_cores"]

_WIDTH, _HEADS, _LAYERS = 80, 8, 12  # SLIM


def parse(smiles: Sequence[str]) -> int:
    """Parse each SMILES once with RDKit; return their number."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        for text in smiles:
            Chem.MolFromSmiles(text)
    return len(smiles)


def parse_on_all_cores(pool: Pool, smiles: Sequence[str]) -> int:
    """Parse in pieces, in processes that have started before."""
    pieces = [smiles[start : start + 500] for start in range(0, len(smiles), 500)]
    return sum(pool.imap_unordered(parse, pieces))


def padded_groups(slots: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Sort graphs by their number of slots into padded groups; return (graphs, slots) of each.

    >>> padded_groups(np.array([5, 9, 6, 8]), count=2)
    [(2, 6), (2, 9)]
    """
    return [(len(part), int(part[-1])) for part in np.array_split(np.sort(slots), count)]


def matrix_products(groups: Sequence[tuple[int, int]], backward: bool) -> Callable[[], None]:
    """Compute SLIM's matrix products for a batch of these padded groups, on random numbers.

    Each layer has four linear maps over all slots, and for each head and group QKᵀ and weights
    times V; the backward pass has two products for each of these. Norms, softmax, bias, dropout,
    activations, copies and the optimiser are left out.
    """
    size = _WIDTH // _HEADS
    slots = sum(graphs * side for graphs, side in groups)
    linear = [(_WIDTH, 3 * _WIDTH), (_WIDTH, _WIDTH), (_WIDTH, _WIDTH), (_WIDTH, _WIDTH)]
    pairs: list[tuple[Tensor, Tensor]] = []
    for inner, outer in linear:
        x, w, grad = torch.randn(slots, inner), torch.randn(inner, outer), torch.randn(slots, outer)
        pairs.append((x, w))
        if backward:
            pairs += [(grad, w.T), (x.T, grad)]
    for graphs, side in groups:
        q, k, v, grad = torch.randn(4, graphs * _HEADS, side, size)
        weights = torch.randn(graphs * _HEADS, side, side)
        pairs += [(q, k.mT), (weights, v)]
        if backward:  # of the weights and v, then of q and k
            pairs += [(grad, v.mT), (weights.mT, grad), (weights, k), (weights.mT, q)]

    def multiply() -> None:
        for _ in range(_LAYERS):
            for a, b in pairs:
                torch.matmul(a, b)

    return multiply
