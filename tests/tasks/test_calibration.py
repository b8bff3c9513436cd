"""Intervals, calibrated probabilities and sets of classes."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import expit

from molsepnorm.errors import ConfigError
from molsepnorm.tasks.calibration import ClassSets, Intervals, quantile


@pytest.mark.parametrize("n", [1, 9, 10, 60])
@pytest.mark.parametrize("level", ["1/2", "4/5", "9/10", "19/20"])
def test_the_coverage_of_exchangeable_scores_is_exact(n, level):
    """Each of n + 1 numbers in turn is compared with the quantile of the others."""
    numbers = np.random.default_rng(n).permutation(n + 1).astype(float)
    level = Fraction(level)
    covered = sum(
        numbers[i] <= quantile(sorted(np.delete(numbers, i)), float(level)) for i in range(n + 1)
    )
    expected = min(math.ceil((n + 1) * level), n + 1)
    assert Fraction(int(covered), n + 1) == Fraction(expected, n + 1) >= level


def test_the_interval_is_the_order_statistic_of_the_errors():
    residuals = np.array([1.0, -2, 3, -4, 5, -6, 7, -8, 9])
    found = Intervals.fit(residuals, {}, 1.0)
    sd = found.sd({}, 2)
    assert found.signal is None
    np.testing.assert_allclose(sd, np.sqrt((residuals**2).mean()), rtol=1e-6)
    np.testing.assert_allclose(found.half_widths(sd, 0.5), 5, rtol=1e-6)
    np.testing.assert_allclose(found.half_widths(sd, 0.9), 9, rtol=1e-6)


def test_a_level_that_few_molecules_cannot_give_is_refused():
    found = Intervals.fit(np.arange(1.0, 10), {}, 1.0)
    message = "at level 0.95 needs 19 labelled .* with 9: choose a level of 0.9 or less"
    with pytest.raises(ConfigError, match=message):
        found.half_widths(np.ones(1), 0.95)
    assert found.highest_level == 0.9
    with pytest.raises(
        ConfigError, match="needs 9 .* with 0: train again with labels of this target"
    ):
        Intervals.fit(np.empty(0), {}, 1.0).half_widths(np.ones(1), 0.9)


def drawn(n, seed):
    """Errors whose standard deviation is exp(2 x), x, and a signal that says nothing."""
    random = np.random.default_rng(seed)
    x = random.random(n)
    return random.normal(size=n) * np.exp(2 * x), x, random.random(n)


def test_the_signal_that_errors_depend_on_is_found():
    residuals, x, noise = drawn(400, 0)
    found = Intervals.fit(residuals, {"noise": noise, "x": x}, 1.0)
    assert found.signal == "x" and found.slope == pytest.approx(2, abs=0.3)
    found = Intervals.fit(residuals, {"x": -x}, 1.0)
    assert found.signal is None and found.slope == 0  # errors may not shrink with a signal
    assert Intervals.fit(residuals, {"x": np.where(x > 0.9, np.nan, x)}, 1.0).signal is None


def test_intervals_that_follow_a_signal_cover_near_and_far_molecules():
    """One width for all covers too many near molecules, and too few far ones."""
    residuals, x, _ = drawn(1000, 1)
    errors, far, _ = drawn(20_000, 2)
    coverage = {}
    for name, signals in {"one width": {}, "signal": {"x": x}}.items():
        found = Intervals.fit(residuals, signals, 1.0)
        half = found.half_widths(found.sd({"x": far}, len(far)), 0.9)
        held = np.abs(errors) <= half
        coverage[name] = held.mean(), held[far < 0.3].mean(), held[far > 0.7].mean()
    np.testing.assert_allclose(coverage["signal"], 0.9, atol=0.02)
    assert coverage["one width"][1] > 0.99 and coverage["one width"][2] < 0.75


def test_intervals_of_few_molecules_hold_as_many_labels_as_the_level_says():
    """The molecules that choose and fit the signal also give the quantile."""
    held = []
    for number in range(150):
        residuals, x, noise = drawn(1020, number)
        few = {"x": x[:20], "noise": noise[:20]}
        found = Intervals.fit(residuals[:20], few, 10.0)
        half = found.half_widths(found.sd({"x": x[20:], "noise": noise[20:]}, 1000), 0.9)
        held.append((np.abs(residuals[20:]) <= half).mean())
    assert np.mean(held) > 0.9


@pytest.mark.parametrize("spread", [0.5, 50.0])
def test_intervals_are_hardly_wider_than_the_labels(spread):
    """Beyond the signals of validation, where errors were never seen."""
    residuals, x, _ = drawn(400, 0)
    found = Intervals.fit(residuals, {"x": x}, spread)
    seen = found.sd({"x": x}, len(x))
    np.testing.assert_allclose(seen, np.exp(found.intercept + found.slope * x))
    far = found.sd({"x": np.array([1.5, 30.0])}, 2)
    limit = max(spread, seen.max())
    assert far[1] == pytest.approx(limit) and far[0] <= limit
    unlimited = replace(found, largest=None).sd({"x": np.array([30.0])}, 1)
    assert unlimited[0] > 1e20


@pytest.mark.parametrize("slope, offset", [(0.5, 0.0), (1.0, 1.5), (2.0, -1.0)])
def test_logits_are_scaled_and_shifted_to_calibrated_ones(slope, offset):
    random = np.random.default_rng(3)
    logits = random.normal(size=5000) * 2
    labels = (random.random(5000) < expit(slope * logits + offset)).astype(int)
    found = ClassSets.fit(labels, expit(logits)[:, None])
    assert found.slope == pytest.approx(slope, rel=0.1)
    assert found.offset == pytest.approx(offset, abs=0.15)
    both = np.stack([expit(-logits), expit(logits)], axis=1)  # of classes that are words
    assert ClassSets.fit(labels, both).offset == pytest.approx(found.offset, abs=1e-3)
    np.testing.assert_allclose(
        found.probabilities(both), found.probabilities(expit(logits)[:, None]), rtol=1e-6
    )
    probabilities = found.probabilities(expit(logits)[:, None])
    assert probabilities.shape == (5000, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(
        probabilities[:, 1], expit(found.slope * logits + found.offset), rtol=1e-6
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_class_weights_of_training_are_taken_back(classes):
    """A model of weighted classes is calibrated even by few molecules, and one class is rare."""
    rng = np.random.default_rng(0)
    shares = np.array([0.05, 0.95] if classes == 2 else [0.05, 0.3, 0.65])
    weights = tuple((1 / shares / classes).tolist())
    true = rng.dirichlet(5 * shares, 40_000).clip(1e-6)
    true /= true.sum(axis=1, keepdims=True)
    shifted = true * weights
    shifted /= shifted.sum(axis=1, keepdims=True)
    labels = (rng.random((40_000, 1)) > true.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)
    given = shifted[:, 1:] if classes == 2 else shifted
    plain = ClassSets.fit(labels[:60], given[:60])
    fitted = ClassSets.fit(labels[:60], given[:60], weights)
    means = [each.probabilities(given).mean(axis=0) for each in (plain, fitted)]
    assert means[1] == pytest.approx(shares, abs=0.03)
    assert means[0][0] > 0.15  # without the weights, the rare class is too probable


def test_sets_hold_every_class_as_often_as_the_level_says():
    """Also a class of one in twenty, which sets without regard to the class would leave out."""
    random = np.random.default_rng(5)

    def draw(n):
        labels = (random.random(n) < 0.05).astype(int)
        return labels, expit(random.normal(size=n) + 2 * labels - 3)[:, None]

    found = ClassSets.fit(*draw(20_000))
    labels, predictions = draw(40_000)
    held = found.sets(found.probabilities(predictions), 0.9)
    for each in (0, 1):
        assert held[labels == each, each].mean() == pytest.approx(0.9, abs=0.03)


def test_a_class_that_was_not_seen_is_in_every_set():
    found = ClassSets.fit(np.zeros(30, int), np.full((30, 1), 0.2))
    assert (found.slope, found.offset) == (1.0, 0.0)
    assert found.sets(found.probabilities(np.array([[0.01]])), 0.9)[0, 1]


@pytest.mark.parametrize("unit", [1e-20, 1e-9, 1e9, 1e18])
def test_intervals_do_not_depend_on_the_unit_of_the_labels(unit):
    """The signal may be the logarithm of a spread in that unit."""
    residuals, x, _ = drawn(200, 3)
    widths = []
    for factor in (1.0, unit):
        signals = {"log spread": 2 * x + np.log(factor)}
        found = Intervals.fit(residuals * factor, signals, factor)
        widths.append(found.half_widths(found.sd(signals, len(x)), 0.9) / factor)
    assert np.ptp(widths[0]) > 1
    np.testing.assert_allclose(widths[1], widths[0], rtol=1e-3)
