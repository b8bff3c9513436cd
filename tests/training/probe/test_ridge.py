"""Ridge regression and its leave-one-out predictions, against scikit-learn and refits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from molsepnorm.training.probe import ridge as ridges
from molsepnorm.training.probe.ridge import invert
from probed import ridge_of


@pytest.mark.claim(
    "Ridge regression of the probe equals scikit-learn's, its leave-one-out predictions equal"
    " refits, and its penalty has the smallest leave-one-out error."
)
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_predictions_equal_refits(random, monkeypatch, weighted):
    """Labels and features are centred once, with all molecules: a mean without molecule i would be
    lower, the higher the label of i is."""
    features, labels = random.normal(size=(20, 6)) + 3, random.normal(size=(20, 2))
    weights = random.uniform(0.2, 3, 20) if weighted else np.ones(20)
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([0.7]))
    slopes, offsets, *_, left_out = ridge_of(features, labels, weights, np.arange(20))
    weights = weights / weights.mean()
    whole = Ridge(0.7).fit(features, labels, weights)
    np.testing.assert_allclose(slopes, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(offsets, whole.intercept_, rtol=1e-9)
    means = np.average(features, 0, weights), np.average(labels, 0, weights)
    for i in range(20):
        kept = np.arange(20) != i
        one = Ridge(0.7, fit_intercept=False)
        one.fit(features[kept] - means[0], labels[kept] - means[1], weights[kept])
        expected = one.predict(features[[i]] - means[0])[0] + means[1]
        np.testing.assert_allclose(left_out[i], expected, rtol=1e-8)


@pytest.mark.parametrize("rows", [1, 2])
def test_the_leave_one_out_error_is_exact_with_far_more_features_than_rows(
    random, monkeypatch, rows
):
    """A leverage then differs from 1 by less than a millionth. The error of noise must not look
    small for the smallest penalty."""
    features, labels = random.normal(size=(12, 600)), random.normal(size=(12, 1))
    molecules = np.arange(12) // rows
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([1e-4]))
    found = ridge_of(features, labels, np.ones(12), molecules).error
    missed = []
    for molecule in set(molecules):
        kept = molecules != molecule
        one = Ridge(1e-4).fit(features[kept], labels[kept, 0])
        missed += (labels[~kept, 0] - one.predict(features[~kept])).tolist()
    assert found == pytest.approx(np.square(missed).mean() / labels.var(), rel=1e-3)


@pytest.mark.parametrize("width", [6, 40])
def test_the_rows_of_a_molecule_are_left_out_together(random, width):
    """Compared with refits; one to four rows each, in any order, with weights."""
    molecules = random.permutation(np.repeat(np.arange(12) * 7, [1, 2, 3, 4] * 3))
    features, labels = random.normal(size=(30, width)), random.normal(size=(30, 2))
    weights = random.uniform(0.2, 3, 30)
    weights /= weights.mean()
    errors = []
    for penalty in ridges._PENALTIES:
        error = 0.0
        for molecule in set(molecules):
            kept = molecules != molecule
            one = Ridge(penalty).fit(features[kept], labels[kept], weights[kept])
            missed = labels[~kept] - one.predict(features[~kept])
            error += (weights[~kept, None] * missed**2).sum()
        errors.append(error)
    best = ridges._PENALTIES[int(np.argmin(errors))]
    slopes, *_, left_out = ridge_of(features, labels, weights, molecules)
    np.testing.assert_allclose(slopes, Ridge(best).fit(features, labels, weights).coef_, rtol=1e-6)
    means = np.average(features, 0, weights), np.average(labels, 0, weights)
    for molecule in set(molecules):
        kept = molecules != molecule
        one = Ridge(best, fit_intercept=False)
        one.fit(features[kept] - means[0], labels[kept] - means[1], weights[kept])
        expected = one.predict(features[~kept] - means[0]) + means[1]
        np.testing.assert_allclose(left_out[~kept], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 2])
def test_kernel_ridge_regression_equals_that_of_the_features(random, monkeypatch, width):
    """Also its leave-one-out predictions, where molecules have several rows, weights, and no
    label."""
    features, rows = random.normal(size=(30, 50)), np.sort(random.permutation(30)[:25])
    labels, weights = random.normal(size=(25, width)), random.uniform(0.2, 3, 25)
    molecules = np.arange(25) // 2
    monkeypatch.setattr(ridges, "_PENALTIES", np.array([0.7]))
    plain = ridge_of(features[rows], labels, weights, molecules)
    kernel = features @ features.T
    found = invert(kernel, rows, weights, 0.7)(labels, molecules)
    predictions = kernel @ found.slopes.T + found.offsets
    np.testing.assert_allclose(predictions, features @ plain.slopes.T + plain.offsets, rtol=1e-7)
    np.testing.assert_allclose(found.left_out, plain.left_out, atol=1e-3)
