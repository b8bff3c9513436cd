"""Digests of files and contents, and arrays in files that contain their digest.

A safetensors file contains its SHA-256 digest under `KEY` in the metadata of its header; it is
computed with `BLANK` in this place. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.errors import StorageError
from molsepnorm.files.writing import clear_errors

KEY = "sha256"
BLANK = "0" * 64

_NAMES: dict[type[np.generic], str] = {np.uint16: "U16", np.float32: "F32"}
_WRONG_CONTENT = (ValueError, TypeError, AttributeError, LookupError, RecursionError, OverflowError)

# other texts of a header have escaped quotes, so only the field itself matches
_FIELD = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


def write_sealed(path: Path, parts: Iterable[Any]) -> None:
    """Write a safetensors file with its digest. `parts` are bytes-like objects; the first contains
    the header with `BLANK`."""
    parts = iter(parts)
    header = next(parts)
    field, digest = _FIELD.search(header), hashlib.sha256(header)
    assert field is not None
    with open(path, "wb") as file:
        file.write(header)
        for part in parts:
            digest.update(part)
            file.write(part)
        file.seek(field.start(1))
        file.write(digest.hexdigest().encode())


def check_sealed(path: Path) -> str:
    """Compare a safetensors file with the digest in it, and return the digest.

    Raises:
        ValueError: the content does not match, or there is no digest.
    """
    with open(path, "rb", buffering=0) as file:
        length = file.read(8)
        header = length + file.read(min(int.from_bytes(length, "little"), 1 << 26))
        field = _FIELD.search(header)
        if field is None:
            raise ValueError("it holds no digest")
        begin, end = field.span(1)
        digest = hashlib.sha256(header[:begin] + BLANK.encode() + header[end:])
        buffer = memoryview(bytearray(1 << 18))  # fits into the processor's cache
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    expected = field[1].decode()
    if digest.hexdigest() != expected:
        raise ValueError(f"its content does not match its digest {expected[:12]}…")
    return expected


def write_array(
    path: Path, name: str, dtype: type[np.generic], shape: tuple[int, ...], pieces: Iterable[Any]
) -> None:
    """Write an array from pieces of bytes, so that it is never in memory as a whole."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    entry = {"dtype": _NAMES[dtype], "shape": [*shape], "data_offsets": [0, size]}
    header = json.dumps({"__metadata__": {KEY: BLANK}, name: entry}).encode()
    header += b" " * (-len(header) % 8)  # aligns the array
    write_sealed(path, chain([len(header).to_bytes(8, "little") + header], pieces))


def open_array(
    path: Path, name: str, dtype: type[np.generic], shape: tuple[int, ...]
) -> np.ndarray:
    """Compare a file of `write_array` with its digest, and map it into memory, copied on write.

    Raises:
        StorageError: the file is missing or damaged, or contains another array.
    """
    try:
        with clear_errors(path, "read"), open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(min(length, 1 << 26)))[name]
            if (entry["dtype"], tuple(entry["shape"])) != (_NAMES[dtype], shape):
                raise ValueError(f"{name} has the shape {entry['shape']}")
            if file.seek(0, 2) != 8 + length + entry["data_offsets"][1]:
                raise ValueError("the file ends early")
            check_sealed(path)
            return np.memmap(path, dtype, "c", 8 + length, shape)
    except _WRONG_CONTENT as error:
        raise StorageError(f"{path} is damaged: delete it, and it will be made again") from error


def json_digest(content: Any) -> str:
    """Return the digest of JSON content, independent of its layout."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def has_digest(content: Any, digest: Any) -> bool:
    try:
        return json_digest(content) == digest
    except RecursionError:
        return False


def short_digest(*parts: Path | str | bytes) -> str:
    """Return a short hash of texts, bytes and file contents."""
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
