"""Intervals, calibrated probabilities, sets of classes, and the applicability domain."""

from __future__ import annotations

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Predicted
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.predict.encode import EncodedRows
from molsepnorm.tasks import Task
from molsepnorm.tasks.calibration import Intervals
from molsepnorm.tasks.target import BOUND_SIGNS

DOMAIN_COLUMNS = ("similarity", "in_domain", "nearest_smiles")
"""The columns of the applicability domain that do not depend on the targets."""

_SEPARATOR, _NOTHING = "|", "none"  # in a set of classes
_SMALL = 1e-3  # of a target's scale: keeps the logarithm of the spread finite


def error_signals(
    task: Task, spread: np.ndarray | None, distance: np.ndarray | None
) -> list[dict[str, np.ndarray]]:
    """Return what the error of each target may depend on, [n] by name.

    Args:
        spread: [n, O], standard deviation of the networks' predictions, if there are several.
        distance: [n], from the training molecules, if the model compares molecules with them.
    """
    by_target = []
    for target, columns in zip(task.targets, task.columns(), strict=True):
        signals = {}
        if spread is not None and target.kind == "regression":
            with np.errstate(invalid="ignore"):
                sd = spread[:, columns.start].astype(np.float64)
                signals["spread of the networks"] = np.log(sd + _SMALL * target.scale)
        if distance is not None:
            signals["distance from the training molecules"] = distance.astype(np.float64)
        by_target.append(signals)
    return by_target


def require_calibrated(model: PropertyModel, level: float) -> None:
    """Raise a `ConfigError` if the model has no intervals at a level between 0 and 1."""
    if not 0 < level < 1:
        raise ConfigError(f"a level is between 0 and 1, such as 0.9; got {level}")
    model.require_targets()
    if not model.calibration:
        raise ConfigError(
            "this model has no intervals: they are fitted to the validation molecules when a model "
            "is trained on a table, and this one was joined, converted or trained on other data. "
            "Train it again, or leave the intervals out"
        )
    for calibration in model.calibration:
        if isinstance(calibration, Intervals):
            calibration.half_widths(np.ones(1), level)


def uncertainty_columns(
    model: PropertyModel, predicted: Predicted, level: float
) -> list[dict[str, np.ndarray]]:
    """Return the columns of uncertainty by name, for each target.

    A regression target has <target>_std, the standard deviation of its error, and <target>_low and
    <target>_high, the ends of an interval that holds the label with probability `level`. With a
    transform, the standard deviation is that of the learned value, and the interval is given on
    both scales. Other targets have <target>_calibrated, the calibrated probability of class 1 or of
    the predicted class, and <target>_set, the classes that are possible at this level, separated
    by |, or "none" ("(none)" if a class has this name). A class with | or " is quoted as in CSV.
    """
    task, tables = model.task, []
    signals = error_signals(task, predicted.spread, predicted.distance)
    parts = zip(task.targets, task.columns(), model.calibration, signals, strict=True)
    for target, columns, calibration, error_signal in parts:
        values = predicted.values[:, columns].astype(np.float64)
        valid = np.asarray(np.isfinite(values).all(axis=1))
        if isinstance(calibration, Intervals):
            sd = np.where(valid, calibration.sd(error_signal, len(values)), np.nan)
            half = calibration.half_widths(sd, level)
            ends = values[:, 0] - half, values[:, 0] + half
            arrays = [sd, *ends]
            if (transform := target.transformation) is not None:
                low, high = np.sort([transform.inverse(end) for end in ends], axis=0)
                arrays = [low, high, *arrays]
            tables.append(dict(zip(target.uncertainty_columns, arrays, strict=True)))
            continue
        names = np.array([*map(_quoted, target.class_names)], dtype=object)
        probabilities = calibration.probabilities(np.where(valid[:, None], values, 0.5))
        chosen = values.argmax(axis=1) if target.kind == "multiclass" else np.ones(len(values), int)
        calibrated = np.take_along_axis(probabilities, chosen[:, None], axis=1)[:, 0]
        held = calibration.sets(probabilities, level)
        nothing = f"({_NOTHING})" if _NOTHING in names else _NOTHING
        sets = np.array([_SEPARATOR.join(names[row]) or nothing for row in held], dtype=object)
        sets[~valid] = ""
        arrays = [np.where(valid, calibrated, np.nan), sets]
        tables.append(dict(zip(target.uncertainty_columns, arrays, strict=True)))
    return tables


