"""An array in a file that contains its digest and is mapped into memory.

The file has the safetensors format: a JSON header, then the plain array. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.errors import StorageError
from molsepnorm.files.digests import BLANK, KEY, check_sealed, write_sealed
from molsepnorm.files.writing import clear_errors

_NAMES: dict[type[np.generic], str] = {np.uint16: "U16", np.float32: "F32"}
_WRONG_CONTENT = (ValueError, TypeError, AttributeError, LookupError, RecursionError, OverflowError)


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
