"""`Part`: a learner of a model, with what it reads (`Inputs`) and what it returns (`Predicted`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.batching import GraphTensors
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Task


class ExtraArrays(NamedTuple):
    """The inputs of G molecules beside their graphs; arrays that no part reads have no columns."""

    counts: np.ndarray
    """uint16 or float32 (G, K): Morgan counts."""
    descriptors: np.ndarray
    """float32 (G, D), NaN where missing."""
    pairs: np.ndarray
    """uint16 or float32 (G, P): atom-pair counts."""
    columns: np.ndarray
    """float32 (G, C): numbers and one-hot words of the feature columns, NaN where missing, and the
    predictions of auxiliary models."""

    @staticmethod
    def none(molecules: int) -> ExtraArrays:
        """Return the arrays of a model that reads nothing but graphs."""
        empty = np.zeros((molecules, 0), dtype=np.float32)
        return ExtraArrays(empty, empty, empty, empty)

    def of(self, rows: np.ndarray | slice) -> ExtraArrays:
        """Return the arrays of some molecules."""
        return ExtraArrays(*(each[rows] for each in self))

    def read_by(self, reads: ExtraInputs) -> ExtraArrays:
        """Return what a part reads: all or nothing of an array, and the first feature columns."""
        pairs = zip(self, reads.widths, strict=True)
        return ExtraArrays(*(each[:, :width] for each, width in pairs))

    def stacked(self) -> np.ndarray:
        """Return all arrays as one, float32 (G, w)."""
        return np.concatenate(self, axis=1, dtype=np.float32)


class Inputs(NamedTuple):
    """G molecules as inputs of a model."""

    graphs: GraphTensors
    """With the molecule-level features of the featuriser."""
    extra: ExtraArrays

    @staticmethod
    def of(
        graphs: EncodedGraphs,
        extra: ExtraArrays | None = None,
        device: torch.device | str = "cpu",
    ) -> Inputs:
        """Return encoded molecules, or a store of them, as inputs."""
        extra = ExtraArrays.none(len(graphs)) if extra is None else extra
        return Inputs(GraphTensors.of(graphs, device), extra)


class Predicted(NamedTuple):
    """Predictions for n molecules, of a part or of a whole model, and signals of their errors."""

    values: np.ndarray
    """float32 (n, O): see `Task.predictions`."""
    spread: np.ndarray | None = None
    """float32 (n, O): standard deviation of the predictions of networks and kernel regressions;
    None if there is one of them."""
    distance: np.ndarray | None = None
    """float32 (n,): distance of each molecule from the training molecules, from 0 to 1; None
    without a kernel regression."""


class Part(ABC):
    """A learner. For model folders, a subclass is registered by `register_part`."""

    kind: ClassVar[str]
    """Name of the class in model folders and reports."""
    in_spread: ClassVar[bool] = False
    """True if its predictions count in the spread over the parts of a model."""
    reads: ExtraInputs = NO_INPUTS
    """The inputs that it reads beside the graphs."""
    network: Graphormer | None = None
    """The network whose read-outs it needs, which several parts may share."""
    channels: int = 0
    """Number of channels that it needs, the last ones of `Graphormer.embed_layers`."""

    @abstractmethod
    def predict(
        self, inputs: Inputs, rows: np.ndarray, task: Task, read: Tensor | None = None
    ) -> Predicted:
        """Return predictions for the molecules `rows`, int (n,), of G molecules.

        Args:
            read: (n, R), on the CPU, the read-outs of its network for these molecules.
        """

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        """Its PyTorch modules, which `to` moves."""
        return () if self.network is None else (self.network,)

    def to(self, device: torch.device | str) -> None:
        for module in self.modules:
            module.to(device)

    @property
    @abstractmethod
    def outputs(self) -> int:
        """O, the number of columns of the predictions."""

    def rescale(self, old: Task, new: Task) -> None:  # noqa: B027 - the unit of labels needs none
        """Keep the predictions in a new task whose targets have other means and scales."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a model folder holds beside the network."""

    @staticmethod
    @abstractmethod
    def from_state(
        tensors: Mapping[str, Tensor], reads: ExtraInputs, network: Graphormer | None = None
    ) -> Part:
        """Return the part with this state; any error means that the state is damaged."""
