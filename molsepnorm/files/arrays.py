"""Named arrays in one file, which contains its digest and is mapped into memory.

The file has the safetensors format: a JSON header, then plain arrays. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.errors import StorageError
from molsepnorm.files.digests import BLANK, KEY, check_sealed, write_sealed
from molsepnorm.files.writing import clear_errors

REMEDY = "delete it, and it will be made again"
"""End of the error message for an unusable file in the cache."""

_DTYPES = {
    name: np.dtype(f"{name[0].lower()}{int(name[1:]) // 8}")
    for name in ("U8", "U16", "I16", "I32", "I64", "F16", "F32")
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_WRONG_CONTENT = (ValueError, TypeError, AttributeError, LookupError, RecursionError, OverflowError)


class Streamed(NamedTuple):
    """An array that is written in pieces, so that it is never in memory as a whole."""

    dtype: np.dtype
    shape: tuple[int, ...]
    pieces: Iterable[Any]
    """Bytes-like objects."""


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray | Streamed], about: Any) -> None:
    """Write arrays and JSON content about them."""
    write_sealed(path, array_bytes(arrays, {KEY: BLANK, "about": json.dumps(about)}))


def array_bytes(
    arrays: Mapping[str, np.ndarray | Streamed], metadata: Mapping[str, str]
) -> Iterator[Any]:
    """Yield the content of a safetensors file: the header, then the arrays."""
    entries: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)  # aligns all
    for name in order:
        dtype, shape = np.dtype(arrays[name].dtype), arrays[name].shape
        start, end = end, end + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        entries[name] = {"dtype": _NAMES[dtype], "shape": [*shape], "data_offsets": [start, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        array = arrays[name]
        pieces = array.pieces if isinstance(array, Streamed) else [np.ascontiguousarray(array).data]
        yield from pieces


@contextmanager
def refuse_damaged(path: Path, kind: str) -> Iterator[None]:
    """Raise a `StorageError` if the content of a file, which should be a `kind`, is invalid."""
    try:
        with clear_errors(path, "read"):
            yield
    except _WRONG_CONTENT as error:
        raise StorageError(f"{path} is damaged or no {kind}: {REMEDY}") from error


def open_arrays(path: Path) -> tuple[dict[str, np.ndarray], Any, str]:
    """Compare a file of `write_arrays` with its digest, and map it into memory.

    Use it within `refuse_damaged`. The arrays are copied on write. The content about them and the
    digest are returned with them.
    """
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, 1 << 26)))
        about = json.loads(header.pop("__metadata__")["about"])
        if file.seek(0, 2) != 8 + length + max(e["data_offsets"][1] for e in header.values()):
            raise ValueError("the file ends early")
    digest = check_sealed(path)
    return {name: _map(path, 8 + length, entry) for name, entry in header.items()}, about, digest


def _map(path: Path, start: int, entry: Mapping[str, Any]) -> np.ndarray:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    if 0 in shape:
        return np.zeros(shape, dtype=dtype)
    return np.memmap(path, dtype, "c", start + entry["data_offsets"][0], shape)
