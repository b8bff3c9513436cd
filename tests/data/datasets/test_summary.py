"""The labels of a target as numbers and as text; `check_table` and `targets_table` use both."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.data.datasets.summary import TargetSummary


@pytest.mark.parametrize(
    ("kind", "classes", "labels", "text"),
    [
        ("regression", (), [1, 1999, np.nan], "1,000 ± 999"),
        ("regression", (), [np.nan], ""),
        ("binary", (), [0, 1, 1, np.nan], "2 yes (66.7%)"),
        ("multiclass", "ab", [1, 1, 1, 0], "b 75.0%, a 25.0%"),
        ("multiclass", "abcdef", range(6), ", ".join(f"{c} 16.7%" for c in "abcde") + ", …"),
        ("multiclass", "ab", [np.nan], ""),
    ],
)
def test_the_distribution_is_described(kind, classes, labels, text):
    labels = np.array(labels, dtype=np.float32)
    assert TargetSummary.of("y", kind, classes, labels, labels).distribution == text


def test_bounds_are_counted_and_not_averaged():
    labels, exact = np.array([1.0, 3.0, 9.0, np.nan]), np.array([1.0, 3.0, np.nan, np.nan])
    found = TargetSummary.of("y", "regression", (), labels, exact)
    assert (found.labels, found.bounds, found.missing) == (3, 1, 1)
    assert (found.mean, found.sd, found.median, found.min, found.max) == (2, 1, 2, 1, 3)
