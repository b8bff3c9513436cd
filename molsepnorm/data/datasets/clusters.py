"""Butina clusters of molecules: each molecule is similar to the centre of its cluster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix

from molsepnorm.molecules.featurize.fingerprints import tanimoto

MAX_DISTANCE = 0.6
"""Largest Tanimoto distance from the centre of a cluster, as in DeepChem's `ButinaSplitter`."""

MAX_MOLECULES = 50_000
"""Larger tables are refused, since the time grows with the square of their length: 5,000 molecules
take about 2 seconds, 20,000 take 11 and 50,000 take more than a minute."""

_PAIRS = 1 << 20  # pairs of molecules compared at once


def butina_clusters(bits: csr_matrix, max_distance: float = MAX_DISTANCE) -> list[np.ndarray]:
    """Return the indices of the molecules of each cluster, the centre first.

    The molecule with the most neighbours, those within `max_distance`, is the centre of the first
    cluster, which its neighbours join. The next centre has the most neighbours of the remaining
    molecules. Neighbours are counted once, before the first cluster is made. The clusters are those
    of `rdkit.ML.Cluster.Butina.ClusterData`, which needs 8 bytes for every pair of molecules; here
    the neighbours are computed again when they are needed, so memory grows with G only.

    Args:
        bits: float32 (G, bits), fingerprints of zeros and ones.
        max_distance: largest Tanimoto distance between neighbours.

    Source: Butina, J. Chem. Inf. Comput. Sci. 1999, 39, 747.
    """
    count = bits.shape[0]
    neighbours = np.zeros(count, dtype=np.int64)
    for start, near in _blocks(bits, max_distance):
        # pairs of this block with itself and with all later molecules
        neighbours[start : start + len(near)] += near.sum(axis=1)
        neighbours[start + len(near) :] += near[:, len(near) :].sum(axis=0)
    order = np.lexsort((np.arange(count), neighbours))[::-1]
    clusters: list[np.ndarray] = []
    left = np.ones(count, dtype=bool)
    for centre in order:
        if not left[centre]:
            continue
        left[centre] = False
        found = np.flatnonzero(left) if neighbours[centre] > 1 else np.empty(0, dtype=np.int64)
        found = found[_near(bits[[centre]], bits[found], max_distance)[0]]
        left[found] = False
        clusters.append(np.array([centre, *found]))
    return clusters


def _blocks(bits: csr_matrix, max_distance: float) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the first molecule of each block, and where the block's molecules are neighbours of
    themselves and of all later ones, bool (block, G - first)."""
    start = 0
    while start < bits.shape[0]:
        end = start + max(1, _PAIRS // (bits.shape[0] - start))
        yield start, _near(bits[start:end], bits[start:], max_distance)
        start = end


def _near(one: csr_matrix, other: csr_matrix, max_distance: float) -> np.ndarray:  # bool (A, B)
    """Return where two molecules are neighbours; Tanimoto distances as RDKit computes them."""
    return 1 - tanimoto(one, other) <= max_distance
