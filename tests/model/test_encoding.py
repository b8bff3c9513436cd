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
    with pytest.raises(ModelError, match="bond_sizes are not those of 'ogb'"):
        PropertyModel.from_pretrained(tmp_path)


def test_a_network_that_reads_other_inputs_than_its_part_is_refused(tmp_path):
    model = small_model()
    config = replace(model.network.config, columns=4, molecule_features=4)
    network = Graphormer(config).eval()
    columns = FeatureColumn("solvent", ("a", "b", "c")), FeatureColumn("t")
    for own, fits in ((columns, True), (columns[:1], False)):
        inputs = ExtraInputs(own)
        PropertyModel.of(network, "zinc", model.task, inputs=inputs).save_pretrained(tmp_path)
        if fits:
            assert PropertyModel.from_pretrained(tmp_path).inputs == inputs
        else:
            with pytest.raises(ModelError, match="molecule_features is 4"):
                PropertyModel.from_pretrained(tmp_path)
