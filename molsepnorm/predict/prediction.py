"""`Prediction`: what is predicted for one molecule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molsepnorm.files.page import table
from molsepnorm.predict.forward import Outcome
from molsepnorm.tasks import Task
from molsepnorm.tasks.metrics import significant


@dataclass(frozen=True)
class Prediction:
    """The predictions for one SMILES, or the reason why there are none."""

    smiles: str
    values: dict[str, float | str] | None
    """By target: a value in the unit of the table, the probability of class 1, or the most probable
    class; None if the row failed. A target with a transform also has the value on the scale that is
    learned, under <target>_log10 or <target>_pic50."""
    error: str | None = None
    """The reason why the row failed."""
    probabilities: dict[str, dict[str, float]] = field(default_factory=dict)
    """Probability of each class, by multi-class target."""
    spread: dict[str, float] = field(default_factory=dict)
    """Standard deviation over the model's networks, by target; empty for a model of one network.
    For a multi-class target it is that of the most probable class. With a transform it is that of
    the learned value, under its name."""
    uncertainty: dict[str, float | str] = field(default_factory=dict)
    """Columns of uncertainty by name, see `uncertainty_columns`; empty unless they are wanted."""
    domain: dict[str, float | bool | str | None] = field(default_factory=dict)
    """Columns of the applicability domain by name, see `domain_columns`; a label that the nearest
    training molecule lacks is None. Empty unless they are wanted."""

    def _repr_html_(self) -> str:
        """Return a small table with a drawing of the molecule, for notebooks."""
        return prediction_html(self)


def predictions_by_row(
    task: Task,
    smiles: Sequence[str],
    outcome: Outcome,
    uncertainty: Mapping[str, np.ndarray],
    domain: Mapping[str, np.ndarray],
) -> Iterator[Prediction]:
    """Yield the predictions for some SMILES, one by one.

    Args:
        task: the targets.
        smiles: n SMILES.
        outcome: their predictions in columns.
        uncertainty, domain: columns [n] by name, see `Prediction`; may be empty.
    """
    tables = [
        (target, zip(*(column.tolist() for column in columns.values()), strict=True))
        for target, columns in zip(task.targets, task.tables(outcome.values), strict=True)
    ]
    spreads = {name: each.tolist() for name, each in outcome.spreads(task).items()}
    sure = {name: each.tolist() for name, each in uncertainty.items()}
    near = {name: each.tolist() for name, each in domain.items()}
    for row, (text, error) in enumerate(zip(smiles, outcome.errors, strict=True)):
        values, probabilities = {}, {}
        for target, rows in tables:
            values[target.name], *others = next(rows)
            if target.learned_name != target.name:
                values[target.learned_name] = others[0]
            elif others:
                probabilities[target.name] = dict(zip(target.classes, others, strict=True))
        if error is None:
            spread = {name: each[row] for name, each in spreads.items()}
            own = {name: each[row] for name, each in sure.items()}
            whole = {name: _or_none(each[row]) for name, each in near.items()}
            yield Prediction(text, values, None, probabilities, spread, own, whole)
        else:
            yield Prediction(text, None, error)


def _or_none(value: Any) -> Any:
    """Return a value, or None for NaN and an empty text."""
    return None if value != value or value == "" else value


_SIZE = 220, 160  # pixels of a molecule


def prediction_html(prediction: Prediction) -> str:
    """Return a drawing of the molecule and a table of its predictions, or the error."""
    from molsepnorm.molecules.drawing import draw_structure

    if prediction.error is not None:
        return table([("SMILES", prediction.smiles), ("error", prediction.error)])
    rows: list[tuple[str, object]] = [("SMILES", prediction.smiles)]
    rows += (prediction.values or {}).items()
    for target, shares in prediction.probabilities.items():
        rows += ((f"{target}, probability of {name}", share) for name, share in shares.items())
    rows += ((f"{name}_spread", each) for name, each in prediction.spread.items())
    rows += prediction.uncertainty.items()
    rows += prediction.domain.items()
    cells = [(name, _text(value)) for name, value in rows]
    return f"<div>{draw_structure(prediction.smiles, _SIZE) or ''}{table(cells)}</div>"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value)
    return "" if value is None else str(value)
