"""`calibrate`: the errors of a trained model, from its validation molecules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Predicted
from molsepnorm.predict.uncertainty import error_signals
from molsepnorm.tasks import Target
from molsepnorm.tasks.calibration import Calibration, ClassSets, Intervals, quantile
from molsepnorm.training.results.metrics import IntervalCoverage, SetCoverage

_LEVEL = 0.9  # of the intervals whose coverage is written to `metrics.json`


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
