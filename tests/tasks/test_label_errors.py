"""Standard errors of labels, against simulations and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from molsepnorm.tasks import Target
from molsepnorm.tasks.label_errors import (
    fit_unexplained,
    label_weights,
    learned_errors,
    merged_error,
    noise_scores,
)

Y = Target("y", "regression")
NAN = np.nan


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("transform", ["log10", "pic50:nM"])
def test_errors_of_transformed_labels_are_those_of_a_simulation(random, transform):
    """They equal the standard deviation of the logarithms of 100,000 noisy measurements."""
    target = Target("y", "regression", transform=transform)
    values, errors = np.array([2.0, 50.0, 3e4]), np.array([0.1, 4.0, 900.0])
    noisy = values + errors * random.normal(size=(100_000, 3))
    found, _ = learned_errors(target, errors, target.transformation.forward(values))
    np.testing.assert_allclose(found, target.transformation.forward(noisy).std(0), rtol=0.02)
    np.testing.assert_array_equal(learned_errors(Y, errors, values)[0], errors)


def test_the_median_replaces_missing_errors_on_the_learned_scale():
    """The median is that of labels that exist; an error without a label does not count."""
    target = Target("y", "regression", transform="log10")
    labels = np.array([0.0, 1.0, 2.0, 3.0, NAN])
    raw = np.array([0.1, NAN, 30.0, 0.0, 1e9])
    relative = np.array([0.1, 0.1, 0.3, 0.0]) / np.log(10)  # the median of 0.1, 0.3 and 0
    found, line = learned_errors(target, raw, labels)
    np.testing.assert_allclose(found[:4], relative)
    assert all(text in line for text in ("3 labels", "log10", "(1) get", "(1) count"))


@pytest.mark.parametrize("tau", [0.2, 1.5])
def test_the_unexplained_part_has_the_highest_likelihood(random, tau):
    """Near the one of the simulation, and where a grid of scipy's densities has its maximum."""
    errors = random.choice([0.05, 0.4, 1.0], 4000)
    residuals = random.normal(size=4000) * np.sqrt(errors**2 + tau**2)
    found = fit_unexplained(residuals, errors, 2.0)
    grid = np.linspace(0.06, 3, 3000)
    scales = np.sqrt(errors[:, None] ** 2 + grid**2)
    best = grid[norm.logpdf(residuals[:, None], scale=scales).sum(0).argmax()]
    assert found == pytest.approx(best, abs=2e-3) == pytest.approx(tau, rel=0.1)


def test_no_label_has_an_infinite_weight():
    """Not even an exact one, where residuals are 0."""
    found = fit_unexplained(np.zeros(9), np.zeros(9), 2.0)
    assert 0.05 < found < 0.1
    assert np.isfinite(label_weights(np.array([0.0, 1.0]), found, np.array([0, 1]))).all()


def test_weights_are_inverse_variances_with_a_mean_of_1():
    """Over the training rows; equal errors are weights of 1."""
    errors, train = np.array([0.0, 0.3, 0.4, 2.0]), np.array([0, 2])
    found = label_weights(errors, 0.3, train)
    assert found[train].mean() == pytest.approx(1)
    np.testing.assert_allclose(found[0] / found, (errors**2 + 0.09) / 0.09)
    equal = label_weights(np.full(1000, 0.37), 0.21, np.arange(1000)).astype(np.float32)
    assert (equal == 1).all()


def test_the_error_of_a_mean_is_that_of_a_simulation(random):
    errors, weights = np.array([0.2, 0.5, 0.1]), np.array([1.0, 0.5, 3.0])
    means = np.average(errors * random.normal(size=(100_000, 3)), axis=1, weights=weights)
    assert merged_error(errors, weights) == pytest.approx(means.std(), rel=0.02)


def test_scores_of_a_perfect_model_are_the_best_ones(random):
    truth, errors = random.normal(size=50_000), random.uniform(0.1, 0.6, 50_000)
    labels = truth + errors * random.normal(size=50_000)
    found = noise_scores(truth, labels, errors)
    misses = np.abs(truth - labels)
    beyond = [max(0.0, miss - 1.96 * own) for miss, own in zip(misses, errors, strict=True)]
    assert found["inside"] == pytest.approx(0.95, abs=0.005)
    assert found["mae_beyond"] == pytest.approx(np.mean(beyond))
    assert found["best_mae"] == pytest.approx(misses.mean(), rel=0.02)
    assert found["best_r2"] == pytest.approx(1 - (misses**2).mean() / labels.var(), abs=0.01)
    assert np.isnan(noise_scores(truth[:1], labels[:1], errors[:1])["best_r2"])
