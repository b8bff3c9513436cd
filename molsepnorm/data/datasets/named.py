"""Named data sets: their raw files, which may be downloaded, and their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

import numpy as np

from molsepnorm.data.datasets.dataset import SPLITS
from molsepnorm.data.store import GraphStore
from molsepnorm.errors import DataError
from molsepnorm.files.writing import replacing
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks.metrics import Kind

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


def encoded_set(
    content: NamedContent, featurizer: str, encoding: EncodingSpec
) -> tuple[GraphStore, np.ndarray, dict[str, np.ndarray]]:
    """Return the store, the labels (float32 [G, T]) and the splits (int64) of a named set."""
    store = GraphStore.encode(enumerate(content.graphs), (), encoding, featurizer)
    splits = {name: np.array(content.splits[name], dtype=np.int64) for name in SPLITS}
    return store, content.labels.astype(np.float32), splits
