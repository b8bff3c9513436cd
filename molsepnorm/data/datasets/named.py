"""Find or download the raw files of named data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

from molsepnorm.errors import DataError
from molsepnorm.files.writing import replacing
from molsepnorm.tasks.metrics import Kind

_PATIENCE = 60  # seconds without data after which a download fails


def complete_folder(folders: Iterable[Path], files: Sequence[str], advice: str) -> Path | None:
    """Return the first folder that has all of these files; None if none has any of them. If a
    folder has only some of them, a `DataError` ends with `advice`."""
    for folder in folders:
        lacking = _lacking(folder, files)
        if not lacking:
            return folder
        if len(lacking) < len(files):
            raise DataError(f"{folder} lacks {', '.join(lacking)}. {advice}")
    return None


def download(folder: Path, urls: Mapping[str, str], files: Iterable[str], advice: str) -> None:
    """Download files, from addresses by their paths, into a new folder of the cache, and extract
    archives. If this fails or does not give all of `files`, nothing is left behind, and a
    `DataError` ends with `advice`."""
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
        if lacking := _lacking(scratch, files):
            raise DataError(f"{', '.join(urls.values())} lacks {', '.join(lacking)}. {advice}")


def _lacking(folder: Path, files: Iterable[str]) -> list[str]:
    return [file for file in files if not (folder / file).is_file()]


class NamedSet(NamedTuple):
    """Properties of a named set, as its source states them."""

    about: str
    molecules: int | None
    """None if the source does not state it."""
    tasks: int
    kind: Kind
    metric: str
    """The metric of the literature; of several tasks, the mean."""
    featurizer: str
