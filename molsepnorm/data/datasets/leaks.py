"""Molecules that are in more than one split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, pairwise

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.store import GraphStore
from molsepnorm.errors import InvalidMolecule

_PAIRS = 1 << 22  # atom pairs hashed at once
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, near 2^64 / 1.618, so it spreads all bits


def shared_molecules(dataset: Dataset) -> int | None:
    """Count the molecules that occur in more than one split, however their SMILES are written.

    Returns:
        The number of different molecules; None if the data set has no SMILES.
    """
    if dataset.smiles is None:
        return None
    parts = (np.unique(dataset.molecule_ids[part]).tolist() for part in dataset.splits.values())
    return sum(count > 1 for count in Counter(chain.from_iterable(parts)).values())


def molecule_numbers(dataset: Dataset) -> np.ndarray:  # (G,)
    """Return the same number for rows of the same molecule; without SMILES, of the same graph."""
    if dataset.smiles is None:
        return dataset.graph_hashes
    every = np.arange(len(dataset.store))
    numbers = every.copy()
    for group in same_molecules(dataset, every):
        numbers[group] = group[0]
    return numbers


def same_molecules(dataset: Dataset, among: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the indices (int64, ascending) of each molecule that occurs more than once `among`
    these indices of a data set with SMILES.

    Two rows are the same molecule if their canonical SMILES are equal, after structures are
    standardised; texts of another package's featuriser are compared as they are. Canonical SMILES
    are slow to compute, so they are compared only for molecules whose graphs have the same hash.
    """
    from molsepnorm.molecules.featurize.smiles import canonical_smiles

    hashes = dataset.graph_hashes[among]
    order = np.argsort(hashes, kind="stable")
    starts = np.unique(hashes[order], return_index=True)[1]
    for alike in np.split(among[order], starts[1:]):
        if len(alike) < 2:
            continue
        texts = dataset.smiles_of(alike)
        canonical = {text: text for text in texts}
        for text in canonical if len(canonical) > 1 else ():
            with suppress(InvalidMolecule):
                canonical[text] = canonical_smiles(text)
        found: dict[str, list[int]] = {}
        for molecule, text in zip(alike.tolist(), texts, strict=True):
            found.setdefault(canonical[text], []).append(molecule)
        yield from (np.array(group) for group in found.values() if len(group) > 1)


def graph_hashes(store: GraphStore) -> np.ndarray:  # uint64 (G,)
    """Hash every molecule's graph, independently of the order of its atoms.

    An atom is hashed with all other atoms and the paths to them, so that isomers differ.
    """
    random = np.random.default_rng(0)

    def numbers(count: int) -> np.ndarray:
        return random.integers(0, 1 << 64, count, dtype=np.uint64)

    of_atom = numbers(256)[store.degrees]
    for feature in store.atoms.T:
        of_atom = of_atom * _FACTOR + numbers(256)[feature]
    of_path = numbers(len(store.paths))
    sizes = store.sizes.astype(np.int64)
    first_atom = np.append(0, np.cumsum(sizes))
    first_pair = np.append(0, np.cumsum(sizes**2))
    hashes = np.zeros(len(store), dtype=np.uint64)
    chunk_ends = np.searchsorted(first_pair, np.arange(0, first_pair[-1] + _PAIRS, _PAIRS))
    for start, end in pairwise(np.unique(np.append(chunk_ends.clip(max=len(store)), 0))):
        atoms = np.arange(first_atom[start], first_atom[end])
        molecule = np.repeat(np.arange(start, end), sizes[start:end])  # of each atom
        counts = sizes[molecule]  # of each atom's pairs
        rows = np.cumsum(counts) - counts
        own = np.repeat(np.arange(len(atoms)), counts)
        other = first_atom[molecule][own] + np.arange(len(own)) - rows[own]
        paths = of_path[store.pairs[first_pair[start] : first_pair[end]]]
        around = np.add.reduceat(_mixed(paths + _FACTOR * of_atom[other]), rows)
        mixed = _mixed(around + _FACTOR * of_atom[atoms])
        hashes[start:end] = np.add.reduceat(mixed, first_atom[start:end] - first_atom[start])
    return hashes


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Return hashes of hashes (uint64), whose sums depend on what was combined in each."""
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _FACTOR
    return hashes ^ (hashes >> np.uint64(29))
