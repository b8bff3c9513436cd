"""`GraphStore`: encoded molecules as a few flat arrays in one memory-mapped file.

A store holds molecules only; labels, weights and splits lie beside it, so that every target of a
table uses the same store. The file is written chunk by chunk as the molecules are encoded, so that
memory does not grow with their number, and it is opened by mapping, which takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.files.arrays import Streamed, open_arrays, refuse_damaged, write_arrays
from molsepnorm.files.writing import replacing, scratch_folder
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec
from molsepnorm.molecules.encodings.paths import PathMerger, PathVocabulary

SCHEMA = 4
"""Raised whenever the meaning of the file changes; a file of another schema is made anew."""

_PATH_PARTS = ("parents", "bonds", "depths")


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

    @staticmethod
    def open(path: Path | str) -> GraphStore:
        """Map a file that `write` made. It is a `StorageError` if there is no such file, it does
        not match its digest, or it is no store of this schema."""
        path = Path(path)
        with refuse_damaged(path, f"graph store of schema {SCHEMA}"):
            arrays, about, digest = open_arrays(path)
            if about["schema"] != SCHEMA:
                raise ValueError(f"its schema is {about['schema']}")
            parts = (np.array(arrays[f"path_{part}"]) for part in _PATH_PARTS)
            encoding = {**about["encoding"], "bond_sizes": tuple(about["encoding"]["bond_sizes"])}
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
    def write(
        path: Path | str,
        chunks: Iterable[tuple[EncodedGraphs, np.ndarray]],
        rejected: Sequence[Rejected],
        encoding: EncodingSpec,
        featurizer: str,
    ) -> GraphStore:
        """Write a store and map it. If a chunk cannot be made or written, nothing is left behind.

        `chunks` are molecules and their rows in the source (int64), some at a time. `rejected`, the
        rows without a molecule, may be filled while they are read.
        """
        merger, max_bonds, atom_features = PathMerger(), 0, 0
        sizes, rows = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        features = [np.zeros((0, encoding.molecule_features), dtype=np.float32)]
        with replacing(path) as scratch, scratch_folder(path) as folder:
            for name in ("atoms", "degrees", "pairs"):
                (folder / name).touch()
            for graphs, numbers in chunks:
                provisional = merger.add(graphs.paths).take(graphs.pairs)
                large = {"atoms": graphs.atoms, "degrees": graphs.degrees, "pairs": provisional}
                for name, array in large.items():
                    with open(folder / name, "ab") as file:
                        file.write(np.ascontiguousarray(array).data)
                sizes.append(graphs.sizes)
                rows.append(numbers)
                if graphs.features is not None:
                    features.append(graphs.features)
                atom_features = graphs.atoms.shape[1]
                max_bonds = max(max_bonds, graphs.max_bonds)
            paths, codes = merger.finish()
            codes = codes.astype(np.uint16 if len(paths) <= np.iinfo(np.uint16).max else np.int32)
            byte, joined = np.dtype(np.uint8), np.concatenate(sizes)
            num_atoms, num_pairs = int(joined.sum()), int((joined**2).sum())
            arrays: dict[str, np.ndarray | Streamed] = {
                "sizes": joined,
                "rows": np.concatenate(rows),
                **_vocabulary(paths),
                "atoms": Streamed(byte, (num_atoms, atom_features), _pieces(folder / "atoms")),
                "degrees": Streamed(byte, (num_atoms,), _pieces(folder / "degrees")),
                "pairs": Streamed(codes.dtype, (num_pairs,), _pieces(folder / "pairs", codes)),
            }
            if encoding.molecule_features:
                arrays["features"] = np.concatenate(features)
            about = {
                "schema": SCHEMA,
                "encoding": asdict(encoding),
                "featurizer": featurizer,
                "max_bonds": max_bonds,
                "rejected": rejected,
            }
            write_arrays(scratch, arrays, about)
        return GraphStore.open(path)

    @staticmethod
    def in_memory(
        chunks: Iterable[tuple[EncodedGraphs, np.ndarray]],
        rejected: Sequence[Rejected],
        encoding: EncodingSpec,
        featurizer: str,
    ) -> GraphStore:
        """Return a store without a file; arguments as for `write`."""
        with TemporaryDirectory(prefix="molsepnorm-") as folder:
            store = GraphStore.write(f"{folder}/a.store", chunks, rejected, encoding, featurizer)
            large = ("atoms", "degrees", "pairs", *["features"] * (store.features is not None))
            arrays: dict[str, Any] = {name: np.array(getattr(store, name)) for name in large}
            return replace(store, **arrays, path=None)


def _vocabulary(paths: PathVocabulary) -> dict[str, np.ndarray]:
    return {f"path_{part}": getattr(paths, part) for part in _PATH_PARTS}


def _pieces(path: Path, codes: np.ndarray | None = None) -> Iterator[Any]:
    """Yield a spooled array, with provisional codes replaced by final ones if `codes` is given."""
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):  # fits into the processor's cache
            yield piece if codes is None else codes.take(np.frombuffer(piece, dtype=np.int32)).data
