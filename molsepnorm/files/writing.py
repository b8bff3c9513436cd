"""Atomic writing: files are written under a temporary name, then renamed.

The temporary file or folder, `.<name>.<host><id>.partial` or `.spool`, is locked by its process.
The system releases the lock when the process ends, even if it is killed, so that the next writer to
the same folder can remove the leftovers of killed processes.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from molsepnorm.errors import StorageError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows: there are no locks, and leftovers are not removed
    flock = None  # type: ignore[assignment]

__all__ = [
    "cache_folder",
    "clear_errors",
    "csv_writer",
    "fingerprint",
    "remove_leftovers",
    "replacing",
    "scratch_folder",
    "write_json",
]

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
    """Convert system errors to a `StorageError`: "cannot <doing> <path>: <advice>".

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
def replacing(path: Path | str, *, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary file, or empty folder, that replaces `path` when the block succeeds.

    The parent folder is created if necessary, and leftovers of killed writers are removed from it.
    If the block fails, `path` is unchanged and the temporary file is removed.

    Raises:
        StorageError: the location cannot be written, or the disk is full.
    """
    path = Path(path)
    if path.is_symlink() or path.name in ("", ".."):
        path = path.resolve()
    if not path.name:
        raise StorageError(f"cannot write {path}: {_ADVICE[errno.EISDIR]}")
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe, or /dev/null
        with clear_errors(path, "write"):
            yield path
        return
    with clear_errors(path, "write"), _scratch(path, "partial", folder) as scratch:
        aside = scratch.with_suffix(".old")
        try:
            yield scratch
            if scratch.is_dir() and path.is_dir():  # a folder cannot be renamed over another
                os.replace(path, aside)
            os.replace(scratch, path)
        finally:
            if aside.exists() and not path.exists():
                os.replace(aside, path)
            _remove(aside)


@contextmanager
def scratch_folder(path: Path | str) -> Iterator[Path]:
    """Yield a temporary hidden folder beside `path`, which is removed after the block.

    Raises:
        StorageError: the location cannot be written. Errors within the block are unchanged.
    """
    with ExitStack() as stack:
        with clear_errors(path, "write"):
            scratch = stack.enter_context(_scratch(Path(path), "spool", folder=True))
        yield scratch


@contextmanager
def _scratch(path: Path, kind: str, folder: bool) -> Iterator[Path]:
    """Yield a new file or folder beside `path`, locked until the block ends and then removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent)
    scratch, lock = _new_scratch(path, kind, folder)
    try:
        yield scratch
    finally:
        _remove(scratch)
        if lock is not None:
            os.close(lock)


def _new_scratch(path: Path, kind: str, folder: bool) -> tuple[Path, int | None]:
    """Return a new path and the open file of its lock, None on file systems without locks."""
    while True:
        scratch = path.with_name(f".{path.name}.{_host()}{secrets.token_hex(4)}.{kind}")
        if folder:
            scratch.mkdir()
        else:
            os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            return scratch, _lock(scratch)
        except (BlockingIOError, FileNotFoundError):
            continue  # another writer removed it before it was locked
        except OSError:
            return scratch, None


def _lock(path: Path) -> int:
    """Lock a file or folder until the returned descriptor is closed or this process ends.

    Raises:
        BlockingIOError: another process holds the lock.
        FileNotFoundError: the file was removed.
        OSError: the file system has no locks.
    """
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        if flock is None:
            raise OSError(errno.ENOSYS, "no locks on this system")
        flock(file, LOCK_EX | LOCK_NB)
        path.stat()  # the last holder of the lock may have removed it
    except OSError:
        os.close(file)
        raise
    return file


def remove_leftovers(folder: Path) -> None:
    """Remove the leftovers of killed processes of this machine from a folder.

    Files of other machines are left alone, since locks may not work across a shared disk.
    """
    ours = re.compile(rf"\.(.+)\.{_host()}[0-9a-f]{{8}}\.(partial|old|spool)")
    # an .old is sorted before the .partial of the same writer, whose lock covers both
    for match in filter(None, map(ours.fullmatch, sorted(os.listdir(folder)))):
        leftover = folder / match[0]
        is_old = match[2] == "old"
        owner = leftover.with_suffix(".partial") if is_old else leftover
        with suppress(OSError):
            lock = _lock(owner) if owner.exists() else None
            try:
                if is_old and not (folder / match[1]).exists():
                    os.replace(leftover, folder / match[1])
                _remove(leftover)
            finally:
                if lock is not None:
                    os.close(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _host() -> str:
    return hashlib.blake2b(platform.node().encode(), digest_size=3).hexdigest()


def write_json(path: Path | str, content: Any) -> None:
    """Write indented JSON, replacing the file atomically."""
    with replacing(path) as scratch:
        scratch.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def cache_folder() -> Path:
    """Return the folder for stores and device verdicts: $MOLSEPNORM_CACHE, or molsepnorm in the
    user's cache folder."""
    if chosen := os.environ.get("MOLSEPNORM_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "molsepnorm"


def csv_writer(file: TextIO, line_end: str = "\n") -> Any:
    """Return a `csv.writer` whose rows Python and pandas read back unchanged.

    `csv.writer` quotes a cell with a line break only if the character is part of its own line end,
    so that a bare carriage return would break the row. This writer ends rows with both characters,
    and `line_end` is written in their place.

    Args:
        file: a file opened with `newline=""`.
        line_end: end of every row.
    """
    return csv.writer(_LineEnds(file, line_end), lineterminator="\r\n")


class _LineEnds:
    """Replaces the "\\r\\n" at the end of every row."""

    def __init__(self, file: TextIO, line_end: str) -> None:
        self._file = file
        self._end = line_end

    def write(self, row: str) -> None:
        self._file.write(row.removesuffix("\r\n") + self._end)


def fingerprint(*parts: Path | str | bytes) -> str:
    """Return a short hash of texts, bytes and the contents of files, a key for derived data."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        if isinstance(part, Path):
            with clear_errors(part, "read"), open(part, "rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        else:
            digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()
