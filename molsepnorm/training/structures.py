"""Descriptors and fingerprints of a data set, computed once and mapped into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from molsepnorm.errors import StorageError
from molsepnorm.files.arrays import Streamed, open_arrays, refuse_damaged, write_arrays
from molsepnorm.files.writing import (
    cache_folder,
    clear_errors,
    fingerprint,
    replacing,
    scratch_folder,
)
from molsepnorm.molecules.featurize.descriptors import (
    BITS,
    DESCRIPTORS,
    RDKIT_VERSION,
    describe,
    morgan_bits,
)
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.predict.workers import Workers

__all__ = ["structure_targets"]

_VERSION = 1
_TASK = 256  # molecules of a task


def structure_targets(
    smiles: Sequence[str],
    progress: Callable[[int, int], None] = lambda done, of: None,
    processes: int | None = None,
) -> dict[str, np.ndarray]:
    """Return what can be computed from the structure of every molecule.

    It is computed once, and read from the cache afterwards.

    Args:
        smiles: SMILES of G molecules.
        progress: called with the number of molecules done, and G.
        processes: maximum number of worker processes; by default one per core.

    Returns:
        `descriptors`, float32 [G, D], NaN where RDKit cannot compute one; `fingerprint`, uint8
        [G, BITS / 8]. Both are mapped into memory.

    Raises:
        InvalidMolecule: RDKit cannot read a SMILES.
        StorageError: the cache cannot be written.
    """
    key = fingerprint("\n".join((f"{_VERSION} {RDKIT_VERSION}", *DESCRIPTORS, *smiles)))
    path = cache_folder() / f"structures-{key}.targets"
    if path.exists():
        try:
            return _open(path, len(smiles))
        except StorageError:
            path.unlink(missing_ok=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    _write(path, smiles, progress, processes or cores or 1)
    return _open(path, len(smiles))


def _open(path: Path, molecules: int) -> dict[str, np.ndarray]:
    with refuse_damaged(path, "file of descriptors"):
        arrays, _, _ = open_arrays(path)
        for name, width in (("descriptors", len(DESCRIPTORS)), ("fingerprint", BITS // 8)):
            if arrays[name].shape != (molecules, width):
                raise ValueError(f"{name} has the shape {arrays[name].shape}")
        return arrays


def _write(
    path: Path, smiles: Sequence[str], progress: Callable[[int, int], None], processes: int
) -> None:
    """Compute the targets in worker processes, in memory that does not grow with the molecules."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder(path))
        with clear_errors(path, "write"):
            spools = [stack.enter_context((folder / name).open("w+b")) for name in ("d", "f")]
        starts = range(0, len(smiles), _TASK)
        workers = stack.enter_context(Workers(min(processes, len(starts)), _compute))
        done, tasks = 0, (smiles[start : start + _TASK] for start in starts)
        for parts in workers.map(tasks):
            with clear_errors(path, "write"):
                for spool, part in zip(spools, parts, strict=True):
                    spool.write(part.data)
            done += len(parts[0])
            progress(done, len(smiles))
        shapes = (len(smiles), len(DESCRIPTORS)), (len(smiles), BITS // 8)
        arrays = {
            "descriptors": Streamed(np.dtype(np.float32), shapes[0], _pieces(spools[0])),
            "fingerprint": Streamed(np.dtype(np.uint8), shapes[1], _pieces(spools[1])),
        }
        with replacing(path) as scratch:
            write_arrays(scratch, arrays, {})


def _compute(smiles: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    descriptors = np.full((len(smiles), len(DESCRIPTORS)), np.nan, dtype=np.float32)
    bits = np.zeros((len(smiles), BITS // 8), dtype=np.uint8)
    for row, text in enumerate(smiles):
        mol = oriented_mol(text)
        descriptors[row], bits[row] = describe(mol), morgan_bits(mol)
    return descriptors, bits


def _pieces(spool: BinaryIO) -> Iterator[bytes]:
    spool.seek(0)
    while piece := spool.read(1 << 20):
        yield piece
