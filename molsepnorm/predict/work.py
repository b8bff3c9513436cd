"""The work on a list of SMILES: `Prepare`, which needs no network, and `Run`, which is the rest.

On a CPU a process does both (`Predict`); where the network runs on a GPU, worker processes prepare
and the process that holds the GPU runs.
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
from molsepnorm.molecules.encodings.encode import (
    EncodedGraphs,
    EncodingSpec,
    encode,
    require_graphs,
)
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.predict.inference import Precision, predict

__all__ = ["Outcome", "Predict", "Prepare", "Prepared", "Run", "encoded_groups"]

_GROUP = {"cpu": 128, "cuda": 1024}
"""Molecules of like size that are encoded, and run, together: on a CPU so few that their arrays
stay in its cache, and that their vocabulary of paths is small."""

Group = tuple[np.ndarray, EncodedGraphs]
"""Places of some molecules among all, int64 [g], and the molecules."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """R SMILES, the readable ones as molecules."""

    errors: list[str | None]
    """Of each SMILES why it cannot be predicted."""
    groups: list[Group]
    """The others, from small to large."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of R SMILES, in columns."""

    values: np.ndarray
    """float32 [R, O]: predictions as `Task.predictions` gives them; NaN where a row failed."""
    errors: list[str | None]
    """For each SMILES the reason why it failed: unreadable, or a prediction is not finite."""


class Prepare:
    """SMILES to encoded molecules.

    Args:
        model: for which.
        device: where the network will run.
    """

    def __init__(self, model: PropertyModel, device: torch.device) -> None:
        self._featurizer = featurize.get(model.featurizer)
        self._spec = model.encoding
        self._atom_sizes = model.network.config.atom_sizes
        self._group = _GROUP.get(device.type, _GROUP["cuda"])

    def __call__(self, smiles: Sequence[str]) -> Prepared:
        made = self._featurizer.many(smiles)
        errors = [str(each) if isinstance(each, InvalidMolecule) else None for each in made]
        graphs = [each for each in made if not isinstance(each, InvalidMolecule)]
        places = np.array([row for row, error in enumerate(errors) if error is None], dtype=int)
        groups = encoded_groups(graphs, self._spec, self._atom_sizes, self._group)
        return Prepared(errors, [(places[which], encoded) for which, encoded in groups])


class Run:
    """Encoded molecules to predictions.

    Args:
        model: with its network on the device already.
        device: where it is.
        precision: of matrix products.
    """

    def __init__(
        self, model: PropertyModel, device: torch.device, precision: Precision = "fp32"
    ) -> None:
        self._model = model
        self._device = device
        self._precision = precision

    def __call__(self, prepared: Prepared) -> Outcome:
        shape = len(prepared.errors), self._model.task.outputs
        values = np.full(shape, np.nan, dtype=np.float32)
        for rows, encoded in prepared.groups:
            tensors = GraphTensors.of(encoded, self._device)
            values[rows] = predict(self._model, tensors, np.arange(len(rows)), self._precision)
        finite, errors = np.isfinite(values), list(prepared.errors)
        odd = np.flatnonzero(~finite.all(axis=1))  # the rows without a molecule among them
        for row in odd:
            errors[row] = errors[row] or self._not_finite(finite[row])
        values[odd] = np.nan
        return Outcome(values, errors)

    def _not_finite(self, finite: np.ndarray) -> str:
        """Why a row has no prediction, from which of its outputs (O,) are finite."""
        task = self._model.task
        columns = zip(task.targets, task.columns(), strict=True)
        names = [target.name for target, column in columns if not finite[column].all()]
        overflow = "" if self._precision == "fp32" else f", or {self._precision} overflows"
        return (
            f"the prediction of {', '.join(names)} is not a finite number: the model's weights are "
            f"damaged{overflow}, or the molecule is too unlike the training molecules"
        )


class Predict:
    """Both, one after the other."""

    def __init__(self, prepare: Prepare, run: Run) -> None:
        self._prepare = prepare
        self._run = run

    def __call__(self, smiles: Sequence[str]) -> Outcome:
        return self._run(self._prepare(smiles))


def encoded_groups(
    graphs: Sequence[MolGraph],
    spec: EncodingSpec,
    atom_sizes: tuple[int, ...],
    group: int = _GROUP["cpu"],
) -> list[Group]:
    """Molecules encoded in groups of like size, large molecules in smaller groups.

    Raises:
        ConfigError: one is no `MolGraph`, or its features do not fit, as in `encode`.
    """
    require_graphs(graphs)
    sizes = np.array([graph.num_atoms for graph in graphs], dtype=np.int64)
    return [
        (which, encode([graphs[place] for place in which], spec, atom_sizes, which))
        for which in size_sorted_batches(np.arange(len(graphs)), sizes, group)
    ]
