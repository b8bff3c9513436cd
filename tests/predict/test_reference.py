"""Percentiles of predictions: among the molecules of a card, or among training labels."""

from __future__ import annotations

import numpy as np

from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.predict import Reference
from molsepnorm.tasks import Target
from support import tiny_model, write_card

TARGETS = (Target("y", "regression"), Target("z", "binary"), Target("w", "regression"))


def test_percentiles_invert_those_of_numpy():
    random = np.random.default_rng(0)
    known, wanted = np.sort(random.normal(size=50)), random.uniform(0, 100, 20)
    found = Reference("", {"y": known}).percentiles("y", np.percentile(known, wanted))
    np.testing.assert_allclose(found, wanted)


def test_the_card_comes_before_the_training_labels(tmp_path):
    labels = np.array([[5.0, 0, np.nan], [1.0, 1, np.nan], [3.0, 1, 7.0]])
    none = np.zeros((3, 256), np.uint8), labels, np.zeros((3, 3), np.int8)
    model = tiny_model(*TARGETS, structures=(TrainingMolecules(("C", "CC", "CCC"), *none),))
    model.save_pretrained(tmp_path)
    card = write_card(tmp_path, "z", "w", reference=(0.0, 0.5, 1.0))
    assert [*Reference.of(model, card).values] == ["z", "w"]
    of_labels = Reference.of(model).values
    assert {name: each.tolist() for name, each in of_labels.items()} == {"y": [1.0, 3.0, 5.0]}
