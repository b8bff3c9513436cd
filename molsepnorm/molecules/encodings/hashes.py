"""`graph_hashes`: numbers that are equal for equal graphs."""

from __future__ import annotations

import numpy as np

from molsepnorm.molecules.encodings.encoding import EncodedGraphs

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, near 2^64 / 1.618, so it spreads all bits


def graph_hashes(graphs: EncodedGraphs) -> np.ndarray:  # uint64 (G,)
    """Hash every graph, whatever the order of its atoms: each atom with all other atoms and the
    paths to them, so that isomers differ."""
    random = np.random.default_rng(0)

    def numbers(count: int) -> np.ndarray:
        return random.integers(0, 1 << 64, count, dtype=np.uint64)

    of_atom = numbers(256)[graphs.degrees]
    for feature in graphs.atoms.T:
        of_atom = of_atom * _FACTOR + numbers(256)[feature]
    of_path = numbers(len(graphs.paths))
    hashes, end = np.empty(len(graphs), dtype=np.uint64), 0
    for graph, atoms in enumerate(np.split(of_atom, np.cumsum(graphs.sizes))[:-1]):
        start, end = end, end + len(atoms) ** 2
        paths = of_path[graphs.pairs[start:end]].reshape(len(atoms), len(atoms))
        around = _mixed(paths + _FACTOR * atoms).sum(axis=1)
        hashes[graph] = _mixed(around + _FACTOR * atoms).sum()
    return hashes


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Mix the bits of hashes (uint64), so that sums of them differ for different sets."""
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _FACTOR
    return hashes ^ (hashes >> np.uint64(29))
