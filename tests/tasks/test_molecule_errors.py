"""The error of each molecule equals a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.molecule_errors import mean_errors, miss, relative_errors, target_error

NUMBER = Target("y", "regression")
YES_NO = Target("toxic", "binary")
CLASSES = Target("colour", "multiclass", classes=("red", "green", "blue"))


@pytest.mark.parametrize(
    ("target", "label", "values", "error"),
    [
        (NUMBER, 2.0, [0.5], 1.5),
        (NUMBER, math.nan, [0.5], math.nan),
        (NUMBER, 2.0, [math.nan], math.nan),
        (YES_NO, 1, [0.8], -math.log(0.8)),
        (YES_NO, 0, [0.8], -math.log(0.2)),
        (YES_NO, 0, [1.0], -math.log(1e-7)),
        (CLASSES, 2, [0.1, 0.2, 0.7], -math.log(0.7)),
    ],
)
def test_the_error_of_a_molecule(target, label, values, error):
    """Also beside molecules without a label."""
    labels = np.array([math.nan, label])
    found = target_error(target, labels, np.array([values, values]))
    assert math.isnan(found[0])
    assert found[1] == pytest.approx(error, nan_ok=True)


def test_the_share_of_wrong_classes_agrees_with_the_accuracy():
    """Also for a probability of exactly one half, as from a forest."""
    labels, values = np.array([1.0, 0.0, 1.0, math.nan]), np.array([[0.5], [0.5], [0.7], [0.5]])
    accuracy = Task((YES_NO,), "accuracy").scores(values, labels[:, None])["accuracy"]
    assert np.nanmean(miss(YES_NO, labels, values)) == pytest.approx(1 - accuracy)


def test_several_targets_are_compared_relative_to_their_means():
    errors = np.array([[1.0, 10.0], [3.0, math.nan], [math.nan, math.nan]])
    relative = relative_errors(errors, np.array([[2.0, 5.0], [4.0, math.nan]]))
    np.testing.assert_allclose(relative, [[1 / 3, 2], [1, math.nan], [math.nan] * 2])
    np.testing.assert_allclose(mean_errors(relative), [7 / 6, 1, math.nan])
    one = errors[:, :1]
    assert relative_errors(one, one) is one
