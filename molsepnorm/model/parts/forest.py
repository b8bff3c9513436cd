"""`Forest`: a random forest for each target, for regression with boosted trees.

scikit-learn fits the trees. They are kept and evaluated as plain arrays, so that a file of them
needs no pickle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from molsepnorm.model.parts.part import ExtraArrays, Inputs, Part, Predicted
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import ExtraInputs, Target, Task

TREES = 500
"""Number of trees, see `Forest.fit`."""
_SEEDS = 2**32  # of scikit-learn
_LEAF, _TRIED = 5, 100  # rows of a leaf, and features that a split tries, of boosted trees
_ROUNDS, _WORK = 200, 150_000  # of boosting: so many rounds, or these divided by the features
_MAX_BOOSTED = 100_000  # rows, because scikit-learn copies them in double precision


@dataclass(frozen=True, eq=False)
class Forest(Part):
    """A random forest for each target of a task, on Morgan counts, RDKit's descriptors and feature
    columns.

    For regression it is the mean of extremely randomised trees, where a split is the best of one
    random threshold for each feature, and of gradient boosting: both find a few feature columns
    among thousands of counts, and their errors differ. For classes a split has the best threshold
    of log2 of the features, and each class is weighted by the inverse square root of its frequency,
    unless the task has class weights; predictions are unweighted shares. Each is the better one on
    its kind of targets. A missing feature is replaced by its median over the training molecules.

    Source: Geurts et al., "Extremely randomized trees", Machine Learning 2006, 63, 3; Friedman,
    "Greedy function approximation: a gradient boosting machine", Annals of Statistics 2001, 29,
    1189; Breiman, "Random forests", Machine Learning 2001, 45, 5; all as in scikit-learn.
    """

    kind: ClassVar[str] = "random forest"
    medians: np.ndarray
    """float32 (F,)."""
    targets: tuple[Trees, ...]
    """The trees of each target."""
    reads: ExtraInputs

    @property
    def outputs(self) -> int:
        return sum(trees.values.shape[1] for trees in self.targets)

    @property
    def trees(self) -> int:
        """Number of trees of each target."""
        return max(len(trees.roots) for trees in self.targets)

    @staticmethod
    def fit(
        reads: ExtraInputs,
        features: np.ndarray,
        labels: np.ndarray,
        task: Task,
        weights: np.ndarray | None = None,
        *,
        seed: int = 0,
        trees: int = TREES,
        threads: int = 1,
    ) -> Forest:
        """Fit the trees of each target to the training molecules that have its label.

        Args:
            features: float32 (G, F), the stacked inputs of G molecules, which are changed in place.
            labels: (G, T), NaN where missing.
            weights: (G, T), weights of the labels; None for equal weights.
            seed: random seed. Its trees do not depend on the number of threads.
            trees: number of trees of a target of classes. A regression target has a quarter of
                them, and up to twice as many small ones that correct each other.
        """
        known = (column[~np.isnan(column)] for column in features.T)
        medians = np.array([np.median(each) if len(each) else 0.0 for each in known], np.float32)
        inputs, units = _filled(features, medians), np.ones(len(medians), np.float32)
        of_columns = slice(len(medians) - reads.widths[-1], None)
        # scikit-learn takes numbers as equal that differ by less than 1e-7
        spreads = inputs[:, of_columns].std(axis=0, dtype=np.float64)
        units[of_columns] = [*map(_power_of_two, spreads)]
        inputs[:, of_columns] /= units[of_columns]
        weights = np.ones(labels.shape) if weights is None else weights
        constant = task.baseline_prediction(labels)
        settings = {"random_state": seed % _SEEDS, "n_jobs": threads}
        found = (
            _fit_trees(target, inputs, column, own, constant[columns], trees, **settings)
            for target, column, own, columns in zip(
                task.targets, labels.T, weights.T, task.columns(), strict=True
            )
        )
        scaled = (replace(t, thresholds=t.thresholds * units[t.features]) for t in found)
        return Forest(medians, tuple(scaled), reads)

    def predict(
        self, inputs: Inputs, rows: np.ndarray, task: Task, read: Tensor | None = None
    ) -> Predicted:
        return Predicted(self.values(inputs.extra.of(rows)))

    def values(self, extra: ExtraArrays) -> np.ndarray:  # float32 (G, O)
        """Return predictions as `Task.predictions` does: values in the targets' own units, and
        probabilities of class 1 or of each class."""
        inputs = _filled(extra.read_by(self.reads).stacked(), self.medians)
        parts = [trees.predict(inputs) for trees in self.targets]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def state(self) -> dict[str, Tensor]:
        arrays = {"medians": self.medians}
        for number, trees in enumerate(self.targets):
            arrays |= {f"{number}.{name}": each for name, each in vars(trees).items()}
        return {name: torch.from_numpy(each) for name, each in arrays.items()}

    @staticmethod
    def from_state(
        tensors: Mapping[str, Tensor], reads: ExtraInputs, network: Graphormer | None = None
    ) -> Forest:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        medians, targets = arrays["medians"], list[Trees]()
        while f"{len(targets)}.roots" in arrays:
            found = {each.name: arrays[f"{len(targets)}.{each.name}"] for each in fields(Trees)}
            targets.append(Trees(**found))
        if not targets or medians.ndim != 1:
            raise ValueError("a forest has no trees or medians")
        if (largest := max(trees.features.max(initial=0) for trees in targets)) >= len(medians):
            raise ValueError(f"a tree reads feature {largest} of {len(medians)}")
        if len(medians) != reads.width:
            raise ValueError(f"a forest reads {len(medians)} inputs, not {reads.width}")
        return Forest(medians, tuple(targets), reads)


def _filled(features: np.ndarray, medians: np.ndarray) -> np.ndarray:  # float32 (G, F)
    """Return the features themselves, in which the medians replace NaN."""
    np.copyto(features, medians, where=np.isnan(features))
    return features


def _fit_trees(
    target: Target,
    inputs: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    constant: np.ndarray,
    trees: int,
    **settings: Any,
) -> Trees:
    """Return the trees of one target, fitted to inputs (G, F), labels and weights (G,); without
    labels, a leaf that predicts the constant (W,). `settings` are those of scikit-learn's forest.
    """
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

    used = ~np.isnan(labels) & (weights > 0)
    if not used.any():
        return Trees.leaf(constant)
    inputs = inputs if used.all() else inputs[used]
    labels, weights = labels[used].astype(np.float64), weights[used]
    if target.kind == "regression":
        # scikit-learn splits no node whose variance or sum of weights is tiny, so the labels have a
        # unit near their standard deviation, and the weights near their mean
        unit, weights = _power_of_two(labels.std()), weights / _power_of_two(weights.mean())
        forest = ExtraTreesRegressor(-(-trees // 4), **settings)
        nodes = _nodes(forest.fit(inputs, labels / unit, weights).estimators_)
        other = _boosted(inputs, labels / unit, weights, 2 * trees, **settings)
        half = (len(nodes) + len(other)) / 2  # of the sum of the weights in a mean
        scaled = ((each, half / len(own)) for own in (nodes, other) for each in own)
        found = Trees.of([each._replace(value=each.value * weight) for each, weight in scaled])
        return replace(found, values=found.values * np.float32(unit))
    classes, factors = labels.astype(int), np.array(target.class_weights)
    balance = np.ones(max(target.width, 2))
    if not target.class_weights:  # in the choice of splits, but not in the leaves
        totals = np.bincount(classes, weights, len(balance))
        factors = balance = np.maximum(totals, 1e-9) ** -0.5
    forest = RandomForestClassifier(trees, max_features="log2", **settings)
    found = Trees.of(_nodes(forest.fit(inputs, labels, weights * factors[classes]).estimators_))
    shares = np.zeros((len(found.values), len(balance)), dtype=np.float32)
    present = forest.classes_.astype(int)
    shares[:, present] = found.values / balance[present]
    shares /= shares.sum(axis=1, keepdims=True)
    return replace(found, values=np.ascontiguousarray(shares[:, -target.width :]))


def _power_of_two(size: float) -> float:
    """Return a unit near a size, 1 for 0; to divide by a power of two changes no digit."""
    return float(2.0 ** np.round(np.log2(size))) if size else 1.0


class Nodes(NamedTuple):
    """The n nodes of a fitted tree, children after their parents; `left` is -1 for a leaf."""

    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray  # (n, W)


def _nodes(estimators: Sequence[Any]) -> list[Nodes]:
    """Return scikit-learn's trees of a single target."""
    return [
        Nodes(t.children_left, t.children_right, t.feature, t.threshold, t.value[:, 0])
        for t in (each.tree_ for each in estimators)
    ]


