"""`GraphStore`: encoded molecules as a few flat arrays in one memory-mapped file.

A store holds molecules only; labels, weights and splits lie beside it, so that every target of a
table uses the same store. The file is written chunk by chunk as the molecules are encoded, so that
memory does not grow with their number, and it is opened by mapping, which takes milliseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from molsepnorm.files.arrays import Streamed, array_bytes, open_arrays, refuse_damaged, write_arrays
from molsepnorm.files.writing import clear_errors, replacing, scratch_folder
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec
from molsepnorm.molecules.encodings.paths import PathMerger, PathVocabulary

SCHEMA = 4
"""Raised whenever the meaning of the file changes; a file of another schema is made anew."""


class Rejected(NamedTuple):
    """A row of the source that did not become a molecule."""

    row: int
    """Index of the row, counted from 0 as in `splits.json`."""
    smiles: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphStore(EncodedGraphs):
    """G encoded molecules with their rows in the source. The `pairs` of a file are uint16 if that
    is enough for the path codes."""

    rows: np.ndarray
    """int64 [G]: index of each molecule in the source, where rejected rows count too."""

    rejected: tuple[Rejected, ...]
    """Rows of the source that did not become molecules."""

    encoding: EncodingSpec
    featurizer: str
    """Name of the featuriser."""

    digest: str
    """SHA-256 of the content, which is verified when a file is opened."""

    path: Path | None = None
    """The file; None for a store in memory."""

    warning: str = ""
    """Why the file had to be made anew; empty if it did not."""

    @staticmethod
    def open(path: Path | str) -> GraphStore:
        """Map a file that `StoreWriter` wrote, after comparing it with its digest.

        Raises:
            StorageError: there is no such file, it is damaged, or it is no store of this schema.
        """
        path = Path(path)
        with refuse_damaged(path, f"graph store of schema {SCHEMA}"):
            arrays, about, digest = open_arrays(path)
            if about["schema"] != SCHEMA:
                raise ValueError(f"its schema is {about['schema']}")
            parts = (np.array(arrays[f"path_{part}"]) for part in _PATH_PARTS)
            encoding = about["encoding"]
            encoding["bond_sizes"] = tuple(encoding["bond_sizes"])
            return GraphStore(
                sizes=np.array(arrays["sizes"]),
                atoms=arrays["atoms"],
                degrees=arrays["degrees"],
                pairs=arrays["pairs"],
                rows=np.array(arrays["rows"]),
                paths=PathVocabulary(*parts),
                max_bonds=about["max_bonds"],
                rejected=tuple(Rejected(*entry) for entry in about["rejected"]),
                encoding=EncodingSpec(**encoding),
                featurizer=about["featurizer"],
                digest=digest,
                path=path,
                features=arrays.get("features"),
            )

    @staticmethod
    def in_memory(
        chunks: Iterable[tuple[EncodedGraphs, np.ndarray]],
        rejected: Sequence[Rejected],
        encoding: EncodingSpec,
        featurizer: str,
    ) -> GraphStore:
        """Return a store of one molecule or more without a file.

        Args:
            chunks: molecules and their rows in the source, some at a time.
            rejected: rows without a molecule; may be filled while `chunks` is read.
            encoding: the encoding of the molecules.
            featurizer: name of the featuriser that made them.
        """
        merger, max_bonds = PathMerger(), 0
        parts: list[tuple[np.ndarray, ...]] = []
        for graphs, rows in chunks:
            pairs = merger.add(graphs.paths).take(graphs.pairs)
            part = (graphs.sizes, graphs.atoms, graphs.degrees, pairs, rows)
            parts.append(part if graphs.features is None else (*part, graphs.features))
            max_bonds = max(max_bonds, graphs.max_bonds)
        paths, final = merger.finish()
        names = ["sizes", "atoms", "degrees", "pairs", "rows"]
        names += ["features"] * (encoding.molecule_features > 0)
        arrays = map(np.concatenate, zip(*parts, strict=True))
        joined: dict[str, Any] = dict(zip(names, arrays, strict=True))
        joined["pairs"] = final.take(joined["pairs"])
        digest = hashlib.sha256()
        for piece in array_bytes({**joined, **_vocabulary(paths)}, {}):
            digest.update(piece)
        return GraphStore(
            **joined,
            paths=paths,
            max_bonds=max_bonds,
            rejected=tuple(rejected),
            encoding=encoding,
            featurizer=featurizer,
            digest=digest.hexdigest(),
        )


_PATH_PARTS = ("parents", "bonds", "depths")


class StoreWriter:
    """Writes a `GraphStore` chunk by chunk, in memory that does not grow with the pairs.

    It is a context manager: if the block succeeds, the store is moved to `path`; if the block
    fails, nothing is left behind.

    Args:
        path: where the store will be.
        encoding: the encoding of its molecules.
        featurizer: name of the featuriser that made the molecules.
    """

    def __init__(self, path: Path | str, encoding: EncodingSpec, featurizer: str) -> None:
        self.path = Path(path)
        self.rejected: Sequence[Rejected] = ()
        """Rows of the source that did not become molecules."""
        self._encoding, self._featurizer = encoding, featurizer
        self._merger = PathMerger()
        self._sizes = [np.zeros(0, dtype=np.int64)]
        self._rows = [np.zeros(0, dtype=np.int64)]
        self._features = [np.zeros((0, encoding.molecule_features), dtype=np.float32)]
        self._atom_features = self._max_bonds = 0

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
                    self._remove_spool()  # before the store is there: no later writer would do it
        finally:
            self._remove_spool()

    def _remove_spool(self) -> None:
        for file in self._files.values():
            with suppress(OSError):  # a full disk, which has been reported
                file.close()
        self._spool.close()

    def append(self, graphs: EncodedGraphs, rows: np.ndarray | None = None) -> None:
        """Add molecules and their rows in the source, by default those after the last one."""
        if not len(graphs):
            return
        if rows is None:
            last = self._rows[-1]
            rows = np.arange(len(graphs)) + (last[-1] + 1 if len(last) else 0)
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
        self._rows.append(np.asarray(rows, dtype=np.int64))
        if graphs.features is not None:
            self._features.append(graphs.features)
        self._atom_features = graphs.atoms.shape[1]
        self._max_bonds = max(self._max_bonds, graphs.max_bonds)

    def _assemble(self, scratch: Path) -> None:
        paths, final = self._merger.finish()
        final = final.astype(np.uint16 if len(paths) <= np.iinfo(np.uint16).max else np.int32)
        sizes = np.concatenate(self._sizes)
        num_atoms, num_pairs = int(sizes.sum()), int((sizes**2).sum())
        byte = np.dtype(np.uint8)
        files = self._files
        arrays: dict[str, np.ndarray | Streamed] = {
            "sizes": sizes,
            "rows": np.concatenate(self._rows),
            **_vocabulary(paths),
            "atoms": Streamed(byte, (num_atoms, self._atom_features), _chunks(files["atoms"])),
            "degrees": Streamed(byte, (num_atoms,), _chunks(files["degrees"])),
            "pairs": Streamed(final.dtype, (num_pairs,), _chunks(files["pairs"], final)),
        }
        if self._encoding.molecule_features:
            arrays["features"] = np.concatenate(self._features)
        about: dict[str, Any] = {
            "schema": SCHEMA,
            "encoding": asdict(self._encoding),
            "featurizer": self._featurizer,
            "max_bonds": self._max_bonds,
            "rejected": self.rejected,
        }
        write_arrays(scratch, arrays, about)


def _vocabulary(paths: PathVocabulary) -> dict[str, np.ndarray]:
    return {f"path_{part}": getattr(paths, part) for part in _PATH_PARTS}


def _chunks(source: BinaryIO, codes: np.ndarray | None = None) -> Iterator[Any]:
    """Yield a spooled array, with provisional codes replaced by final ones if `codes` is given."""
    source.seek(0)
    while chunk := source.read(1 << 20):  # fits into the processor's cache
        yield chunk if codes is None else codes.take(np.frombuffer(chunk, dtype=np.int32)).data
