"""Opening files, compressed or not, with errors that say what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from molsepnorm.data.tables.formats import Packing, format_of, members
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.files.writing import clear_errors

__all__ = ["as_text", "need_pyarrow", "opened"]


@contextmanager
def opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked; what goes wrong while they are read is told in plain words.

    Args:
        path: the file; its suffix says how it is packed.
        name: what to call it in errors.

    Raises:
        ConfigError: it is a `.zst` and pyarrow, which unpacks it, is not installed.
        DataError: it is not packed as its suffix says, cut off or damaged, or a zip archive of
            several files.
        StorageError: it cannot be read.
    """
    packing = format_of(path).packing
    with clear_errors(name, "read"):
        try:
            with open(path, "rb") as packed, _unpacked(packed, packing, path, name) as file:
                yield file
        except EOFError:
            raise DataError(
                f"{name} is cut off: its compressed data end too early. Copy or download it again"
            ) from None
        except (OSError, *_DAMAGE) as error:
            if packing is None or getattr(error, "errno", None) is not None:
                raise
            raise DataError(
                f"{name} cannot be unpacked as {packing}: {error}. It is damaged, or something "
                "else than its suffix says"
            ) from None


_DAMAGE = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
"""Besides an `OSError` without a number. The last: a method of zip that Python cannot unpack."""


_OPEN: dict[str | None, Any] = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}


def _unpacked(packed: BinaryIO, packing: Packing | None, path: Path, name: str) -> BinaryIO:
    file: Any = packed
    if packing in _OPEN:
        file = _OPEN[packing](packed)
    elif packing == "zip":
        file = _only_member(packed, path, name)
    elif packing == "zstandard":
        file = io.BufferedReader(need_pyarrow(name).CompressedInputStream(packed, "zstd"))
    return cast(BinaryIO, file)


def _only_member(packed: BinaryIO, path: Path, name: str) -> Any:
    archive = zipfile.ZipFile(packed)
    names = members(path)
    if len(names) != 1:
        found = f"{len(names)} files" + (f" ({', '.join(names[:3])}, …)" if names else "")
        raise DataError(f"{name} holds {found}: one table is expected. Unpack it and choose one")
    if archive.getinfo(names[0]).flag_bits & 1:
        raise DataError(f"{name} is locked with a password: unpack it first")
    return archive.open(names[0])


def as_text(file: BinaryIO) -> io.TextIOWrapper:
    """UTF-8, or UTF-16 where a byte-order mark says so, as in Excel's "Unicode text"; line ends
    as they are."""
    start: bytes = file.peek(2)[:2]  # type: ignore[attr-defined]
    encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return io.TextIOWrapper(file, encoding=encoding, newline="")


def need_pyarrow(name: str, module: str = "pyarrow") -> Any:
    """A module of pyarrow, for the file of this name.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"{name} can be read with pyarrow only, which is not installed: pip install pyarrow"
        ) from None
