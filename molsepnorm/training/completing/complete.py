"""`complete`: what a model gets after its networks are trained and chosen, and its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import InvalidMolecule
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest, KernelPart, NetworkPart, Predicted
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.molecules.featurize.fingerprints import nearest_labelled, packed_morgan
from molsepnorm.predict.uncertainty import error_signals
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.calibration import Calibration, ClassSets, Intervals, quantile
from molsepnorm.tasks.domain import GRID, Domain
from molsepnorm.tasks.domain import compared as compared_molecules
from molsepnorm.tasks.molecule_errors import describe_miss, mean_errors, miss, relative_errors
from molsepnorm.training import scoring
from molsepnorm.training.callback import Callback
from molsepnorm.training.completing import baseline
from molsepnorm.training.completing.networks import Fit, refit_networks, without_own
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.objectives import Examples
from molsepnorm.training.probe.kernel import refit_kernels
from molsepnorm.training.probe.ridge import MAX_MOLECULES
from molsepnorm.training.results.metrics import Bin, DomainErrors, IntervalCoverage, SetCoverage
from molsepnorm.training.scoring import Predictions, refit_rows

_LEVEL = 0.9  # of the intervals whose coverage is written to `metrics.json`
_MAX_COMPARED = 2000  # molecules of a split that are compared with the training molecules
_MAX_TRAIN = 1_000_000  # training molecules, whose fingerprints take 256 MB
_BINS = 10


class Completed(NamedTuple):
    model: PropertyModel
    predictions: Predictions
    scores: dict[str, Any]  # entries of `Metrics`


def complete(
    config: TrainConfig,
    chosen: PropertyModel,
    kernel: KernelPart | None,
    examples: Examples,
    fits: Sequence[Fit],
    callback: Callback,
) -> Completed | None:
    """Add a second fit, a random forest, intervals and a domain to a model, and score it.

    The test split is scored here, once. Networks (`refit_networks`, with `kernel` and `fits`) and
    kernel regressions are fitted a second time, to the training and validation molecules. A kernel
    regression is fitted once if `run.refit` is off, the data set has a name (its split is a
    protocol), or it cannot compare all of these molecules. Validation scores and intervals are
    those of the first fit. The result is on the CPU, or None if a callback stopped the second fit.
    """
    dataset = examples.dataset
    again = refit_networks(config, chosen, kernel, examples, fits, callback)
    if again is None:
        return None
    rows = refit_rows(dataset.splits)
    is_refit = config.run.refit and config.data.dataset is None and chosen.compares
    is_refit = is_refit and len(rows) <= MAX_MOLECULES
    pairs = zip(chosen.parts, again.parts, strict=True)
    trained = {a.network: b.network for a, b in pairs if isinstance(b, NetworkPart)}
    final = refit_kernels(again, examples, rows, trained) if is_refit else again
    parts = ["network"] * (again is not chosen) + ["kernel regression"] * is_refit
    graphs = scoring.predicted_splits(dataset)
    predicted = {
        split: (chosen if split == "val" else final).predict(examples.inputs, rows)
        for split, rows in graphs.items()
    }
    alone = {split: prediction.values for split, prediction in predicted.items()}
    forest = baseline.fit_baseline(config, dataset, final, alone["val"], bool(parts), callback)
    model, values = final, alone
    common = without_own(chosen, final, fits, examples) if dataset.has_test else {}
    if forest is not None and forest.shares.any():
        parts += ["random forest"] * forest.refit
        weights = np.vstack([(1 - forest.shares) * final.weights, forest.shares])
        model = final.with_parts((*final.parts, forest.forest), weights)
        values = _blended(final.task, alone, forest, forest.shares)
        if common:
            of_val = common["val"], forest.predictions["val"]
            shares = baseline.forest_shares(final.task, *of_val, dataset, Callback())
            common = _blended(final.task, common, forest, shares)
    of_forest = {} if forest is None else forest.predictions
    predictions = Predictions(graphs, values, of_forest, common)
    blended = {split: p._replace(values=values[split]) for split, p in predicted.items()}
    model, calibrated = _calibrate(model, dataset, blended, graphs)
    model.to("cpu")
    keep_structures = config.run.training_structures
    model, domain = _fit_domain(model, dataset, predictions, bool(parts), keep_structures)
    scores = scoring.score(dataset, model.task, predictions)
    if forest is not None and dataset.has_test:
        about = {"trees": forest.forest.trees, "seconds": round(forest.seconds, 1)}
        scores["baseline"] = scores["baseline"].model_copy(update=about)
    if dataset.has_test and (shares := model.share(Forest)).any():
        network_scores = scoring.split_scores(dataset, model.task, graphs, alone)
        scores["blend"] = {"forest_share": float(shares.mean()), "network": network_scores}
    if len(model.task.names) > 1:
        by_kind = {part.kind: model.share(type(part)) for part in model.parts}
        scores["shares"] = {
            name: {kind: float(shares[number]) for kind, shares in by_kind.items()}
            for number, name in enumerate(model.task.names)
        }
    scores |= {"calibration": calibrated, "domain": domain, "refit": parts}
    return Completed(model, predictions, scores)


def _blended(
    task: Task, alone: Mapping[str, np.ndarray], forest: baseline.Baseline, shares: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the means of the predictions by split with those of the forest."""
    ours, its = task.by_output(1 - shares), task.by_output(shares)
    return {split: ours * each + its * forest.predictions[split] for split, each in alone.items()}


