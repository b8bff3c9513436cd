"""From a list of `MolGraph` to flat arrays of integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.molecules.encodings.centrality import degrees
from molsepnorm.molecules.encodings.paths import PathVocabulary
from molsepnorm.molecules.encodings.search import DirectedBonds, shortest_paths
from molsepnorm.molecules.molecule import MolGraph

__all__ = ["EncodedGraphs", "EncodingSpec", "encode", "require_graphs"]


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

    max_bonds: int
    """As many as any atom has."""

    def __len__(self) -> int:
        return len(self.sizes)


def encode(
    graphs: Sequence[MolGraph],
    spec: EncodingSpec,
    atom_sizes: tuple[int, ...] | None = None,
    numbers: Sequence[int] | np.ndarray | None = None,
) -> EncodedGraphs:
    """Encode molecules together; a few hundred at once are the fastest.

    Args:
        graphs: the molecules.
        spec: the sizes that a model and its data share.
        atom_sizes: the number of values of each atom feature, as in the model's configuration. An
            index beyond it would read the embedding of another feature. None: not checked.
        numbers: the molecules' numbers in error messages. [default: 0, 1, …]

    Raises:
        ConfigError: one of `graphs` is no `MolGraph`, or has other features than `spec.bond_sizes`
            and `atom_sizes` have a place for; the message has its number.
    """
    require_graphs(graphs, numbers)
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
    atom_sizes = atom_sizes or (256,) * graphs[0].atom_features.shape[1]
    atoms = _features("atom", [graph.atom_features for graph in graphs], atom_sizes, numbers)
    bond_features = [graph.bond_features for graph in graphs]
    labels = bond_labels(
        _features("bond", bond_features, spec.bond_sizes, numbers), spec.bond_sizes
    )
    bonds = DirectedBonds(
        sources=np.concatenate([ends[:, 0], ends[:, 1]]),
        targets=np.concatenate([ends[:, 1], ends[:, 0]]),
        labels=np.concatenate([labels, labels]),
        num_labels=spec.num_bond_labels,
    )
    pairs, paths = shortest_paths(sizes, bonds, spec.max_distance, spec.max_path_length)
    return EncodedGraphs(
        sizes=sizes,
        atoms=atoms,
        degrees=degrees(int(sizes.sum()), bonds.sources, spec.max_degree),
        pairs=pairs,
        paths=paths,
        max_bonds=int(np.bincount(bonds.sources).max(initial=0)),
    )


def bond_labels(features: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Several features of a bond as a single integer, the first one changing fastest.

    >>> bond_labels(np.array([[0, 0], [1, 0], [0, 1]]), sizes=(4, 2)).tolist()
    [0, 1, 4]
    """
    place = np.cumprod((1, *sizes[:-1]))
    return features.astype(np.int64) @ place


_CONVERTERS = {
    "torch_geometric.data.data.Data": "molsepnorm.featurize.pyg.from_data(data, bond_offset=…)",
    "rdkit.Chem.rdchem.Mol": "molsepnorm.featurize.get(name)(Chem.MolToSmiles(mol))",
    "builtins.str": "molsepnorm.featurize.get(name)(smiles)",
}
"""By class, which is not imported: what makes a `MolGraph` of it."""


def require_graphs(graphs: object, numbers: Sequence[int] | np.ndarray | None = None) -> None:
    """Check that these are several molecules.

    Raises:
        ConfigError: they are no sequence, or one of them is no `MolGraph`; the message names the
            function that makes one of it.
    """
    if not isinstance(graphs, Sequence) or isinstance(graphs, str):
        raise ConfigError(f"graphs must be a list of MolGraph; got {_described(graphs)}")
    for place, graph in enumerate(graphs):
        if not isinstance(graph, MolGraph):
            raise ConfigError(
                f"molecule {_number(place, numbers)} must be a MolGraph; got {_described(graph)}"
            )


def _described(value: object) -> str:
    """Its class, and what makes a `MolGraph` of it, or else its text."""
    classes = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]
    maker = next((_CONVERTERS[name] for name in classes if name in _CONVERTERS), None)
    shown = f"{maker} makes a MolGraph of it" if maker else repr(value)[:80]
    return f"{type(value).__name__}: {shown}"


def _features(
    kind: str,
    parts: list[np.ndarray],
    sizes: tuple[int, ...],
    numbers: Sequence[int] | np.ndarray | None,
) -> np.ndarray:  # uint8 (Σ, F)
    """The features of all atoms, or all bonds, one molecule after the other.

    Raises:
        ConfigError: a molecule has another number of features, or one out of range.
    """
    if all(part.shape[1] == len(sizes) for part in parts):
        features = np.concatenate(parts)
        if (features.max(axis=0, initial=0) < sizes).all():
            return features
    place, part = next(
        (place, part)
        for place, part in enumerate(parts)
        if part.shape[1] != len(sizes) or (part >= np.array(sizes)).any()
    )
    largest = part.max(axis=0).tolist() if len(part) else []
    raise ConfigError(
        f"molecule {_number(place, numbers)}: {kind} features do not fit the sizes {sizes}: "
        f"{part.shape[1]} features, the largest values {largest}. Make the graph with the model's "
        "featuriser"
    )


def _number(place: int, numbers: Sequence[int] | np.ndarray | None) -> int:
    return place if numbers is None else int(numbers[place])
