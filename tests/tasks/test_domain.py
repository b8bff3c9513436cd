"""Expected errors by similarity."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.tasks.domain import GRID, Domain


def same(similarity: np.ndarray, targets: int) -> np.ndarray:
    """The similarity of a molecule, and the same to molecules with a label of each target."""
    return np.repeat(similarity[:, None], 1 + targets, axis=1)


def test_expected_errors_are_those_of_similar_molecules():
    """Errors that fall from 1.5 to 0.5 in expectation; the second target has no such trend."""
    rng = np.random.default_rng(0)
    similarity = rng.uniform(0.2, 1, 4000)
    noise = rng.exponential(size=(4000, 2))
    errors = noise * np.stack([1.75 - 1.25 * similarity, np.full(4000, 0.7)], axis=1)
    domain = Domain.fit(same(similarity, 2), errors)
    found = domain.expected(np.array([0.3, 0.5, 0.9])[:, None].repeat(2, axis=1))
    assert found[:, 0] == pytest.approx([1.375, 1.125, 0.625], abs=0.12)
    assert found[:, 1] == pytest.approx([0.7] * 3, abs=0.12)
    every = domain.expected(same(np.linspace(0, 1, 101), 1))
    assert (np.diff(every, axis=0) <= 1e-12).all()
    low = domain.expected(np.full((1, 2), 0.2))
    assert domain.expected(np.zeros((1, 2))) == pytest.approx(low, rel=1e-3)
    assert domain.lowest == similarity.min()


def test_each_target_has_similarities_of_its_own():
    """The error of the first target follows its own column."""
    rng = np.random.default_rng(0)
    similarity = rng.uniform(0.2, 1, (400, 3))
    domain = Domain.fit(similarity, 1 - similarity[:, 1:])
    found = domain.expected(np.array([[0.4, 0.8], [0.8, 0.4]]))
    assert found == pytest.approx(np.array([[0.6, 0.2], [0.2, 0.6]]), abs=0.05)
    assert domain.lowest == similarity[:, 0].min()


def test_errors_that_grow_with_similarity_have_a_constant_expectation():
    similarity = np.linspace(0, 1, 50)
    domain = Domain.fit(same(similarity, 1), similarity[:, None])
    assert domain.expected(similarity[:, None])[:, 0] == pytest.approx(np.full(50, 0.5))


def test_a_target_with_few_labels_has_no_expected_error():
    errors = np.full((30, 2), np.nan)
    errors[:9, 0], errors[:, 1] = 1.0, 2.0
    domain = Domain.fit(same(np.linspace(0.1, 1, 30), 2), errors)
    assert domain.errors[0] is None
    found = domain.expected(np.array([[0.5, 0.5]]))
    assert np.isnan(found[0, 0]) and found[0, 1] == 2.0


def test_the_mean_of_models_has_the_mean_error_and_the_narrowest_range():
    one, other = (Domain(low, (tuple(GRID * 0 + error),)) for low, error in ((0.1, 1), (0.3, 3)))
    joined = Domain.mean([one, other])
    assert joined.lowest == 0.3 and joined.expected(np.array([[0.5]]))[0] == pytest.approx([2])
