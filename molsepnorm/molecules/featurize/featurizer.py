"""`Featurizer`: the base class of featurisers, which convert SMILES to `MolGraph`s."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from molsepnorm.errors import ConfigError, InvalidMolecule, require_several
from molsepnorm.molecules.molecule import MolGraph

CHUNK = 256
"""Molecules featurised together: enough for numpy, few enough for the processor's cache."""


class FeatureSizes(NamedTuple):
    """The features that a featuriser declares."""

    atoms: tuple[int, ...]
    """Number of values of each of the A atom features."""
    bonds: tuple[int, ...]
    """Number of values of each bond feature."""
    molecule: tuple[str, ...] = ()
    """Names of the F molecule-level features."""
    version: str = "1"
    """Version of the featuriser."""


class Featurizer(ABC):
    """Converts SMILES to `MolGraph`s. A subclass sets the class attributes and `__call__`.

    All SMILES of one molecule must give the same graph, except for the order of its atoms and
    bonds. `canonical_smiles`, `canonical_mol` and `oriented_mol` of `molsepnorm.featurize.smiles`
    help with this. Instances are created without arguments.
    """

    name: ClassVar[str]
    """The name under which `molsepnorm.featurize.get` finds it."""

    version: ClassVar[str] = "1"
    """To be changed whenever the graphs change: models trained with another version are then
    refused, and data sets are encoded again."""

    atom_sizes: ClassVar[tuple[int, ...]]
    """Number of values of each of the A atom features, at most 256."""

    bond_sizes: ClassVar[tuple[int, ...]]
    """Number of values of each bond feature, at most 256."""

    molecule_features: ClassVar[tuple[str, ...]] = ()
    """Names of the F numbers in `MolGraph.features`, such as descriptors."""

    @abstractmethod
    def __call__(self, smiles: str) -> MolGraph:
        """Return the graph of one molecule.

        Raises:
            InvalidMolecule: the SMILES cannot be read, or has an atom or bond without features; the
                message is the reason, on one line.
        """

    def many(self, smiles: Sequence[str]) -> list[MolGraph | InvalidMolecule]:
        """Return a graph or an error for each SMILES."""
        require_several(smiles, "smiles")
        return [self._or_error(self, text) for text in smiles]

    def stream(self, smiles: Iterable[str]) -> Iterator[MolGraph | InvalidMolecule]:
        """Yield a graph or an error for each SMILES, in constant memory."""
        require_several(smiles, "smiles")
        each = iter(smiles)
        chunks = iter(lambda: list(islice(each, CHUNK)), [])
        return chain.from_iterable(map(self.many, chunks))

    def _or_error(self, make: Callable[[str], MolGraph], smiles: str) -> MolGraph | InvalidMolecule:
        try:
            graph = make(smiles)
            if graph.features is not None or self.molecule_features:
                self._check_features(graph, smiles)
            return graph
        except InvalidMolecule as error:
            return error

    def _check_features(self, graph: MolGraph, smiles: str) -> None:
        names = self.molecule_features
        values = [] if graph.features is None else graph.features.tolist()
        if len(values) != len(names):
            raise ConfigError(
                f"featuriser '{self.name}' returned {len(values)} molecule-level features for "
                f"{smiles}; it declares {len(names)} in molecule_features: {', '.join(names)}"
            )
        for name, value in zip(names, values, strict=True):
            if not np.isfinite(value):
                raise InvalidMolecule(f"molecule-level feature '{name}' is {value}, not finite")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the class by reference, if another process can import it."""
        cls = type(self)
        interactive = not hasattr(sys.modules["__main__"], "__file__")
        if "<locals>" in cls.__qualname__ or (cls.__module__ == "__main__" and interactive):
            raise ConfigError(
                f"featuriser '{self.name}' cannot be imported by worker processes: define "
                f"{cls.__name__} at the top of a module or script, or use one process"
            )
        return cls, ()
