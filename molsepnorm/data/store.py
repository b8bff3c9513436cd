"""`GraphStore`: a whole encoded data set as a few flat arrays in one memory-mapped file.

The file is in the safetensors format: a JSON header, then plain arrays; nothing is pickled. It is
written here array by array as the molecules come, so that memory stays flat whatever their number,
and it is mapped, not read, so that opening one takes milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from molsepnorm.errors import StorageError
from molsepnorm.files.digests import BLANK, KEY, check_sealed, write_sealed
from molsepnorm.files.writing import clear_errors, fingerprint, replacing, scratch_folder
from molsepnorm.molecules.encodings.encode import EncodedGraphs, EncodingSpec
from molsepnorm.molecules.encodings.paths import PathMerger, PathVocabulary

__all__ = ["REMEDY", "SCHEMA", "GraphStore", "StoreWriter"]

SCHEMA = 2
"""Raised whenever the meaning of the file changes; a file of another schema is made anew."""

REMEDY = "delete it, and it will be made anew"
"""The end of the message about a store that cannot be used."""

_DTYPES = {
    name: np.dtype(dtype)
    for name, dtype in (
        ("U8", "uint8"),
        ("U16", "uint16"),
        ("I16", "int16"),
        ("I32", "int32"),
        ("I64", "int64"),
        ("F32", "float32"),
    )
}
_WRONG_CONTENT = (ValueError, TypeError, AttributeError, LookupError, RecursionError, OverflowError)
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True, eq=False)
class GraphStore:
    """G encoded molecules with T labels each, one molecule after the other."""

    sizes: np.ndarray
    """int64 [G]: atoms of each molecule."""

    atoms: np.ndarray
    """uint8 [Σ N, A]: atom features."""

    degrees: np.ndarray
    """uint8 [Σ N]: clipped degrees."""

    pairs: np.ndarray
    """uint16 or int32 [Σ N²]: path codes, each molecule's N by N matrix row by row."""

    labels: np.ndarray
    """float32 [G, T]: NaN where a label is missing."""

    rows: np.ndarray
    """int64 [G]: each molecule's place in the source, where rejected rows count too."""

    paths: PathVocabulary
    """What the codes mean."""

    max_bonds: int
    """As many as any atom has."""

    encoding: EncodingSpec
    featurizer: str
    """The name by which `molsepnorm.molecules.featurize.get` finds it."""

    targets: tuple[str, ...]
    """T names."""

    notes: dict[str, Any]
    """Whatever the source wants to say of itself, such as its splits."""

    path: Path
    """The file."""

    digest: str
    """Stands for the file's content. It was verified when the file was opened, unless the file is
    from before stores held their digest."""

    remark: str = ""
    """Why it had to be made anew, for a person."""

    features: np.ndarray | None = None
    """float32 [G, F]: molecule-level features; None if there are none."""

    def __len__(self) -> int:
        return len(self.sizes)

    @staticmethod
    def open(path: Path | str) -> GraphStore:
        """Map a file that `StoreWriter` wrote, after comparing it with its digest.

        Raises:
            StorageError: no such file, not a store of this schema, or a damaged one.
        """
        path = Path(path)
        try:
            with clear_errors(path, "read"):
                with open(path, "rb") as file:
                    header, start = _read_header(file)
                about = json.loads(header.pop("__metadata__")["store"])
                if about["schema"] == SCHEMA:
                    digest = check_sealed(path) or fingerprint(path)
                    arrays = {name: _map(path, start, entry) for name, entry in header.items()}
                    return _assembled(arrays, about, path, digest)
        except StorageError:
            raise
        except _WRONG_CONTENT as error:
            raise StorageError(f"{path} is damaged or no graph store: {REMEDY}") from error
        raise StorageError(
            f"{path} is a graph store of schema {about['schema']}, not {SCHEMA}: {REMEDY}"
        )


