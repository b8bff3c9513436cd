"""`Forest`: a random forest for each target."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molsepnorm.forest.trees import Trees
from molsepnorm.tasks import Target, Task

__all__ = ["TREES", "Forest"]

TREES = 500
"""Number of trees of each target."""
_SEEDS = 2**32  # of scikit-learn
_TIMED = 10  # trees of each target that are timed, if time is limited


@dataclass(frozen=True)
class Forest:
    """A random forest for each target of a task, on Morgan counts and RDKit's descriptors.

    For regression the trees are extremely randomised: a split is the best of random thresholds, one
    for each of the features that are tried, which are a third of all. For classes a split has the
    best threshold of log2 of the features, and each class is weighted by the inverse square root of
    its frequency, unless the task has class weights; predictions are unweighted shares. Each is the
    better one on its kind of targets. A
    missing feature is replaced by its median over the training molecules.

    Source: Geurts et al., "Extremely randomized trees", Machine Learning 2006, 63, 3, on bootstrap
    samples; Breiman, "Random forests", Machine Learning 2001, 45, 5; both as in scikit-learn.
    """

    medians: np.ndarray
    """float32 (F,)."""
    targets: tuple[Trees, ...]
    """The trees of each target."""

    @property
    def trees(self) -> int:
        """Number of trees of each target."""
        return max(len(trees.roots) for trees in self.targets)

    @staticmethod
    def fit(
        features: np.ndarray,
        labels: np.ndarray,
        task: Task,
        weights: np.ndarray | None = None,
        *,
        seed: int = 0,
        trees: int = TREES,
        threads: int = 1,
        seconds: float | None = None,
    ) -> Forest:
        """Fit the trees of each target to the training molecules that have its label.

        Args:
            features: float32 (G, F), from `structure_inputs`.
            labels: (G, T), NaN where missing.
            task: the targets, with their class weights.
            weights: (G,) weights of the molecules; None for equal weights.
            seed: random seed. Its trees do not depend on the number of threads.
            trees: number of trees of each target.
            threads: number of CPU threads.
            seconds: time limit. Ten trees of each target are fitted and timed, and as many follow
                as fit into the time, up to `trees`.
        """
        known = ~np.isnan(features).all(axis=0)
        medians = np.zeros(features.shape[1], dtype=np.float32)
        medians[known] = np.nanmedian(features[:, known], axis=0)
        inputs = _filled(features, medians)
        weights = np.ones(len(labels)) if weights is None else weights
        growing = [
            _Growing(target, inputs, column, weights, seed, threads)
            for target, column in zip(task.targets, labels.T, strict=True)
        ]
        if seconds is not None and trees > _TIMED:
            started = time.perf_counter()
            for each in growing:
                each.grow(_TIMED)
            each_tree = (time.perf_counter() - started) / _TIMED
            trees = int(np.clip(seconds / each_tree, _TIMED, trees))
        for each in growing:
            each.grow(trees)
        constant = task.baseline_prediction(labels)
        found = (
            each.trees(constant[columns])
            for each, columns in zip(growing, task.columns(), strict=True)
        )
        return Forest(medians, tuple(found))

    def predict(self, features: np.ndarray) -> np.ndarray:  # float32 (G, O)
        """Return predictions as `Task.predictions` does: values in the targets' own units, and
        probabilities of class 1 or of each class."""
        inputs = _filled(features, self.medians)
        parts = [trees.predict(inputs) for trees in self.targets]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def times(self, factor: float) -> Forest:
        """Return a forest whose predictions are `factor` times those of this one."""
        targets = (replace(each, values=each.values * np.float32(factor)) for each in self.targets)
        return replace(self, targets=tuple(targets))

    def tensors(self) -> dict[str, Tensor]:
        """Return the forest as tensors by name, for a file that `from_tensors` can read."""
        arrays = {"medians": self.medians}
        for number, trees in enumerate(self.targets):
            arrays |= {f"{number}.{name}": each for name, each in vars(trees).items()}
        return {name: torch.from_numpy(each) for name, each in arrays.items()}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor]) -> Forest:
        """Return the forest that `tensors` was called on.

        Raises:
            KeyError, ValueError: the tensors are not those of a forest.
        """
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        medians, targets = arrays["medians"], list[Trees]()
        while f"{len(targets)}.roots" in arrays:
            found = {each.name: arrays[f"{len(targets)}.{each.name}"] for each in fields(Trees)}
            targets.append(Trees(**found))
        if not targets or medians.ndim != 1:
            raise ValueError("a forest has no trees or medians")
        if (largest := max(trees.features.max(initial=0) for trees in targets)) >= len(medians):
            raise ValueError(f"a tree reads feature {largest} of {len(medians)}")
        return Forest(medians, tuple(targets))


def _filled(features: np.ndarray, medians: np.ndarray) -> np.ndarray:  # float32 (G, F)
    return np.where(np.isnan(features), medians, features)


def _estimator(target: Target, **settings: Any) -> Any:
    """Return scikit-learn's forest of no trees, for one target."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

    if target.kind == "regression":
        return ExtraTreesRegressor(0, max_features=1 / 3, bootstrap=True, **settings)
    return RandomForestClassifier(0, max_features="log2", **settings)


class _Growing:
    """The forest of one target while it is fitted.

    Args:
        target: the target.
        inputs: float32 (G, F).
        labels, weights: (G,).
        seed, threads: as for `Forest.fit`.
    """

    def __init__(
        self,
        target: Target,
        inputs: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        seed: int,
        threads: int,
    ) -> None:
        self.target = target
        self.used = ~np.isnan(labels) & (weights > 0)
        self.labels = labels[self.used].astype(np.float64)
        self.unit = 1.0
        """Unit of the labels in a fit, near their standard deviation: scikit-learn splits no node
        whose variance is tiny. A power of two changes no digit."""
        if target.kind == "regression" and len(self.labels) and (spread := self.labels.std()):
            self.unit = 2.0 ** np.round(np.log2(spread))
            self.labels /= self.unit
        self.weights = weights[self.used]
        self.balance = np.ones(max(target.width, 2))
        """(C,): factors of the classes in the choice of splits, which leaves do not have."""
        if target.kind != "regression":
            classes, weights = self.labels.astype(int), np.array(target.class_weights)
            if not target.class_weights:
                totals = np.bincount(classes, self.weights, len(self.balance))
                weights = self.balance = np.maximum(totals, 1e-9) ** -0.5
            self.weights = self.weights * weights[classes]
        self.inputs = inputs
        self.estimator = _estimator(
            target, random_state=seed % _SEEDS, n_jobs=threads, warm_start=True
        )

    def grow(self, trees: int) -> None:
        """Fit further trees, up to this number."""
        if self.used.any() and trees > self.estimator.n_estimators:
            self.estimator.set_params(n_estimators=trees)
            self.estimator.fit(self.inputs[self.used], self.labels, self.weights)

    def trees(self, constant: np.ndarray) -> Trees:
        """Return the fitted trees; without labels, a leaf that predicts the constant (W,)."""
        if not self.used.any():
            return Trees.leaf(constant)
        trees = Trees.of(self.estimator.estimators_)
        if self.target.kind == "regression":
            return replace(trees, values=trees.values * np.float32(self.unit))
        shares = np.zeros((len(trees.values), max(self.target.width, 2)), dtype=np.float32)
        classes = self.estimator.classes_.astype(int)
        shares[:, classes] = trees.values / self.balance[classes]
        shares /= shares.sum(axis=1, keepdims=True)
        return replace(trees, values=np.ascontiguousarray(shares[:, -self.target.width :]))
