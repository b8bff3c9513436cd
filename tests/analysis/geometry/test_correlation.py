"""Correlations with numbers that the embeddings contain, and with numbers that they do not."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.analysis.geometry import correlate

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(400, 5)) * [10, 1, 1, 1, 1] + 3
AXIS = POINTS[:, 0]


def test_the_longest_axis_correlates_with_itself():
    found = correlate(POINTS, AXIS, -2 * AXIS + 1)
    assert found.axis == pytest.approx(1)
    assert found.linear > 0.999


def test_a_number_in_a_weak_channel_is_found_but_not_on_the_axis():
    found = correlate(POINTS, AXIS, POINTS[:, 3])
    assert found.axis < 0.15
    assert found.linear > 0.999


def test_noise_does_not_correlate_although_it_would_without_folds():
    points = RNG.normal(size=(60, 50))
    noise = RNG.normal(size=60)
    fitted = points @ np.linalg.lstsq(points, noise, rcond=None)[0]
    assert np.corrcoef(fitted, noise)[0, 1] > 0.85
    found = correlate(points, points[:, 0], noise)
    assert found.linear < 0.4 and found.axis < 0.4


@pytest.mark.parametrize(("molecules", "channels"), [(30, 64), (100, 64), (20, 16)])
def test_noise_is_about_zero_on_average(molecules, channels):
    """A single correlation for all folds together would be −0.2 to −0.3."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(40):
        points = rng.normal(size=(molecules, channels))
        found.append(correlate(points, points[:, 0], rng.normal(size=molecules)).linear)
    assert abs(np.mean(found)) < 4 * np.std(found) / 40**0.5
    assert abs(np.mean(found)) < 0.12


def test_a_single_positive_label_has_no_correlation():
    """No fold has positive labels both in its fit and left out."""
    assert correlate(POINTS, AXIS, np.eye(400)[7]) is None
    assert correlate(POINTS, AXIS, np.where(np.arange(400) < 40, 1.0, 0.0)) is not None


def test_molecules_without_a_value_are_left_out():
    values = POINTS[:, 3].copy()
    values[::2] = np.nan
    found = correlate(POINTS, AXIS, values)
    assert found == correlate(POINTS[1::2], AXIS[1::2], values[1::2])


@pytest.mark.parametrize(
    "values", [np.full(400, np.nan), np.ones(400), np.where(np.arange(400) < 19, AXIS, np.nan)]
)
def test_few_or_constant_values_have_no_correlation(values):
    assert correlate(POINTS, AXIS, values) is None


def test_equal_points_have_no_correlation():
    assert correlate(np.ones((400, 5)), np.zeros(400), AXIS) is None
