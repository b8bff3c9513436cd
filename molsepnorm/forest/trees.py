"""`Trees`: decision trees as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

__all__ = ["Trees"]

_AT_ONCE = 2**18
"""Number of pairs of a molecule and a tree that are evaluated together, which bounds memory."""
_TYPES = (np.int32, np.int16, np.float32, np.int32, np.float32)  # of the arrays of `Trees`


@dataclass(frozen=True)
class Trees:
    """R decision trees of one target, which have N inner nodes and L leaves together.

    A node is an integer: i ≥ 0 is inner node i, and -1 - i is leaf i. The children of an inner node
    come after it.

    Raises:
        ValueError: the arrays do not describe trees.
    """

    roots: np.ndarray
    """int32 (R,): the node at which each tree begins."""
    features: np.ndarray
    """int16 (N,): the feature that each inner node compares with its threshold."""
    thresholds: np.ndarray
    """float32 (N,)."""
    children: np.ndarray
    """int32 (N, 2): the next node if the feature is at most the threshold, and if it is larger."""
    values: np.ndarray
    """float32 (L, W): the prediction of each leaf."""

    def __post_init__(self) -> None:
        arrays = [getattr(self, each.name) for each in fields(self)]
        if [each.dtype for each in arrays] != [*_TYPES]:
            raise ValueError("the numbers of a tree have other types")
        inner, leaves = len(self.features), len(self.values)
        if not (
            self.roots.ndim == self.features.ndim == self.thresholds.ndim == 1
            and self.thresholds.shape == (inner,)
            and self.children.shape == (inner, 2)
            and self.values.ndim == 2
            and len(self.roots)
        ):
            raise ValueError("the shapes of the arrays do not fit each other")
        nodes = np.concatenate([self.roots, self.children.ravel()])
        if nodes.min() < -leaves or nodes.max() >= inner or self.features.min(initial=0) < 0:
            raise ValueError("a node is outside the arrays")
        if (self.children <= np.arange(inner)[:, None])[self.children >= 0].any():
            raise ValueError("a node comes before its parent")

    @staticmethod
    def of(estimators: Sequence[Any]) -> Trees:
        """Return scikit-learn's fitted trees (R,) of a single target as arrays.

        scikit-learn compares float32 features with float64 thresholds. The largest float32 number
        that is not above such a threshold gives the same decisions.
        """
        parts: dict[str, list[np.ndarray]] = {each.name: [] for each in fields(Trees)}
        inner = leaves = 0
        for tree in (each.tree_ for each in estimators):
            split = tree.children_left >= 0
            numbers = np.where(split, inner + split.cumsum() - 1, -leaves - (~split).cumsum())
            children = tree.children_left[split], tree.children_right[split]
            parts["roots"].append(numbers[:1])
            parts["features"].append(tree.feature[split])
            parts["thresholds"].append(_rounded_down(tree.threshold[split]))
            parts["children"].append(numbers[np.stack(children, axis=1)])
            parts["values"].append(tree.value[~split, 0])
            inner, leaves = inner + split.sum(), leaves + (~split).sum()
        return _as_trees(*map(np.concatenate, parts.values()))

    @staticmethod
    def leaf(value: np.ndarray) -> Trees:
        """Return one tree that consists of a leaf with this value (W,)."""
        return _as_trees([-1], [], [], np.empty((0, 2)), value[None])

    def predict(self, inputs: np.ndarray) -> np.ndarray:  # float64 (G, W)
        """Return the mean prediction of the trees for features (G, F), float32 and without NaN."""
        count, step = len(self.roots), max(1, _AT_ONCE // len(self.roots))
        parts = [np.empty((0, self.values.shape[1]))]
        for start in range(0, len(inputs), step):
            part = inputs[start : start + step]
            rows = np.repeat(np.arange(len(part)) * part.shape[1], count)  # in the flat features
            nodes, features = np.tile(self.roots, len(part)), part.ravel()
            moving = np.flatnonzero(nodes >= 0)
            at = nodes[moving]
            while len(moving):  # down by one level
                own = features.take(rows.take(moving) + self.features.take(at))
                at = self.children.ravel().take(2 * at + (own > self.thresholds.take(at)))
                nodes[moving] = at
                inner = at >= 0
                moving, at = moving[inner], at[inner]
            leaves = self.values[-1 - nodes].reshape(len(part), count, -1)
            parts.append(leaves.mean(axis=1, dtype=np.float64))
        return np.concatenate(parts)


def _as_trees(*arrays: Any) -> Trees:
    """Return trees from arrays of any type of number."""
    return Trees(*(np.asarray(each, kind) for each, kind in zip(arrays, _TYPES, strict=True)))


def _rounded_down(numbers: np.ndarray) -> np.ndarray:
    """Return the largest float32 numbers that are not above these float64 numbers."""
    nearest = numbers.astype(np.float32)
    return np.where(nearest > numbers, np.nextafter(nearest, np.float32(-np.inf)), nearest)
