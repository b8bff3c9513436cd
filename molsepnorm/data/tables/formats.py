"""Formats of tables by file name, and positions in them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = ["Format", "Kind", "Packing", "format_of", "locate"]

Kind = Literal["csv", "tsv", "parquet", "sdf", "smi"]
Packing = Literal["gzip", "bzip2", "xz", "zip", "zstandard"]

_KINDS: dict[str, Kind] = {
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab", ".txt"), "tsv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".sdf", ".sd"), "sdf"),
    **dict.fromkeys((".smi", ".smiles", ".ism", ".cxsmiles"), "smi"),
}
_PACKINGS: dict[str, Packing] = {
    ".gz": "gzip",
    ".bz2": "bzip2",
    ".xz": "xz",
    ".zip": "zip",
    ".zst": "zstandard",
}


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

    >>> locate("standard input", 0), locate("my.parquet", 10), locate("my.smi.gz", 11)
    ('standard input, line 2', 'my.parquet, row 11', 'my.smi.gz, line 12')
    """
    index = int(index)
    kind = format_of(source).kind
    if kind == "sdf":
        return f"{source}, molecule {index + 1}"
    if kind == "parquet":
        return f"{source}, row {index + 1}"
    return f"{source}, line {index + (1 if kind == 'smi' else 2)}"
