"""Formats of tables by file name, positions in them, and opening files that may be compressed."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import pandas as pd

from molsepnorm.errors import DataError
from molsepnorm.files.writing import clear_errors
from molsepnorm.optional import require_package

Kind = Literal["csv", "tsv", "parquet", "sdf", "smi", "xlsx"]
Packing = Literal["gzip", "bzip2", "xz", "zip", "zstandard"]

_KINDS: dict[str, Kind] = {
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab", ".txt"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".sdf", ".sd"), "sdf"),
    **dict.fromkeys((".smi", ".smiles", ".ism", ".cxsmiles"), "smi"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".xlsb", ".ods"), "xlsx"),
}
_PACKINGS: dict[str, Packing] = {
    ".gz": "gzip",
    ".bz2": "bzip2",
    ".xz": "xz",
    ".zip": "zip",
    ".zst": "zstandard",
}


_STARTS = {
    b"\x1f\x8b": (".gz", "zcat"),
    b"BZh": (".bz2", "bzcat"),
    b"\xfd7zXZ": (".xz", "xzcat"),
    b"\x28\xb5\x2f\xfd": (".zst", "zstdcat"),
}
"""First bytes of compressed data, with the suffix and a program that decompresses them."""
DEFAULT_SMILES = "smiles"
"""Name of the column of SMILES where none is chosen."""
_MAX_CELLS = 1 << 24  # of a piece: some 1 GB
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
"""First bytes of an .xls file, and of a workbook with a password."""


@dataclass(frozen=True)
class ReadOptions:
    """How a table is written, where its name does not tell."""

    smiles_column: str = DEFAULT_SMILES
    """The column of SMILES: the name given to the structures of an SDF and to the first column of a
    .smi file, and a hint for the separator of a CSV and the sheet of a workbook."""
    decimal: Literal[".", ","] | None = None
    """Decimal mark; None for a point, unless points may group thousands."""
    encoding: str | None = None
    """Encoding of a text; None for UTF-8, or UTF-16 with a byte-order mark."""
    sheet: str | None = None
    """Sheet of a workbook; None for the only one with a column of SMILES."""
    header_row: int | None = None
    """Number of the line or row with the names of the columns; None for the first one, in a
    workbook the first that is not blank."""


class Format(NamedTuple):
    """Format of a file, by its name."""

    kind: Kind
    """csv if the suffix is unknown."""
    packing: Packing | None
    """Compression, if any."""


def format_of(source: Path | str) -> Format:
    """Return the format by the suffix, in any case, or by the name of the file in a `.zip`.

    >>> format_of("set.SDF.gz")
    Format(kind='sdf', packing='gzip')
    >>> format_of("standard input")
    Format(kind='csv', packing=None)
    """
    path = Path(source)
    packing = _PACKINGS.get(path.suffix.lower())
    inner = path.with_suffix("") if packing else path
    if packing == "zip" and inner.suffix.lower() not in _KINDS:
        inner = Path(next(iter(members(path)), ""))
    return Format(_KINDS.get(inner.suffix.lower(), "csv"), packing)


def names_smiles(column: str) -> bool:
    """Return whether a column is called like one of SMILES.

    >>> names_smiles("Smile"), names_smiles("Ligand SMILES"), names_smiles("structure")
    (True, True, False)
    """
    return "smile" in column.lower()


def members(path: Path) -> list[str]:
    """Return the names of the files in a zip archive; none if it is unreadable or a pipe."""
    if not path.is_file():
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (OSError, zipfile.BadZipFile):
        return []
    hidden = "__MACOSX/"  # added by macOS
    return [e.filename for e in entries if not e.is_dir() and not e.filename.startswith(hidden)]


def locate(source: Path | str, index: int) -> str:
    """Return the position of a row in a file, for an error message.

    Args:
        source: the file, or the name of a stream, which is CSV.
        index: index of the row in a DataFrame of `read_chunks` or `read_table`.

    >>> locate("standard input", 2), locate("my.parquet", 11), locate("my.smi.gz", 12)
    ('standard input, line 2', 'my.parquet, row 11', 'my.smi.gz, line 12')
    """
    return f"{source}, {row_word(source)} {index}"


def row_word(source: Path | str) -> str:
    """Return what a row of a file is called: line, row or record."""
    return {"parquet": "row", "xlsx": "row", "sdf": "record"}.get(format_of(source).kind, "line")


@contextmanager
def open_decompressed(path: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file and decompress it, with clear errors while it is read.

    Args:
        path: the file; its suffix names the compression.
        name: name of the file in errors.

    Raises:
        ConfigError: the file is a `.zst`, and pyarrow is not installed.
        DataError: the file is damaged, has another compression than its suffix, is compressed
            without such a suffix, or is a zip archive of several files.
        StorageError: the file cannot be read.
    """
    packing = format_of(path).packing
    with clear_errors(name, "read"):
        try:
            with open(path, "rb") as packed, _decompressed(packed, packing, path, name) as file:
                _refuse_packed(file, packing, name)
                yield file
        except EOFError:
            raise DataError(
                f"{name} is cut off: its compressed data end too early. Copy or download it again"
            ) from None
        except (OSError, *_DAMAGE) as error:
            if packing is None or getattr(error, "errno", None) is not None:
                raise
            raise DataError(
                f"{name} cannot be decompressed as {packing}: {error}. It is damaged, or its "
                "suffix is wrong"
            ) from None


