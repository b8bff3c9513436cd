"""Run a network on molecules, and a model on encoded rows: predictions and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.devices import Precision
from molsepnorm.errors import ConfigError
from molsepnorm.model import Inputs, PropertyModel
from molsepnorm.model.parts import Predicted, infer
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.predict.encode import EncodedRows
from molsepnorm.tasks import Task


def predict(
    model: PropertyModel, inputs: Inputs, rows: np.ndarray, precision: Precision = "fp32"
) -> np.ndarray:  # float32 (n, O)
    """Return the model's predictions for some molecules, on the scale that is learned."""
    return predict_with_signals(model, inputs, rows, precision).values


def predict_with_signals(
    model: PropertyModel, inputs: Inputs, rows: np.ndarray, precision: Precision = "fp32"
) -> Predicted:
    """Return the model's predictions for some molecules, int (n,), with their spread and distance.
    Parts without weight are not evaluated."""
    used = [pair for pair in zip(model.parts, model.weights, strict=True) if pair[1]]
    found = [
        (part.predict(inputs, rows, model.task, precision), weight, weight * part.in_spread)
        for part, weight in used
    ]
    spread = distance = None
    if model.has_spread:
        total = sum(share for *_, share in found) or 1.0
        center = sum(each.values * (share / total) for each, _, share in found)
        squares = ((each.values - center) ** 2 * (share / total) for each, _, share in found)
        spread = np.sqrt(sum(squares))
    distances = [(each.distance, weight) for each, weight, _ in found if each.distance is not None]
    if distances:
        far, weights = zip(*distances, strict=True)
        distance = np.average(far, axis=0, weights=weights)
    values = np.sum([each.values * weight for each, weight, _ in found], axis=0)
    return Predicted(values, spread, distance)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions for R SMILES, in columns."""

    values: np.ndarray
    """float32 [R, O]: the values of `Task.predictions`; NaN in rows that failed."""
    errors: list[str | None]
    """For each SMILES the reason why its row failed, or None: it is invalid, or a prediction is not
    finite."""
    spread: np.ndarray | None = None
    """float32 [R, O]: see `Predicted`."""
    distance: np.ndarray | None = None
    """float32 [R]: see `Predicted`."""
    nearest: np.ndarray | None = None
    """int64 [R]: see `EncodedRows`."""
    similarity: np.ndarray | None = None
    """float64 [R]: see `EncodedRows`."""
    outside: np.ndarray | None = None
    """bool [R, columns]: see `EncodedRows`."""

    def columns(self, task: Task) -> list[dict[str, np.ndarray]]:
        """Return the columns of each target by name, the predicted value first.

        The spread is that of the value or probability, or of the probability of the most probable
        class. It is named after the learned value.
        """
        tables = task.tables(self.values)
        if self.spread is not None:
            for table, target, columns in zip(tables, task.targets, task.columns(), strict=True):
                chosen = np.zeros(len(self.values), dtype=int)
                if target.kind == "multiclass":
                    chosen = self.values[:, columns].argmax(axis=1)
                spread = np.take_along_axis(self.spread[:, columns], chosen[:, None], axis=1)
                table[f"{target.learned_name}_spread"] = spread[:, 0]
        return tables


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings of n molecules, in the order of their SMILES."""

    molecules: np.ndarray
    """float32 [n, R]: the input of the network's head, or the read-out of the layer that was named;
    NaN in rows that failed."""
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
    """Evaluates a model, which is on the device, on encoded molecules."""

    model: PropertyModel
    device: torch.device
    precision: Precision = "fp32"

    def __call__(self, prepared: EncodedRows) -> Outcome:
        shape = len(prepared.errors), self.model.task.outputs
        values, spread = np.full((2, *shape), np.nan, dtype=np.float32)
        distance = np.full(len(prepared.errors), np.nan, dtype=np.float32)
        for rows, encoded, extra in prepared.groups:
            inputs = Inputs.of(encoded, extra, self.device)
            found = predict_with_signals(self.model, inputs, np.arange(len(rows)), self.precision)
            values[rows] = found.values
            if found.spread is not None:
                spread[rows] = found.spread
            if found.distance is not None:
                distance[rows] = found.distance
        finite, errors = np.isfinite(values), list(prepared.errors)
        failed = np.flatnonzero(~finite.all(axis=1))  # invalid SMILES included
        for row in failed:
            errors[row] = errors[row] or self._not_finite(finite[row])
        values[failed] = spread[failed] = distance[failed] = np.nan
        return Outcome(
            *(values, errors, spread if self.model.has_spread else None),
            distance if self.model.compares else None,
            *(prepared.nearest, prepared.similarity, prepared.outside),
        )

    def _not_finite(self, finite: np.ndarray) -> str:
        """Return why a row has no prediction, given which of its outputs (O,) are finite."""
        task = self.model.task
        columns = zip(task.targets, task.columns(), strict=True)
        names = [target.name for target, column in columns if not finite[column].all()]
        return _not_finite(f"the prediction of {', '.join(names)}", self.precision)


