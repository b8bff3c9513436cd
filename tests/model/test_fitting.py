"""Models whose parts do not fit each other, or their featuriser, are refused."""

from __future__ import annotations

import dataclasses
from math import nan

import pytest

from model_folders import change_description, joined_model, small_model
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.model import PropertyModel


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.5, 0.3, 0.3), (1.2, -0.1, -0.1), (nan,) * 3])
def test_weights_of_networks_must_sum_to_one(tmp_path, weights):
    model = joined_model()
    with pytest.raises(ConfigError, match=r"the mean over 3 parts needs as many weights"):
        dataclasses.replace(model, weights=weights)
    model.save_pretrained(tmp_path)

    def change(about):
        for part, weight in zip(about["parts"], weights, strict=False):
            part["weights"] = [weight] * 2

    change_description(tmp_path / "config.json", change)
    with pytest.raises(ModelError, match="config.json"):
        PropertyModel.from_pretrained(tmp_path)


def test_networks_that_do_not_fit_each_other_are_refused(tmp_path):
    """Networks that read other encodings, and one that is missing in the file of weights."""
    model = joined_model()
    model.save_pretrained(tmp_path)

    def lengthen(about):
        about["networks"][1]["max_path_length"] = 2

    change_description(tmp_path / "config.json", lengthen)
    with pytest.raises(ModelError, match="model.safetensors is damaged or belongs to another"):
        PropertyModel.from_pretrained(tmp_path)
    other = small_model(1, max_path_length=2)
    model.with_parts((*model.parts[:2], *other.parts), model.weights).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="read different features or encodings"):
        PropertyModel.from_pretrained(tmp_path)


def test_features_of_another_featuriser_are_refused(tmp_path):
    small_model().save_pretrained(tmp_path)
    change_description(tmp_path / "config.json", lambda about: about.update(featurizer="ogb"))
    with pytest.raises(ModelError, match="bond_sizes are not those of 'ogb'"):
        PropertyModel.from_pretrained(tmp_path)
