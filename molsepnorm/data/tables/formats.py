"""Formats of tables by file name, and opening files that may be compressed, or pipes."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal, TextIO

import pandas as pd

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.writing import clear_errors

Kind = Literal["csv", "tsv", "parquet", "sdf", "smi", "xlsx"]

_KINDS: dict[str, Kind] = {
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab", ".txt"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".sdf", ".sd"), "sdf"),
    **dict.fromkeys((".smi", ".smiles", ".ism", ".cxsmiles"), "smi"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".xlsb", ".ods"), "xlsx"),
}
_WORDS = {"parquet": "row", "xlsx": "row", "sdf": "record"}  # others have lines
_OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError)
"""Errors of libraries that decompress; the last for passwords and unknown methods of zip."""
_MAX_CELLS = 1 << 24  # of a piece: some 1 GB
DEFAULT_SMILES = "smiles"


@dataclass(frozen=True)
class ReadOptions:
    """How a table is written; see the settings of `DataConfig` with the same names."""

    smiles_column: str = DEFAULT_SMILES
    """Also for the structures of an SDF and the first column of a .smi file."""
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    sheet: str | None = None
    header_row: int | None = None
    further: tuple[str, ...] = ()
    """Columns of further molecules that are named beside that of SMILES."""


def _packing(path: Path) -> str:
    """Return the suffix of a compressed file, such as .gz; "" for others."""
    suffix = path.suffix.lower()
    return suffix if suffix in (*_OPEN, ".zip") else ""


def kind_of(source: Path | str) -> Kind:
    """Return the format by the suffix, or by the name of the file in a `.zip`.

    >>> kind_of("set.SDF.gz"), kind_of("standard input")
    ('sdf', 'csv')
    """
    path = Path(source)
    packing = _packing(path)
    inner = path.with_suffix("") if packing else path
    if packing == ".zip" and inner.suffix.lower() not in _KINDS:
        inner = Path(next(iter(_members(path)), ""))
    return _KINDS.get(inner.suffix.lower(), "csv")


def _members(path: Path) -> list[str]:
    """Return the names of the files in a zip archive; none if it is unreadable or a pipe."""
    names: list[str] = []
    if path.is_file():
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    # macOS adds hidden files
    return [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]


def row_word(source: Path | str) -> str:
    """Return what a row of a file is called: line, row or record."""
    return _WORDS.get(kind_of(source), "line")


def locate(source: Path | str, index: int) -> str:
    """Return the position of a row by its index in a table.

    >>> locate("standard input", 2), locate("my.parquet", 11), locate("my.smi.gz", 12)
    ('standard input, line 2', 'my.parquet, row 11', 'my.smi.gz, line 12')
    """
    return f"{source}, {row_word(source)} {index}"


@contextmanager
def open_text(
    path: Path, name: str, options: ReadOptions, newline: str | None = ""
) -> Iterator[TextIO]:
    """Open a text that may be compressed; `newline` is as for `open`."""
    packing = _packing(path)
    with clear_errors(name, "read"):
        try:
            with open(path, "rb") as packed, _decompressed(packed, packing, path, name) as file:
                start = file.peek(8)[:8]
                marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                encoding = options.encoding or ("utf-16" if marked else "utf-8-sig")
                if encoding == "utf-8-sig" and b"\0" in start:
                    raise UnicodeError("it has bytes of zero")
                yield io.TextIOWrapper(file, encoding=encoding, newline=newline)
        except UnicodeError as error:
            raise DataError(
                f"{name} cannot be decoded: {error}. Save a text as UTF-8, or name its encoding, "
                "such as --encoding cp1252. The name of a workbook or a compressed file must end "
                "so, as in .xlsx or .csv.gz"
            ) from None
        except _DAMAGE as error:
            if not packing or getattr(error, "errno", None) is not None:
                raise
            raise DataError(
                f"{name} cannot be decompressed as {packing}: {error}. It is damaged or cut off, "
                "or its suffix is wrong"
            ) from None


def _decompressed(packed: BinaryIO, packing: str, path: Path, name: str) -> Any:
    if packing != ".zip":
        return _OPEN[packing](packed) if packing else packed
    archive, names = zipfile.ZipFile(packed), _members(path)
    if len(names) != 1:
        raise DataError(
            f"{name} holds {len(names)} files, and one table is expected: extract one of them"
        )
    return archive.open(names[0])


def header_names(cells: Sequence[str]) -> pd.Index:
    """Return the names of columns, `Unnamed: 0` after its number for one without a name."""
    named = [cell or f"Unnamed: {number}" for number, cell in enumerate(cells)]
    return pd.Index(named, dtype=object)


def rows_of_piece(rows: int, columns: int) -> int:
    """Return the number of rows of a piece: `rows`, or fewer in a table of thousands of columns."""
    return max(1, min(rows, _MAX_CELLS // max(columns, 1)))


def pieces_of(
    table: Iterable[tuple[int, list[str]]], columns: Sequence[str] | pd.Index, rows: int
) -> Iterator[pd.DataFrame]:
    """Yield rows of text, each with its position in the file, in pieces."""
    table, rows = iter(table), rows_of_piece(rows, len(columns))
    while piece := list(islice(table, rows)):
        index, cells = zip(*piece, strict=True)
        yield pd.DataFrame([*cells], index, columns, dtype=object)


@contextmanager
def as_file(path: Path) -> Iterator[Path]:
    """Yield `path` itself, or a temporary copy of what is no file, such as a pipe."""
    if path.is_file() or path.is_dir() or not path.exists():
        yield path
        return
    with ExitStack() as stack:
        with clear_errors(f"a temporary copy of {path}", "write"):
            folder = stack.enter_context(TemporaryDirectory(prefix="molsepnorm-"))
            copy = Path(folder) / path.name
            with clear_errors(path, "read"):
                source = stack.enter_context(open(path, "rb"))
            with open(copy, "wb") as file:
                shutil.copyfileobj(source, file)
        yield copy


def require_file(path: Path) -> None:
    """Refuse a pipe as labelled data, which a run reads again when it is resumed."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ConfigError(
            f"{path} is a pipe, and labelled data are read more than once: write them to a file, "
            "which may be compressed, such as my.csv.gz"
        )
