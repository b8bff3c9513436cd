"""`DenseForest`: the trees of a random forest as PyTorch operations."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from molsepnorm.forest import Forest
from molsepnorm.nn.molecule_features import KeepsFloat32


class DenseForest(KeepsFloat32):
    """A `Forest` without branches that depend on the data.

    The trees of all targets go down together, as many levels as the deepest of them has. A leaf is
    its own child.

    Args:
        forest: the forest.
    """

    medians: Tensor
    roots: Tensor
    features: Tensor
    thresholds: Tensor
    branches: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        roots, features, thresholds, children = [], [], [], []
        self.trees, self.starts, start = [], [], 0
        for number, trees in enumerate(forest.targets):
            inner, leaves = len(trees.features), len(trees.values)
            leaf = -1 - np.arange(leaves)
            own = np.concatenate([trees.children, np.stack([leaf, leaf], axis=1)])
            roots.append(start + np.where(trees.roots < 0, inner - 1 - trees.roots, trees.roots))
            children.append(start + np.where(own < 0, inner - 1 - own, own))
            features.append(np.pad(trees.features, (0, leaves)))
            thresholds.append(np.pad(trees.thresholds, (0, leaves)))
            self.register_buffer(f"values{number}", torch.from_numpy(trees.values))
            self.trees.append(len(trees.roots))
            self.starts.append(start + inner)
            start += inner + leaves
        self.register_buffer("medians", torch.from_numpy(forest.medians))
        self.register_buffer("thresholds", torch.from_numpy(np.concatenate(thresholds)))
        for name, parts in (("roots", roots), ("features", features), ("branches", children)):
            whole = np.concatenate(parts).astype(np.int64)
            self.register_buffer(name, torch.from_numpy(whole))
        self.levels = _levels(self.roots.numpy(), self.branches.numpy())

    def forward(self, inputs: Tensor) -> Tensor:  # float32 (B, O)
        """Return the predictions for the inputs of the forest (B, F), NaN where missing."""
        inputs = torch.where(inputs.isnan(), self.medians, inputs)
        nodes = self.roots.expand(inputs.shape[0], -1)  # (B, R)
        for _ in range(self.levels):
            larger = inputs.gather(1, self.features[nodes]) > self.thresholds[nodes]
            nodes = torch.where(larger, self.branches[nodes, 1], self.branches[nodes, 0])
        columns = []
        for number, own in enumerate(nodes.split(self.trees, dim=1)):
            values = getattr(self, f"values{number}")  # (leaves, W)
            columns.append(values[own - self.starts[number]].mean(dim=1))
        return torch.cat(columns, dim=1)


def _levels(roots: np.ndarray, children: np.ndarray) -> int:
    """Return the number of levels below the roots, where a leaf is its own child."""
    levels, nodes = 0, roots
    while len(nodes := nodes[children[nodes, 0] != nodes]):
        nodes, levels = children[nodes].ravel(), levels + 1
    return levels
