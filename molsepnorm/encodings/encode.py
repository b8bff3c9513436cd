"""From a list of `MolGraph` to flat arrays of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from molsepnorm.encodings.centrality import degrees
from molsepnorm.encodings.paths import PathVocabulary
from molsepnorm.encodings.search import DirectedBonds, shortest_paths
from molsepnorm.errors import ConfigError
from molsepnorm.molecule import MolGraph

__all__ = ["EncodedGraphs", "EncodingSpec", "encode"]


_MOST_LABELS = 2**15 - 1  # labels are kept as int16


@dataclass(frozen=True)
class EncodingSpec:
    """What is encoded: the sizes that a model and its data must share.

    Raises:
        ConfigError: a size out of range, or paths longer than the largest distance.
    """

    bond_sizes: tuple[int, ...]
    """How many values each bond feature has."""

    max_degree: int = 15
    """Largest degree with an embedding of its own; larger ones share it."""

    max_distance: int = 39
    """Largest hop distance with a bias of its own; larger ones share it."""

    max_path_length: int = 20
    """How many bonds of a shortest path are told apart (L); the rest count as distance only."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_path_length <= self.max_distance <= 255:
            raise ConfigError(
                "path lengths must satisfy 1 ≤ max_path_length ≤ max_distance ≤ 255; got "
                f"max_path_length={self.max_path_length}, max_distance={self.max_distance}"
            )
        if not 1 <= self.max_degree <= 255:
            raise ConfigError(f"max_degree must lie in 1 … 255; got {self.max_degree}")
        if not self.bond_sizes or min(self.bond_sizes) < 1 or self.num_bond_labels > _MOST_LABELS:
            raise ConfigError(
                "bonds need one feature or more, each with one value or more, and at most "
                f"{_MOST_LABELS} combinations; got bond_sizes={self.bond_sizes}"
            )

    @property
    def num_bond_labels(self) -> int:
        """A bond's features together are one label; this is how many there are."""
        return prod(self.bond_sizes)


@dataclass(frozen=True, eq=False)
class EncodedGraphs:
    """G molecules as flat arrays, one molecule after the other."""

    sizes: np.ndarray
    """int64 [G]: atoms of each molecule."""

    atoms: np.ndarray
    """uint8 [Σ N, A]: atom features."""

    degrees: np.ndarray
    """uint8 [Σ N]: clipped degrees."""

    pairs: np.ndarray
    """int32 [Σ N²]: path codes, each molecule's N × N matrix row by row."""

    paths: PathVocabulary
    """What the codes mean."""

    most_bonds: int
    """As many as any atom has."""

    def __len__(self) -> int:
        return len(self.sizes)


def encode(graphs: Sequence[MolGraph], spec: EncodingSpec) -> EncodedGraphs:
    """Encode molecules together; a few hundred at once are the fastest.

    Raises:
        ConfigError: a bond feature is outside `spec.bond_sizes`.
    """
    if not graphs:
        nothing = np.zeros(0, dtype=np.uint8)
        paths = PathVocabulary.from_levels([])
        return EncodedGraphs(
            nothing.astype(np.int64), nothing[:, None], nothing, nothing.astype(np.int32), paths, 0
        )
    sizes = np.array([graph.num_atoms for graph in graphs], dtype=np.int64)
    first_atom = np.cumsum(sizes) - sizes
    bond_counts = [graph.num_bonds for graph in graphs]
    ends = (
        np.concatenate([graph.bonds for graph in graphs])
        + np.repeat(first_atom, bond_counts)[:, None]
    )
    labels = bond_labels(np.concatenate([graph.bond_features for graph in graphs]), spec.bond_sizes)
    bonds = DirectedBonds(
        sources=np.concatenate([ends[:, 0], ends[:, 1]]),
        targets=np.concatenate([ends[:, 1], ends[:, 0]]),
        labels=np.concatenate([labels, labels]),
        num_labels=spec.num_bond_labels,
    )
    pairs, paths = shortest_paths(sizes, bonds, spec.max_distance, spec.max_path_length)
    return EncodedGraphs(
        sizes=sizes,
        atoms=np.concatenate([graph.atom_features for graph in graphs]),
        degrees=degrees(int(sizes.sum()), bonds.sources, spec.max_degree),
        pairs=pairs,
        paths=paths,
        most_bonds=int(np.bincount(bonds.sources).max(initial=0)),
    )


def bond_labels(features: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Several features of a bond as a single integer, the first one changing fastest.

    >>> bond_labels(np.array([[0, 0], [1, 0], [0, 1]]), sizes=(4, 2)).tolist()
    [0, 1, 4]
    """
    if features.shape[1] != len(sizes) or (features >= np.array(sizes)).any():
        largest = features.max(axis=0).tolist() if len(features) else []
        raise ConfigError(
            f"bond features do not fit the sizes {sizes}: "
            f"{features.shape[1]} features, the largest values {largest}"
        )
    place = np.cumprod((1, *sizes[:-1]))
    return features.astype(np.int64) @ place
