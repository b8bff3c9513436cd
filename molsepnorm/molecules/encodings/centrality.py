"""Centrality encoding: the degree of every atom."""

from __future__ import annotations

import numpy as np

__all__ = ["degrees"]


def degrees(num_atoms: int, directed_sources: np.ndarray, largest: int) -> np.ndarray:
    """Number of neighbours of each atom, clipped at `largest`: uint8 [num_atoms].

    Molecular graphs are undirected, so Graphormer's separate tables for in- and out-degree
    (arXiv 2106.05234, eq. 5) add up to a single one, and one number per atom is enough.

    Args:
        num_atoms: atoms of all graphs together.
        directed_sources: int [E], the first atom of every bond in both directions.
        largest: the largest degree that has an embedding of its own.
    """
    counts = np.bincount(directed_sources, minlength=num_atoms)
    return np.minimum(counts, largest).astype(np.uint8)
