"""A forest for each target: fitted by scikit-learn, evaluated and saved as arrays."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.torch import load, save
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from molsepnorm.model import ExtraArrays
from molsepnorm.model.parts import forest as module
from molsepnorm.model.parts.forest import Forest, Trees
from molsepnorm.molecules.featurize.descriptors import DESCRIPTORS, structure_inputs
from molsepnorm.tasks import ExtraInputs, FeatureColumn, Target, Task

SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "c1ccccc1", "[Na]")]
KINDS = {"logS": "regression", "toxic": "binary", "phase": "multiclass"}
CLASSES = ((), (), ("gas", "liquid", "solid"))


def arrays(*parts: np.ndarray) -> ExtraArrays:
    """Features (G, F) as the first 2,048, which are counts, and the others, which are descriptors;
    or both given."""
    counts, described = parts if len(parts) > 1 else np.split(parts[0], [2048], axis=1)
    none = ExtraArrays.none(len(counts))
    return none._replace(counts=counts, descriptors=described)


def fitted(features, *rest, **settings) -> Forest:
    count = max(features.shape[1] - 2048, 0)
    reads = ExtraInputs((), features.shape[1] - count, tuple(map(str, range(count))))
    return Forest.fit(reads, arrays(features).stacked(), *rest, **settings)


@pytest.fixture(scope="module")
def features():
    return arrays(*structure_inputs(SMILES, True, DESCRIPTORS, False)[:2]).stacked()


@pytest.fixture(scope="module")
def labels():
    """(60, 3), a fifth of them missing."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=60) + np.arange(60) / 10
    columns = [values, values > values.mean(), np.digitize(values, [2, 4])]
    found = np.stack(columns, axis=1).astype(np.float32)
    found[rng.random(found.shape) < 0.2] = np.nan
    return found


def task_of(labels, class_weight=None) -> Task:
    names = zip(KINDS.items(), CLASSES, strict=True)
    targets = [Target(name, kind, classes=classes) for (name, kind), classes in names]
    return Task.fit(targets, labels, class_weight=class_weight)


def by_scikit_learn(features, labels, weights, target):
    """The predictions of a forest that scikit-learn fits and evaluates by itself."""
    used = ~np.isnan(labels)
    inputs = np.where(np.isnan(features), np.nanmedian(features, axis=0), features)
    if target.kind == "regression":
        forest = ExtraTreesRegressor(3, random_state=3)
        given = inputs[used], labels[used], weights[used]
        found = forest.fit(*given).predict(inputs)
        varying = (given[0] != np.median(given[0], axis=0)).sum(axis=0) >= 5
        rest = {"max_features": 100 / varying.sum(), "min_samples_leaf": 5, "early_stopping": False}
        boosting = HistGradientBoostingRegressor(
            max_iter=24, learning_rate=0.3, random_state=3, **rest
        )
        boosting.fit(inputs[used][:, varying], *given[1:])
        return (found + boosting.predict(inputs[:, varying]))[:, None] / 2
    own = dict(enumerate(target.class_weights))
    if not own:
        classes = np.unique(labels[used])
        own = {each: weights[labels == each].sum() ** -0.5 for each in classes}
    forest = RandomForestClassifier(12, max_features="log2", class_weight=own, random_state=3)
    shares = forest.fit(inputs[used], labels[used], weights[used]).predict_proba(inputs)
    return shares[:, 1:] if target.kind == "binary" else shares