class _Labelled(NamedTuple):
    """The n rows of a split with a label of a target and a finite prediction."""

    labels: np.ndarray  # (n,)
    values: np.ndarray  # (n, outputs)
    signals: Mapping[str, np.ndarray]  # (n,) each
    molecules: np.ndarray  # [n], see `scoring.scored_together`

    def some(self, rows: np.ndarray) -> _Labelled:
        signals = {name: signal[rows] for name, signal in self.signals.items()}
        return _Labelled(self.labels[rows], self.values[rows], signals, self.molecules[rows])


def _calibrate(
    model: PropertyModel,
    dataset: Dataset,
    predicted: Mapping[str, Predicted],
    graphs: Mapping[str, np.ndarray],
) -> tuple[PropertyModel, dict[str, IntervalCoverage | SetCoverage]]:
    """Return the model with intervals and calibrated probabilities, and their scores by target.

    They are fitted to the validation molecules, which the predicting model must not have seen, and
    scored on the test molecules.
    """
    fitted, scores = [], {}
    splits = [split for split in ("val", "test") if split in graphs]
    signals = {
        split: error_signals(model.task, predicted[split].spread, predicted[split].distance)
        for split in splits
    }
    task, together = model.task, scoring.scored_together(dataset)
    for i, (target, columns) in enumerate(zip(task.targets, task.columns(), strict=True)):
        labelled = {}
        for split in splits:
            rows = graphs[split]
            labels, values = dataset.exact_labels[rows, i], predicted[split].values[:, columns]
            every = _Labelled(labels, values, signals[split][i], together[rows])
            usable = ~np.isnan(labels) & np.isfinite(values).all(axis=1)
            labelled[split] = every.some(np.flatnonzero(usable))
        calibration = _calibration(target, labelled["val"])
        fitted.append(calibration)
        if "test" in labelled:
            scores[target.name] = _coverage(target, calibration, **labelled)
    return replace(model, calibration=tuple(fitted)), scores


def _calibration(target: Target, labelled: _Labelled) -> Calibration:
    """Fit the calibration of a target to one row of each molecule, drawn at random."""
    shuffled = np.random.default_rng(0).permutation(len(labelled.labels))
    _, first = np.unique(labelled.molecules[shuffled], return_index=True)
    one = labelled.some(np.sort(shuffled[first]))
    if target.kind == "regression":
        return Intervals.fit(one.values[:, 0] - one.labels, one.signals, target.scale)
    weights = target.class_weights if all(target.class_weights) else ()
    return ClassSets.fit(one.labels.astype(int), one.values, weights)


def _coverage(
    target: Target, calibration: Calibration, val: _Labelled, test: _Labelled
) -> IntervalCoverage | SetCoverage:
    labels, values = test.labels, test.values.astype(float)
    fitted, scored = (len(np.unique(rows.molecules)) for rows in (val, test))
    about = {"level": _LEVEL, "molecules": fitted, "test_molecules": scored}
    coverage = size = None
    if isinstance(calibration, Intervals):
        if len(labels) and calibration.highest_level >= _LEVEL:
            half = calibration.half_widths(calibration.sd(test.signals, len(labels)), _LEVEL)
            coverage = float((np.abs(values[:, 0] - labels) <= half).mean())
            size = float(2 * half.mean())
        return IntervalCoverage(**about, coverage=coverage, width=size, signal=calibration.signal)
    if len(labels):
        sets = calibration.sets(calibration.probabilities(values), _LEVEL)
        coverage = float(sets[np.arange(len(labels)), labels.astype(int)].mean())
        size = float(sets.sum(axis=1).mean())
    pairs = zip(target.class_names, calibration.scores, strict=True)
    always = [name for name, scores in pairs if np.isinf(quantile(scores, _LEVEL))]
    return SetCoverage(**about, coverage=coverage, always=always, classes=size)


