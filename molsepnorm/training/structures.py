"""Descriptors and fingerprints of a data set, computed once and mapped into memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.devices import usable_cores
from molsepnorm.files.digests import short_digest
from molsepnorm.files.writing import cache_folder, clear_errors, replacing
from molsepnorm.molecules.featurize.descriptors import (
    BITS,
    COUNTS,
    DESCRIPTORS,
    FAST_DESCRIPTORS,
    PAIRS,
    RDKIT_VERSION,
    describe,
    morgan_bits,
    morgan_counts,
    pair_counts,
)
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.predict.workers import Workers

_VERSION = 5
_TASK = 256  # molecules of a task


class _Kind(NamedTuple):
    """Something that is computed from a molecule."""

    compute: Callable[[Any], np.ndarray]
    """Function of an RDKit molecule that returns an array (width,)."""
    width: int
    dtype: type[np.generic]


_KINDS = {
    "descriptors": _Kind(describe, len(DESCRIPTORS), np.float32),
    "fast_descriptors": _Kind(
        partial(describe, names=FAST_DESCRIPTORS), len(FAST_DESCRIPTORS), np.float32
    ),
    "fingerprint": _Kind(morgan_bits, BITS // 8, np.uint8),
    "counts": _Kind(morgan_counts, COUNTS, np.uint16),
    "pairs": _Kind(pair_counts, PAIRS, np.uint16),
}


def structure_features(
    smiles: Sequence[str],
    names: Sequence[str],
    progress: Callable[[int, int], None] = lambda done, of: None,
    processes: int | None = None,
) -> dict[str, np.ndarray]:
    """Return what can be computed from the structure of every molecule.

    It is computed once, and read from the cache afterwards. Each name has its own file there.

    Args:
        smiles: SMILES of G molecules.
        names: `descriptors`, float32 [G, D], NaN where RDKit cannot compute one;
            `fast_descriptors`, the `FAST_DESCRIPTORS` among them; `fingerprint`, uint8
            [G, BITS / 8]; `counts`, uint16 [G, COUNTS]; `pairs`, uint16 [G, PAIRS].
        progress: called with the number of molecules done, and G.
        processes: maximum number of worker processes; by default one per core.

    Returns:
        The named arrays, mapped into memory.
    """
    version = f"{_VERSION} {RDKIT_VERSION}"
    key = short_digest("\n".join((version, *DESCRIPTORS, *FAST_DESCRIPTORS, *smiles)))
    paths = {name: cache_folder() / f"structures-{key}.{name}" for name in names}
    missing = {name: path for name, path in paths.items() if _open(path, name, smiles) is None}
    if missing:
        _write(missing, smiles, progress, processes or usable_cores())
    found = {name: _open(path, name, smiles) for name, path in paths.items()}
    return {name: array for name, array in found.items() if array is not None}


def _open(path: Path, name: str, smiles: Sequence[str]) -> np.ndarray | None:
    """Map a file into memory; None if there is none, or a damaged one."""
    try:
        found = np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError):
        return None
    _, width, dtype = _KINDS[name]
    return found if (found.shape, found.dtype) == ((len(smiles), width), dtype) else None


def _write(
    paths: Mapping[str, Path],
    smiles: Sequence[str],
    progress: Callable[[int, int], None],
    processes: int,
) -> None:
    """Compute the named arrays in worker processes, in memory that does not grow with the
    molecules; each has a file."""
    starts = range(0, len(smiles), _TASK)
    compute = partial(_compute, [*paths])
    with ExitStack() as stack:
        # first: a worker that outlives this process would hold the locks of its files
        workers = stack.enter_context(Workers(min(processes, len(starts)), compute))
        files = []
        for name, path in paths.items():
            _, width, dtype = _KINDS[name]
            scratch = stack.enter_context(replacing(path))
            with clear_errors(scratch, "write"):
                files.append(stack.enter_context(scratch.open("wb")))
            about = {"descr": np.dtype(dtype).str, "shape": (len(smiles), width)}
            np.lib.format.write_array_header_1_0(files[-1], about | {"fortran_order": False})
        done, tasks = 0, (smiles[start : start + _TASK] for start in starts)
        for parts in workers.map(tasks):
            with clear_errors(cache_folder(), "write"):
                for file, part in zip(files, parts, strict=True):
                    file.write(part.data)
            done += len(parts[0])
            progress(done, len(smiles))


def _compute(names: Sequence[str], smiles: Sequence[str]) -> list[np.ndarray]:
    mols = [oriented_mol(text) for text in smiles]
    kinds = [_KINDS[name] for name in names]
    return [
        np.stack([kind.compute(mol) for mol in mols], dtype=kind.dtype, casting="same_kind")
        for kind in kinds
    ]
