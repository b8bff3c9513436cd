"""`Prediction`: what is predicted for one molecule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pandas as pd

from molsepnorm.files.page import table
from molsepnorm.predict.uncertainty import DOMAIN_COLUMNS
from molsepnorm.tasks import Task
from molsepnorm.tasks.metrics import significant

_SIZE = 220, 160  # pixels of a molecule


@dataclass(frozen=True)
class Prediction:
    """The predictions for one SMILES, or the reason why there are none."""

    smiles: str
    values: dict[str, float | str] | None
    """By target: a value in the unit of the table, the probability of class 1, or the most probable
    class; None if the row failed. A target with a transform also has the learned value, under
    <target>_log10 or <target>_pic50."""
    error: str | None = None
    """The reason why the row failed."""
    probabilities: dict[str, dict[str, float]] = field(default_factory=dict)
    """Probability of each class, by multi-class target."""
    spread: dict[str, float] = field(default_factory=dict)
    """Standard deviation over the model's networks, by target; empty for a model of one network.
    It is that of the most probable class, or with a transform of the learned value, by its name."""
    uncertainty: dict[str, float | str] = field(default_factory=dict)
    """Columns of uncertainty by name, see `uncertainty_columns`."""
    domain: dict[str, float | bool | str | None] = field(default_factory=dict)
    """Columns of the applicability domain by name, see `domain_columns`; a label that the nearest
    training molecule lacks is None."""

    def _repr_html_(self) -> str:
        """Return a drawing of the molecule and a table of its predictions, or the error."""
        from molsepnorm.molecules.drawing import draw_structure

        if self.error is not None:
            return table([("SMILES", self.smiles), ("error", self.error)])
        rows: list[tuple[str, object]] = [("SMILES", self.smiles)]
        rows += (self.values or {}).items()
        for target, shares in self.probabilities.items():
            rows += ((f"{target}, probability of {name}", share) for name, share in shares.items())
        rows += ((f"{name}_spread", value) for name, value in self.spread.items())
        rows += chain(self.uncertainty.items(), self.domain.items())
        cells = [(name, _text(value)) for name, value in rows]
        return f"<div>{draw_structure(self.smiles, _SIZE) or ''}{table(cells)}</div>"


def predictions_of(
    task: Task, smiles: Sequence[str], frame: pd.DataFrame, further: Sequence[str] = ()
) -> Iterator[Prediction]:
    """Yield the predictions for some SMILES, one by one, from `Predictor.predicted`; `further` are
    the columns of the domain about further molecules."""
    targets = [(each, each.prediction_column, each.output_columns) for each in task.targets]
    names = [target.learned_name for target in task.targets]
    spreads = {name: f"{name}_spread" for name in names if f"{name}_spread" in frame}
    sure = [name for t in task.targets for name in t.uncertainty_columns if name in frame]
    near = [*DOMAIN_COLUMNS, *further]
    for each in task.targets:
        near += [each.expected_column, each.nearest_column, *each.own_domain_columns]
    near = [name for name in near if name in frame]
    for text, row in zip(smiles, frame.to_dict("records"), strict=True):
        if row["error"] is not None:
            yield Prediction(text, None, row["error"])
            continue
        values, probabilities = {}, {}
        for target, column, outputs in targets:
            values[target.name] = row[column]
            if target.kind == "multiclass":
                shares = [row[name] for name in outputs]
                probabilities[target.name] = dict(zip(target.classes, shares, strict=True))
            else:
                values[target.learned_name] = row[outputs[0]]
        spread = {name: row[column] for name, column in spreads.items()}
        uncertainty = {name: row[name] for name in sure}
        domain = {name: None if row[name] != row[name] else row[name] for name in near}
        yield Prediction(text, values, None, probabilities, spread, uncertainty, domain)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value)
    return "" if value is None else str(value)
