"""Predict a list of SMILES: `Prepare` encodes the molecules, `Run` evaluates the network.

On a CPU each worker process does both (`Predict`). If the network is on a GPU, worker processes
prepare, and the main process runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from molsepnorm.data.batching.bucketing import size_sorted_batches
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.errors import InvalidMolecule
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import (
    EncodedGraphs,
    EncodingSpec,
    encode,
    require_graphs,
)
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.predict.inference import Precision, predict
from molsepnorm.tasks import Task

__all__ = ["Outcome", "Predict", "Prepare", "Prepared", "Run", "encoded_groups"]

_GROUP = {"cpu": 128, "cuda": 1024}
"""Number of molecules of similar size that are encoded and run together. On a CPU it is small, so
that their arrays fit into its cache and their path vocabulary is small."""

Group = tuple[np.ndarray, EncodedGraphs]
"""Rows of some molecules, int64 [g], and the encoded molecules."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """R SMILES, the valid ones encoded."""

    errors: list[str | None]
    """For each SMILES the reason why it is invalid, or None."""
    groups: list[Group]
    """The valid ones, sorted by size."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions for R SMILES, in columns."""

    values: np.ndarray
    """float32 [R, O]: the values of `Task.predictions`; NaN in rows that failed."""
    errors: list[str | None]
    """For each SMILES the reason why its row failed, or None: it is invalid, or a prediction is not
    finite."""

    def columns(self, task: Task) -> list[dict[str, np.ndarray]]:
        """Return the columns of each target by name, the predicted value first.

        `predict_rows` writes all of them. An interval or a domain flag is one more column here.
        """
        return task.tables(self.values)


class Prepare:
    """Encodes SMILES with the model's featuriser and encoding, in groups for a device."""

    def __init__(self, model: PropertyModel, device: torch.device) -> None:
        self._featurizer = featurize.get(model.featurizer)
        self._spec = model.encoding
        self._atom_sizes = model.network.config.atom_sizes
        self._group = _GROUP.get(device.type, _GROUP["cuda"])

    def __call__(self, smiles: Sequence[str]) -> Prepared:
        made = self._featurizer.many(smiles)
        errors = [str(each) if isinstance(each, InvalidMolecule) else None for each in made]
        graphs = [each for each in made if not isinstance(each, InvalidMolecule)]
        valid = np.array([row for row, error in enumerate(errors) if error is None], dtype=int)
        groups = encoded_groups(graphs, self._spec, self._atom_sizes, self._group)
        return Prepared(errors, [(valid[index], encoded) for index, encoded in groups])


@dataclass(frozen=True)
class Run:
    """Evaluates a model, whose network is on the device, on encoded molecules."""

    model: PropertyModel
    device: torch.device
    precision: Precision = "fp32"

    def __call__(self, prepared: Prepared) -> Outcome:
        shape = len(prepared.errors), self.model.task.outputs
        values = np.full(shape, np.nan, dtype=np.float32)
        for rows, encoded in prepared.groups:
            tensors = GraphTensors.of(encoded, self.device)
            values[rows] = predict(self.model, tensors, np.arange(len(rows)), self.precision)
        finite, errors = np.isfinite(values), list(prepared.errors)
        failed = np.flatnonzero(~finite.all(axis=1))  # invalid SMILES included
        for row in failed:
            errors[row] = errors[row] or self._not_finite(finite[row])
        values[failed] = np.nan
        return Outcome(values, errors)

    def _not_finite(self, finite: np.ndarray) -> str:
        """Return why a row has no prediction, given which of its outputs (O,) are finite."""
        task = self.model.task
        columns = zip(task.targets, task.columns(), strict=True)
        names = [target.name for target, column in columns if not finite[column].all()]
        overflow = "" if self.precision == "fp32" else f", or {self.precision} overflows"
        return (
            f"the prediction of {', '.join(names)} is not a finite number: the model's weights are "
            f"damaged{overflow}, or the molecule is too unlike the training molecules"
        )


@dataclass(frozen=True)
class Predict:
    """Encodes SMILES, and evaluates the network on them."""

    prepare: Prepare
    run: Run

    def __call__(self, smiles: Sequence[str]) -> Outcome:
        return self.run(self.prepare(smiles))


def encoded_groups(
    graphs: Sequence[MolGraph],
    spec: EncodingSpec,
    atom_sizes: tuple[int, ...],
    group: int = _GROUP["cpu"],
) -> list[Group]:
    """Encode molecules in groups of similar size; groups of large molecules are smaller.

    Raises:
        ConfigError: one is no `MolGraph`, or its features do not fit, as in `encode`.
    """
    require_graphs(graphs)
    sizes = np.array([graph.num_atoms for graph in graphs], dtype=np.int64)
    return [
        (index, encode([graphs[i] for i in index], spec, atom_sizes, index))
        for index in size_sorted_batches(np.arange(len(graphs)), sizes, group)
    ]
