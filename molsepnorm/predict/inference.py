"""Run a network on molecules, and a model on encoded rows: predictions and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.data.batching.bucketing import size_sorted_batches
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.devices import Precision, autocast, products_in
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.predict.encode import EncodedRows
from molsepnorm.tasks import Task

_LIMITS = {"cpu": (256, 1 << 20), "cuda": (4096, 1 << 21)}
"""Maximum numbers of molecules and slot pairs in a batch."""


@torch.no_grad()
def infer(
    network: nn.Module,
    tensors: GraphTensors,
    graphs: np.ndarray,
    batch_size: int | None = None,
    precision: Precision = "fp32",
    call: Callable[[GraphBatch], torch.Tensor] | None = None,
) -> torch.Tensor:  # float32 (G, …), (G, O) by default
    """Return the network's outputs for molecules in the given order, on the CPU.

    Batches hold molecules of similar size. In evaluation mode the other molecules of a batch do not
    change an output. The network's mode is restored.

    Args:
        network: a network on the device of the tensors.
        tensors: all molecules.
        graphs: int [G], indices of the molecules.
        batch_size: maximum batch size; the default suits the device.
        precision: precision of matrix products.
        call: function from a batch to a row for each molecule; by default the network.
    """
    if not len(graphs):
        return torch.empty(0, 0)
    device = tensors.num_atoms.device
    limits = _LIMITS.get(device.type, _LIMITS["cuda"])
    sizes = tensors.sizes[graphs]
    batches = list(
        size_sorted_batches(np.arange(len(graphs)), sizes, batch_size or limits[0], limits[1])
    )
    was_training = network.training
    network.eval()
    try:
        with products_in(precision, device), autocast(precision, device):
            parts = [(call or network)(tensors.cut(graphs[rows])) for rows in batches]
    finally:
        network.train(was_training)
    sorted_outputs = torch.cat(parts).cpu()  # the only synchronisation with the device
    if precision == "bf16":
        sorted_outputs = sorted_outputs.float()
    outputs = torch.empty_like(sorted_outputs)
    outputs[torch.from_numpy(np.concatenate(batches))] = sorted_outputs
    return outputs


class Predicted(NamedTuple):
    """Predictions of a model for G molecules, and signals of their errors."""

    values: np.ndarray
    """float32 [G, O], on the scale that is learned."""
    spread: np.ndarray | None
    """float32 [G, O]: standard deviation of the networks' predictions; None for one network."""
    distance: np.ndarray | None
    """float32 [G]: see `KernelHead.with_distance`; the mean over the networks with such a head.
    None if there is none."""


def predict(
    model: PropertyModel, tensors: GraphTensors, graphs: np.ndarray, precision: Precision = "fp32"
) -> np.ndarray:  # float32 (G, O)
    """Return the model's predictions for molecules, on the scale that is learned."""
    return predict_with_signals(model, tensors, graphs, precision, distance=False).values


def predict_with_signals(
    model: PropertyModel,
    tensors: GraphTensors,
    graphs: np.ndarray,
    precision: Precision = "fp32",
    distance: bool = True,
) -> Predicted:
    """Return the model's predictions for molecules, with their spread and, if wanted, distance."""
    each, distances, shares = [], [], []
    for network, share in zip(model.networks, model.weights, strict=True):
        if distance and isinstance(network.head, KernelHead):
            outputs = infer(
                *(network, tensors, graphs), precision=precision, call=partial(_far, network)
            )
            distances.append(outputs[:, -1].numpy())
            shares.append(share)
            outputs = outputs[:, :-1]
        else:
            outputs = infer(network, tensors, graphs, precision=precision)
        each.append(model.task.predictions(outputs).numpy())
    mean = model.mean(each)
    spread = None
    if model.partners:
        spread = np.sqrt(model.mean([(one - mean) ** 2 for one in each]))
    return Predicted(
        model.blended(mean, features_of(tensors, graphs) if model.forests else None),
        spread,
        np.average(distances, axis=0, weights=shares) if sum(shares) else None,
    )


def _far(network: Graphormer, batch: GraphBatch) -> torch.Tensor:  # (B, O + 1)
    assert isinstance(network.head, KernelHead)
    return network.head.with_distance(network.embed(batch))


def features_of(tensors: GraphTensors, graphs: np.ndarray) -> np.ndarray | None:  # (G, F)
    """Return the molecule-level features of some molecules; None if there are none."""
    index = torch.from_numpy(graphs).to(tensors.num_atoms.device)
    return None if tensors.features is None else tensors.features[index].cpu().numpy()


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