_DAMAGE = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
"""Besides an `OSError` without a number. Python raises the last for unknown methods of zip."""
_OPEN: dict[str | None, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}


def _decompressed(packed: BinaryIO, packing: Packing | None, path: Path, name: str) -> BinaryIO:
    file: Any = packed
    if packing in _OPEN:
        file = _OPEN[packing](packed)
    elif packing == "zip":
        file = _only_member(packed, path, name)
    elif packing == "zstandard":
        pyarrow = require_package("pyarrow", "parquet", f"reading {name}")
        file = io.BufferedReader(pyarrow.CompressedInputStream(packed, "zstd"))
    return cast(BinaryIO, file)


def _refuse_packed(file: BinaryIO, packing: Packing | None, name: str) -> None:
    start: bytes = file.peek(8)  # type: ignore[attr-defined]
    for first, (suffix, program) in _STARTS.items():
        if start.startswith(first):
            rename = f"end its name with {suffix}, or " if packing is None else ""
            raise DataError(
                f"{name} is compressed with {_PACKINGS[suffix]}: {rename}decompress it first "
                f"({program})"
            )


def _only_member(packed: BinaryIO, path: Path, name: str) -> Any:
    archive = zipfile.ZipFile(packed)
    names = members(path)
    if len(names) != 1:
        found = f"{len(names)} files" + (f" ({', '.join(names[:3])}, …)" if names else "")
        raise DataError(f"{name} holds {found}: one table is expected. Extract it and choose one")
    if archive.getinfo(names[0]).flag_bits & 1:
        raise DataError(f"{name} has a password: extract it first")
    return archive.open(names[0])


def as_text(file: BinaryIO, name: str, options: ReadOptions) -> io.TextIOWrapper:
    """Decode a text, and keep its line ends.

    It is UTF-8, or UTF-16 with a byte-order mark as Excel writes it, unless `options.encoding`
    names another encoding.

    Args:
        file: the file, at its start.
        name: name of the file in errors.
        options: how the table is written.

    Raises:
        DataError: the file is a workbook.
    """
    start: bytes = file.peek(8)[:8]  # type: ignore[attr-defined]
    if start.startswith((b"PK\3\4", _OLD_EXCEL)):
        raise DataError(
            f"{name} is not text; it looks like an Excel workbook or a zip archive. Save the table "
            "as CSV, or end the name of a workbook with .xlsx or .xls"
        )
    marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in start and not (marked or options.encoding):
        raise DataError(
            f"{name} is UTF-16 without a byte-order mark: --encoding utf-16-le, or utf-16-be"
        )
    encoding = options.encoding or ("utf-16" if marked else "utf-8-sig")
    return io.TextIOWrapper(file, encoding=encoding, newline="")


def not_decoded(name: str, error: UnicodeError) -> DataError:
    """Return the error for a text of another encoding."""
    options = "--encoding cp1252 (Western Windows), latin-1 or utf-16"
    return DataError(f"{name} cannot be decoded: {error}. Save it as UTF-8, or name its {options}")


def header_names(cells: Sequence[str]) -> pd.Index:
    """Return the names of columns, `Unnamed: 0` after its number for one without a name."""
    named = [cell or f"Unnamed: {number}" for number, cell in enumerate(cells)]
    return pd.Index(named, dtype=object)


def rows_of_piece(rows: int, columns: int) -> int:
    """Return the number of rows of a piece: `rows`, or fewer in a table of thousands of columns."""
    return max(1, min(rows, _MAX_CELLS // max(columns, 1)))
