"""`OgbFiles`: the raw files of an ogbg-mol* set, found or downloaded."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.ogb import package
from molsepnorm.data.datasets.ogb.package import folder_name
from molsepnorm.errors import DataError
from molsepnorm.files.writing import cache_folder, clear_errors, replacing, scratch_folder

PARTS = ("train", "valid", "test")
"""OGB's names of the splits, in the order of `SPLITS`."""

_RAW = ("num-node-list", "num-edge-list", "node-feat", "edge", "edge-feat", "graph-label")
_SPLIT = tuple(f"split/scaffold/{part}.csv.gz" for part in PARTS)
_MAPPING = "mapping/mol.csv.gz"  # names of the labels, and SMILES
_NEEDED = (*(f"raw/{file}.csv.gz" for file in _RAW), *_SPLIT, _MAPPING)


@dataclass(frozen=True)
class OgbFiles:
    """The complete folder of a set."""

    name: str
    folder: Path

    @staticmethod
    def locate(name: str, data_dir: Path | None) -> OgbFiles:
        """Find the files of a set in the data folder or the cache, or download them.

        Raises:
            DataError: some of the files are missing, or they cannot be downloaded.
            StorageError: the cache cannot be written.
        """
        downloads = cache_folder() / "ogb"
        found = find_folder(name, data_dir) or find_folder(name, downloads)
        return OgbFiles(name, found or _download(name, downloads, data_dir))

    @property
    def paths(self) -> list[Path]:
        """All files that define the set."""
        return [self.folder / file for file in _NEEDED]

    @property
    def mapping(self) -> Path:
        """The table of labels and SMILES."""
        return self.folder / _MAPPING

    def raw(self, file: str) -> Path:
        """Return the path of a raw file by its name without the suffix."""
        return self.folder / "raw" / f"{file}.csv.gz"

    def refusal(self, what: str) -> DataError:
        """Return the error that says what is wrong, and which files belong where."""
        return _refusal(self.name, what)

    def targets(self, num_tasks: int) -> tuple[str, ...]:
        """Return the names of the labels: those of the mapping, or task_1, task_2, …"""
        names = tuple(column for column in self._columns if column not in ("smiles", "mol_id"))
        if len(names) == num_tasks and len(set(names)) == num_tasks:
            return names
        return tuple(f"task_{i + 1}" for i in range(num_tasks))

    @property
    def smiles(self) -> Sequence[str]:
        """SMILES in the order of the molecules. They are read on first use, since the mapping of a
        large set has hundreds of columns."""
        return _Smiles(self)

    @property
    def split(self) -> list[list[int]]:
        """Indices of the molecules of each of `PARTS`."""
        return [self.read(self.folder / part, np.int64)[:, 0].tolist() for part in _SPLIT]

    def read(
        self, path: Path, dtype: type[np.number], rows: int | None = None
    ) -> np.ndarray:  # (rows, columns)
        """Return a file of numbers.

        Raises:
            DataError: it has another number of rows, is empty, or cannot be read.
        """
        with self.reading(path):
            try:
                table = pd.read_csv(path, header=None, dtype=dtype).to_numpy()
            except pd.errors.EmptyDataError:
                raise self.refusal(f"{path} is empty") from None
        if rows is not None and len(table) != rows:
            which = "fewer" if len(table) < rows else "more"
            counts = "num-node-list.csv.gz and num-edge-list.csv.gz"
            raise self.refusal(f"{path} has {which} rows than {counts} declare")
        return table

    @contextmanager
    def reading(self, path: Path) -> Iterator[None]:
        """Convert the errors of pandas while it reads a file."""
        try:
            yield
        except DataError:
            raise
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise self.refusal(f"{path} cannot be read as {self.name}: {_reason(error)}") from error

    @property
    def _columns(self) -> list[str]:
        with self.reading(self.mapping):
            header = pd.read_csv(
                self.mapping, header=None, nrows=1, dtype=str, keep_default_na=False
            )
            return header.iloc[0].tolist()


class _Smiles(Sequence[str]):
    def __init__(self, files: OgbFiles) -> None:
        self._files = files

    @cached_property
    def _all(self) -> list[str]:
        path = self._files.mapping
        with self._files.reading(path):
            table = pd.read_csv(path, usecols=["smiles"], dtype=str, keep_default_na=False)
        return table["smiles"].tolist()

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    def __len__(self) -> int:
        return len(self._all)


def find_folder(name: str, data_dir: Path | None) -> Path | None:
    """Return the folder of a set in the data folder, or the data folder itself; None if missing."""
    if data_dir is None:
        return None
    names = (folder_name(name), f"{folder_name(name)}_pyg")
    found = [data_dir / each for each in names if (data_dir / each).is_dir()]
    of_another = data_dir.name.startswith("ogbg_") and data_dir.name not in names
    if not of_another and (data_dir / "raw").is_dir() and (data_dir / "split").is_dir():
        found.append(data_dir)
    for folder in found:
        if not _missing(folder):
            return folder
    if found:
        raise _refusal(name, f"{found[0]} lacks {', '.join(_missing(found[0]))}")
    return None


def _missing(folder: Path) -> list[str]:
    return [file for file in _NEEDED if not (folder / file).is_file()]


def _download(name: str, downloads: Path, data_dir: Path | None) -> Path:
    """Download all files of a set; if this fails, nothing is left behind."""
    url = package.facts(name)["url"]
    with scratch_folder(downloads / "ogb") as place:
        try:
            unpacked = package.fetch(name, place)
        except Exception as error:
            _raise_if_full(place, error)
            looked = f"not in {data_dir}" if data_dir else "in no data folder"
            raise _refusal(
                name, f"{name} is {looked}, and downloading it from {url} failed: {_reason(error)}"
            ) from error
        if lacking := _missing(unpacked):
            raise _refusal(name, f"what {url} gives lacks {', '.join(lacking)}")
        with replacing(downloads / folder_name(name), folder=True) as beside:
            for part in unpacked.iterdir():
                part.rename(beside / part.name)
    return downloads / folder_name(name)


def _raise_if_full(place: Path, error: Exception) -> None:
    """Raise a clear error if the disk is full, which torch reports as a RuntimeError."""
    full = isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)
    if full or shutil.disk_usage(place).free < 1 << 16:
        with clear_errors(cache_folder(), "write"):
            raise OSError(ENOSPC, str(error)) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _refusal(name: str, what: str) -> DataError:
    return DataError(
        f"{what}.\nUnpack {package.facts(name)['url']}, put its raw, split and mapping folders "
        f"into DIR/{folder_name(name)} and give --data-dir DIR, or set MOLSEPNORM_DATA=DIR. Needed "
        f"are raw/ with {', '.join(_RAW)}, split/scaffold/ with {', '.join(PARTS)}, and "
        f"mapping/mol with a column smiles, each .csv.gz."
    )