@pytest.mark.parametrize(
    ("class_weight", "threads", "unit"), [(None, 1, 1.0), (None, 1, 2**-24), ("balanced", 2, 1.0)]
)
def test_predictions_equal_scikit_learn(features, labels, class_weight, threads, unit):
    """The unit of the weights does not matter."""
    task = task_of(labels, class_weight)
    weights = np.random.default_rng(1).integers(2, 9, labels.shape) / 4  # whose sums are exact
    settings = {"seed": 3 + 2**32, "trees": 12, "threads": threads}  # scikit-learn's seeds are less
    forest = fitted(features, labels, task, unit * weights, **settings)
    found = forest.values(arrays(features))
    assert (found.shape, found.dtype, forest.trees) == ((60, 5), np.float32, 27)
    expected = [
        by_scikit_learn(features, column, own, target)
        for target, column, own in zip(task.targets, labels.T, weights.T, strict=True)
    ]
    np.testing.assert_allclose(found, np.concatenate(expected, axis=1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 40])
def test_without_a_feature_that_varies_a_forest_predicts_the_mean(rows):
    labels = np.arange(rows, dtype=np.float32)[:, None]
    task = Task.fit([Target("y", "regression")], labels, strict=False)
    forest = fitted(np.ones((rows, 5), np.float32), labels, task, trees=8)
    found = forest.values(arrays(np.ones((1, 5), np.float32)))
    assert found.item() == pytest.approx(labels.mean(), abs=1e-5)


@pytest.mark.parametrize(("class_weight", "share"), [(None, 0.1), ("balanced", 0.5)])
def test_leaves_hold_shares_without_the_balance_of_the_splits(class_weight, share):
    """Molecules with equal features cannot be split; class weights of the task still count."""
    labels = np.float32([[1.0]] * 20 + [[0.0]] * 180)
    task = Task.fit([Target("toxic", "binary")], labels, class_weight=class_weight)
    forest = fitted(np.ones((200, 5), np.float32), labels, task, trees=300)
    found = forest.values(arrays(np.ones((1, 5), np.float32)))
    assert found.item() == pytest.approx(share, abs=0.02)


def test_missing_features_become_the_median_of_the_training_molecules(features, labels):
    missing = features.copy()
    missing[::3, 2048:] = np.nan
    missing[:, 2050] = np.nan
    forest = fitted(missing, labels, task_of(labels), trees=5)
    assert forest.medians[2050] == 0
    assert forest.medians[2051] == np.nanmedian(missing[:, 2051])
    whole = np.where(np.isnan(missing), forest.medians, missing)
    np.testing.assert_array_equal(
        forest.values(arrays(missing[:3])), forest.values(arrays(whole[:3]))
    )


def test_targets_without_labels_and_with_a_single_class(features, labels):
    task = task_of(labels)
    few = labels.copy()
    few[:, 0], few[:, 1] = np.nan, 1
    few[:, 2][few[:, 2] == 2] = np.nan
    found = fitted(features, few, task, trees=5).values(arrays(features))
    assert (found[:, 0] == 0).all() and (found[:, 1] == 1).all()
    assert (found[:, 4] == 0).all()
    np.testing.assert_allclose(found[:, 2:].sum(axis=1), 1, rtol=1e-6)
    few[:, 2] = np.nan
    found = fitted(features, few, task, trees=5).values(arrays(features))
    np.testing.assert_allclose(found[:, 2:], 1 / 3, rtol=1e-6)


@pytest.fixture(scope="module")
def forest(features, labels):
    return fitted(features, labels, task_of(labels), trees=8)


def test_a_saved_forest_predicts_the_same(forest, features):
    content = save(forest.state())
    found = Forest.from_state(load(content), forest.reads)
    np.testing.assert_array_equal(found.values(arrays(features)), forest.values(arrays(features)))
    assert save(found.state()) == content


@pytest.mark.parametrize("power", [-40, -30, 40])
def test_predictions_do_not_depend_on_the_unit(features, labels, power):
    """Without scaling, scikit-learn would not split the nodes of labels such as 1e-9 mol/L."""
    column = labels[:, :1]
    found = []
    for values in (column, column * np.float32(2.0**power)):
        task = Task.fit([Target("y", "regression")], values)
        found.append(fitted(features, values, task, trees=10).values(arrays(features)))
    assert np.unique(found[0]).size > 20
    np.testing.assert_array_equal(found[1], found[0] * np.float32(2.0**power))


