"""Predictions as HTML, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from molsepnorm.files.page import table
from molsepnorm.tasks.metrics import significant

if TYPE_CHECKING:
    from molsepnorm.predict.prediction import Prediction

__all__ = ["prediction_html"]

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
