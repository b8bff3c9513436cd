"""Models of several networks, and models without targets."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import torch

from model_folders import CONFIG, SMILES, joined_model, outputs_of
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict import Predictor, TableRows, predict_rows
from molsepnorm.tasks import Task


def test_the_prediction_of_several_networks_is_their_weighted_mean(tmp_path):
    """This holds for values and probabilities; the spread is the weighted standard deviation. Each
    target has its own weights."""
    model = joined_model()
    model = model.with_parts(model.parts, [[0.5, 0.1], [0.3, 0.9], [0.2, 0.0]])
    alone = [Predictor(model.with_parts([each], [1.0])) for each in model.parts]
    values = np.array([[list(p.values.values()) for p in one.predict(SMILES)] for one in alone])
    weights = model.weights[:, None]
    mean = (weights * values).sum(0)
    sd = np.sqrt((weights * (values - mean) ** 2).sum(0))
    found = Predictor(model).predict(SMILES)
    np.testing.assert_allclose([list(p.values.values()) for p in found], mean, rtol=1e-5)
    np.testing.assert_allclose([list(p.spread.values()) for p in found], sd, rtol=1e-3)
    assert alone[0].predict(SMILES)[0].spread == {}
    out = io.StringIO()
    table = pd.DataFrame({"smiles": [*SMILES, "?"]})
    predict_rows(Predictor(model), TableRows([table], "smiles", "table"), out)
    header, first, *_, last = out.getvalue().splitlines()
    assert header == "smiles,logS_pred,logS_spread,toxic_pred,toxic_spread,error"
    expected = [mean[0, 0], sd[0, 0], mean[0, 1], sd[0, 1]]
    np.testing.assert_allclose([float(x) for x in first.split(",")[1:5]], expected, rtol=1e-3)
    assert last.startswith("?,,,,,")


@pytest.mark.filterwarnings("error")
def test_a_model_without_targets_is_read_back_and_predicts_nothing(tmp_path):
    """Its network has no outputs; every other weight is equal to the bit."""
    torch.manual_seed(0)
    network = Graphormer(GraphormerConfig(**CONFIG, outputs=0)).eval()
    model = PropertyModel.of(network, "zinc", Task((), "loss"), objective="pretraining")
    model.save_pretrained(tmp_path)
    again = PropertyModel.from_pretrained(tmp_path)
    assert (again.task, again.objective) == (model.task, "pretraining")
    here, there = model.network.state_dict(), again.network.state_dict()
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)
    assert outputs_of(again).shape == (len(SMILES), 0)
    predictor, refusal = Predictor(again), "pre-trained without targets, so it predicts nothing"
    with pytest.raises(ConfigError, match=refusal):
        predictor.predict(SMILES)
    with pytest.raises(ConfigError, match=refusal):
        predictor.predict_graphs([featurize.get("zinc")("CCO")])
