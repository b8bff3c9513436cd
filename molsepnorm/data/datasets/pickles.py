"""Read ZINC's pickles, which hold lists, dictionaries and tensors, without running what they say.

`pickle.load` calls whatever function a file names, and PyTorch Geometric uses it. Here a file may
name only `OrderedDict` and the functions that rebuild a tensor, and this module provides its own
version of these functions.
"""

from __future__ import annotations

import io
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import numpy as np

from molsepnorm.files.writing import clear_errors

__all__ = ["Tensor", "read_molecules"]

_OTHER_WAYS = {  # instructions that make or change objects, which tensors do not need
    instruction[0]
    for instruction in (
        *(pickle.BUILD, pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.PERSID),
        *(pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER),
    )
}
_MAGIC = 0x1950A86A20F9469CFC6C  # at the start of a storage


class Tensor(NamedTuple):
    """A tensor as a pickle describes it, not decoded yet."""

    storage: bytes
    """The bytes that `torch.save` writes for a storage."""
    offset: int
    """Elements of the storage before the first one of the tensor."""
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def numpy(self) -> np.ndarray:
        """Return the elements as an array.

        Raises:
            UnpicklingError: the storage is damaged, or the tensor does not fit into it.
        """
        values = _elements(self.storage)
        numbers = (self.offset, *self.size, *self.stride)
        sound = len(self.size) == len(self.stride) and all(
            type(number) is int and 0 <= number <= len(values) for number in numbers
        )
        if sound:
            last = self.offset + sum(
                (length - 1) * step for length, step in zip(self.size, self.stride, strict=True)
            )
            sound = last < len(values) >= math.prod(self.size)
        if not sound:
            raise pickle.UnpicklingError(
                f"a tensor of size {self.size}, stride {self.stride} and offset {self.offset} does "
                f"not fit into its storage of {len(values)} elements"
            )
        strides = tuple(step * values.itemsize for step in self.stride)
        return np.lib.stride_tricks.as_strided(values[self.offset :], self.size, strides)


def read_molecules(path: Path) -> list[Any]:
    """Return the list in a pickle; the tensors in it are `Tensor`.

    Raises:
        UnpicklingError: the file has calls that no tensor needs, is damaged, or holds no list.
        StorageError: it cannot be read.
    """
    with clear_errors(path, "read"), open(path, "rb") as file:
        molecules = _unpickled(file)
    if not isinstance(molecules, list):
        raise pickle.UnpicklingError(
            f"it holds no list of molecules but {type(molecules).__name__}"
        )
    return molecules


class _Unpickler(pickle._Unpickler):  # the C version allocates the sizes that a file declares
    dispatch: ClassVar[dict[int, Callable[..., Any]]] = {
        code: load for code, load in pickle._Unpickler.dispatch.items() if code not in _OTHER_WAYS
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(
                f"it calls {module}.{name}, and ZINC's files hold nothing but lists, dictionaries, "
                "numbers and tensors. The file may be an attack; nothing in it was run"
            )
        return _ADMITTED[module, name]

    def persistent_load(self, pid: Any) -> Any:
        return pid


def _unpickled(file: IO[bytes]) -> Any:
    """Return the next object of the file."""
    try:
        return _Unpickler(file).load()
    except (OSError, pickle.UnpicklingError):
        raise
    except KeyError as error:  # of the dispatch
        raise pickle.UnpicklingError(f"the instruction {error} is not allowed") from None
    except MemoryError:
        raise pickle.UnpicklingError("it declares an object that exceeds the memory") from None
    except Exception as error:  # of any kind: instructions that do not fit each other
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from None


def _storage(content: object) -> bytes:
    if not isinstance(content, bytes):
        raise pickle.UnpicklingError(f"the storage of a tensor is a {type(content).__name__}")
    return content


def _encoded(text: object, encoding: object) -> bytes:
    """Return the bytes that protocols before 3 write as text."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are written as {type(text).__name__}")
    return text.encode("latin1")


def _tensor(storage: object, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
    if not (isinstance(storage, bytes) and isinstance(size, tuple) and isinstance(stride, tuple)):
        raise pickle.UnpicklingError("a tensor without storage, size or stride")
    return Tensor(storage, offset, size, stride)


def _elements(storage: bytes) -> np.ndarray:
    """Return the elements of a storage, as `torch.save` wrote them before torch 1.6 and writes them
    within pickles to this day: four pickles, the keys of all storages, their number and bytes."""
    file = io.BytesIO(storage)
    magic, _version, _system, described, _keys = (_unpickled(file) for _ in range(5))
    try:
        kind, dtype, _key, _device, count, view = described
        sound = (magic, kind, view) == (_MAGIC, "storage", None) and dtype in _DTYPES.values()
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise pickle.UnpicklingError("a tensor's storage is not in PyTorch's format")
    content = storage[file.tell() :]
    size = np.dtype(dtype).itemsize
    if type(count) is not int or content[:8] != count.to_bytes(8, "little", signed=True):
        raise pickle.UnpicklingError("a tensor's storage declares two different lengths")
    if len(content) != 8 + count * size:
        raise pickle.UnpicklingError(
            f"a tensor's storage declares {count} elements and has {len(content) - 8} bytes"
        )
    return np.frombuffer(content, dtype=dtype, offset=8)


_DTYPES = {
    "ByteStorage": "u1",
    "CharStorage": "i1",
    "ShortStorage": "<i2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "BoolStorage": "?",
}
_ADMITTED: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
    ("_codecs", "encode"): _encoded,
    ("collections", "OrderedDict"): OrderedDict,
    **{("torch", name): dtype for name, dtype in _DTYPES.items()},
}
