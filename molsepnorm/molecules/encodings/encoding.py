"""Encode a list of `MolGraph`s as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.molecules.encodings.paths import PathVocabulary
from molsepnorm.molecules.encodings.search import shortest_paths
from molsepnorm.molecules.molecule import MolGraph

_MAX_LABELS = 2**15 - 1  # labels are stored as int16


@dataclass(frozen=True)
class EncodingSpec:
    """The sizes of an encoding, which a model and its data must share.

    Raises:
        ConfigError: a size is out of range, or paths are longer than the largest distance.
    """

    bond_sizes: tuple[int, ...]
    """Number of values of each bond feature."""
    max_degree: int = 15
    """Maximum degree; atoms with more bonds share its embedding."""
    max_distance: int = 39
    """Maximum hop distance; larger distances share its bias."""
    max_path_length: int = 20
    """L, the number of bonds at the start of a path whose labels are encoded."""
    molecule_features: int = 0
    """F, the number of molecule-level features."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_path_length <= self.max_distance <= 255:
            raise ConfigError(
                "path lengths must satisfy 1 ≤ max_path_length ≤ max_distance ≤ 255; got "
                f"max_path_length={self.max_path_length}, max_distance={self.max_distance}"
            )
        if not 1 <= self.max_degree <= 255:
            raise ConfigError(f"max_degree must lie in 1 … 255; got {self.max_degree}")
        if not self.bond_sizes or min(self.bond_sizes) < 1 or self.num_bond_labels > _MAX_LABELS:
            raise ConfigError(
                "bond_sizes must have at least one feature, at least one value per feature and at "
                f"most {_MAX_LABELS} combinations; got {self.bond_sizes}"
            )

    @property
    def num_bond_labels(self) -> int:
        return prod(self.bond_sizes)


@dataclass(frozen=True, eq=False)
class EncodedGraphs:
    """G encoded molecules in flat arrays, one molecule after the other."""

    sizes: np.ndarray
    """int64 [G]: atoms of each molecule."""
    atoms: np.ndarray
    """uint8 [Σ N, A]: atom features."""
    degrees: np.ndarray
    """uint8 [Σ N]: clipped degrees."""
    pairs: np.ndarray
    """int32 [Σ N²]: path codes, each molecule's N × N matrix row by row."""
    paths: PathVocabulary
    """The vocabulary of the codes."""
    max_bonds: int
    """Maximum number of bonds on any atom."""
    features: np.ndarray | None = None
    """float32 [G, F]: molecule-level features; None if there are none."""

    def __len__(self) -> int:
        return len(self.sizes)


def encode(
    graphs: Sequence[MolGraph],
    spec: EncodingSpec,
    atom_sizes: tuple[int, ...] | None = None,
    numbers: Sequence[int] | np.ndarray | None = None,
) -> EncodedGraphs:
    """Encode molecules together; a few hundred at once are fastest.

    Args:
        atom_sizes: the number of values of each atom feature in the model; None: not checked.
        numbers: the molecules' numbers in error messages. [default: 0, 1, …]

    Raises:
        ConfigError: an element of `graphs` is not a `MolGraph`, its features do not match `spec`
            and `atom_sizes`, or a molecule-level feature is not finite.
    """
    numbers = require_graphs(graphs, numbers)
    if not graphs:
        nothing = np.zeros(0, dtype=np.uint8)
        paths = PathVocabulary.from_levels([])
        return EncodedGraphs(
            nothing.astype(np.int64), nothing[:, None], nothing, nothing.astype(np.int32), paths, 0
        )
    sizes = np.array([graph.num_atoms for graph in graphs], dtype=np.int64)
    first_atom = np.cumsum(sizes) - sizes
    bond_counts = [graph.num_bonds for graph in graphs]
    ends = np.concatenate([graph.bonds for graph in graphs])
    ends = ends + np.repeat(first_atom, bond_counts)[:, None]
    atom_sizes = atom_sizes or (256,) * graphs[0].atom_features.shape[1]
    atoms = _features("atom", [graph.atom_features for graph in graphs], atom_sizes, numbers)
    bonds = _features("bond", [graph.bond_features for graph in graphs], spec.bond_sizes, numbers)
    pairs, paths = shortest_paths(
        sizes,
        ends,
        bond_labels(bonds, spec.bond_sizes),
        spec.num_bond_labels,
        spec.max_distance,
        spec.max_path_length,
    )
    bonds_of_atoms = np.bincount(ends.ravel(), minlength=len(atoms))
    return EncodedGraphs(
        sizes=sizes,
        atoms=atoms,
        degrees=np.minimum(bonds_of_atoms, spec.max_degree).astype(np.uint8),
        pairs=pairs,
        paths=paths,
        max_bonds=int(bonds_of_atoms.max()),
        features=_molecule_features(graphs, spec.molecule_features, numbers),
    )


def bond_labels(features: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Combine the features of each bond into one integer; the first feature changes fastest."""
    return features.astype(np.int64) @ np.cumprod((1, *sizes[:-1]))


def require_graphs(
    graphs: object, numbers: Sequence[int] | np.ndarray | None = None
) -> Sequence[int] | np.ndarray:
    """Raise a `ConfigError` unless `graphs` is a sequence of `MolGraph`s; return their numbers."""
    if not isinstance(graphs, Sequence) or isinstance(graphs, str):
        raise ConfigError(f"graphs must be a list of MolGraph; got {repr(graphs)[:80]}")
    numbers = range(len(graphs)) if numbers is None else numbers
    for number, graph in zip(numbers, graphs, strict=True):
        if not isinstance(graph, MolGraph):
            raise ConfigError(
                f"molecule {number} must be a MolGraph; got {type(graph).__name__}: "
                f"{repr(graph)[:80]}. molsepnorm.featurize.get(name)(smiles) makes one of a "
                "SMILES, and molsepnorm.featurize.pyg.from_data(data, bond_offset=…) of PyTorch "
                "Geometric's data"
            )
    return numbers


def _features(
    kind: str, parts: list[np.ndarray], sizes: tuple[int, ...], numbers: Sequence[int] | np.ndarray
) -> np.ndarray:  # uint8 (Σ, K)
    if all(part.shape[1] == len(sizes) for part in parts):
        features = np.concatenate(parts)
        if (features.max(axis=0, initial=0) < sizes).all():
            return features
    number, part = next(
        (number, part)
        for number, part in zip(numbers, parts, strict=True)
        if part.shape[1] != len(sizes) or (part >= np.array(sizes)).any()
    )
    largest = part.max(axis=0).tolist() if len(part) else []
    raise ConfigError(
        f"molecule {number}: {kind} features do not fit the sizes {sizes}: {part.shape[1]} "
        f"features, the largest values {largest}. Make the graph with the model's featuriser"
    )


def _molecule_features(
    graphs: Sequence[MolGraph], count: int, numbers: Sequence[int] | np.ndarray
) -> np.ndarray | None:  # float32 (G, F)
    if not count and all(graph.features is None for graph in graphs):
        return None
    nothing = np.zeros(0, dtype=np.float32)
    features = [nothing if graph.features is None else graph.features for graph in graphs]
    for number, values in zip(numbers, features, strict=True):
        if len(values) != count:
            raise ConfigError(
                f"molecule {number} has {len(values)} molecule-level features, expected {count}. "
                "Make the graph with the model's featuriser"
            )
        for feature in np.flatnonzero(~np.isfinite(values)):
            raise ConfigError(
                f"molecule {number}: molecule-level feature {feature} is {values[feature]}, "
                "not finite"
            )
    return np.stack(features)