def _boosted(
    inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray, rounds: int, **settings: Any
) -> list[Nodes]:
    """Return a small tree for each of at most these rounds; their mean is the prediction of
    gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    # a feature cannot split if fewer rows than a leaf needs differ from its usual value
    others = (inputs != np.median(inputs, axis=0)).sum(axis=0)
    varying = np.flatnonzero(others >= _LEAF)
    varying = varying if len(varying) else np.arange(1)
    rounds = min(rounds, max(_ROUNDS, _WORK // len(varying)))
    settings |= {
        "max_iter": rounds,
        "learning_rate": min(max(20 / rounds, 0.1), 0.3),
        "max_features": min(_TRIED / len(varying), 1.0),
        "min_samples_leaf": _LEAF,
        "early_stopping": False,
    }
    drawn = np.random.default_rng(settings["random_state"]).permutation(len(inputs))
    rows = np.sort(drawn[:_MAX_BOOSTED])
    with threadpool_limits(settings.pop("n_jobs")):
        model = HistGradientBoostingRegressor(**settings)
        model.fit(inputs[np.ix_(rows, varying)], labels[rows], weights[rows])
    constant, found = model._baseline_prediction.item(), []
    for nodes in (predictor.nodes for (predictor,) in model._predictors):
        left = np.where(nodes["is_leaf"], -1, nodes["left"].astype(int))
        value = nodes["value"][:, None] * model.n_iter_ + constant
        right, feature = nodes["right"].astype(int), varying[nodes["feature_idx"]]
        found.append(Nodes(left, right, feature, nodes["num_threshold"], value))
    return found


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
    def of(trees: Sequence[Nodes]) -> Trees:
        """Return fitted trees (R,) as arrays.

        scikit-learn compares float32 features with float64 thresholds. The largest float32 number
        that is not above such a threshold gives the same decisions.
        """
        parts: dict[str, list[np.ndarray]] = {each.name: [] for each in fields(Trees)}
        inner = leaves = 0
        for tree in trees:
            split = tree.left >= 0
            numbers = np.where(split, inner + split.cumsum() - 1, -leaves - (~split).cumsum())
            children = tree.left[split], tree.right[split]
            parts["roots"].append(numbers[:1])
            parts["features"].append(tree.feature[split])
            parts["thresholds"].append(_rounded_down(tree.threshold[split]))
            parts["children"].append(numbers[np.stack(children, axis=1)])
            parts["values"].append(tree.value[~split])
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
    return Trees(*(np.asarray(each, kind) for each, kind in zip(arrays, _TYPES, strict=True)))


def _rounded_down(numbers: np.ndarray) -> np.ndarray:
    """Return the largest float32 numbers that are not above these float64 numbers."""
    nearest = numbers.astype(np.float32)
    return np.where(nearest > numbers, np.nextafter(nearest, np.float32(-np.inf)), nearest)
