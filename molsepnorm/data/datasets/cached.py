"""Stores, labels and standardised SMILES in the cache, made where they are missing or damaged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.store import SCHEMA, GraphStore, Rejected, StoreWriter
from molsepnorm.errors import ModelError, StorageError
from molsepnorm.files.arrays import REMEDY, open_arrays, refuse_damaged, write_arrays
from molsepnorm.files.digests import KEY, json_digest, short_digest
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import cache_folder, replacing, write_json
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.sound import require_sound
from molsepnorm.molecules.featurize import SIZES, plugin_digest
from molsepnorm.molecules.featurize.standardize import Level, standardized
from molsepnorm.molecules.molecule import MolGraph

_CHUNK = 256  # molecules encoded together: many enough for numpy, few enough for the cache


class LabelledGraph(NamedTuple):
    """A molecule of a named set with its labels."""

    row: int
    """Index in the source, counted from 0."""
    graph: MolGraph
    labels: Sequence[float]
    """T numbers, NaN where missing."""


@dataclass(frozen=True)
class CachedLabels:
    """The labels and splits of a named set, kept in a file beside its stores."""

    values: np.ndarray
    """float32 [G, T]: NaN where a label is missing."""
    splits: dict[str, np.ndarray]
    """int64 indices for each of `SPLITS`."""


def cached_set(
    key: str,
    featurizer: str,
    encoding: EncodingSpec,
    num_targets: int,
    molecules: Iterable[LabelledGraph],
    splits: dict[str, Sequence[int]],
) -> tuple[GraphStore, CachedLabels]:
    """Return the store and the labels of a named set, made from `molecules` where missing.

    Args:
        key: stands for the content of the source.
        molecules: read only if the store or the labels must be made.
        splits: indices for each of `SPLITS`; may be filled while `molecules` is read.
    """
    path = cache_folder() / f"{featurizer}-{key}-s{SCHEMA}.labels"
    rows: list[Sequence[float]] = []

    def graphs() -> Iterator[tuple[int, MolGraph]]:
        for row, graph, labels in molecules:
            rows.append(labels)
            yield row, graph

    unread = graphs()
    store = cached_store(key, featurizer, encoding, unread)
    warning = ""
    if path.exists():
        try:
            return store, _open_labels(path, len(store), num_targets)
        except StorageError as error:
            warning = _made_anew(error)
    for _ in unread:  # nothing is left if the store was made just now
        pass
    arrays = {name: np.array(splits[name], dtype=np.int64) for name in SPLITS}
    values = np.array(rows, dtype=np.float32).reshape(len(rows), num_targets)
    with replacing(path) as scratch:
        write_arrays(scratch, {"labels": values, **arrays}, {})
    warning = " ".join(filter(None, (store.warning, warning)))
    return replace(store, warning=warning), _open_labels(path, len(store), num_targets)


def cached_store(
    key: str,
    featurizer: str,
    encoding: EncodingSpec,
    molecules: Iterable[tuple[int, MolGraph]],
    rejected: Sequence[Rejected] = (),
    num_rows: int | None = None,
) -> GraphStore:
    """Return the store of that key from the cache, made from `molecules` where it is missing.

    Args:
        key: stands for the molecules; featuriser, encoding and schema are added to it.
        molecules: each with the index of its row; read only if the store must be made.
        rejected: rows without a molecule; may be filled while `molecules` is read.
        num_rows: number of rows of the source; None if it is not known.

    Raises:
        StorageError: the cache cannot be written.
    """
    path = cache_folder() / f"{featurizer}-{key}-{_tag(featurizer, encoding)}.store"
    warning = ""
    if path.exists():
        try:
            store = GraphStore.open(path)
            _require_sound(store, featurizer, encoding, num_rows)
            return store
        except StorageError as error:
            warning = _made_anew(error)
            path.unlink(missing_ok=True)
    with StoreWriter(path, encoding, featurizer) as writer:
        for graphs, rows in encode_chunks(molecules, featurizer, encoding):
            writer.append(graphs, rows)
        writer.rejected = rejected
    return replace(GraphStore.open(path), warning=warning)


def cached_standard(smiles: Sequence[str], level: Level) -> Sequence[str]:
    """Return the standard form of each SMILES, from the cache if it was computed before.

    A SMILES that cannot be standardised is an empty text that holds the reason, as in
    `standardized`. At the level `none`, `smiles` itself is returned, and no file is written.

    Raises:
        StorageError: the cache cannot be written.
    """
    if level == "none":
        return smiles
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION
    from molsepnorm.molecules.featurize.smiles import Unwritten

    key = short_digest(json.dumps(with_reasons(smiles)))
    path = cache_folder() / f"{key}-{level}-rdkit{RDKIT_VERSION}.standard"
    if path.exists():
        with suppress(ModelError, LookupError, TypeError):  # a damaged file is made anew
            content = read_json(path)
            if json_digest(content["smiles"]) == content[KEY]:
                each = content["smiles"]
                return [text if isinstance(text, str) else Unwritten(*text) for text in each]
    forms = standardized(smiles, level)
    written = with_reasons(forms)
    write_json(path, {"smiles": written, KEY: json_digest(written)})
    return forms


def with_reasons(smiles: Sequence[str]) -> list[str | list[str]]:
    """Return SMILES for JSON, where an empty text that holds a reason becomes a list of it.

    >>> from molsepnorm.molecules.featurize.smiles import Unwritten
    >>> with_reasons(["CCO", "", Unwritten("5,000 atoms")])
    ['CCO', '', ['5,000 atoms']]
    """
    return [[text.reason] if hasattr(text, "reason") else text for text in smiles]


def encode_chunks(
    molecules: Iterable[tuple[int, MolGraph]], featurizer: str, encoding: EncodingSpec
) -> Iterator[tuple[EncodedGraphs, np.ndarray]]:
    """Encode molecules some hundreds at a time, and yield them with their rows."""
    molecules = iter(molecules)
    while chunk := list(islice(molecules, _CHUNK)):
        rows = np.array([row for row, _ in chunk])
        graphs = [graph for _, graph in chunk]
        yield encode(graphs, encoding, SIZES[featurizer].atoms, rows), rows


def _made_anew(error: StorageError) -> str:
    return f"{str(error).removesuffix(REMEDY)}it was made anew."


def _require_sound(
    store: GraphStore, featurizer: str, encoding: EncodingSpec, num_rows: int | None
) -> None:
    """Check that a store is what its name says, even if its digest is right."""
    try:
        if (store.featurizer, store.encoding) != (featurizer, encoding):
            raise ValueError("it is made of other data")
        if store.rows.shape != (len(store),):
            raise ValueError("it has more or fewer rows than molecules")
        rows = [*store.rows.tolist(), *(entry.row for entry in store.rejected)]
        if num_rows is not None and sorted(rows) != list(range(num_rows)):
            raise ValueError(f"its rows are not the {num_rows} of the table")
        require_sound(store, encoding, SIZES[featurizer].atoms)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise StorageError(
            f"{store.path} is damaged or no graph store: {error}; {REMEDY}"
        ) from error


def _open_labels(path: Path, num_graphs: int, num_targets: int) -> CachedLabels:
    """Map the labels of a named set."""
    with refuse_damaged(path, "file of labels"):
        arrays, _, _ = open_arrays(path)
        values = arrays["labels"]
        splits = {name: np.array(arrays[name]) for name in SPLITS}
        if values.shape != (num_graphs, num_targets):
            raise ValueError("it has labels of other molecules or targets")
        if any(((part < 0) | (part >= num_graphs)).any() for part in splits.values()):
            raise ValueError("a split has a molecule that does not exist")
        return CachedLabels(values, splits)


def _tag(featurizer: str, encoding: EncodingSpec) -> str:
    bonds = "x".join(map(str, encoding.bond_sizes))
    plug_in = plugin_digest(featurizer)
    return (
        f"b{bonds}-g{encoding.max_degree}-d{encoding.max_distance}-l{encoding.max_path_length}"
        f"{plug_in and f'-v{plug_in}'}-s{SCHEMA}"
    )
