"""`OgbFiles`: the raw files of an ogbg-mol* set, found or downloaded, and read by OGB's class."""

from __future__ import annotations

import csv
import gzip
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from molsepnorm.data.datasets.ogb import package
from molsepnorm.data.datasets.ogb.package import folder_name
from molsepnorm.errors import DataError
from molsepnorm.files.writing import cache_folder, clear_errors, replacing, scratch_folder

__all__ = ["PARTS", "OgbFiles", "Piece"]

PARTS = ("train", "valid", "test")
"""OGB's names of the splits, in the order of `SPLITS`."""

_COUNTS = ("num-node-list", "num-edge-list")
_ROWS = ("node-feat", "edge", "edge-feat", "graph-label")
_SPLIT = tuple(f"split/scaffold/{part}.csv.gz" for part in PARTS)
_NEEDED = (*(f"raw/{file}.csv.gz" for file in (*_COUNTS, *_ROWS)), *_SPLIT)
_MAPPING = "mapping/mol.csv.gz"  # names of the labels, and SMILES; optional
_PIECE = 25_000  # molecules that OGB reads at once; each needs about 15 kB of memory


class Piece(NamedTuple):
    """Some molecules, as OGB's class reads them."""

    first: int
    """Index of the first of them."""
    data: Any
    """One `torch_geometric.data.Data` of all of them, each bond as two adjacent edges."""
    slices: dict[str, Any]
    """Start of each molecule in each tensor of `data`."""
    split: dict[str, Any]
    """Indices of the molecules of each of `PARTS`, in the whole set."""


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
        paths = [self.folder / file for file in (*_NEEDED, _MAPPING)]
        return [path for path in paths if path.is_file()]

    @property
    def mapping(self) -> Path:
        """The table of labels and SMILES, which may be missing."""
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
    def smiles(self) -> Sequence[str] | None:
        """SMILES in the order of the molecules, if the mapping has them. They are read on first
        use, since the mapping of a large set has hundreds of columns."""
        return _Smiles(self) if "smiles" in self._columns else None

    @property
    def num_molecules(self) -> int:
        """Number of molecules, by the list of their numbers of atoms."""
        return len(self._numbers("num-node-list"))

    def pieces(self) -> Iterator[Piece]:
        """Yield the whole set, some molecules at a time.

        The lengths of the files are compared, since OGB would ignore surplus rows, and give the
        last molecules fewer atoms or bonds if rows were missing.

        Raises:
            DataError: the files do not fit together, or cannot be read.
            StorageError: the cache cannot be written.
        """
        atoms, bonds = counts = [self._numbers(file) for file in _COUNTS]
        if not atoms:
            raise self.refusal(f"{self.raw('num-node-list')} is empty")
        if len(atoms) != len(bonds):
            raise self._unfit("num-edge-list", "fewer" if len(bonds) < len(atoms) else "more")
        rows = {file: self._lines(file) for file in _ROWS}
        for first in range(0, len(atoms), _PIECE):
            part = slice(first, first + _PIECE)
            with scratch_folder(cache_folder() / "ogb") as scratch:
                piece = OgbFiles(self.name, scratch / folder_name(self.name))
                with clear_errors(cache_folder(), "write"):
                    for link in _SPLIT:  # without other files there, such as pickles
                        (piece.folder / link).parent.mkdir(parents=True, exist_ok=True)
                        (piece.folder / link).symlink_to((self.folder / link).resolve())
                    (piece.folder / "raw").mkdir()
                for file, numbers in zip(_COUNTS, counts, strict=True):
                    piece._write(file, [b"%d\n" % number for number in numbers[part]])
                totals = (sum(atoms[part]), sum(bonds[part]), sum(bonds[part]), len(atoms[part]))
                for file, total in zip(_ROWS, totals, strict=True):
                    if piece._write(file, islice(rows[file], total)) < total:
                        raise self._unfit(file, "fewer")
                try:
                    made = package.read(self.name, scratch)
                except Exception as error:
                    _raise_if_full(scratch, error)
                    raise self._unreadable(self.folder, error) from error
            yield Piece(first, *made)
        for file in _ROWS:
            if next(rows[file], None) is not None:
                raise self._unfit(file, "more")

    @property
    def _columns(self) -> list[str]:
        if not self.mapping.is_file():
            return []
        header = next(self._lines_of(self.mapping), b"")
        return next(csv.reader([header.decode(errors="replace").strip()]), [])

    def _numbers(self, file: str) -> list[int]:
        lines = list(self._lines(file))
        try:
            return [int(line) for line in lines]
        except ValueError as error:
            raise self._unreadable(self.raw(file), error) from error

    def _lines(self, file: str) -> Iterator[bytes]:
        return self._lines_of(self.raw(file))

    def _lines_of(self, path: Path) -> Iterator[bytes]:
        """Yield the lines that are not blank, as pandas, which OGB uses, skips blank lines."""
        try:
            with gzip.open(path, "rb") as file:
                for line in file:
                    if text := line.strip():
                        yield text + b"\n"
        except (OSError, EOFError, zlib.error) as error:
            raise self._unreadable(path, error) from error

    def _write(self, file: str, lines: Iterable[bytes]) -> int:
        """Write lines to a raw file and return their number."""
        lines = list(lines)
        with clear_errors(cache_folder(), "write"):
            self.raw(file).write_bytes(gzip.compress(b"".join(lines), compresslevel=1))
        return len(lines)

    def _unfit(self, file: str, which: str) -> DataError:
        counts = "num-node-list.csv.gz and num-edge-list.csv.gz"
        return self.refusal(f"{self.raw(file)} has {which} rows than {counts} declare")

    def _unreadable(self, path: Path, error: Exception) -> DataError:
        return self.refusal(f"{path} cannot be read as {self.name}: {_reason(error)}")


class _Smiles(Sequence[str]):
    def __init__(self, files: OgbFiles) -> None:
        self._files = files

    @cached_property
    def _all(self) -> list[str]:
        import pandas as pd

        path = self._files.mapping
        try:
            table = pd.read_csv(path, usecols=["smiles"], dtype=str, keep_default_na=False)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise self._files._unreadable(path, error) from error
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
        f"are raw/ with {', '.join((*_COUNTS, *_ROWS))}, and split/scaffold/ with "
        f"{', '.join(PARTS)}, each .csv.gz."
    )
