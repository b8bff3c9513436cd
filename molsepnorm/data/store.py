"""`GraphStore`: the encoded molecules of a data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodedGraphs, EncodingSpec, encode
from molsepnorm.molecules.encodings.paths import PathMerger
from molsepnorm.molecules.featurize import SIZES
from molsepnorm.molecules.molecule import MolGraph

_CHUNK = 256  # molecules read or encoded together: enough for numpy, few enough for the cache


class Rejected(NamedTuple):
    """A row of the source that did not become a molecule."""

    row: int
    """Index of the row, counted from 0 as in `splits.json`."""
    smiles: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class GraphStore(EncodedGraphs):
    """G encoded molecules. Their `pairs` are uint16 if that is enough for the path codes."""

    rows: np.ndarray
    """int64 [G]: index of each molecule in the source, where rejected rows count too."""
    rejected: tuple[Rejected, ...]
    encoding: EncodingSpec
    featurizer: str

    @staticmethod
    def of(
        chunks: Iterable[tuple[EncodedGraphs, np.ndarray]],
        rejected: Sequence[Rejected],
        encoding: EncodingSpec,
        featurizer: str,
    ) -> GraphStore:
        """Join chunks of molecules and their rows in the source (int64). Reading the chunks may
        fill `rejected`."""
        merger, max_bonds = PathMerger(), 0
        sizes, rows = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        atoms, degrees = [], [np.zeros(0, dtype=np.uint8)]
        provisional: list[np.ndarray] = []
        features = [np.zeros((0, encoding.molecule_features), dtype=np.float32)]
        for graphs, numbers in chunks:
            provisional.append(merger.add(graphs.paths).take(graphs.pairs))
            sizes.append(graphs.sizes)
            rows.append(numbers)
            atoms.append(graphs.atoms)
            degrees.append(graphs.degrees)
            if graphs.features is not None:
                features.append(graphs.features)
            max_bonds = max(max_bonds, graphs.max_bonds)
        paths, codes = merger.finish()
        codes = codes.astype(np.uint16 if len(paths) <= np.iinfo(np.uint16).max else np.int32)
        pairs = np.empty(sum(map(len, provisional)), dtype=codes.dtype)
        end = 0
        for chunk in provisional:
            start, end = end, end + len(chunk)
            codes.take(chunk, out=pairs[start:end])
        return GraphStore(
            sizes=np.concatenate(sizes),
            atoms=np.concatenate(atoms) if atoms else np.zeros((0, 0), dtype=np.uint8),
            degrees=np.concatenate(degrees),
            pairs=pairs,
            rows=np.concatenate(rows),
            paths=paths,
            max_bonds=max_bonds,
            rejected=tuple(rejected),
            encoding=encoding,
            featurizer=featurizer,
            features=np.concatenate(features) if encoding.molecule_features else None,
        )

    @staticmethod
    def encode(
        molecules: Iterable[tuple[int, MolGraph]],
        rejected: Sequence[Rejected],
        encoding: EncodingSpec,
        featurizer: str,
    ) -> GraphStore:
        """Encode molecules and their rows; see `of`."""

        def chunks() -> Iterator[tuple[EncodedGraphs, np.ndarray]]:
            remaining = iter(molecules)
            while chunk := list(islice(remaining, _CHUNK)):
                numbers, graphs = zip(*chunk, strict=True)
                rows = np.array(numbers)
                yield encode(graphs, encoding, SIZES[featurizer].atoms, rows), rows

        return GraphStore.of(chunks(), rejected, encoding, featurizer)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        about = asdict(self.encoding), self.featurizer, self.max_bonds, self.rejected
        digest = hashlib.sha256(json.dumps(about).encode())
        paths = self.paths.parents, self.paths.bonds, self.paths.depths
        arrays = self.sizes, self.rows, *paths, self.atoms, self.degrees, self.pairs, self.features
        for array in arrays:
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def graphs_of(smiles: Sequence[str], featurizer: str) -> Iterator[MolGraph | InvalidMolecule]:
    """Yield a graph or an error for each SMILES, computed by worker processes if there are many."""
    from molsepnorm.devices import usable_cores
    from molsepnorm.workers import results_of

    tasks = (smiles[start : start + _CHUNK] for start in range(0, len(smiles), _CHUNK))
    results = results_of(featurize.get(featurizer).many, tasks, usable_cores())
    return chain.from_iterable(results)
