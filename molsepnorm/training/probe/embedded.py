"""Standardised embeddings of training molecules, with their labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict.inference import infer
from molsepnorm.tasks import Task
from molsepnorm.training.objectives.objective import Examples

MAX_MOLECULES = 12_000
"""Maximum number of training molecules that a head is fitted to; see `_sample`."""


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
    """float64 [n]: weights of the molecules. In a sample, each also counts for those that were not
    drawn."""
    molecules: np.ndarray
    """int64 [n]: indices of the molecules."""
    molecule_ids: np.ndarray
    """[n]: rows of the same molecule have the same number."""

    @staticmethod
    def of(network: Graphormer, examples: Examples, train: np.ndarray, task: Task) -> Embedded:
        """Embed the training molecules (n,) in evaluation mode: of more than `MAX_MOLECULES`, a
        sample, which is always the same."""
        device = examples.labels.device
        known = examples.labels[torch.from_numpy(train).to(device)].cpu().numpy()
        drawn, weights = _sample(known, task)
        train, labels = train[drawn], known[drawn]
        inputs = infer(network, examples.graphs, train, call=network.embed).double().numpy()
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        scale[scale <= 1e-6 * np.abs(inputs).max(axis=0, initial=1e-6)] = 1.0
        if examples.weights is not None:
            own = examples.weights[torch.from_numpy(train).to(device)]
            weights = weights * own.cpu().double().numpy()
        ids = train if examples.molecule_ids is None else examples.molecule_ids[train]
        return Embedded((inputs - mean) / scale, mean, scale, labels, weights, train, ids)

    def some(self, rows: np.ndarray) -> Embedded:
        """Return some of the molecules, given by their places (n,)."""
        names = "inputs", "labels", "weights", "molecules", "molecule_ids"
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def _sample(labels: np.ndarray, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Return which molecules a head is fitted to, and the number of molecules that each stands for.

    Of more than `MAX_MOLECULES`, those of rare classes are kept, since few actives decide a screen:
    the molecules outside of the most frequent class of a target, drawn at random if they are more
    than half of the sample. The others are drawn at random.

    Args:
        labels: (n, T), NaN where missing.
        task: the T targets.
    """
    if len(labels) <= MAX_MOLECULES:
        return np.arange(len(labels)), np.ones(len(labels))
    is_rare = np.zeros(len(labels), bool)
    for target, own in zip(task.targets, labels.T, strict=True):
        if target.kind != "regression" and np.isfinite(own).any():
            classes, counts = np.unique(own[np.isfinite(own)], return_counts=True)
            is_rare |= np.isfinite(own) & (own != classes[counts.argmax()])
    rare, frequent = np.flatnonzero(is_rare), np.flatnonzero(~is_rare)
    kept = min(len(rare), max(MAX_MOLECULES // 2, MAX_MOLECULES - len(frequent)))
    random = np.random.default_rng(0)
    parts = [(rare, kept), (frequent, MAX_MOLECULES - kept)]
    drawn = [random.choice(part, size, replace=False) for part, size in parts]
    weights = [np.full(size, len(part) / max(size, 1)) for part, size in parts]
    return np.concatenate(drawn), np.concatenate(weights)
