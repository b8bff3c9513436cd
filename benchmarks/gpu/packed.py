"""Data sets for a machine without RDKit, raw files or a network.

    python benchmarks/gpu/packed.py zinc zinc-full      writes .gpu/molecules; pack.sh calls it

A store has a code for every pair of atoms, ten times as much data as the molecules. So a data set
is packed as its atoms, bonds, labels and splits in compressed arrays, and encoded again on the
other machine. The result is the same store, byte for byte, for any network.
"""

from __future__ import annotations

import filecmp
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import numpy as np  # noqa: E402
from environment import commit  # noqa: E402

from molsepnorm.data import datasets  # noqa: E402
from molsepnorm.data.datasets import SPLITS, Dataset  # noqa: E402
from molsepnorm.data.datasets.cached import CachedLabels, LabelledGraph, cached_set  # noqa: E402
from molsepnorm.data.store import GraphStore  # noqa: E402
from molsepnorm.model import encoding_of  # noqa: E402
from molsepnorm.molecules.encodings import EncodingSpec  # noqa: E402
from molsepnorm.molecules.molecule import MolGraph  # noqa: E402
from molsepnorm.training import TrainConfig, load_config  # noqa: E402
from molsepnorm.training.architecture import architecture  # noqa: E402

__all__ = ["FOLDER", "load", "pack", "unpack"]

FOLDER = HERE.parents[1] / ".gpu" / "molecules"
_CHUNK = 4096  # molecules at once


def load(config: TrainConfig) -> Dataset:
    """Load the data of a run, from packed molecules if they exist."""
    encoding = encoding_of(architecture(config))
    name = config.data.dataset
    if name and (packed := FOLDER / f"{name}.npz").is_file():
        unpack(packed, f"{name}-downloaded", encoding)
    return datasets.load(config.data, encoding)


def pack(dataset: Dataset, path: Path) -> None:
    """Write the molecules, rows, labels and splits of a data set to an .npz file.

    The molecules have up to 256 atoms and one bond feature, such as ZINC's.
    """
    store = dataset.store
    assert len(store.encoding.bond_sizes) == 1 and store.sizes.max() <= 256
    parts = [_bonds(store, start) for start in range(0, len(store), _CHUNK)]
    counts, ends, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path,
        sizes=store.sizes.astype(np.uint16),
        atoms=store.atoms,
        bond_counts=counts.astype(np.uint16),
        lower=ends[:, 0].astype(np.uint8),  # separate columns compress better
        upper=ends[:, 1].astype(np.uint8),
        bond_labels=labels.astype(np.uint8),
        labels=dataset.labels,
        rows=store.rows.astype(np.int32),
        **{split: dataset.splits[split].astype(np.int32) for split in SPLITS},
    )


def _bonds(store: GraphStore, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bonds of a chunk: their number in each molecule, both ends (Σ M, 2), their labels.

    Pairs of atoms at distance one are the bonds, and the path between them is that bond."""
    squares = store.sizes**2
    chunk = slice(start, start + _CHUNK)
    first = int(squares[:start].sum())
    sizes, squares = store.sizes[chunk], squares[chunk]
    codes = store.pairs[first : first + int(squares.sum())].astype(np.int64)
    pairs = np.flatnonzero(store.paths.depths[codes] == 1)
    molecule = np.searchsorted(np.cumsum(squares), pairs, side="right")
    within = pairs - (np.cumsum(squares) - squares)[molecule]
    lower, upper = np.divmod(within, sizes[molecule])
    once = lower < upper
    labels = store.paths.bonds[codes[pairs[once]]]
    counts = np.bincount(molecule[once], minlength=len(sizes))
    return counts, np.stack([lower[once], upper[once]], axis=1), labels


def unpack(path: Path, key: str, encoding: EncodingSpec) -> tuple[GraphStore, CachedLabels]:
    """Make the store and the labels of packed molecules in the cache, unless they exist.

    Args:
        path: a file that `pack` wrote.
        key: stands for the source, see `cached_set`; "zinc-downloaded" is the key of
            `datasets.load` for zinc without raw files.
        encoding: the encoding of the store.
    """
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    splits = {name: arrays[name] for name in SPLITS}
    num_targets = arrays["labels"].shape[1]
    return cached_set(key, "zinc", encoding, num_targets, _molecules(arrays), splits)


def _molecules(arrays: dict[str, np.ndarray]) -> Iterator[LabelledGraph]:
    ends = np.cumsum(arrays["sizes"], dtype=np.int64)[:-1]
    bond_ends = np.cumsum(arrays["bond_counts"], dtype=np.int64)[:-1]
    bonds = np.stack([arrays["lower"], arrays["upper"]], axis=1).astype(np.int32)
    graphs = map(
        MolGraph,
        np.split(arrays["atoms"], ends),
        np.split(bonds, bond_ends),
        np.split(arrays["bond_labels"][:, None], bond_ends),
    )
    yield from map(LabelledGraph, arrays["rows"].tolist(), graphs, arrays["labels"].tolist())


def main(names: list[str]) -> int:
    """Pack data sets, check that they unpack to the same stores, and note the commit."""
    for name in names:
        config = load_config(name)
        dataset = datasets.load(config.data, encoding_of(architecture(config)))
        store, path = dataset.store, FOLDER / f"{name}.npz"
        pack(dataset, path)
        with TemporaryDirectory() as folder, patch.dict(os.environ, MOLSEPNORM_CACHE=folder):
            unpacked, labels = unpack(path, "check", store.encoding)
            same = filecmp.cmp(unpacked.path, store.path, shallow=False)
            same &= np.array_equal(labels.values, dataset.labels, equal_nan=True)
        size = f"{path.stat().st_size / 2**20:.1f} MiB, {len(store):,} molecules"
        print(f"{name}: {size}; the unpacked store {'equals' if same else 'DIFFERS FROM'} its own")
        if not same:
            return 1
    (FOLDER.parent / "commit").write_text(f"{commit()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
