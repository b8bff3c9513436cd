"""Models whose featuriser does not provide what their networks read are refused."""

from __future__ import annotations

import pytest
from model_folders import change_description, small_model

from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel


def test_features_of_another_featuriser_are_refused(tmp_path):
    small_model().save_pretrained(tmp_path)
    change_description(tmp_path / "config.json", lambda about: about.update(featurizer="ogb"))
    with pytest.raises(ModelError, match="molecule_features are not those of 'ogb'"):
        PropertyModel.from_pretrained(tmp_path)