class StoreWriter:
    """Writes a `GraphStore` chunk by chunk, in memory that does not grow with the pairs.

    Use it as a context: when the block ends well the store takes its place under `path`, when it
    fails nothing is left behind.

    Args:
        path: where the store will be.
        encoding: what its molecules are encoded with.
        featurizer: name of the featuriser that made the molecules.
        targets: names of the labels.
    """

    def __init__(
        self, path: Path | str, encoding: EncodingSpec, featurizer: str, targets: tuple[str, ...]
    ) -> None:
        self.path = Path(path)
        self.notes: dict[str, Any] = {}
        self._about = {
            "schema": SCHEMA,
            "encoding": asdict(encoding),
            "featurizer": featurizer,
            "targets": targets,
        }
        self._merger = PathMerger()
        self._sizes: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []
        self._features = [np.zeros((0, encoding.molecule_features), dtype=np.float32)]
        self._num_targets = len(targets)
        self._atom_features = self._most_bonds = 0

    def __enter__(self) -> StoreWriter:
        with ExitStack() as stack:
            folder = stack.enter_context(scratch_folder(self.path))
            with clear_errors(self.path, "write"):
                self._files: dict[str, BinaryIO] = {
                    name: (folder / name).open("w+b") for name in ("atoms", "degrees", "pairs")
                }
            self._spool = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                with replacing(self.path) as scratch:
                    self._assemble(scratch)
                    self._remove_spool()  # once the store is there no writer comes to remove it
        finally:
            self._remove_spool()

    def _remove_spool(self) -> None:
        for file in self._files.values():
            with suppress(OSError):  # a full disk, which has been reported
                file.close()
        self._spool.close()

    def append(
        self, graphs: EncodedGraphs, labels: np.ndarray, rows: np.ndarray | None = None
    ) -> None:
        """Add molecules with their labels (G, T), and their rows in the source (counted on from
        the last one where not given)."""
        if not len(graphs):
            return
        if rows is None:
            rows = np.arange(len(graphs)) + (self._rows[-1][-1] + 1 if self._rows else 0)
        labels = np.asarray(labels, dtype=np.float32).reshape(len(graphs), self._num_targets)
        provisional = self._merger.add(graphs.paths)
        arrays = {
            "atoms": graphs.atoms,
            "degrees": graphs.degrees,
            "pairs": provisional.take(graphs.pairs),
        }
        with clear_errors(self.path, "write"):
            for name, array in arrays.items():
                self._files[name].write(np.ascontiguousarray(array).data)
        self._sizes.append(graphs.sizes)
        self._labels.append(labels)
        self._rows.append(np.asarray(rows, dtype=np.int64))
        if graphs.features is not None:
            self._features.append(graphs.features)
        self._atom_features = graphs.atoms.shape[1]
        self._most_bonds = max(self._most_bonds, graphs.max_bonds)

    def _assemble(self, scratch: Path) -> None:
        paths, final = self._merger.finish()
        sizes = np.concatenate(self._sizes) if self._sizes else np.zeros(0, dtype=np.int64)
        num_atoms, num_pairs = int(sizes.sum()), int((sizes**2).sum())
        code_dtype = np.uint16 if len(paths) <= np.iinfo(np.uint16).max else np.int32
        final = final.astype(code_dtype)
        in_memory = {
            "sizes": sizes,
            "rows": np.concatenate(self._rows) if self._rows else np.zeros(0, dtype=np.int64),
            "labels": np.concatenate(self._labels or [np.zeros((0, self._num_targets))]),
            "path_parents": paths.parents,
            "path_bonds": paths.bonds,
            "path_depths": paths.depths,
        }
        in_memory["labels"] = in_memory["labels"].astype(np.float32)
        if self._features[0].shape[1]:
            in_memory["features"] = np.concatenate(self._features)
        layout: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
            name: (array.dtype, array.shape) for name, array in in_memory.items()
        }
        layout |= {
            "atoms": (np.dtype(np.uint8), (num_atoms, self._atom_features)),
            "degrees": (np.dtype(np.uint8), (num_atoms,)),
            "pairs": (np.dtype(code_dtype), (num_pairs,)),
        }
        about = json.dumps({**self._about, "max_bonds": self._most_bonds, "notes": self.notes})
        # the widest numbers first, so that every array begins at a multiple of its item's size
        order = sorted(layout, key=lambda name: -layout[name][0].itemsize)

        def parts() -> Iterator[Any]:
            yield _header({name: layout[name] for name in order}, about)
            for name in order:
                if name in in_memory:
                    yield np.ascontiguousarray(in_memory[name]).data
                else:
                    yield from _chunks(self._files[name], final if name == "pairs" else None)

        write_sealed(scratch, parts())


def _chunks(source: BinaryIO, codes: np.ndarray | None) -> Iterator[Any]:
    """A spooled array, with the final number of each provisional code where `codes` is."""
    source.seek(0)
    while chunk := source.read(1 << 20):  # stays in the processor's cache
        yield chunk if codes is None else codes.take(np.frombuffer(chunk, dtype=np.int32)).data


def _header(layout: Mapping[str, tuple[np.dtype, tuple[int, ...]]], about: str) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {KEY: BLANK, "store": about}}
    position = 0
    for name, (dtype, shape) in layout.items():
        end = position + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        entries[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _read_header(file: BinaryIO) -> tuple[dict[str, Any], int]:
    """The header, and where the arrays begin."""
    length = int.from_bytes(file.read(8), "little")
    header = json.loads(file.read(min(length, 1 << 26)))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    if file.seek(0, 2) != 8 + length + max(ends):
        raise ValueError("the file ends early")
    return header, 8 + length


def _assembled(
    arrays: dict[str, np.ndarray], about: dict[str, Any], path: Path, digest: str
) -> GraphStore:
    return GraphStore(
        atoms=arrays["atoms"],
        degrees=arrays["degrees"],
        pairs=arrays["pairs"],
        labels=arrays["labels"],
        features=arrays.get("features"),
        sizes=np.array(arrays["sizes"]),
        rows=np.array(arrays["rows"]),
        paths=PathVocabulary(
            *(np.array(arrays[f"path_{part}"]) for part in ("parents", "bonds", "depths"))
        ),
        max_bonds=about["max_bonds"],
        encoding=EncodingSpec(
            **{**about["encoding"], "bond_sizes": tuple(about["encoding"]["bond_sizes"])}
        ),
        featurizer=about["featurizer"],
        targets=tuple(about["targets"]),
        notes=about["notes"],
        path=path,
        digest=digest,
    )


def _map(path: Path, start: int, entry: Mapping[str, Any]) -> np.ndarray:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    if 0 in shape:
        return np.zeros(shape, dtype=dtype)
    # copy-on-write, so that torch takes it without complaint; the file never changes
    return np.memmap(path, dtype, "c", start + entry["data_offsets"][0], shape)
