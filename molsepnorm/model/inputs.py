"""`Inputs`: what the parts of a model read of some molecules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.tasks import ExtraInputs


class ExtraArrays(NamedTuple):
    """The inputs of G molecules beside their graphs; those that no part reads have no columns."""

    counts: np.ndarray
    """uint16 or float32 (G, K): Morgan counts."""
    descriptors: np.ndarray
    """float32 (G, D), NaN where missing."""
    pairs: np.ndarray
    """uint16 or float32 (G, P): atom-pair counts."""
    columns: np.ndarray
    """float32 (G, C): numbers and one-hot words of the feature columns, NaN where missing."""

    @staticmethod
    def none(molecules: int) -> ExtraArrays:
        """Return the arrays of a model that reads nothing but graphs."""
        empty = np.zeros((molecules, 0), dtype=np.float32)
        return ExtraArrays(empty, empty, empty, empty)

    def of(self, rows: np.ndarray) -> ExtraArrays:
        """Return the arrays of some molecules."""
        return ExtraArrays(*(each[rows] for each in self))

    def read_by(self, reads: ExtraInputs) -> ExtraArrays:
        """Return the arrays that a part reads: all or nothing of an array, and its first feature
        columns."""
        pairs = zip(self, reads.widths, strict=True)
        return ExtraArrays(*(each[:, :width] for each, width in pairs))

    def stacked(self) -> np.ndarray:
        """Return all arrays as one, float32 (G, w)."""
        return np.concatenate(self, axis=1, dtype=np.float32)


class Inputs(NamedTuple):
    """G molecules, as far as the parts of a model read them."""

    graphs: GraphTensors
    """Their graphs, with the molecule-level features of the featuriser."""
    extra: ExtraArrays

    @staticmethod
    def of(
        graphs: EncodedGraphs,
        extra: ExtraArrays | None = None,
        device: torch.device | str = "cpu",
    ) -> Inputs:
        """Return a store or encoded molecules as inputs, by default without extra ones."""
        extra = ExtraArrays.none(len(graphs)) if extra is None else extra
        return Inputs(GraphTensors.of(graphs, device), extra)
