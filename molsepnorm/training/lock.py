"""A lock on a run's folder, so that two trainings never write into one."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from molsepnorm.errors import ConfigError
from molsepnorm.files.writing import clear_errors

__all__ = ["LOCK", "locked"]

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)

LOCK = ".lock"
"""Name of the lock file, which lies in the folder as long as a training runs."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, so that no other process trains into it. The folder is made if need be.

    The system releases the lock when the process ends, even if it is killed, so a lock file that a
    killed process leaves has no effect. On a disk without locks nothing is locked. If the folder is
    empty at the end, it is removed.

    Raises:
        ConfigError: another process holds the lock.
        StorageError: the folder cannot be written.
    """
    path = folder / LOCK
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    lock = FileLock(path, timeout=0)
    with clear_errors(folder, "write"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
            # the text of a soft lock, with which filelock makes do on some disks, is its own
            if not isinstance(lock, SoftFileLock):
                path.write_text(f"{os.getpid()} on {platform.node()}", encoding="utf-8")
        except Timeout:
            raise ConfigError(
                f"another process{_holder(path)} is training into {folder}: wait until it ends, or "
                "choose another folder"
            ) from None
        except NotImplementedError:
            pass  # earlier versions of filelock raise this for ENOSYS
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the release: afterwards it may be another's
        lock.release()
        with suppress(OSError):
            for place in made:
                place.rmdir()


def _holder(path: Path) -> str:
    """The process that holds the lock, as far as it is known."""
    with suppress(OSError, UnicodeDecodeError):
        text = path.read_text(encoding="utf-8")
        if text.strip():
            return f" ({' '.join(text.split())[:80]})"
    return ""