@dataclass(frozen=True)
class Embed:
    """Embeds encoded molecules with a model whose network is on the device.

    With `atoms`, the embeddings of the atoms are returned too; see `Graphormer.embed_with_atoms`,
    also for `layer`.

    Raises:
        ConfigError: the network has no such layer.
    """

    model: PropertyModel
    device: torch.device
    precision: Precision = "fp32"
    atoms: bool = False
    layer: int | None = None

    def __post_init__(self) -> None:
        layers = self.model.network.config.layers
        if self.layer is not None and not 1 <= self.layer <= layers:
            raise ConfigError(f"the layer must be between 1 and {layers}; got {self.layer}")

    @property
    def width(self) -> int:
        """Width R of a molecule's embedding."""
        network = self.model.network
        return network.embedding_width if self.layer is None else network.layer_width

    def __call__(self, prepared: EncodedRows) -> Embeddings:
        errors = list(prepared.errors)
        width, read = self.model.network.config.width, self.width
        molecules = np.full((len(errors), read), np.nan, dtype=np.float32)
        atoms = [np.empty((0, width), dtype=np.float32)] * len(errors)
        for rows, encoded, extra in prepared.groups:
            found = self._infer(Inputs.of(encoded, extra, self.device))
            of_atoms = found[:, read:].reshape(len(rows), -1, width)
            for index, row in enumerate(rows):
                molecule, own = found[index, :read], of_atoms[index, : encoded.sizes[index]]
                if np.isfinite(molecule).all() and np.isfinite(own).all():
                    molecules[row], atoms[row] = molecule, own
                else:
                    errors[row] = _not_finite("the embedding", self.precision)
        return Embeddings(molecules, errors, atoms if self.atoms else None)

    def _infer(self, inputs: Inputs) -> np.ndarray:  # float32 (G, R) or (G, R + N C)
        """Return each molecule's embedding, followed by those of its atoms, padded."""
        graphs, network = self.model.graphs(inputs), self.model.network
        largest = int(graphs.sizes.max())

        def molecules_alone(batch: GraphBatch) -> Tensor:  # (B, R)
            return network.embed_with_atoms(batch, layer=self.layer)[0]

        def with_atoms(batch: GraphBatch) -> Tensor:  # (B, R + N C)
            molecules, slots = network.embed_with_atoms(batch, layer=self.layer)
            (group,) = batch.groups
            atoms = slots.unflatten(0, (group.graphs, group.slots))[batch.order, 1:]
            atoms = F.pad(atoms, (0, 0, 0, largest + 1 - group.slots))
            return torch.cat([molecules, atoms.flatten(1)], dim=1)

        every = np.arange(len(graphs.sizes))
        call = with_atoms if self.atoms else molecules_alone
        return infer(network, graphs, every, precision=self.precision, call=call).numpy()


def _not_finite(what: str, precision: Precision) -> str:
    overflow = "" if precision == "fp32" else f", or {precision} overflows"
    return (
        f"{what} is not a finite number: the model's weights are damaged{overflow}, or the "
        "molecule is too unlike the training molecules"
    )
