"""Run a model on encoded rows: `Run` predicts, and `Embed` embeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress

import numpy as np
import pandas as pd
import torch

from molsepnorm.devices import Precision, autocast, products_in
from molsepnorm.model import Inputs, PropertyModel
from molsepnorm.model.parts import Predicted
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.predict.encode import EncodedRows
from molsepnorm.predict.reference import Reference
from molsepnorm.predict.uncertainty import domain_columns, uncertainty_columns

ALERTS = "alerts"
"""Name of the column of structural alerts."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings of n molecules, in the order of their SMILES."""

    molecules: np.ndarray
    """float32 [n, R]: the input of the network's head; NaN in rows that failed."""
    errors: list[str | None]
    """For each molecule the reason why its row failed, or None: it is invalid, or its embedding is
    not finite."""
    atoms: list[np.ndarray] | None = None
    """float32 [N, C] for each molecule, with atoms in the order of the SMILES or RDKit molecule and
    without the hydrogens that RDKit makes implicit; [0, C] in rows that failed. None if not
    wanted."""

    @staticmethod
    def joined(parts: Sequence[Embeddings]) -> Embeddings:
        """Return one or more parts as one, in their order."""
        atoms = [part.atoms for part in parts if part.atoms is not None]
        return Embeddings(
            np.concatenate([part.molecules for part in parts]),
            list(chain.from_iterable(part.errors for part in parts)),
            list(chain.from_iterable(atoms)) if atoms else None,
        )


@dataclass(frozen=True)
class Run:
    """Predicts encoded rows with a model, which is on the device."""

    model: PropertyModel
    device: torch.device
    precision: Precision = "fp32"
    level: float | None = None
    molecules: TrainingMolecules | None = None
    alerts: bool = False
    reference: Reference | None = None
    """As for `Predictor`, whose table has their columns."""

    def __call__(self, rows: EncodedRows) -> tuple[pd.DataFrame, set[str]]:
        """Return a table of predictions, see `Predictor.predicted`, and the feature columns that
        have numbers outside the range of the training rows."""
        found, errors = self.predict(rows)
        task = self.model.task
        columns = task.tables(found.values)
        if found.spread is not None:
            for own, target, its in zip(columns, task.targets, task.columns(), strict=True):
                values, spread = found.values[:, its], found.spread[:, its]
                chosen = values.argmax(axis=1) if target.kind == "multiclass" else 0
                own[f"{target.learned_name}_spread"] = spread[np.arange(len(spread)), chosen]
        if self.reference is not None:
            for own, target in zip(columns, task.targets, strict=True):
                if target.name in self.reference.values:
                    percentiles = self.reference.percentiles(
                        target.name, own[target.prediction_column].astype(np.float64)
                    )
                    own[target.percentile_column] = percentiles
        if self.level is not None:
            sure = uncertainty_columns(self.model, found, self.level)
            columns = [own | added for own, added in zip(columns, sure, strict=True)]
        if self.molecules is not None:
            columns.append(domain_columns(self.model, self.molecules, rows))
        if self.alerts:
            assert rows.alerts is not None
            columns.append({ALERTS: rows.alerts})
        failed = np.array([error is not None for error in errors], dtype=bool)
        series = {}
        for name, values in chain.from_iterable(each.items() for each in columns):
            column = pd.Series(values, dtype=values.dtype)
            if column.dtype == bool:
                column = column.astype("boolean")
            if column.dtype == object:
                column = column.mask(column == "", None)
            series[name] = column.mask(failed)
        table = pd.DataFrame(series | {"error": pd.Series(errors, dtype=object)})
        if rows.outside is None:
            return table, set()
        outside = rows.outside[~failed].any(axis=0)
        return table, {*compress(self.model.inputs.names, outside)}

    def predict(self, rows: EncodedRows) -> tuple[Predicted, list[str | None]]:
        """Return predictions, NaN in rows that failed, and for each row the reason, or None."""
        count = len(rows.errors)
        values, spread = np.full((2, count, self.model.task.outputs), np.nan, dtype=np.float32)
        distance = np.full(count, np.nan, dtype=np.float32)
        for group, encoded, extra in rows.groups:
            inputs = Inputs.of(encoded, extra, self.device)
            inputs = self.model.completed(inputs, self.precision)
            found = self.model.predict(inputs, np.arange(len(group)), self.precision)
            values[group] = found.values
            if found.spread is not None:
                spread[group] = found.spread
            if found.distance is not None:
                distance[group] = found.distance
        finite, errors, task = np.isfinite(values), list(rows.errors), self.model.task
        failed = np.flatnonzero(~finite.all(axis=1))  # invalid SMILES included
        for row in failed:
            if errors[row] is None:
                pairs = zip(task.targets, task.columns(), strict=True)
                names = [target.name for target, its in pairs if not finite[row, its].all()]
                what = f"the prediction of {', '.join(names)}"
                errors[row] = _not_finite(what, self.precision)
        values[failed] = spread[failed] = distance[failed] = np.nan
        signals = (
            spread if self.model.has_spread else None,
            distance if self.model.compares else None,
        )
        return Predicted(values, *signals), errors


@dataclass(frozen=True)
class Embed:
    """Embeds encoded rows with a model, which is on the device; see `Predictor.embed`."""

    model: PropertyModel
    device: torch.device
    precision: Precision = "fp32"
    atoms: bool = False

    @torch.no_grad()
    def __call__(self, prepared: EncodedRows) -> Embeddings:
        network, errors = self.model.network, list(prepared.errors)
        molecules = np.full((len(errors), network.embedding_width), np.nan, dtype=np.float32)
        atoms = [np.empty((0, network.config.width), dtype=np.float32)] * len(errors)
        for rows, encoded, extra in prepared.groups:
            inputs = Inputs.of(encoded, extra, self.device)
            graphs = self.model.graphs(self.model.completed(inputs, self.precision))
            batch = graphs.cut(np.arange(len(rows)))
            with products_in(self.precision, self.device), autocast(self.precision, self.device):
                embedded, slots = network.embed_with_atoms(batch)
            of_rows = embedded.float().cpu().numpy()
            if self.atoms:
                slots = slots.unflatten(0, (len(rows), -1))[batch.order, 1:].float().cpu()
            for index, row in enumerate(rows):
                own = slots[index, : encoded.sizes[index]].numpy() if self.atoms else atoms[row]
                if np.isfinite(of_rows[index]).all() and np.isfinite(own).all():
                    molecules[row], atoms[row] = of_rows[index], own
                else:
                    errors[row] = _not_finite("the embedding", self.precision)
        return Embeddings(molecules, errors, atoms if self.atoms else None)


def _not_finite(what: str, precision: Precision) -> str:
    overflow = "" if precision == "fp32" else f", or {precision} overflows"
    return (
        f"{what} is not a finite number: the model's weights are damaged{overflow}, or the "
        "molecule is too unlike the training molecules"
    )
