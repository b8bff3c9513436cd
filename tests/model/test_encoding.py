"""Models whose featuriser does not provide what their networks read are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from model_folders import change_description, small_model

from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.nn import Graphormer
from molsepnorm.tasks import ExtraInputs, FeatureColumn


def test_features_of_another_featuriser_are_refused(tmp_path):
    small_model().save_pretrained(tmp_path)
    change_description(tmp_path / "config.json", lambda about: about.update(featurizer="ogb"))
    with pytest.raises(ModelError, match="molecule_features are not those of 'ogb'"):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("head", [{"head": "kernel", "centers": 3}, {"head": "linear"}])
@pytest.mark.parametrize(("widths", "fits"), [((3, 1), True), ((1, 3), False), ((4,), False)])
def test_a_head_that_divides_the_feature_columns_otherwise_is_refused(tmp_path, head, widths, fits):
    model = small_model()
    columns = FeatureColumn("solvent", ("a", "b", "c")), FeatureColumn("t")
    own = model.network.config
    config = replace(own, **head, columns=widths, molecule_features=own.molecule_features + 4)
    network = Graphormer(config).eval()
    replace(model, network=network, inputs=ExtraInputs(columns)).save_pretrained(tmp_path)
    if fits:
        assert PropertyModel.from_pretrained(tmp_path).network.config.columns == widths
    else:
        with pytest.raises(ModelError, match="reads other feature columns than the model"):
            PropertyModel.from_pretrained(tmp_path)