def _quoted(name: str) -> str:
    if _SEPARATOR in name or '"' in name:
        return '"' + name.replace('"', '""') + '"'
    return name


def require_domain(model: PropertyModel) -> TrainingMolecules:
    """Return the training molecules of a model that has them and the threshold of its domain."""
    model.require_targets()
    molecules = model.training_molecules()
    if model.domain is None:
        raise ConfigError(
            "this model has its training molecules, but no threshold of similarity, because one of "
            "the models that it was joined from has none. Predict without the domain"
        )
    return molecules


def further_columns(molecules: TrainingMolecules | None) -> dict[str, tuple[str, str]]:
    """Return the names of the columns of the domain about each column of further molecules."""
    names = () if molecules is None else molecules.further
    return {name: (f"{name}_similarity", f"{name}_nearest_smiles") for name in names}


def domain_columns(
    model: PropertyModel, molecules: TrainingMolecules, encoded: EncodedRows
) -> dict[str, np.ndarray]:
    """Return the columns of the applicability domain by name.

    `similarity` is the Tanimoto similarity of Morgan fingerprints (radius 2, 2,048 bits) to the
    most similar training molecule, `nearest_smiles`; empty if none is similar. `in_domain` is true
    if the model's errors are known at this similarity, see `Domain`, and all numbers of feature
    columns are in the range of the training rows. <target>_expected_error is the mean error of
    validation molecules of this similarity. <target>_nearest is the label of the training molecule
    in the unit of the table, as text such as ">10" if some labels of the target are bounds; missing
    if the model has feature columns and the molecule has different labels. <column>_similarity and
    <column>_nearest_smiles are about further molecules; one that is less similar to those of the
    training rows than any of the validation rows is outside of the domain, too.

    If training molecules lack labels of some targets, each target has a most similar molecule with
    a label, <target>_nearest_smiles, and <target>_similarity; its other columns are about these.
    """
    assert model.domain is not None
    assert encoded.similarity is not None and encoded.nearest is not None
    similarity = encoded.similarity
    missing = ~(similarity > 0)
    measured, signs, several = molecules.measured
    smiles = np.array(
        [molecules.smiles[row] for row in encoded.nearest.ravel()], dtype=object
    ).reshape(missing.shape)
    smiles[missing] = ""
    lacks_labels = not molecules.compared.all()
    in_domain = similarity[:, 0] >= model.domain.lowest
    expected = model.domain.expected(similarity[:, 1:])
    if encoded.outside is not None:
        in_domain &= ~encoded.outside.any(axis=1)
    further = dict[str, np.ndarray]()
    for name, added in further_columns(molecules).items():
        near, nearest = encoded.further.get(name, (np.empty(0), np.empty(0, dtype=object)))
        in_domain &= ~(near < model.domain.further.get(name, 0.0))
        further |= dict(zip(added, (near, nearest), strict=True))
    whole = similarity[:, 0], in_domain, smiles[:, 0]
    columns = dict(zip(DOMAIN_COLUMNS, whole, strict=True)) | further
    for i, target in enumerate(model.task.targets):
        rows = encoded.nearest[:, i + 1]
        labels, bounds = measured[rows, i], signs[rows, i]
        labels[missing[:, i + 1]] = np.nan
        if model.inputs.columns:
            labels[several[rows, i]] = np.nan
        if target.classes:
            names = np.array([*target.classes, ""], dtype=object)
            labels = names[np.where(np.isnan(labels), len(target.classes), labels).astype(int)]
        elif molecules.bounds[:, i].any():
            texts = [
                "" if np.isnan(label) else f"{BOUND_SIGNS.get(sign, '')}{label:.9g}"
                for label, sign in zip(labels, bounds.tolist(), strict=True)
            ]
            labels = np.array(texts, dtype=object)
        columns[target.expected_column] = expected[:, i]
        columns[target.nearest_column] = labels
        if lacks_labels:
            own = similarity[:, i + 1], smiles[:, i + 1]
            columns |= zip(target.own_domain_columns, own, strict=True)
    return columns
