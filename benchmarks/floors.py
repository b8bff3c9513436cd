"""What no implementation of a stage could be faster than: its reading, moving or multiplying alone.

Each function does the work of a turn. A floor is what this machine, by the same libraries and with
the same number of threads, needs for that part of a stage's work which nobody can leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.pool import Pool

import numpy as np
import torch
from torch import Tensor

__all__ = ["copying", "in_blocks", "matrix_products", "parse", "parse_on_all_cores"]

_WIDTH, _HEADS, _LAYERS = 80, 8, 12  # SLIM


def parse(smiles: Sequence[str]) -> int:
    """RDKit reads each SMILES once; returns how many."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        for text in smiles:
            Chem.MolFromSmiles(text)
    return len(smiles)


def parse_on_all_cores(pool: Pool, smiles: Sequence[str]) -> int:
    """The same, in pieces, by processes that wait for them."""
    pieces = [smiles[start : start + 500] for start in range(0, len(smiles), 500)]
    return sum(pool.imap_unordered(parse, pieces))


def copying(num_bytes: int) -> Callable[[], None]:
    """Copies as many bytes from one place of memory to another."""
    source = np.ones(num_bytes, dtype=np.uint8)
    target = np.zeros_like(source)

    def copy() -> None:
        np.copyto(target, source)

    return copy


def in_blocks(slots: np.ndarray, blocks: int) -> list[tuple[int, int]]:
    """Graphs of these numbers of slots, by size, in `blocks` rectangles: (graphs, slots) of each.

    >>> in_blocks(np.array([5, 9, 6, 8]), blocks=2)
    [(2, 6), (2, 9)]
    """
    return [(len(part), int(part[-1])) for part in np.array_split(np.sort(slots), blocks)]


def matrix_products(rectangles: Sequence[tuple[int, int]], backward: bool) -> Callable[[], None]:
    """SLIM's matrix products for a batch of these rectangles, on random numbers.

    In each layer the four linear maps over all slots, and each head's QKᵀ and weights times V in
    each rectangle; backward, two products for each of these. Nothing else: no norm, softmax,
    bias, dropout, activation, copy or optimiser.
    """
    size = _WIDTH // _HEADS
    slots = sum(graphs * side for graphs, side in rectangles)
    linear = [(_WIDTH, 3 * _WIDTH), (_WIDTH, _WIDTH), (_WIDTH, _WIDTH), (_WIDTH, _WIDTH)]
    pairs: list[tuple[Tensor, Tensor]] = []
    for inner, outer in linear:
        x, w, grad = torch.randn(slots, inner), torch.randn(inner, outer), torch.randn(slots, outer)
        pairs.append((x, w))
        if backward:
            pairs += [(grad, w.T), (x.T, grad)]
    for graphs, side in rectangles:
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
