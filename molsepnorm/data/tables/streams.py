"""Copies of pipes and other streams, which can be read only once."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from molsepnorm.files.writing import clear_errors

_copies: dict[tuple[int, int], Path] = {}
"""Copies of streams in use, by device and inode."""


@contextmanager
def as_file(path: Path) -> Iterator[Path]:
    """Yield `path` itself, or a temporary copy of a stream such as a pipe.

    The stream is read once, to its end. The copy has the name of the stream and exists until the
    block ends; inner blocks with the same stream use the same copy.

    Raises:
        StorageError: the stream cannot be read, or there is no room for the copy.
    """
    key = _key(path)
    if key is None or key in _copies:
        yield path if key is None else _copies[key]
        return
    with ExitStack() as stack:
        with clear_errors(f"a temporary copy of {path}", "write"):
            folder = stack.enter_context(TemporaryDirectory(prefix="molsepnorm-"))
            copy = Path(folder) / path.name
            with clear_errors(path, "read"):
                source = stack.enter_context(open(path, "rb"))
            with open(copy, "wb") as file:
                shutil.copyfileobj(source, file)
        _copies[key] = copy
        try:
            yield copy
        finally:
            del _copies[key]


@contextmanager
def hold(*paths: Path | None) -> Iterator[None]:
    """Copy the streams among these paths; readers within the block use the copies."""
    with ExitStack() as stack:
        for path in filter(None, paths):
            stack.enter_context(as_file(path))
        yield


def is_stream(path: Path) -> bool:
    """Return whether the path is a pipe or a device: neither a file nor a folder."""
    return _key(path) is not None


def is_held(path: Path) -> bool:
    """Return whether this is a stream with a copy held by `as_file` or `hold`."""
    return _key(path) in _copies


def _key(path: Path) -> tuple[int, int] | None:
    """Return the identity of a stream; None for a file, a folder, or a missing path."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # the reader raises a clear error
        return None
    is_file = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return None if is_file else (found.st_dev, found.st_ino)