def _fit_domain(
    model: PropertyModel,
    dataset: Dataset,
    predictions: Predictions,
    is_refit: bool,
    keep_structures: bool,
) -> tuple[PropertyModel, DomainErrors | None]:
    """Return the model with its domain, and the errors by similarity.

    `Domain.fit` learns the expected errors (`miss`) from the validation molecules. The error of a
    molecule with several rows is their mean. At most 2,000 rows of a split are compared, drawn at
    random. If `is_refit`, a part of the model is also fitted to the validation molecules. The
    domain then covers them, and its errors are those of the first fit. There is none without
    SMILES, or for one training molecule or more than 1,000,000.
    """
    seen = dict.fromkeys(("val", "test"), dataset.splits["train"])
    if is_refit:
        seen["test"] = refit_rows(dataset.splits)
    train = np.sort(seen["test"])
    if dataset.smiles is None or len(train) > _MAX_TRAIN:
        return model, None
    if len(np.unique(dataset.molecule_ids[train])) < 2:
        return model, None
    errors: dict[str, np.ndarray] = {}
    similarity: dict[str, np.ndarray] = {}
    try:
        bits = packed_morgan(dataset.smiles_of(train))
        for split, known in seen.items():
            if split not in predictions.graphs:
                continue
            every = _errors(model.task, dataset, predictions, split)
            labelled = np.flatnonzero(np.isfinite(every).any(axis=1))
            compared = scoring.drawn(labelled, _MAX_COMPARED)
            rows = predictions.graphs[split][compared]
            known_bits = bits[np.searchsorted(train, known)]
            own_bits = packed_morgan(dataset.smiles_of(rows))
            near = nearest_labelled(
                own_bits, known_bits, compared_molecules(dataset.labels[known])
            )[1]
            errors[split], similarity[split] = (
                pd.DataFrame(each).groupby(dataset.molecule_ids[rows], sort=False).mean().to_numpy()
                for each in (every[compared], near)
            )
    except InvalidMolecule:  # the text of another package's featuriser
        return model, None
    if not len(similarity["val"]):
        return model, None
    structures = _molecules(model, dataset, train, bits)
    domain = Domain.fit(similarity["val"], errors["val"])
    if model.molecules is not None:
        first, lowest = structures.some(np.searchsorted(train, seen["val"])), {}
        for name, distinct in first.distinct_further.items():
            cells = [dataset.columns[name][row] for row in predictions.graphs["val"]]
            near = model.molecules.nearest(name, cells, *distinct)[0]
            lowest[name] = float(near[~np.isnan(near)].min(initial=1.0))
        domain = replace(domain, further=lowest)
    bins = {}
    for split, of_split in similarity.items():
        relative = mean_errors(relative_errors(errors[split], errors["val"]))
        bins[split] = _error_by_similarity(of_split[:, 0], relative)
    return replace(model, domain=domain, structures=(structures,) * keep_structures), DomainErrors(
        error=describe_miss(model.task.targets),
        lowest=domain.lowest,
        similarity=GRID.round(2).tolist(),
        expected=dict(zip(model.task.names, domain.errors, strict=True)),
        bins=bins,
    )


def _errors(task: Task, dataset: Dataset, predictions: Predictions, split: str) -> np.ndarray:
    """Return the errors of the molecules of a split, (n, T); NaN without a label."""
    labels, values = dataset.exact_labels[predictions.graphs[split]], predictions.values[split]
    parts = zip(task.targets, labels.T, task.columns(), strict=True)
    errors = [miss(target, truth, values[:, columns]) for target, truth, columns in parts]
    return np.stack(errors, axis=1)


def _error_by_similarity(similarity: np.ndarray, errors: np.ndarray) -> list[Bin]:  # (m,), (m,)
    """Return number and mean error of the molecules by similarity, without empty bins."""
    known = np.isfinite(similarity)
    similarity, errors = similarity[known], errors[known]
    numbers = np.minimum((similarity * _BINS).astype(int), _BINS - 1)  # 1 is in the last bin
    bins = []
    for n in np.unique(numbers).tolist():
        inside = errors[numbers == n]
        ends = {"low": n / _BINS, "high": (n + 1) / _BINS}
        bins.append(Bin(molecules=len(inside), error=float(inside.mean()), **ends))
    return bins


def _molecules(
    model: PropertyModel, dataset: Dataset, rows: np.ndarray, bits: np.ndarray
) -> TrainingMolecules:
    smiles = dataset.source_smiles
    assert smiles is not None
    learned = dataset.labels[rows]
    labels, bounds = learned.astype(np.float64), dataset.bound_signs[rows]
    for i, target in enumerate(model.task.targets):
        if (transform := target.transformation) is None:
            # the shortest decimal number that is the same float32
            labels[:, i] = [float(str(value)) for value in learned[:, i]]
        else:
            labels[:, i] = transform.cells(learned[:, i])
            bounds[:, i] *= transform.sign
    # rows of a molecule get the same SMILES, which identifies its labels
    _, first, number = np.unique(dataset.molecule_ids[rows], return_index=True, return_inverse=True)
    texts = tuple(str(smiles[row]) for row in dataset.store.rows[rows[first[number]]])
    further = {}
    if model.molecules is not None:
        for name in model.molecules.widths:
            cells = [dataset.columns[name][row] for row in rows]
            further[name] = tuple(model.molecules.keys(name, cells))
    return TrainingMolecules(texts, bits, labels, bounds, further)
