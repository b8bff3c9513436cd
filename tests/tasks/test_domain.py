"""The threshold of a domain, beside the definition in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from molsepnorm.errors import ConfigError
from molsepnorm.tasks.domain import Domain


def separated(count: int = 100, cut: float = 0.4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Similarities, and errors that are three times as large below the cut."""
    rng = np.random.default_rng(seed)
    similarity = rng.random(count)
    return similarity, rng.exponential(size=count) * np.where(similarity < cut, 3.0, 1.0)


@pytest.mark.parametrize("count", [25, 60, 200])
@pytest.mark.parametrize("digits", [1, 2, 9])
def test_the_threshold_has_the_largest_rank_sum(count, digits):
    """The definition in loops, with equal similarities and errors."""
    similarity, errors = separated(count)
    similarity, errors = similarity.round(digits), errors.round(digits)
    domain, p_value = Domain.fit(similarity, errors, np.array([0.123]))
    ranks, best = rankdata(errors), {}
    for low, high in zip(np.unique(similarity)[:-1], np.unique(similarity)[1:], strict=True):
        below = similarity <= low
        k, n = int(below.sum()), count
        if min(k, n - k) < max(10, 0.1 * n):
            continue
        mean, variance = ranks.mean(), ranks.var() * k * (n - k) / (n - 1)
        best[(low + high) / 2] = (ranks[below].sum() - k * mean) / np.sqrt(variance)
    if not best:
        assert p_value is None and domain.kind == "training"
    elif p_value <= 0.05:
        assert domain.kind == "errors"
        assert best[min(best, key=lambda each: abs(each - domain.threshold))] == pytest.approx(
            max(best.values())
        )
        assert domain.threshold == pytest.approx(max(best, key=lambda each: best[each]))
    else:
        assert domain == Domain(0.123, "training")


def test_a_threshold_is_rarely_found_where_errors_do_not_depend_on_similarity():
    """In 5 % of cases, although many thresholds are tried."""
    rng = np.random.default_rng(6)
    found = [
        Domain.fit(rng.random(60), rng.random(60), np.array([0.5]))[0].kind for _ in range(200)
    ]
    assert found.count("errors") <= 18  # exceeded with a probability of 1 % at a rate of 5 %


def test_larger_errors_of_similar_molecules_give_no_threshold():
    """Molecules like the training molecules are never outside."""
    similarity, errors = separated(200)
    domain, p_value = Domain.fit(1 - similarity, errors, np.array([0.2, 0.4]))
    assert domain.threshold == pytest.approx(0.21)
    assert domain.kind == "training" and p_value > 0.5


@pytest.mark.parametrize(
    ("similarity", "errors"),
    [
        (np.empty(0), np.empty(0)),
        (np.linspace(0, 1, 19), np.linspace(1, 0, 19)),  # fewer than 10 on either side
        (np.full(100, 0.5), np.random.default_rng(0).random(100)),
    ],
)
def test_without_a_possible_threshold_the_training_molecules_set_it(similarity, errors):
    within = np.linspace(0, 1, 101)
    domain, p_value = Domain.fit(similarity, errors, within)
    assert domain.threshold == pytest.approx(0.05)
    assert (domain.kind, p_value) == ("training", None)


@pytest.mark.parametrize(
    ("threshold", "kind"), [(1.5, "errors"), (float("nan"), "errors"), (0.5, "x")]
)
def test_wrong_entries_are_refused(threshold, kind):
    with pytest.raises(ConfigError, match="a domain has a threshold between 0 and 1"):
        Domain(threshold, kind)
