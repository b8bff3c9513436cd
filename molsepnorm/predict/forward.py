"""Run a model on encoded rows: `Run` returns predictions, `Embed` returns embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.devices import Precision
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.predict.encode import EncodedRows
from molsepnorm.predict.inference import infer, predict_with_signals
from molsepnorm.tasks import Task


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions for R SMILES, in columns."""

    values: np.ndarray
    """float32 [R, O]: the values of `Task.predictions`; NaN in rows that failed."""
    errors: list[str | None]
    """For each SMILES the reason why its row failed, or None: it is invalid, or a prediction is not
    finite."""
    spread: np.ndarray | None = None
    """float32 [R, O]: standard deviation of the networks' predictions; None for one network."""
    distance: np.ndarray | None = None
    """float32 [R]: see `inference.Predicted`."""
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
    """float32 [n, R]: the input of the network's head, without the counts and descriptors that a
    kernel head compares, or the read-out of the layer that was named; NaN in rows that failed."""
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
    """Evaluates a model, whose network is on the device, on encoded molecules."""

    model: PropertyModel
    device: torch.device
    precision: Precision = "fp32"
    distances: bool = False
    """Compute the distance from the training molecules, where a network compares molecules."""

    def __call__(self, prepared: EncodedRows) -> Outcome:
        shape = len(prepared.errors), self.model.task.outputs
        values, spread = np.full((2, *shape), np.nan, dtype=np.float32)
        distance = np.full(len(prepared.errors), np.nan, dtype=np.float32)
        for rows, encoded in prepared.groups:
            tensors = GraphTensors.of(encoded, self.device)
            found = predict_with_signals(
                *(self.model, tensors, np.arange(len(rows)), self.precision), self.distances
            )
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
            *(values, errors, spread if self.model.partners else None),
            distance if self.distances and self.model.compares else None,
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
        if self.layer is not None:
            return network.layer_width
        return network.embedding_width - network.config.compared_features

    def __call__(self, prepared: EncodedRows) -> Embeddings:
        errors = list(prepared.errors)
        width, read = self.model.network.config.width, self.width
        molecules = np.full((len(errors), read), np.nan, dtype=np.float32)
        atoms = [np.empty((0, width), dtype=np.float32)] * len(errors)
        for rows, encoded in prepared.groups:
            found = self._infer(encoded)
            of_atoms = found[:, read:].reshape(len(rows), -1, width)
            for index, row in enumerate(rows):
                molecule, own = found[index, :read], of_atoms[index, : encoded.sizes[index]]
                if np.isfinite(molecule).all() and np.isfinite(own).all():
                    molecules[row], atoms[row] = molecule, own
                else:
                    errors[row] = _not_finite("the embedding", self.precision)
        return Embeddings(molecules, errors, atoms if self.atoms else None)

    def _infer(self, encoded: EncodedGraphs) -> np.ndarray:  # float32 (G, R) or (G, R + N C)
        """Return each molecule's embedding, followed by those of its atoms, padded."""
        network, largest, width = self.model.network, int(encoded.sizes.max()), self.width

        def molecules_alone(batch: GraphBatch) -> Tensor:  # (B, R)
            return network.embed_with_atoms(batch, layer=self.layer)[0][:, :width]

        def with_atoms(batch: GraphBatch) -> Tensor:  # (B, R + N C)
            molecules, slots = network.embed_with_atoms(batch, layer=self.layer)
            (group,) = batch.groups
            atoms = slots.unflatten(0, (group.graphs, group.slots))[batch.order, 1:]
            atoms = F.pad(atoms, (0, 0, 0, largest + 1 - group.slots))
            return torch.cat([molecules[:, :width], atoms.flatten(1)], dim=1)

        tensors, every = GraphTensors.of(encoded, self.device), np.arange(len(encoded))
        call = with_atoms if self.atoms else molecules_alone
        return infer(network, tensors, every, precision=self.precision, call=call).numpy()


def _not_finite(what: str, precision: Precision) -> str:
    overflow = "" if precision == "fp32" else f", or {precision} overflows"
    return (
        f"{what} is not a finite number: the model's weights are damaged{overflow}, or the "
        "molecule is too unlike the training molecules"
    )
