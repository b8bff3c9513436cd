"""Standardised embeddings of training molecules, with their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict.inference import infer
from molsepnorm.training.objectives.objective import Examples

__all__ = ["Embedded"]

_MAX_MOLECULES = 20_000
"""Maximum number of training molecules that a head is fitted to; they are drawn at random."""


@dataclass(frozen=True)
class Embedded:
    """Standardised embeddings of training molecules, and their labels."""

    inputs: np.ndarray
    """float64 [n, R]."""
    mean: np.ndarray
    """float64 [R], of the embeddings."""
    scale: np.ndarray
    """float64 [R]: their standard deviation, 1 for a constant channel."""
    labels: np.ndarray
    """float32 [n, T], NaN where missing."""
    weights: np.ndarray
    """float64 [n]: weights of the molecules."""
    molecules: np.ndarray
    """int64 [n]: indices of the molecules."""
    molecule_ids: np.ndarray
    """[n]: rows of the same molecule have the same number."""

    @staticmethod
    def of(network: Graphormer, examples: Examples, train: np.ndarray) -> Embedded:
        """Embed the training molecules (n,) in evaluation mode.

        Of more than `_MAX_MOLECULES`, a random sample is embedded, which is always the same.
        """
        if len(train) > _MAX_MOLECULES:
            train = np.random.default_rng(0).choice(train, _MAX_MOLECULES, replace=False)
        inputs = infer(network, examples.graphs, train, call=network.embed).double().numpy()
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        scale[scale <= 1e-6 * np.abs(inputs).max(axis=0, initial=1e-6)] = 1.0
        index = torch.from_numpy(train).to(examples.labels.device)
        labels = examples.labels[index].cpu().numpy()
        weights = np.ones(len(train))
        if examples.weights is not None:
            weights = examples.weights[index].cpu().double().numpy()
        ids = train if examples.molecule_ids is None else examples.molecule_ids[train]
        return Embedded((inputs - mean) / scale, mean, scale, labels, weights, train, ids)
