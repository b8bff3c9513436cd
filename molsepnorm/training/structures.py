"""Descriptors and fingerprint counts of a data set, computed once and mapped into memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.devices import usable_cores
from molsepnorm.errors import StorageError
from molsepnorm.files.arrays import Streamed, open_arrays, refuse_damaged, write_arrays
from molsepnorm.files.digests import short_digest
from molsepnorm.files.writing import cache_folder, clear_errors, replacing, scratch_folder
from molsepnorm.molecules.featurize.descriptors import (
    COUNTS,
    DESCRIPTORS,
    FAST_DESCRIPTORS,
    PAIRS,
    RDKIT_VERSION,
    describe,
    morgan_counts,
    pair_counts,
)
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.workers import Workers

_VERSION = 4
_TASK = 256  # molecules of a task


class _Kind(NamedTuple):
    """Numbers that are computed from a molecule."""

    compute: Callable[[Any], np.ndarray]
    """Function of an RDKit molecule that returns an array (width,)."""
    width: int
    dtype: type[np.generic]


_KINDS = {
    "descriptors": _Kind(describe, len(DESCRIPTORS), np.float32),
    "fast_descriptors": _Kind(
        partial(describe, names=FAST_DESCRIPTORS), len(FAST_DESCRIPTORS), np.float32
    ),
    "counts": _Kind(morgan_counts, COUNTS, np.uint16),
    "pairs": _Kind(pair_counts, PAIRS, np.uint16),
}


def structure_features(
    smiles: Sequence[str],
    names: Sequence[str],
    progress: Callable[[int, int], None] = lambda done, of: None,
    processes: int | None = None,
) -> dict[str, np.ndarray]:
    """Return numbers of the structure of every molecule, from the cache if they are there.

    Args:
        smiles: SMILES of G molecules.
        names: `descriptors`, float32 [G, D], NaN where RDKit cannot compute one;
            `fast_descriptors`, the `FAST_DESCRIPTORS` among them; `counts`, uint16 [G, COUNTS];
            `pairs`, uint16 [G, PAIRS]. Each has a file of its own.
        progress: called with the number of molecules done, and G.
        processes: maximum number of worker processes; by default one per core.

    Returns:
        The named arrays, mapped into memory.
    """
    version = f"{_VERSION} {RDKIT_VERSION}"
    key = short_digest("\n".join((version, *DESCRIPTORS, *FAST_DESCRIPTORS, *smiles)))
    paths = {name: cache_folder() / f"structures-{key}.{name}" for name in names}
    found, missing = {}, {}
    for name, path in paths.items():
        try:
            found[name] = _open(path, name, len(smiles))
        except StorageError:  # no file, or a damaged one
            path.unlink(missing_ok=True)
            missing[name] = path
    if missing:
        _write(missing, smiles, progress, processes or usable_cores())
    return found | {name: _open(path, name, len(smiles)) for name, path in missing.items()}


def _open(path: Path, name: str, molecules: int) -> np.ndarray:
    with refuse_damaged(path, "file of descriptors"):
        arrays, _, _ = open_arrays(path)
        if arrays[name].shape != (molecules, _KINDS[name].width):
            raise ValueError(f"{name} has the shape {arrays[name].shape}")
        return arrays[name]


def _write(
    paths: Mapping[str, Path],
    smiles: Sequence[str],
    progress: Callable[[int, int], None],
    processes: int,
) -> None:
    """Compute the named arrays in worker processes, in memory that does not grow with the
    molecules; each has a file."""
    names = list(paths)
    with ExitStack() as complete, ExitStack() as stack:
        # the files are renamed last: a process that finds them does not remove leftover spools
        folder = stack.enter_context(scratch_folder(paths[names[0]]))
        with clear_errors(folder, "write"):
            spools = [stack.enter_context((folder / name).open("w+b")) for name in names]
        starts = range(0, len(smiles), _TASK)
        compute = partial(_compute, names)
        workers = stack.enter_context(Workers(min(processes, len(starts)), compute))
        done, tasks = 0, (smiles[start : start + _TASK] for start in starts)
        for parts in workers.map(tasks):
            with clear_errors(folder, "write"):
                for spool, part in zip(spools, parts, strict=True):
                    spool.write(part.data)
            done += len(parts[0])
            progress(done, len(smiles))
        for name, spool in zip(names, spools, strict=True):
            _, width, dtype = _KINDS[name]
            spool.seek(0)
            pieces = iter(partial(spool.read, 1 << 20), b"")
            array = Streamed(np.dtype(dtype), (len(smiles), width), pieces)
            write_arrays(complete.enter_context(replacing(paths[name])), {name: array}, {})


def _compute(names: Sequence[str], smiles: Sequence[str]) -> list[np.ndarray]:
    mols = [oriented_mol(text) for text in smiles]
    kinds = [_KINDS[name] for name in names]
    return [
        np.stack([kind.compute(mol) for mol in mols], dtype=kind.dtype, casting="same_kind")
        for kind in kinds
    ]
