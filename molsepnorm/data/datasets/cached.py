"""The cache: downloads, encoded molecules, labels, and standardised SMILES.

A file that is missing or does not match its digest is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from http.client import HTTPException
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

import numpy as np

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.store import SCHEMA, GraphStore, Rejected
from molsepnorm.errors import DataError, InvalidMolecule, ModelError, StorageError
from molsepnorm.files.arrays import open_arrays, refuse_damaged, write_arrays
from molsepnorm.files.digests import KEY, json_digest, short_digest
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import cache_folder, replacing, write_json
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.featurize import SIZES, plugin_digest
from molsepnorm.molecules.featurize.standardize import Level, standardized
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks.metrics import Kind

_CHUNK = 256  # molecules encoded together: many enough for numpy, few enough for the cache
_PATIENCE = 60  # seconds without data after which a download fails


def complete_folder(folders: Iterable[Path], files: Sequence[str], advice: str) -> Path | None:
    """Return the first folder that has all of these files; None if none has any of them. If a
    folder has only some of them, a `DataError` ends with `advice`."""
    for folder in folders:
        lacking = [file for file in files if not (folder / file).is_file()]
        if not lacking:
            return folder
        if len(lacking) < len(files):
            raise DataError(f"{folder} lacks {', '.join(lacking)}. {advice}")
    return None


def download(folder: Path, urls: Mapping[str, str], files: Iterable[str], advice: str) -> None:
    """Download files into a new folder of the cache. If this fails, nothing is left behind, and a
    `DataError` ends with `advice`. The keys of `urls` are paths in the folder, where archives are
    extracted; all of `files` are needed."""
    with replacing(folder, folder=True) as scratch:
        for name, url in urls.items():
            path = scratch / name
            try:
                with urlopen(url, timeout=_PATIENCE) as answer:
                    content = answer.read()
                archive = ZipFile(BytesIO(content)) if path.suffix == ".zip" else None
            except (OSError, HTTPException, BadZipFile) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise DataError(f"downloading {url} failed: {reason}. {advice}") from error
            path.parent.mkdir(parents=True, exist_ok=True)
            if archive is None:
                path.write_bytes(content)
            else:
                archive.extractall(path.parent)
        if lacking := [file for file in files if not (scratch / file).is_file()]:
            raise DataError(f"{', '.join(urls.values())} lacks {', '.join(lacking)}. {advice}")


class NamedSet(NamedTuple):
    """Properties of a named set, as its source states them."""

    about: str
    """Description for the user."""
    molecules: int | None
    """Number of molecules; None if the source does not state it."""
    tasks: int
    kind: Kind
    metric: str
    """The metric of the literature; of several tasks, the mean."""
    featurizer: str


class NamedContent(NamedTuple):
    """The content of a named set."""

    graphs: Iterable[MolGraph]
    """G molecules."""
    labels: np.ndarray
    """(G, T): NaN where a label is missing."""
    splits: Mapping[str, Sequence[int] | np.ndarray]
    """Indices for each of `SPLITS`."""


def cached_set(
    name: str,
    files: Iterable[Path],
    featurizer: str,
    encoding: EncodingSpec,
    read: Callable[[], NamedContent],
) -> tuple[GraphStore, np.ndarray, dict[str, np.ndarray]]:
    """Return the store, the labels (float32 [G, T]) and the splits (int64) of a named set. `read`
    is called only if one of them must be made, as after a change of one of the raw files."""
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    key, content = f"{name}-{short_digest(*files, RDKIT_VERSION)}", cache(read)

    def molecules() -> Iterator[tuple[int, MolGraph]]:
        yield from enumerate(content().graphs)

    store = cached_store(key, featurizer, encoding, molecules())
    path = cache_folder() / f"{featurizer}-{key}-s{SCHEMA}.labels"
    with suppress(StorageError):
        return store, *_open_labels(path)
    arrays = {split: np.array(content().splits[split], dtype=np.int64) for split in SPLITS}
    with replacing(path) as scratch:
        write_arrays(scratch, {"labels": content().labels.astype(np.float32), **arrays}, {})
    return store, *_open_labels(path)


def _open_labels(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    with refuse_damaged(path, "file of labels"):
        arrays, _, _ = open_arrays(path)
    return arrays["labels"], {split: np.array(arrays[split]) for split in SPLITS}


def cached_store(
    key: str,
    featurizer: str,
    encoding: EncodingSpec,
    molecules: Iterable[tuple[int, MolGraph]],
    rejected: Sequence[Rejected] = (),
) -> GraphStore:
    """Return the store of that key from the cache, made from `molecules` and the rows where they
    are if it is missing. The key stands for the molecules; featuriser, encoding and schema are
    added to it. `rejected`, the rows without a molecule, may be filled while `molecules` is
    read."""
    bonds = "x".join(map(str, encoding.bond_sizes))
    plug_in = plugin_digest(featurizer)
    sizes = f"g{encoding.max_degree}-d{encoding.max_distance}-l{encoding.max_path_length}"
    tag = f"b{bonds}-{sizes}{plug_in and f'-v{plug_in}'}-s{SCHEMA}"
    path = cache_folder() / f"{featurizer}-{key}-{tag}.store"
    with suppress(StorageError):
        return GraphStore.open(path)
    chunks = encode_chunks(molecules, featurizer, encoding)
    return GraphStore.write(path, chunks, rejected, encoding, featurizer)


def encode_chunks(
    molecules: Iterable[tuple[int, MolGraph]], featurizer: str, encoding: EncodingSpec
) -> Iterator[tuple[EncodedGraphs, np.ndarray]]:
    """Encode molecules some hundreds at a time, and yield them with their rows."""
    molecules = iter(molecules)
    while chunk := list(islice(molecules, _CHUNK)):
        rows = np.array([row for row, _ in chunk])
        graphs = [graph for _, graph in chunk]
        yield encode(graphs, encoding, SIZES[featurizer].atoms, rows), rows


def readable(
    found: Iterable[MolGraph | InvalidMolecule], smiles: Sequence[str], rejected: list[Rejected]
) -> Iterator[tuple[int, MolGraph]]:
    """Yield the molecules with their rows, and add the other rows to `rejected`."""
    for row, (text, graph) in enumerate(zip(smiles, found, strict=True)):
        if isinstance(graph, MolGraph):
            yield row, graph
        else:
            rejected.append(Rejected(row, text, str(graph)))


def cached_standard(smiles: Sequence[str], level: Level) -> Sequence[str]:
    """Return the standard form of each SMILES, or an empty text that holds the reason if there is
    none, from the cache if it was computed before. At the level `none` it is `smiles` itself."""
    if level == "none":
        return smiles
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION
    from molsepnorm.molecules.featurize.smiles import Unwritten

    key = short_digest(json.dumps(_with_reasons(smiles)))
    path = cache_folder() / f"{key}-{level}-rdkit{RDKIT_VERSION}.standard"
    if path.exists():
        with suppress(ModelError, LookupError, TypeError):  # a damaged file is made anew
            content = read_json(path)
            if json_digest(content["smiles"]) == content[KEY]:
                each = content["smiles"]
                return [text if isinstance(text, str) else Unwritten(*text) for text in each]
    forms = standardized(smiles, level)
    written = _with_reasons(forms)
    write_json(path, {"smiles": written, KEY: json_digest(written)})
    return forms


def _with_reasons(smiles: Sequence[str]) -> list[str | list[str]]:
    """Return SMILES for JSON, where an empty text that holds a reason becomes a list of it.

    >>> from molsepnorm.molecules.featurize.smiles import Unwritten
    >>> _with_reasons(["CCO", "", Unwritten("5,000 atoms")])
    ['CCO', '', ['5,000 atoms']]
    """
    return [[text.reason] if hasattr(text, "reason") else text for text in smiles]


def encoded_rows(
    smiles: Sequence[str],
    config: DataConfig,
    encoding: EncodingSpec,
    location: Callable[[int], str],
) -> tuple[GraphStore, Sequence[str]]:
    """Return the store of the molecules of a table, and the standard form of every SMILES. It is a
    `DataError` with the `location` of a row if that cannot be read and `on_invalid` is fail."""
    from molsepnorm.molecules.featurize.descriptors import RDKIT_VERSION

    rejected: list[Rejected] = []
    standard = cached_standard(smiles, config.standardize)
    found = featurize.get(config.featurizer).stream(standard)
    texts = [smiles] if standard is smiles else [smiles, standard]
    key = short_digest(json.dumps(list(map(_with_reasons, texts))), RDKIT_VERSION)
    molecules = readable(found, smiles, rejected)
    store = cached_store(key, config.featurizer, encoding, molecules, rejected)
    if store.rejected and config.on_invalid == "fail":
        first = store.rejected[0]
        raise DataError(
            f"{location(first.row)}: {first.reason}. Fix the row, or use --on-invalid skip to "
            "leave such rows out and list them in rejected.csv"
        )
    return store, standard
