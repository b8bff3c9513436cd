"""The base class of featurisers, and the registry of featurisers by name."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from molsepnorm.errors import ConfigError, InvalidMolecule, did_you_mean, require_several
from molsepnorm.molecules.molecule import MolGraph

_CHUNK = 256
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
    """Change it whenever the graphs change: models trained with another version are then refused,
    and data sets are encoded again."""
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
        return [self._graph_or_error(text) for text in smiles]

    def stream(self, smiles: Iterable[str]) -> Iterator[MolGraph | InvalidMolecule]:
        """Yield a graph or an error for each SMILES, in constant memory."""
        require_several(smiles, "smiles")
        rest = iter(smiles)
        chunks = iter(lambda: list(islice(rest, _CHUNK)), [])
        return chain.from_iterable(map(self.many, chunks))

    def _graph_or_error(self, smiles: str) -> MolGraph | InvalidMolecule:
        try:
            graph = self(smiles)
        except InvalidMolecule as error:
            return error
        names = self.molecule_features
        values = [] if graph.features is None else graph.features.tolist()
        if len(values) != len(names):
            raise ConfigError(
                f"featuriser '{self.name}' returned {len(values)} molecule-level features for "
                f"{smiles}; it declares {len(names)} in molecule_features: {', '.join(names)}"
            )
        for name, value in zip(names, values, strict=True):
            if not np.isfinite(value):
                return InvalidMolecule(f"molecule-level feature '{name}' is {value}, not finite")
        return graph

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


GROUP = "molsepnorm.featurizers"
"""The entry-point group in which packages list their featurisers, each under its name."""

_BUILT_IN = {
    "zinc": FeatureSizes(atoms=(28,), bonds=(3,)),
    "ogb": FeatureSizes(atoms=(119, 5, 12, 12, 10, 6, 6, 2, 2), bonds=(5, 6, 2)),
}
"""Declared here, so that encoded data and models are read without importing RDKit."""

CHIRALITY = 1
"""Index of the chirality tag among the atom features of `ogb`."""

_registered: dict[str, EntryPoint | type[Featurizer]] = {
    name: EntryPoint(name, f"{__package__}.{name}:{name.title()}Featurizer", GROUP)
    for name in _BUILT_IN
}


def register(featurizer: type[Featurizer]) -> type[Featurizer]:
    """Make a featuriser available under its name, in this process; also as a class decorator.

    An installed package should list its featurisers as entry points of the group
    `molsepnorm.featurizers` instead, which every process finds::

        [project.entry-points."molsepnorm.featurizers"]
        my-features = "my_package:MyFeaturizer"

    Raises:
        ConfigError: the class is not a `Featurizer`, a declaration is missing or out of range, or
            another class has this name.
    """
    _check(featurizer, getattr(featurizer, "name", None))
    entry = _entry(featurizer.name)
    holder = entry.value if isinstance(entry, EntryPoint) else _location(entry or featurizer)
    if _location(featurizer) != holder:
        raise ConfigError(f"the name '{featurizer.name}' is taken by {holder}: choose another name")
    _registered[featurizer.name] = featurizer
    return featurizer


def _location(cls: type[Featurizer]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def get(name: str) -> Featurizer:
    """Return the featuriser with this name."""
    return _class_of(name)()


class _Sizes(Mapping[str, FeatureSizes]):
    def __getitem__(self, name: str) -> FeatureSizes:
        if name in _BUILT_IN:
            return _BUILT_IN[name]
        cls = _class_of(name)
        return FeatureSizes(cls.atom_sizes, cls.bond_sizes, cls.molecule_features, cls.version)

    def __contains__(self, name: object) -> bool:
        return name in _registered or name in entry_points(group=GROUP).names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*_registered, *entry_points(group=GROUP).names}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


SIZES: Mapping[str, FeatureSizes] = _Sizes()
"""Name of each featuriser -> its features. zinc: the 28 atom and 3 bond types of ZINC. ogb: OGB's 9
atom and 3 bond features."""


def _class_of(name: str) -> type[Featurizer]:
    entry = _entry(name)
    if entry is None:
        raise ConfigError(
            f"unknown featuriser '{name}'. {did_you_mean(name, SIZES)} If another package provides "
            "it, install that package, or register the class with molsepnorm.featurize.register"
        )
    if isinstance(entry, EntryPoint):
        try:
            loaded = entry.load()
        except Exception as error:  # whatever the other package's import raises
            raise ConfigError(
                f"featuriser '{name}' cannot be loaded from {entry.value}: "
                f"{type(error).__name__}: {error}"
            ) from error
        _check(loaded, name)
        entry = _registered[name] = loaded
    return entry


def _entry(name: str) -> EntryPoint | type[Featurizer] | None:
    if name in _registered:
        return _registered[name]
    entries = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if len(entries) > 1:
        raise ConfigError(
            f"several packages register a featuriser '{name}': {', '.join(sorted(entries))}. "
            "Uninstall all but one of them"
        )
    return next(iter(entries.values()), None)


def _check(cls: object, name: str | None) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Featurizer)):
        raise ConfigError(f"a featuriser must be a subclass of Featurizer; got {cls!r:.80}")
    if problem := _problem(cls, name):
        raise ConfigError(f"featuriser {_location(cls)}: {problem}")


def _problem(cls: type[Featurizer], name: str | None) -> str | None:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
        return f"name must consist of lower-case letters, digits, -, _ and .; got {name!r}"
    if cls.name != name:
        return f"its name is '{cls.name}', and it is registered as '{name}'"
    if not isinstance(cls.version, str):
        return f"version must be a text; got {cls.version!r}"
    for kind in ("atom_sizes", "bond_sizes"):
        sizes = getattr(cls, kind, None)
        integers = isinstance(sizes, tuple) and all(type(size) is int for size in sizes)
        if not (sizes and integers and 1 <= min(sizes) <= max(sizes) <= 256):
            return f"{kind} must be a tuple of integers in 1 … 256; got {sizes!r}"
    names = cls.molecule_features
    texts = isinstance(names, tuple) and all(isinstance(each, str) for each in names)
    if not texts or len(set(names)) < len(names):
        return f"molecule_features must be a tuple of different names; got {names!r}"
    return None
