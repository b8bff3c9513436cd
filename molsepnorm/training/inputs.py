"""Extra inputs of a data set: feature columns, and fingerprint counts and descriptors, which are
computed once and mapped into memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.data.datasets import SPLITS, Dataset
from molsepnorm.devices import usable_cores
from molsepnorm.errors import ConfigError, DataError, StorageError, counted
from molsepnorm.files.arrays import open_array, write_array
from molsepnorm.files.digests import short_digest
from molsepnorm.files.writing import cache_folder, clear_errors, replacing, scratch_folder
from molsepnorm.model import SUPERVISED, ExtraArrays
from molsepnorm.molecules.featurize.descriptors import (
    COUNTS,
    DESCRIPTORS,
    FAST_DESCRIPTORS,
    PAIRS,
    RDKIT_VERSION,
    describe,
    descriptor_columns,
    morgan_counts,
    pair_counts,
)
from molsepnorm.molecules.featurize.smiles import oriented_mol
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, FeatureColumn
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.recipes import load_dataset
from molsepnorm.workers import Workers

_VERSION = 4  # of the cached files
_TASK = 256  # molecules of a task
_MAX_MOLECULES = 60_000
"""Maximum number of molecules whose fingerprint counts the probe reads; they take 17 kB each."""


def fit_inputs(config: TrainConfig, dataset: Dataset) -> ExtraInputs:
    """Return the configured inputs, with the words of the training rows.

    In cross-validation beside a test set they are the words of the training and the validation
    rows, so that the models of all folds can be joined.

    Raises:
        ConfigError: the objective has no use for them, or there are no SMILES to compute them from.
        DataError: a column has the same value in all training rows.
    """
    data = config.data
    if not (data.feature_columns or data.molecule_features):
        return NO_INPUTS
    if config.objective.name != SUPERVISED:
        raise ConfigError(
            "data.feature_columns and data.molecule_features are inputs of a model with targets, "
            f"and the objective {config.objective.name} has none: leave them out, and set them to "
            "fine-tune the model"
        )
    rows = dataset.splits["train"]
    if data.folds is not None and data.test_set:  # the models of all folds have the same words
        rows = np.concatenate([rows, dataset.splits["val"]])
    fitted = []
    for name, cells in dataset.columns.items():

        def where(row: int, name: str = name) -> str:
            return f"column '{name}' of the training rows"

        own = [cells[row] for row in rows]
        fitted.append(FeatureColumn.fit(name, own, where, data.features[name]))
    columns = tuple(fitted)
    if not data.molecule_features:
        return ExtraInputs(columns)
    if dataset.smiles is None:
        raise ConfigError(
            f"data.molecule_features: {dataset.name} has no SMILES to compute them from: leave it "
            "out, or use SMILES"
        )
    chosen = data.molecule_features
    return ExtraInputs(
        columns, COUNTS * ("morgan" in chosen), DESCRIPTORS if "rdkit" in chosen else ()
    )


def probe_inputs(
    config: TrainConfig, dataset: Dataset, inputs: ExtraInputs, with_forest: bool
) -> ExtraInputs:
    """Return the inputs that the probe of fine-tuning may read: those of the network, and
    fingerprint counts and descriptors if the network reads neither.

    Data sets with a name have none, since RDKit cannot read all of their molecules. Without a
    forest (`with_forest`), which reads descriptors, too, descriptors and atom pairs would make
    predictions slower.
    """
    molecules = len(dataset.store)
    if inputs.morgan or inputs.descriptors:
        return inputs
    if config.data.table is None and not config.data.in_memory:
        return inputs
    if dataset.smiles is None or dataset.store.features is not None or molecules > _MAX_MOLECULES:
        return inputs
    if not with_forest:
        return replace(inputs, morgan=COUNTS)
    return replace(inputs, morgan=COUNTS, descriptors=FAST_DESCRIPTORS, pairs=PAIRS)


def with_inputs(
    dataset: Dataset,
    inputs: ExtraInputs,
    progress: Callable[[int, int], None] = lambda done, of: None,
    processes: int | None = None,
) -> tuple[Dataset, ExtraArrays]:
    """Return the extra inputs of all molecules, and the data set without rows that lack them.

    A row without a value that the model can read, such as a word that no training row has, is left
    out of the splits with a warning.

    Args:
        progress: called with the number of molecules whose descriptors are done, and of all.
        processes: maximum number of worker processes; by default one per core.

    Raises:
        DataError: no row of the training, validation or test split has all values.
        InvalidMolecule: RDKit cannot read a SMILES.
        ModelError: this version of RDKit lacks a descriptor.
        StorageError: the cache of descriptors cannot be written.
    """
    cells = [dataset.columns[name] for name in inputs.names]
    columns, errors = inputs.encode_columns(cells, len(dataset.store))
    extra = ExtraArrays.none(len(dataset.store))._replace(columns=columns)
    if inputs.morgan or inputs.descriptors or inputs.pairs:
        described = "fast_descriptors" if inputs.descriptors == FAST_DESCRIPTORS else "descriptors"
        names = {"counts": inputs.morgan, described: inputs.descriptors, "pairs": inputs.pairs}
        smiles = dataset.smiles_of(slice(None))
        wanted = [name for name, width in names.items() if width]
        found = structure_features(smiles, wanted, progress, processes)
        if described in found:
            values = found.pop(described)
            if described == "descriptors":
                values = values[:, descriptor_columns(inputs.descriptors)]
            found["descriptors"] = values
        extra = extra._replace(**found)
    return _readable(dataset, errors) if inputs.columns else dataset, extra


def training_dataset(config: TrainConfig) -> Dataset:
    """Load the configured data set with the splits that a run trains on."""
    dataset = load_dataset(config)
    columns = replace(fit_inputs(config, dataset), morgan=0, descriptors=(), pairs=0)
    return with_inputs(dataset, columns)[0]


def _readable(dataset: Dataset, errors: Sequence[str | None]) -> Dataset:
    readable = np.array([error is None for error in errors])
    splits = {name: rows[readable[rows]] for name, rows in dataset.splits.items()}
    for name, before in dataset.splits.items():
        if name in SPLITS and len(before) and not len(splits[name]):
            raise DataError(
                f"none of the {counted(len(before), 'row')} of the split '{name}' can be read: "
                f"{errors[before[0]]}. Choose another split, or leave the column out of "
                "data.feature_columns"
            )
    lost = sorted(row for rows in dataset.splits.values() for row in rows[~readable[rows]])
    warnings = dataset.warnings
    if lost:
        warnings += (f"Left out: {counted(len(lost), 'row')}, since {errors[lost[0]]}.",)
    return replace(dataset, splits=splits, warnings=warnings)


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
    kind = _KINDS[name]
    return open_array(path, name, kind.dtype, (molecules, kind.width))


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
            path = complete.enter_context(replacing(paths[name]))
            write_array(path, name, dtype, (len(smiles), width), pieces)


def _compute(names: Sequence[str], smiles: Sequence[str]) -> list[np.ndarray]:
    mols = [oriented_mol(text) for text in smiles]
    kinds = [_KINDS[name] for name in names]
    return [
        np.stack([kind.compute(mol) for mol in mols], dtype=kind.dtype, casting="same_kind")
        for kind in kinds
    ]
