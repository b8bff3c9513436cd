"""Whole data sets on their way to a machine without RDKit, raw files or a network.

A store has a code for every pair of atoms, ten times as much as the molecules themselves. So the
molecules travel: atoms, bonds, labels and splits as compressed arrays, read off a store here and
encoded there, into a store that is equal byte for byte, for whatever network is to be trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from molsepnorm.data.datasets import SPLITS, Dataset
from molsepnorm.data.datasets.cached import LabelledGraph, cached_set
from molsepnorm.data.store import GraphStore
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["FEATURIZER", "pack", "unpack"]

FEATURIZER = "zinc"
_CHUNK = 4096  # molecules looked at together


def pack(dataset: Dataset, path: Path) -> None:
    """Write a data set's molecules, labels, rows and splits.

    Args:
        dataset: of molecules with up to 256 atoms and one bond feature, such as ZINC's.
        path: the file to write, in numpy's format for several compressed arrays.
    """
    store = dataset.store
    assert len(store.encoding.bond_sizes) == 1 and store.sizes.max() <= 256
    parts = [_bonds(store, start) for start in range(0, len(store), _CHUNK)]
    counts, ends, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        sizes=store.sizes.astype(np.uint16),
        atoms=store.atoms,
        bond_counts=counts.astype(np.uint16),
        lower=ends[:, 0].astype(np.uint8),  # columns apart are compressed better
        upper=ends[:, 1].astype(np.uint8),
        bond_labels=labels.astype(np.uint8),
        labels=dataset.labels,
        rows=store.rows.astype(np.int32),
        **{split: dataset.splits[split].astype(np.int32) for split in SPLITS},
    )


def unpack(path: Path, key: str, encoding: EncodingSpec) -> GraphStore:
    """The store of these molecules, made in the cache unless it is there.

    Args:
        path: what `pack` wrote.
        key: stands for the source, see `cached_set`: "zinc-downloaded" is what `datasets.load`
            takes for zinc where there are no raw files.
        encoding: what a network reads.
    """
    with np.load(path) as file:
        splits = {split: file[split].tolist() for split in SPLITS}
        targets = file["labels"].shape[1]
    store, _ = cached_set(key, FEATURIZER, encoding, targets, _molecules(path), splits)
    return store


def _bonds(store: GraphStore, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a chunk of molecules: bonds of each, both ends [Σ M, 2] with the lower first, labels.

    The pairs that are one bond apart are the bonds, and the path between them is that bond.
    """
    squares = store.sizes**2
    chunk = slice(start, start + _CHUNK)
    first = int(squares[:start].sum())
    sizes, squares = store.sizes[chunk], squares[chunk]
    codes = store.pairs[first : first + int(squares.sum())].astype(np.int64)
    pairs = np.flatnonzero(store.paths.depths[codes] == 1)
    molecule = np.searchsorted(np.cumsum(squares), pairs, side="right")
    place = pairs - (np.cumsum(squares) - squares)[molecule]
    lower, upper = np.divmod(place, sizes[molecule])
    once = lower < upper
    labels = store.paths.bonds[codes[pairs[once]]]
    counts = np.bincount(molecule[once], minlength=len(sizes))
    return counts, np.stack([lower[once], upper[once]], axis=1), labels


def _molecules(path: Path) -> Iterator[LabelledGraph]:
    """Nothing is read before the first is asked for."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    ends = np.cumsum(arrays["sizes"], dtype=np.int64)[:-1]
    bond_ends = np.cumsum(arrays["bond_counts"], dtype=np.int64)[:-1]
    bonds = np.stack([arrays["lower"], arrays["upper"]], axis=1).astype(np.int32)
    graphs = map(
        MolGraph,
        np.split(arrays["atoms"], ends),
        np.split(bonds, bond_ends),
        np.split(arrays["bond_labels"][:, None], bond_ends),
    )
    labels, rows = arrays["labels"].tolist(), arrays["rows"].tolist()
    yield from map(LabelledGraph, rows, graphs, labels)
