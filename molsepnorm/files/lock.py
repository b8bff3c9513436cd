"""A lock on a folder, so that two processes never write into the same one."""

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

LOCK = ".lock"
"""Name of the lock file, which exists while a process holds the folder."""


@contextmanager
def locked(folder: Path, doing: str = "training") -> Iterator[None]:
    """Lock a folder, which is created if necessary and removed again if it stays empty.

    The system releases the lock when the process ends, even if it is killed. On a file system
    without locks, nothing is locked. Raise a `ConfigError` if another process holds the lock.
    """
    path = folder / LOCK
    created = [each for each in (folder, *folder.parents) if not each.exists()]
    lock = FileLock(path, timeout=0)
    with clear_errors(folder, "write"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
            # filelock uses soft locks on some disks and writes their content itself
            if not isinstance(lock, SoftFileLock):
                path.write_text(f"{os.getpid()} on {platform.node()}", encoding="utf-8")
        except Timeout:
            raise ConfigError(
                f"another process{_holder(path)} is {doing} into {folder}: wait until it ends, or "
                "choose another folder"
            ) from None
        except NotImplementedError:
            pass  # earlier versions of filelock raise this instead of ENOSYS
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the release; after it, the file may belong to another process
        lock.release()
        with suppress(OSError):
            for each in created:
                each.rmdir()


def _holder(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        if text := " ".join(path.read_text(encoding="utf-8").split()):
            return f" ({text[:80]})"
    return ""
