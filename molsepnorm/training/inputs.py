"""Extra inputs of a data set: feature columns, and cached fingerprint counts and descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.data.datasets import SPLITS, Dataset
from molsepnorm.devices import usable_cores
from molsepnorm.errors import ConfigError, DataError, StorageError, counted
from molsepnorm.files.digests import open_array, short_digest, write_array
from molsepnorm.files.writing import cache_folder, clear_errors, replacing, scratch_folder
from molsepnorm.model import SUPERVISED, ExtraArrays, PropertyModel
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.model.parts.kernel import body_of
from molsepnorm.molecules.featurize import descriptors
from molsepnorm.molecules.featurize.descriptors import COUNTS, DESCRIPTORS, FAST_DESCRIPTORS, PAIRS
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, FeatureColumn
from molsepnorm.tasks.inputs import FeatureKind
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.recipes import load_dataset
from molsepnorm.workers import Workers

_VERSION = 4  # of the cached files
_TASK = 256  # molecules of a task
_MAX_MOLECULES = 60_000  # whose fingerprint counts the probe reads; they take 17 kB each


def fit_inputs(config: TrainConfig, dataset: Dataset) -> ExtraInputs:
    """Return the configured inputs, with the words of the training rows."""
    data = config.data
    if not (data.feature_columns or data.molecule_features or data.auxiliary):
        return NO_INPUTS
    if config.objective.name != SUPERVISED:
        raise ConfigError(
            "data.feature_columns, data.molecule_features and data.auxiliary need a model with "
            f"targets, and the objective {config.objective.name} has none: set them to fine-tune "
            "the model"
        )
    rows = dataset.splits["train"]
    if data.folds is not None and data.test_set:  # the models of all folds have the same words
        rows = np.concatenate([rows, dataset.splits["val"]])
    columns = tuple(
        _fit_column(name, [cells[row] for row in rows], data.features[name])
        for name, cells in dataset.columns.items()
    )
    inputs = ExtraInputs(columns, predicted=tuple(dataset.predicted))
    if not data.molecule_features:
        return inputs
    if dataset.smiles is None:
        raise ConfigError(f"{dataset.name} has no SMILES: leave data.molecule_features out")
    morgan = COUNTS * ("morgan" in data.molecule_features)
    described = DESCRIPTORS if "rdkit" in data.molecule_features else ()
    return replace(inputs, morgan=morgan, descriptors=described)


def _fit_column(name: str, cells: list[Any], kind: FeatureKind | None) -> FeatureColumn:
    where = f"column '{name}' of the training rows"
    return FeatureColumn.fit(name, cells, lambda row: where, kind)


def fit_molecules(
    config: TrainConfig, dataset: Dataset, inputs: ExtraInputs, start: PropertyModel | None
) -> MoleculeColumns | None:
    """Return what computes the vectors of columns of molecules, if there are some: that of the
    start if it has the same columns, or one that is fitted to the training rows."""
    columns = [column for column in inputs.columns if column.components]
    if not columns:
        return None
    known, level = None if start is None else start.molecules, config.data.standardize
    if known is not None and known.widths == {each.name: each.width for each in columns}:
        return replace(known, standardize=level, known={})
    network = None
    if start is not None:
        network = body_of(start.network, start.encoding.molecule_features).to("cpu")
    rows = dataset.splits["train"]
    cells = {each.name: [dataset.columns[each.name][row] for row in rows] for each in columns}
    return MoleculeColumns.fit(columns, cells, network, dataset.store.featurizer, level)


def about_molecules(dataset: Dataset, molecules: MoleculeColumns | None) -> Iterator[str]:
    """Yield for each column of further molecules how many test rows have one that training lacks,
    since the scores stand for such rows."""
    test = dataset.splits.get("test", np.zeros(0, dtype=np.int64))
    if molecules is None or not len(test):
        return
    for name in molecules.widths:
        keys = np.array(molecules.keys(name, dataset.columns[name]), dtype=object)
        known = {*keys[dataset.splits["train"]]}
        new = sum(key not in known for key in keys[test])
        yield f"{new:,} of {len(test):,} test rows have a molecule in '{name}' that training lacks."


def probe_inputs(
    config: TrainConfig, dataset: Dataset, inputs: ExtraInputs, with_forest: bool
) -> ExtraInputs:
    """Return the inputs of the probe: those of the network, or else fingerprint counts.

    Beside a forest, which needs descriptors anyway, the probe reads them and atom pairs, too. For
    data sets with a name it reads no more than the network, since RDKit cannot read all molecules.
    """
    if inputs.morgan or inputs.descriptors or config.data.dataset is not None:
        return inputs
    if dataset.smiles is None or dataset.store.features is not None:
        return inputs
    if len(dataset.store) > _MAX_MOLECULES:
        return inputs
    if not with_forest:
        return replace(inputs, morgan=COUNTS)
    return replace(inputs, morgan=COUNTS, descriptors=FAST_DESCRIPTORS, pairs=PAIRS)


def with_inputs(
    dataset: Dataset,
    inputs: ExtraInputs,
    progress: Callable[[int, int], None] = lambda done, of: None,
    processes: int | None = None,
    molecules: MoleculeColumns | None = None,
) -> tuple[Dataset, ExtraArrays]:
    """Return the extra inputs of all molecules, and the data set without rows that lack them.

    A row without a value that the model can read, such as a word that no training row has, is left
    out of the splits with a warning.
    """
    cells = [dataset.columns[name] for name in inputs.names]
    vectors = None if molecules is None else molecules.vectors
    columns, errors = inputs.encode_columns(cells, len(dataset.store), vectors)
    added = (dataset.predicted[name][:, None] for name in inputs.predicted)
    columns = np.hstack([columns, *added])
    extra = ExtraArrays.none(len(dataset.store))._replace(columns=columns)
    if inputs.morgan or inputs.descriptors or inputs.pairs:
        smiles = dataset.smiles_of(slice(None))
        extra = extra._replace(**structure_features(smiles, inputs, progress, processes))
    return _readable(dataset, errors) if inputs.columns else dataset, extra


def training_dataset(config: TrainConfig) -> Dataset:
    """Load the configured data set with the splits that a run trains on."""
    dataset = load_dataset(config)
    columns = replace(fit_inputs(config, dataset), morgan=0, descriptors=(), pairs=0)
    return with_inputs(dataset, columns, molecules=fit_molecules(config, dataset, columns, None))[0]


def _readable(dataset: Dataset, errors: Sequence[str | None]) -> Dataset:
    readable = np.array([error is None for error in errors])
    splits = {name: rows[readable[rows]] for name, rows in dataset.splits.items()}
    for name, before in dataset.splits.items():
        if name in SPLITS and len(before) and not len(splits[name]):
            raise DataError(
                f"none of the {counted(len(before), 'row')} of the split '{name}' can be read: "
                f"{errors[before[0]]}. Choose another split, or other data.feature_columns"
            )
    lost = sorted(row for rows in dataset.splits.values() for row in rows[~readable[rows]])
    warnings = dataset.warnings
    if lost:
        warnings += (f"Left out: {counted(len(lost), 'row')}, since {errors[lost[0]]}.",)
    return replace(dataset, splits=splits, warnings=warnings)


class _File(NamedTuple):
    """A cached array."""

    path: Path
    name: str
    dtype: type[np.generic]
    shape: tuple[int, int]


def structure_features(
    smiles: Sequence[str],
    reads: ExtraInputs,
    progress: Callable[[int, int], None] = lambda done, of: None,
    processes: int | None = None,
) -> dict[str, np.ndarray]:
    """Return `counts`, `descriptors` and `pairs` of G molecules, as far as they are read, mapped
    into memory from files of the cache. See `structure_inputs`."""
    version = f"{_VERSION} {descriptors.RDKIT_VERSION}"
    key, files = short_digest("\n".join((version, *smiles))), list[_File]()
    for name, width in zip(ExtraArrays._fields[:3], reads.widths[:3], strict=True):
        if width:
            is_count = name != "descriptors"
            digest = short_digest(key, *reads.descriptors * (not is_count))
            path = cache_folder() / f"structures-{digest}.{name}"
            dtype = np.uint16 if is_count else np.float32
            files.append(_File(path, name, dtype, (len(smiles), width)))
    arrays, missing = {}, []
    for file in files:
        try:
            arrays[file.name] = open_array(*file)
        except StorageError:  # no file, or a damaged one
            file.path.unlink(missing_ok=True)
            missing.append(file)
    if missing:
        _write(missing, smiles, reads.descriptors, progress, processes or usable_cores())
    return arrays | {file.name: open_array(*file) for file in missing}


def _write(
    files: Sequence[_File],
    smiles: Sequence[str],
    described: Sequence[str],
    progress: Callable[[int, int], None],
    processes: int,
) -> None:
    """Compute and write the arrays, without holding them in memory."""
    names = [file.name for file in files]
    with ExitStack() as complete, ExitStack() as stack:
        # the files are renamed last: a process that finds them does not remove leftover spools
        folder = stack.enter_context(scratch_folder(files[0].path))
        with clear_errors(folder, "write"):
            spools = [stack.enter_context((folder / name).open("w+b")) for name in names]
        tasks = [smiles[start : start + _TASK] for start in range(0, len(smiles), _TASK)]
        workers = Workers(min(processes, len(tasks)), partial(_compute, names, described))
        done = 0
        for parts in stack.enter_context(workers).map(tasks):
            with clear_errors(folder, "write"):
                for spool, part in zip(spools, parts, strict=True):
                    spool.write(part.data)
            done += len(parts[0])
            progress(done, len(smiles))
        for (path, name, dtype, shape), spool in zip(files, spools, strict=True):
            spool.seek(0)
            pieces = iter(partial(spool.read, 1 << 20), b"")
            write_array(complete.enter_context(replacing(path)), name, dtype, shape, pieces)


def _compute(
    names: Sequence[str], described: Sequence[str], smiles: Sequence[str]
) -> list[np.ndarray]:
    wanted = "counts" in names, described if "descriptors" in names else (), "pairs" in names
    return [array for array in descriptors.structure_inputs(smiles, *wanted) if array.shape[1]]
