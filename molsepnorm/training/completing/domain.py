"""Errors of a trained model by the similarity to its training molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import InvalidMolecule
from molsepnorm.model import PropertyModel
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.tasks import Task
from molsepnorm.tasks.domain import GRID, Domain
from molsepnorm.tasks.metrics import numbered
from molsepnorm.tasks.molecule_errors import describe_miss, mean_errors, miss, relative_errors
from molsepnorm.training.results.metrics import Bin, DomainErrors
from molsepnorm.training.scoring import Predictions, drawn, refit_rows

_MAX_COMPARED = 2000
"""Maximum number of molecules of a split that are compared with the training molecules."""
_MAX_TRAIN = 1_000_000
"""Maximum number of training molecules; their fingerprints take 256 MB."""
_BINS = 10


def fit_domain(
    model: PropertyModel,
    dataset: Dataset,
    predictions: Predictions,
    is_refit: bool,
    keep_structures: bool,
) -> tuple[PropertyModel, DomainErrors | None]:
    """Return the model with its domain, and the errors that it was learned from.

    `Domain.fit` learns the expected errors (`miss`) from the validation molecules. The error of a
    molecule with several rows is their mean. At most 2,000 rows of a split are compared, drawn at
    random. If `is_refit`, a part of the model is fitted to the validation molecules, too. The
    domain is then that of all molecules, its errors those of the model before.

    Returns:
        The model, with SMILES, fingerprints and labels of its training molecules if
        `keep_structures`; and its errors, None without SMILES, or for one training molecule or more
        than 1,000,000.
    """
    seen = dict.fromkeys(("val", "test"), dataset.splits["train"])
    if is_refit:
        seen["test"] = refit_rows(dataset.splits)
    train = np.sort(seen["test"])
    if dataset.smiles is None or len(train) > _MAX_TRAIN:
        return model, None
    if len(np.unique(dataset.molecule_ids[train])) < 2:
        return model, None
    from molsepnorm.molecules.featurize.fingerprints import nearest, packed_morgan

    compared = [split for split in ("val", "test") if split in predictions.graphs]
    errors = _errors(model.task, dataset, predictions, compared)
    similarity: dict[str, np.ndarray] = {}
    try:
        bits = packed_morgan(dataset.smiles_of(train))
        for split in compared:
            labelled = np.flatnonzero(np.isfinite(errors[split]).any(axis=1))
            chosen = drawn(labelled, _MAX_COMPARED)
            rows = predictions.graphs[split][chosen]
            places = np.searchsorted(train, seen[split])
            found = nearest(packed_morgan(dataset.smiles_of(rows)), bits[places])[1]
            molecules = dataset.molecule_ids[rows]
            errors[split] = _by_molecule(errors[split][chosen], molecules)
            similarity[split] = _by_molecule(found[:, None], molecules)[:, 0]
    except InvalidMolecule:  # the text of another package's featuriser
        return model, None
    if not len(similarity["val"]):
        return model, None
    domain = Domain.fit(similarity["val"], errors["val"])
    structures = [_molecules(model.task, dataset, train, bits)] if keep_structures else []
    relative = {
        split: mean_errors(relative_errors(own, errors["val"])) for split, own in errors.items()
    }
    return replace(model, domain=domain, structures=tuple(structures)), DomainErrors(
        error=describe_miss(model.task.targets),
        lowest=domain.lowest,
        similarity=GRID.round(2).tolist(),
        expected=dict(zip(model.task.names, domain.errors, strict=True)),
        bins={
            split: error_by_similarity(each, relative[split]) for split, each in similarity.items()
        },
    )


def _errors(
    task: Task, dataset: Dataset, predictions: Predictions, splits: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return the errors of the molecules of these splits, (n, T); NaN without a label."""
    errors = {}
    for split in splits:
        labels, values = dataset.exact_labels[predictions.graphs[split]], predictions.values[split]
        parts = zip(task.targets, labels.T, task.columns(), strict=True)
        of_targets = [miss(target, own, values[:, columns]) for target, own, columns in parts]
        errors[split] = np.stack(of_targets, axis=1)
    return errors


def _by_molecule(values: np.ndarray, molecules: np.ndarray) -> np.ndarray:  # (n, T) -> (m, T)
    """Return the mean of the finite values of each molecule, in the order of their first rows; NaN
    without any."""
    index = numbered(molecules)
    known = np.isfinite(values)
    sums = [np.bincount(index, column) for column in np.where(known, values, 0).T]
    counts = [np.bincount(index, column) for column in known.T]
    with np.errstate(invalid="ignore"):
        return np.stack(sums, axis=1) / np.stack(counts, axis=1)


def error_by_similarity(similarity: np.ndarray, errors: np.ndarray) -> list[Bin]:
    """Return number and mean error of the molecules by similarity, without empty bins.

    Args:
        similarity: float64 [n], from 0 to 1; NaN is left out.
        errors: float64 [n].
    """
    known = np.isfinite(similarity)
    similarity, errors = similarity[known], errors[known]
    numbers = np.minimum((similarity * _BINS).astype(int), _BINS - 1)  # 1 is in the last bin
    found = []
    for n in np.unique(numbers).tolist():
        own = errors[numbers == n]
        ends = {"low": n / _BINS, "high": (n + 1) / _BINS}
        found.append(Bin(molecules=len(own), error=float(own.mean()), **ends))
    return found


def _molecules(
    task: Task, dataset: Dataset, rows: np.ndarray, bits: np.ndarray
) -> TrainingMolecules:
    smiles = dataset.source_smiles
    assert smiles is not None
    learned = dataset.labels[rows]
    labels, bounds = learned.astype(np.float64), dataset.bound_signs[rows]
    for i, target in enumerate(task.targets):
        if (transform := target.transformation) is None:
            # the shortest decimal number that is the same float32
            labels[:, i] = [float(str(value)) for value in learned[:, i]]
        else:
            labels[:, i] = transform.cells(learned[:, i])
            bounds[:, i] *= transform.sign
    # rows of a molecule have one SMILES, since it tells which labels are of the same molecule
    _, first, number = np.unique(dataset.molecule_ids[rows], return_index=True, return_inverse=True)
    texts = tuple(str(smiles[row]) for row in dataset.store.rows[rows[first[number]]])
    return TrainingMolecules(texts, bits, labels, bounds)
