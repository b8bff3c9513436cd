"""Writing so that nothing is lost: beside the target first, then renamed over it."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from molsepnorm.errors import StorageError

__all__ = ["clear_errors", "csv_writer", "fingerprint", "replacing", "write_json"]

_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space or choose another place",
    errno.EDQUOT: "the disk quota is used up: free some space or choose another place",
    errno.EACCES: "permission denied: choose a place you may write to",
    errno.EPERM: "permission denied: choose a place you may write to",
    errno.EROFS: "the file system is read-only: choose another place",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "there is a folder of that name",
    errno.EEXIST: "there is a file of that name where a folder is needed",
    errno.ENOENT: "there is no such file or folder",
}


@contextmanager
def clear_errors(path: Path | str, doing: str) -> Iterator[None]:
    """Turn the system's errors within into a `StorageError`: "cannot <doing> <path>: <advice>".

    Raises:
        StorageError: in place of any `OSError`.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"cannot {doing} {path}: {advice}") from error


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A scratch path beside `path` that takes its place when the block ends well.

    The folder is made if need be. When the block fails, what stood at `path` stands there still
    and the scratch file or folder is removed.

    Raises:
        StorageError: the place cannot be written, or the disk is full.
    """
    path = Path(path)
    if path.is_symlink():
        path = path.resolve()
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe, or /dev/null
        with clear_errors(path, "write"):
            yield path
        return
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    aside = scratch.with_suffix(".old")
    try:
        with clear_errors(path, "write"):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield scratch
            if scratch.is_dir() and path.is_dir():  # a folder cannot be renamed over another
                os.replace(path, aside)
            os.replace(scratch, path)
    finally:
        if aside.exists() and not path.exists():
            os.replace(aside, path)
        for leftover in (scratch, aside):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                with suppress(OSError):
                    leftover.unlink()


def write_json(path: Path | str, content: Any) -> None:
    """Write JSON for people to read, replacing the file whole."""
    with replacing(path) as scratch:
        scratch.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def csv_writer(file: TextIO, line_end: str = "\n") -> Any:
    """A `csv.writer` whose rows are read back as they were, by Python and by pandas.

    `csv.writer` quotes a cell with a line break only if the character is part of its own line end,
    so a bare carriage return would break the row. Here rows end with both characters, of which
    `line_end` takes the place in the file.

    Args:
        file: opened with `newline=""`.
        line_end: what ends a row.
    """
    return csv.writer(_LineEnds(file, line_end), lineterminator="\r\n")


class _LineEnds:
    """Receives one row at a time, ended by "\\r\\n"."""

    def __init__(self, file: TextIO, line_end: str) -> None:
        self._file = file
        self._end = line_end

    def write(self, row: str) -> None:
        self._file.write(row.removesuffix("\r\n") + self._end)


def fingerprint(*parts: Path | str) -> str:
    """A short hash of strings and of the contents of files, to key what was made from them."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, Path):
            with clear_errors(part, "read"), open(part, "rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        else:
            digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()
