"""`Dataset`: encoded molecules, their labels and their split; and how its store is made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.data.store import REMEDY, SCHEMA, GraphStore, StoreWriter
from molsepnorm.errors import StorageError
from molsepnorm.files.writing import cache_folder
from molsepnorm.molecules.encodings.encode import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.sound import require_sound
from molsepnorm.molecules.featurize import SIZES, fingerprint
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks.metrics import Kind

__all__ = [
    "SPLITS",
    "Dataset",
    "LabelledGraph",
    "Rejected",
    "cache_folder",
    "cached_store",
    "data_folder",
]

SPLITS = ("train", "val", "test")

_CHUNK = 256  # molecules encoded together: enough for numpy, few enough for the cache


class LabelledGraph(NamedTuple):
    """A molecule on its way into a store."""

    row: int
    """Its place in the source, counted from 0."""
    graph: MolGraph
    labels: Sequence[float]
    """T numbers, NaN where missing."""


class Rejected(NamedTuple):
    """A row of the source that did not become a molecule."""

    row: int
    """Its place, counted from 0 as in `splits.json`."""
    smiles: str
    reason: str


@dataclass(frozen=True)
class Dataset:
    """A source that was loaded, ready for training."""

    name: str
    """What was loaded, for a person: the file, or the set's name and size."""
    store: GraphStore
    kinds: tuple[Kind, ...]
    """For each of the T targets."""
    splits: dict[str, np.ndarray]
    """int64 indices into the store, for each of `SPLITS`."""
    rejected: tuple[Rejected, ...] = ()
    smiles: Sequence[str] | None = None
    """The SMILES of every row of the source, where it has them."""
    classes: tuple[tuple[str, ...], ...] = ()
    """For each target the names of its classes, empty unless multi-class; () where none is."""
    weights: np.ndarray | None = None
    """float32 [G]: how much each molecule counts in the loss; None for all alike."""
    metric: str | None = None
    """The metric that the set is known by, where it has one."""
    official: Callable[[np.ndarray, np.ndarray], float] | None = None
    """The set's own evaluation by that metric: from predictions and labels (G, T)."""
    remarks: tuple[str, ...] = ()
    """Messages for the user: guesses about the source, and problems with its store."""

    @property
    def fingerprint(self) -> str:
        """Stands for the encoded molecules and their labels."""
        return self.store.digest

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets' names."""
        return self.store.targets


def data_folder(given: Path | None) -> Path | None:
    """Where raw files lie: the folder given, or $MOLSEPNORM_DATA; None where neither is."""
    environment = os.environ.get("MOLSEPNORM_DATA")
    return given or (Path(environment) if environment else None)


def cached_store(
    key: str,
    featurizer: str,
    encoding: EncodingSpec,
    targets: tuple[str, ...],
    molecules: Iterable[LabelledGraph],
    notes: dict[str, Any],
) -> GraphStore:
    """The store of that key from the cache, made from `molecules` where it is not there yet.

    Args:
        key: stands for the source's content; featuriser, encoding and schema are added here.
        featurizer: name of the featuriser.
        encoding: what to encode with.
        targets: names of the labels.
        molecules: read only where the store must be made.
        notes: kept in the store; read after `molecules` is exhausted, which may fill them in.

    Raises:
        StorageError: the cache cannot be written.
    """
    path = cache_folder() / f"{featurizer}-{key}-{_tag(featurizer, encoding)}.store"
    remark = ""
    if path.exists():
        try:
            store = GraphStore.open(path)
            _require_same(store, featurizer, encoding, targets)
            return store
        except StorageError as error:  # damaged or of an older schema
            remark = f"{str(error).removesuffix(REMEDY)}it was made anew."
            path.unlink(missing_ok=True)
    with StoreWriter(path, encoding, featurizer, targets) as writer:
        molecules = iter(molecules)
        while chunk := list(islice(molecules, _CHUNK)):
            graphs = [molecule.graph for molecule in chunk]
            rows = np.array([molecule.row for molecule in chunk])
            writer.append(
                encode(graphs, encoding, SIZES[featurizer].atoms, rows),
                np.array([molecule.labels for molecule in chunk]),
                rows,
            )
        writer.notes = notes
    return replace(GraphStore.open(path), remark=remark)


def _require_same(
    store: GraphStore, featurizer: str, encoding: EncodingSpec, targets: tuple[str, ...]
) -> None:
    """Check that a store is what its name says, also if its digest is right.

    Raises:
        StorageError: it is not.
    """
    try:
        if (store.featurizer, store.encoding, store.targets) != (featurizer, encoding, targets):
            raise ValueError("it is made of other data")
        if store.labels.shape != (len(store), len(targets)) or store.rows.shape != (len(store),):
            raise ValueError("it has more or fewer labels or rows than molecules")
        arrays = (store.sizes, store.atoms, store.degrees, store.pairs, store.paths)
        graphs = EncodedGraphs(*arrays, max_bonds=store.max_bonds, features=store.features)
        require_sound(graphs, encoding, SIZES[featurizer].atoms)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise StorageError(
            f"{store.path} is damaged or no graph store: {error}; {REMEDY}"
        ) from error


def _tag(featurizer: str, encoding: EncodingSpec) -> str:
    bonds = "x".join(map(str, encoding.bond_sizes))
    plug_in = fingerprint(featurizer)
    return (
        f"b{bonds}-g{encoding.max_degree}-d{encoding.max_distance}-l{encoding.max_path_length}"
        f"{plug_in and f'-v{plug_in}'}-s{SCHEMA}"
    )