def test_feature_columns_may_have_any_unit(labels):
    """scikit-learn takes numbers such as 1e-9 mol/L as equal."""
    column = np.random.default_rng(0).uniform(1, 10, (60, 1)).astype(np.float32)
    reads, found = ExtraInputs((FeatureColumn("dose"),)), []
    for unit in (1.0, 2.0**-33):
        extra = ExtraArrays.none(60)._replace(columns=column * np.float32(unit))
        forest = Forest.fit(reads, extra.stacked(), labels, task_of(labels), trees=10)
        found.append(forest.values(extra))
    assert np.unique(found[0][:, 0]).size > 20
    np.testing.assert_array_equal(found[1], found[0])


TWO = {  # a split at feature 3 below 1.5, whose left child splits at feature 0; and a single leaf
    "roots": np.array([0, -4], np.int32),
    "features": np.array([3, 0], np.int16),
    "thresholds": np.array([1.5, -2.0], np.float32),
    "children": np.array([[1, -1], [-2, -3]], np.int32),
    "values": np.array([[10.0], [20.0], [30.0], [50.0]], np.float32),
}


def test_two_small_trees():
    """The prediction is the mean over the trees; a feature equal to the threshold goes left."""
    inputs = np.zeros((4, 4), np.float32)
    inputs[:, 3] = [2, 1.5, 1.5, 1]
    inputs[:, 0] = [0, -2, -1.9, -3]
    expected = [[(leaf + 50) / 2] for leaf in (10, 20, 30, 20)]
    assert Trees(**TWO).predict(inputs).tolist() == expected
    assert Trees(**TWO).predict(inputs[:0]).shape == (0, 1)


def data(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features with many ties, and a value that depends on two of them."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, 12)).astype(np.float32)
    inputs[:, :6] = rng.poisson(1.0, (rows, 6))
    return inputs, inputs[:, 0] - inputs[:, 7] + 0.3 * rng.normal(size=rows)


@pytest.mark.parametrize("at_once", [2**18, 50, 1])
def test_regression_equals_scikit_learn(monkeypatch, at_once):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    inputs, values = data(120)
    forest = RandomForestRegressor(20, random_state=0).fit(inputs, 1e3 * values)
    found, expected = (
        Trees.of(module._nodes(forest.estimators_)).predict(inputs),
        forest.predict(inputs),
    )
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_neighbouring_numbers_are_separated_as_by_scikit_learn():
    """Thresholds between neighbouring float32 numbers are not float32 numbers. With rounding to the
    nearest one, half of the molecules would go the other way."""
    steps = np.arange(64)
    inputs = (np.float32(4096) + steps * np.spacing(np.float32(4096))).astype(np.float32)[:, None]
    values = np.random.default_rng(0).normal(size=64)
    forest = RandomForestRegressor(1, bootstrap=False, random_state=0).fit(inputs, values)
    thresholds = forest.estimators_[0].tree_.threshold
    assert (thresholds != thresholds.astype(np.float32)).sum() > 20
    found = Trees.of(module._nodes(forest.estimators_)).predict(inputs)[:, 0]
    np.testing.assert_allclose(found, values, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("children", [[1, -1], [0, -3]], "a node comes before its parent"),
        ("children", [[1, -1], [-2, -5]], "a node is outside the arrays"),
        ("roots", [2], "a node is outside the arrays"),
        ("features", [3], "the shapes of the arrays do not fit each other"),
        ("values", [1.0, 2.0, 3.0, 4.0], "the shapes of the arrays do not fit each other"),
    ],
)
def test_arrays_that_are_no_trees_are_refused(name, value, message):
    """A circle of nodes, for example, would be followed for ever."""
    with pytest.raises(ValueError, match=message):
        Trees(**{**TWO, name: np.asarray(value, TWO[name].dtype)})
