"""Uncertainty of predictions: intervals, calibrated probabilities and sets of classes."""

from __future__ import annotations

import numpy as np

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Predicted
from molsepnorm.tasks import Task
from molsepnorm.tasks.calibration import Intervals

_SEPARATOR = "|"
_NOTHING = "none"  # the set without a class; in brackets if a class has this name
_SMALL = 1e-3  # of a target's scale: keeps the logarithm of the spread finite


def error_signals(
    task: Task, spread: np.ndarray | None, distance: np.ndarray | None
) -> list[dict[str, np.ndarray]]:
    """Return what the error of each target may depend on, [n] by name.

    Args:
        spread: [n, O], standard deviation of the networks' predictions, if there are several.
        distance: [n], from the training molecules, if the model compares molecules with them.
    """
    signals_of = []
    for target, columns in zip(task.targets, task.columns(), strict=True):
        signals = {}
        if spread is not None and target.kind == "regression":
            with np.errstate(invalid="ignore"):
                own = spread[:, columns.start].astype(np.float64)
                signals["spread of the networks"] = np.log(own + _SMALL * target.scale)
        if distance is not None:
            signals["distance from the training molecules"] = distance.astype(np.float64)
        signals_of.append(signals)
    return signals_of


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
    for each in model.calibration:
        if isinstance(each, Intervals):
            each.half_widths(np.ones(1), level)


def uncertainty_columns(
    model: PropertyModel, found: Predicted, level: float
) -> list[dict[str, np.ndarray]]:
    """Return the columns of uncertainty by name, for each target.

    A regression target has <target>_std, the standard deviation of its error, and <target>_low and
    <target>_high, the ends of an interval that holds the label with probability `level`. With a
    transform, the standard deviation is that of the learned value, and the interval is given on
    both scales. Other targets have <target>_calibrated, the calibrated probability of class 1 or of
    the predicted class, and <target>_set, the classes that are possible at this level, separated
    by |, or "none". As in a CSV file with this separator, a class that contains | or " is quoted.
    """
    task, tables = model.task, []
    signals = error_signals(task, found.spread, found.distance)
    pairs = zip(task.targets, task.columns(), model.calibration, signals, strict=True)
    for target, columns, calibration, its in pairs:
        values = found.values[:, columns].astype(np.float64)
        valid = np.asarray(np.isfinite(values).all(axis=1))
        if isinstance(calibration, Intervals):
            sd = np.where(valid, calibration.sd(its, len(values)), np.nan)
            half = calibration.half_widths(sd, level)
            ends = values[:, 0] - half, values[:, 0] + half
            arrays = [sd, *ends]
            if (transform := target.transformation) is not None:
                low, high = np.sort([transform.inverse(end) for end in ends], axis=0)
                arrays = [low, high, *arrays]
            tables.append(dict(zip(target.uncertainty_columns, arrays, strict=True)))
            continue
        names = np.array([*map(_quoted, target.classes or ("0", "1"))], dtype=object)
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
    """Return a class as it is written in a set.

    >>> print(_quoted("a"), _quoted("a|b"))
    a "a|b"
    """
    if _SEPARATOR in name or '"' in name:
        return '"' + name.replace('"', '""') + '"'
    return name
