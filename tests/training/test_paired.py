"""Mean differences of paired scores, compared with SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from molsepnorm.training.comparing.paired import Difference, paired_difference


@pytest.mark.parametrize("number", [2, 3, 10])
def test_the_paired_difference_equals_scipys(number):
    rng = np.random.default_rng(number)
    base = rng.normal(0.3, 0.05, number)
    scores = base + rng.normal(-0.01, 0.01, number)
    found = paired_difference(scores.tolist(), base.tolist())
    test = stats.ttest_rel(scores, base)
    interval = test.confidence_interval(0.95)
    assert found.mean == pytest.approx(scores.mean() - base.mean())
    assert found.interval == pytest.approx((interval.low, interval.high))
    assert found.p == pytest.approx(test.pvalue)


def test_undefined_intervals_and_p_values_are_none():
    """A single pair has neither, and equal differences, also up to rounding, have neither."""
    one = paired_difference([0.5], [0.4])
    assert (one.mean, one.interval, one.p) == (pytest.approx(0.1), None, None)
    alike = paired_difference([0.5, 0.25], [0.5, 0.25])
    assert (alike.mean, alike.interval, alike.p) == (0.0, None, None)
    shifted = paired_difference([0.31, 0.41, 0.51], [0.30, 0.40, 0.50])
    assert (shifted.mean, shifted.interval, shifted.p) == (pytest.approx(0.01), None, None)


def test_undefined_scores_are_left_out():
    found = paired_difference([0.5, None, 0.4, 0.2], [0.4, 0.1, None, 0.3])
    assert found == paired_difference([0.5, 0.2], [0.4, 0.3])
    assert paired_difference([None, 0.5], [0.5, None]) == Difference(None, None, None, 0)


def test_folds_widen_the_interval_of_a_paired_t_test():
    values = [0.3, 0.1, 0.2, 0.4, 0.15]
    found = paired_difference(values, [0.0] * 5, folds=6)
    plain = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    ratio = np.sqrt((1 / 5 + 1 / 5) / (1 / 5))
    assert np.ptp(found.interval) / np.ptp(plain) == pytest.approx(ratio)
    t = found.mean / (np.ptp(found.interval) / 2 / stats.t.ppf(0.975, 4))
    assert found.p == pytest.approx(2 * stats.t.sf(t, 4))
