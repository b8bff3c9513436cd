"""Trees as arrays give the decisions of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from molsepnorm import forest as module
from molsepnorm.forest import Trees

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
    found, expected = Trees.of(forest.estimators_).predict(inputs), forest.predict(inputs)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_shares_of_classes_equal_scikit_learn():
    inputs, values = data(200)
    classes = np.digitize(values, [-1, 1])
    forest = RandomForestClassifier(20, random_state=0, max_depth=5).fit(inputs, classes)
    found = Trees.of(forest.estimators_).predict(inputs)
    np.testing.assert_allclose(found, forest.predict_proba(inputs), atol=1e-6)


def test_neighbouring_numbers_are_separated_as_by_scikit_learn():
    """Thresholds between neighbouring float32 numbers are not float32 numbers. With rounding to the
    nearest one, half of the molecules would go the other way."""
    steps = np.arange(64)
    inputs = (np.float32(4096) + steps * np.spacing(np.float32(4096))).astype(np.float32)[:, None]
    values = np.random.default_rng(0).normal(size=64)
    forest = RandomForestRegressor(1, bootstrap=False, random_state=0).fit(inputs, values)
    thresholds = forest.estimators_[0].tree_.threshold
    assert (thresholds != thresholds.astype(np.float32)).sum() > 20
    found = Trees.of(forest.estimators_).predict(inputs)[:, 0]
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
