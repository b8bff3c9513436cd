"""Digests of files and contents.

A safetensors file contains its SHA-256 digest under `KEY` in the metadata of its header; it is
computed with `BLANK` in this place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from molsepnorm.files.writing import clear_errors

KEY = "sha256"
BLANK = "0" * 64

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
