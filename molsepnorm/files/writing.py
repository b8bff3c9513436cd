"""Safe writing: a file is written beside its target, and renamed when it is complete.

The hidden file or folder `.<name>.<host><id>.partial` or `.spool` is locked by its process. The
system releases the lock when the process ends, so the next writer to the folder removes leftovers.
"""

from __future__ import annotations

import csv
import ctypes
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

from molsepnorm.errors import StorageError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows: files are not locked, and leftovers are not removed
    flock = None  # type: ignore[assignment]

_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space or choose another folder",
    errno.EDQUOT: "the disk quota is used up: free some space or choose another folder",
    errno.EACCES: "permission denied: choose a folder that you may write to",
    errno.EPERM: "permission denied: choose a folder that you may write to",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "there is a folder of that name",
    errno.EEXIST: "there is a file of that name where a folder is needed",
    errno.ENOENT: "there is no such file or folder",
}


def is_encodable(text: str) -> bool:
    """Return whether UTF-8 can encode a text."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


@contextmanager
def clear_errors(path: Path | str, doing: str) -> Iterator[None]:
    """Replace any `OSError` in the block by a `StorageError`: "cannot <doing> <path>: <advice>"."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"cannot {doing} {path}: {advice}") from error


def require_empty(folder: Path | str, what: str, own: Collection[str] = ()) -> None:
    """Raise a `StorageError` if a folder holds anything but its `own` files, which `what` would
    replace."""
    with clear_errors(folder, "write"):
        others = {*os.listdir(folder)}.difference(own) if Path(folder).is_dir() else None
    if others:
        raise StorageError(
            f"cannot write {folder}: it holds {min(others)}, which {what} would replace: choose "
            "another folder"
        )


@contextmanager
def replacing(path: Path | str, *, folder: bool = False) -> Iterator[Path]:
    """Yield a new file, or an empty folder, that replaces `path` if the block succeeds.

    If the block fails, `path` is unchanged. Parent folders are created, and leftovers of killed
    writers in the parent folder are removed.
    """
    path = Path(path)
    # a pipe or /dev/null; /dev/stdout may link to a pipe, whose name beyond the link is no path
    if path.exists() and not path.is_file() and not path.is_dir():
        with clear_errors(path, "write"):
            yield path
        return
    if path.is_symlink() or path.name in ("", ".."):
        path = path.resolve()
    if not path.name:
        raise StorageError(f"cannot write {path}: {_ADVICE[errno.EISDIR]}")
    with clear_errors(path, "write"), _scratch(path, "partial", folder) as scratch:
        aside = scratch.with_suffix(".old")
        try:
            yield scratch
            if not (scratch.is_dir() and path.is_dir()):
                os.replace(scratch, path)
            elif not _exchange(scratch, path):  # a folder cannot be renamed over another
                os.replace(path, aside)
                os.replace(scratch, path)
        finally:
            if aside.exists() and not path.exists():
                os.replace(aside, path)
            _remove(aside)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two paths in one step, so that neither is ever missing. Return False where the
    system cannot."""
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(first.absolute()), os.fsencode(second.absolute())
    return renameat2(-100, names[0], -100, names[1], 2) == 0  # AT_FDCWD, RENAME_EXCHANGE


@contextmanager
def scratch_folder(path: Path | str) -> Iterator[Path]:
    """Yield a hidden temporary folder beside `path`, which is removed when the block ends."""
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
    """Return a new path and the descriptor of its lock; None if there are no locks."""
    while True:
        scratch = path.with_name(f".{path.name}.{_host()}{secrets.token_hex(4)}.{kind}")
        if folder:
            scratch.mkdir()
        else:
            os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            return scratch, _lock(scratch)
        except (BlockingIOError, FileNotFoundError):
            continue  # another writer removed it as a leftover before it was locked
        except OSError:
            return scratch, None


def _lock(path: Path) -> int:
    """Lock a file or folder until the returned descriptor is closed or this process ends.

    Raises:
        BlockingIOError: another process holds the lock.
        FileNotFoundError: the file was removed.
        OSError: there are no locks.
    """
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        if flock is None:
            raise OSError(errno.ENOSYS, "no locks on this system")
        flock(file, LOCK_EX | LOCK_NB)
        path.stat()  # the earlier holder of the lock may have removed it
    except OSError:
        os.close(file)
        raise
    return file


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes of this machine left in a folder. Files of other machines are
    kept, since a network may not share their locks."""
    ours = re.compile(rf"\.(.+)\.{_host()}[0-9a-f]{{8}}\.(partial|old|spool)")
    # a .old file sorts before the .partial file of its writer, whose lock covers both
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
    with replacing(path) as scratch:
        scratch.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def cache_folder() -> Path:
    """Return the folder for downloads, standardised SMILES and descriptors."""
    if chosen := os.environ.get("MOLSEPNORM_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "molsepnorm"


def csv_writer(file: TextIO, line_end: str = "\n", separator: str = ",") -> Any:
    """Return a `csv.writer` whose rows Python and pandas read back unchanged.

    `csv.writer` quotes line breaks only of its own line end, which therefore has both characters
    until `line_end` replaces it. The file must be opened with `newline=""`.
    """

    def write(row: str) -> None:
        file.write(row.removesuffix("\r\n") + line_end)

    target: Any = SimpleNamespace(write=write)
    return csv.writer(target, delimiter=separator, lineterminator="\r\n")


def write_csv(path: Path, header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> None:
    with clear_errors(path, "write"), open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv_writer(file)
        writer.writerow(header)
        writer.writerows(rows)
