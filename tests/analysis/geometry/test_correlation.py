"""What can be read off a cloud, and what cannot."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.analysis.geometry import correlate

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(400, 5)) * [10, 1, 1, 1, 1] + 3
AXIS = POINTS[:, 0]


def test_the_longest_axis_itself():
    found = correlate(POINTS, AXIS, -2 * AXIS + 1)
    assert found.axis == pytest.approx(1)
    assert found.linear > 0.999


def test_a_number_in_a_faint_channel_is_read_off_but_is_not_the_axis():
    found = correlate(POINTS, AXIS, POINTS[:, 3])
    assert found.axis < 0.15
    assert found.linear > 0.999


def test_noise_is_not_read_off_although_a_regression_without_folds_would():
    points = RNG.normal(size=(60, 50))
    noise = RNG.normal(size=60)
    fitted = points @ np.linalg.lstsq(points, noise, rcond=None)[0]
    assert np.corrcoef(fitted, noise)[0, 1] > 0.85
    found = correlate(points, points[:, 0], noise)
    assert found.linear < 0.4 and found.axis < 0.4


@pytest.mark.parametrize(("molecules", "channels"), [(30, 64), (100, 64), (20, 16)])
def test_noise_is_about_zero_on_average(molecules, channels):
    """Not below it, as it is where the folds' predictions are put together first: −0.2 to −0.3."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(40):
        points = rng.normal(size=(molecules, channels))
        found.append(correlate(points, points[:, 0], rng.normal(size=molecules)).linear)
    assert abs(np.mean(found)) < 4 * np.std(found) / 40**0.5
    assert abs(np.mean(found)) < 0.12


def test_a_single_yes_among_many_no():
    """No fold has it both in its fit and left out."""
    assert correlate(POINTS, AXIS, np.eye(400)[7]) is None
    assert correlate(POINTS, AXIS, np.where(np.arange(400) < 40, 1.0, 0.0)) is not None


def test_molecules_whose_number_is_not_known_do_not_count():
    values = POINTS[:, 3].copy()
    values[::2] = np.nan
    found = correlate(POINTS, AXIS, values)
    assert found == correlate(POINTS[1::2], AXIS[1::2], values[1::2])


@pytest.mark.parametrize(
    "values", [np.full(400, np.nan), np.ones(400), np.where(np.arange(400) < 19, AXIS, np.nan)]
)
def test_nothing_can_be_said_of_few_or_constant_values(values):
    assert correlate(POINTS, AXIS, values) is None


def test_nothing_can_be_said_of_a_single_point():
    assert correlate(np.ones((400, 5)), np.zeros(400), AXIS) is None
