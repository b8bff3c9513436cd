"""`calibrate`: the errors of a trained model, from its validation molecules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Predicted
from molsepnorm.predict.uncertainty import error_signals
from molsepnorm.tasks import Task
from molsepnorm.tasks.calibration import Calibration, ClassSets, Intervals, quantile

_LEVEL = 0.9  # of the intervals whose coverage is written to `metrics.json`


def calibrate(
    model: PropertyModel,
    dataset: Dataset,
    predicted: Mapping[str, Predicted],
    graphs: Mapping[str, np.ndarray],
) -> tuple[PropertyModel, dict[str, Any]]:
    """Return the model with intervals and calibrated probabilities, and their scores.

    They are fitted to the validation molecules, which also choose the epoch, and scored on the test
    molecules.

    Args:
        predicted: predictions for the validation and perhaps the test molecules, those for the
            former by a model that has not seen them.
        graphs: int64 [n], the molecules of each split.

    Returns:
        The model, and the entries of `Coverage` by target.
    """
    labels = dataset.exact_labels
    molecules = dataset.molecule_ids[graphs["val"]]
    fitted = _fit(model.task, labels[graphs["val"]], predicted["val"], molecules)
    calibrated = replace(model, calibration=fitted)
    if "test" not in graphs:
        return calibrated, {}
    scores = _scores(calibrated, labels[graphs["test"]], predicted["test"])
    for name, split in (("molecules", "val"), ("test_molecules", "test")):
        molecules = dataset.molecule_ids[graphs[split]]
        for entry, column in zip(scores.values(), labels[graphs[split]].T, strict=True):
            entry[name] = len(np.unique(molecules[~np.isnan(column)]))
    return calibrated, scores


def _fit(
    task: Task, labels: np.ndarray, predicted: Predicted, molecules: np.ndarray
) -> tuple[Calibration, ...]:
    """Return the calibration of each target, from labels (G, T) and predictions.

    Of the rows of a molecule, one that is drawn at random counts, since their errors are alike.
    `molecules` (G,) has the same number for such rows.
    """
    found: list[Calibration] = []
    signals = error_signals(task, predicted.spread, predicted.distance)
    for i, (target, columns) in enumerate(zip(task.targets, task.columns(), strict=True)):
        values = predicted.values[:, columns]
        usable = ~np.isnan(labels[:, i]) & np.isfinite(values).all(axis=1)
        shuffled = np.random.default_rng(0).permutation(np.flatnonzero(usable))
        rows = np.sort(shuffled[np.unique(molecules[shuffled], return_index=True)[1]])
        own = labels[rows, i]
        if target.kind == "regression":
            residuals = values[rows, 0] - own
            of_rows = {name: each[rows] for name, each in signals[i].items()}
            found.append(Intervals.fit(residuals, of_rows, target.scale))
        else:
            weights = target.class_weights if all(target.class_weights) else ()
            found.append(ClassSets.fit(own.astype(int), values[rows], weights))
    return tuple(found)


def _scores(
    model: PropertyModel, labels: np.ndarray, predicted: Predicted
) -> dict[str, dict[str, Any]]:
    """Return coverage and width of the intervals or sets of some molecules, by target, from their
    labels (G, T) and predictions."""
    task, scores = model.task, {}
    signals = error_signals(task, predicted.spread, predicted.distance)
    for i, (target, columns) in enumerate(zip(task.targets, task.columns(), strict=True)):
        calibration, values = model.calibration[i], predicted.values[:, columns].astype(float)
        rows = ~np.isnan(labels[:, i]) & np.isfinite(values).all(axis=1)
        own, values = labels[rows, i], values[rows]
        entry: dict[str, Any] = {"level": _LEVEL, "coverage": None}
        if isinstance(calibration, Intervals):
            entry |= {"width": None, "signal": calibration.signal}
            if len(own) and calibration.highest_level >= _LEVEL:
                sd = calibration.sd({n: v[rows] for n, v in signals[i].items()}, len(own))
                half = calibration.half_widths(sd, _LEVEL)
                entry["coverage"] = float((np.abs(values[:, 0] - own) <= half).mean())
                entry["width"] = float(2 * half.mean())
        else:
            names = target.classes or ("0", "1")
            pairs = zip(names, calibration.scores, strict=True)
            entry["always"] = [name for name, each in pairs if np.isinf(quantile(each, _LEVEL))]
            if len(own):
                held = calibration.sets(calibration.probabilities(values), _LEVEL)
                entry["coverage"] = float(held[np.arange(len(own)), own.astype(int)].mean())
                entry["classes"] = float(held.sum(axis=1).mean())
        scores[target.name] = entry
    return scores
