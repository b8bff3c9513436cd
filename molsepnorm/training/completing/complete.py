"""`complete`: what a model gets after its networks are trained and chosen, and its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import InvalidMolecule
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest, Predicted
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.predict.uncertainty import error_signals
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.calibration import Calibration, ClassSets, Intervals, quantile
from molsepnorm.tasks.domain import GRID, Domain
from molsepnorm.tasks.metrics import numbered
from molsepnorm.tasks.molecule_errors import describe_miss, mean_errors, miss, relative_errors
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing import baseline
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Examples
from molsepnorm.training.probe import MAX_MOLECULES, refit_kernels
from molsepnorm.training.results.metrics import (
    Bin,
    Blend,
    DomainErrors,
    IntervalCoverage,
    SetCoverage,
)
from molsepnorm.training.scoring import (
    Predictions,
    drawn,
    predicted_splits,
    refit_rows,
    score,
    split_scores,
)

_LEVEL = 0.9  # of the intervals whose coverage is written to `metrics.json`
_MAX_COMPARED = 2000
"""Maximum number of molecules of a split that are compared with the training molecules."""
_MAX_TRAIN = 1_000_000
"""Maximum number of training molecules; their fingerprints take 256 MB."""
_BINS = 10


class Completed(NamedTuple):
    """A model with all its parts."""

    model: PropertyModel
    predictions: Predictions
    scores: dict[str, Any]
    """Entries of `Metrics`."""


def complete(
    config: TrainConfig,
    chosen: PropertyModel,
    again: PropertyModel,
    examples: Examples,
    callback: Callback,
) -> Completed:
    """Return a model with a second fit, a random forest, intervals and a domain, and its scores.

    The test split is scored here, once. Kernel regressions are fitted a second time, to the
    training and validation molecules, unless `run.refit` is off, the data set has a name, so that
    its split is a protocol, or it has more molecules than a kernel regression compares. Validation
    scores and intervals are those of the model before.

    Args:
        chosen: the model so far, on the device of the examples. The result is on the CPU.
        again: `chosen`, or the same model with networks that were fitted a second time.
    """
    dataset = examples.dataset
    assert dataset is not None
    rows = refit_rows(dataset.splits)
    is_refit = config.run.refit and config.data.dataset is None and chosen.compares
    is_refit = is_refit and len(rows) <= MAX_MOLECULES
    final = refit_kernels(again, examples, rows) if is_refit else again
    parts = ["network"] * (again is not chosen) + ["kernel regression"] * is_refit
    graphs = predicted_splits(dataset)
    found = {
        split: (chosen if split == "val" else final).predict(examples.inputs, rows)
        for split, rows in graphs.items()
    }
    alone = {split: each.values for split, each in found.items()}
    forest = baseline.fit_baseline(config, dataset, final, alone["val"], bool(parts), callback)
    model, values = final, alone
    if forest is not None and forest.share:
        parts += ["random forest"] * forest.refit
        weights = [(1 - forest.share) * weight for weight in final.weights]
        model = final.with_parts((*final.parts, forest.forest), (*weights, forest.share))
        values = {
            split: (1 - forest.share) * own + forest.share * forest.predictions[split]
            for split, own in alone.items()
        }
    predictions = Predictions(graphs, values, {} if forest is None else forest.predictions)
    found = {split: each._replace(values=values[split]) for split, each in found.items()}
    model, calibrated = calibrate(model, dataset, found, graphs)
    model.to("cpu")
    keep_structures = config.run.training_structures
    model, domain = fit_domain(model, dataset, predictions, bool(parts), keep_structures)
    scores = score(dataset, model.task, predictions)
    if forest is not None and dataset.has_test:
        about = {"trees": forest.forest.trees, "seconds": round(forest.seconds, 1)}
        scores["baseline"] = scores["baseline"].model_copy(update=about)
    if dataset.has_test and (share := model.share(Forest)):
        own = split_scores(dataset, model.task, graphs, alone)
        scores["blend"] = Blend(forest_share=share, network=own)
    scores |= {"calibration": calibrated, "domain": domain, "refit": parts}
    return Completed(model, predictions, scores)


class _Labelled(NamedTuple):
    """The n rows of a split with a label of a target and a finite prediction."""

    labels: np.ndarray
    """(n,)."""
    values: np.ndarray
    """(n, outputs)."""
    signals: Mapping[str, np.ndarray]
    """(n,) each."""
    molecules: np.ndarray
    """[n]: the same number for rows of one molecule."""

    def some(self, rows: np.ndarray) -> _Labelled:
        signals = {name: each[rows] for name, each in self.signals.items()}
        return _Labelled(self.labels[rows], self.values[rows], signals, self.molecules[rows])


def calibrate(
    model: PropertyModel,
    dataset: Dataset,
    predicted: Mapping[str, Predicted],
    graphs: Mapping[str, np.ndarray],
) -> tuple[PropertyModel, dict[str, IntervalCoverage | SetCoverage]]:
    """Return the model with intervals and calibrated probabilities, and their scores by target.

    They are fitted to the validation molecules, and scored on the test molecules.

    Args:
        predicted: predictions for the validation and perhaps the test molecules, those for the
            former by a model that has not seen them.
        graphs: int64 [n], the molecules of each split.
    """
    fitted, scores = [], {}
    splits = [split for split in ("val", "test") if split in graphs]
    signals = {
        split: error_signals(model.task, predicted[split].spread, predicted[split].distance)
        for split in splits
    }
    for i, (target, columns) in enumerate(
        zip(model.task.targets, model.task.columns(), strict=True)
    ):
        found = {}
        for split in splits:
            labels, values = dataset.exact_labels[graphs[split], i], predicted[split].values
            every = _Labelled(
                labels, values[:, columns], signals[split][i], dataset.molecule_ids[graphs[split]]
            )
            usable = ~np.isnan(labels) & np.isfinite(every.values).all(axis=1)
            found[split] = every.some(np.flatnonzero(usable))
        calibration = _fit(target, found["val"])
        fitted.append(calibration)
        if "test" in found:
            scores[target.name] = _coverage(target, calibration, **found)
    return replace(model, calibration=tuple(fitted)), scores


def _fit(target: Target, found: _Labelled) -> Calibration:
    """Return the calibration of a target, from one row of each molecule, drawn at random."""
    shuffled = np.random.default_rng(0).permutation(np.arange(len(found.labels)))
    _, first = np.unique(found.molecules[shuffled], return_index=True)
    one = found.some(np.sort(shuffled[first]))
    if target.kind == "regression":
        return Intervals.fit(one.values[:, 0] - one.labels, one.signals, target.scale)
    weights = target.class_weights if all(target.class_weights) else ()
    return ClassSets.fit(one.labels.astype(int), one.values, weights)


def _coverage(
    target: Target, calibration: Calibration, val: _Labelled, test: _Labelled
) -> IntervalCoverage | SetCoverage:
    """Return coverage and size of the intervals or sets of the test molecules."""
    labels, values = test.labels, test.values.astype(float)
    molecules, of_test = (len(np.unique(each.molecules)) for each in (val, test))
    about = {"level": _LEVEL, "molecules": molecules, "test_molecules": of_test}
    coverage = size = None
    if isinstance(calibration, Intervals):
        if len(labels) and calibration.highest_level >= _LEVEL:
            half = calibration.half_widths(calibration.sd(test.signals, len(labels)), _LEVEL)
            coverage = float((np.abs(values[:, 0] - labels) <= half).mean())
            size = float(2 * half.mean())
        return IntervalCoverage(**about, coverage=coverage, width=size, signal=calibration.signal)
    if len(labels):
        held = calibration.sets(calibration.probabilities(values), _LEVEL)
        coverage = float(held[np.arange(len(labels)), labels.astype(int)].mean())
        size = float(held.sum(axis=1).mean())
    pairs = zip(target.classes or ("0", "1"), calibration.scores, strict=True)
    always = [name for name, each in pairs if np.isinf(quantile(each, _LEVEL))]
    return SetCoverage(**about, coverage=coverage, always=always, classes=size)


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
