"""Percentiles of predictions: among the molecules of a card, or among training labels."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.model.training_molecules import TrainingMolecules
from molsepnorm.predict import Predictor, Reference
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


def test_a_model_without_known_values_is_refused():
    for targets in (TARGETS[:1], TARGETS[1:2]):
        with pytest.raises(ConfigError, match="no card with percentiles"):
            Reference.of(tiny_model(*targets))


def test_columns_are_added_in_every_process():
    model = tiny_model(*TARGETS)
    reference = Reference("", {"y": np.array([-1.0, 0.0, 1.0])})
    smiles = ["Oc1ccccc1O", "C1CC", "CCO"] * 100
    one, two = (
        Predictor(model, processes=count, alerts=True, reference=reference).to_frame(smiles)
        for count in (1, 2)
    )
    expected = np.interp(one["y_pred"], [-1, 0, 1], [0, 50, 100])
    np.testing.assert_allclose(one["y_percentile"], expected, rtol=1e-6)
    assert "z_percentile" not in one
    assert one["alerts"][0].startswith("PAINS: catechol_A(92); Brenk: catechol")
    assert one["alerts"][1:3].isna().all()
    assert one["alerts"].equals(two["alerts"])
