"""The molecules whose embeddings a head is fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from probed import SMILES, TRAIN, examples, regression, some_labels, start

from molsepnorm.tasks import Target
from molsepnorm.training.probe import embedded as embeddings
from molsepnorm.training.probe.embedded import Embedded


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    monkeypatch.setattr(embeddings, "MAX_MOLECULES", 16)


def embedded_of(labels: np.ndarray, *targets: Target, weights: np.ndarray | None = None):
    model = start(*targets)
    return Embedded.of(model.network, examples(model, labels, weights), TRAIN, model.task)


def test_many_molecules_are_a_sample(random):
    labels, weights = some_labels(random), random.uniform(0.5, 2, len(SMILES))
    embedded = embedded_of(labels, regression("t", labels), weights=weights)
    assert len(embedded.inputs) == len(set(embedded.molecules)) == 16
    assert set(embedded.molecules) <= set(TRAIN)
    np.testing.assert_array_equal(embedded.labels[:, 0], np.float32(labels[embedded.molecules]))
    np.testing.assert_allclose(embedded.weights, 40 / 16 * weights[embedded.molecules], rtol=1e-6)


@pytest.mark.parametrize(("actives", "kept"), [(0, 0), (5, 5), (12, 8), (20, 8)])
def test_molecules_of_a_rare_class_are_kept_up_to_half_of_the_sample(random, actives, kept):
    """The weights add up to the number of molecules of each class."""
    labels = np.zeros(len(SMILES))
    labels[random.permutation(TRAIN)[:actives]] = 1
    embedded = embedded_of(labels, Target("t", "binary"))
    classes = embedded.labels[:, 0]
    assert (len(classes), classes.sum()) == (16, kept)
    for label, number in (0, 40 - actives), (1, actives):
        np.testing.assert_allclose(embedded.weights[classes == label].sum(), number)


def test_where_most_molecules_have_a_rare_class_all_others_are_kept(random):
    """Each of 36 molecules is active in one of six assays; the label of another one is missing."""
    labels = np.zeros((len(SMILES), 6))
    order = random.permutation(TRAIN)
    labels[order[:36], np.arange(36) % 6] = 1
    labels[order, (np.arange(40) + 1) % 6] = np.nan
    embedded = embedded_of(labels, *(Target(f"t{number}", "binary") for number in range(6)))
    active = (embedded.labels == 1).any(axis=1)
    assert (len(active), active.sum()) == (16, 12)
    assert set(order[36:]) <= set(embedded.molecules)
    np.testing.assert_allclose(embedded.weights, np.where(active, 3, 1))
