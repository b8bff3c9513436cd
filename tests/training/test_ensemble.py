"""Ensembles: joining models, and training the members of one."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel, join
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.tasks import ExtraInputs, FeatureColumn, Target, Task
from molsepnorm.training import Callback, evaluate, load_config, train
from runs import LABELS, outcome
from support import predicted

SMILES = ["CCO", "c1ccccc1O", "CC(=O)O", "CCCl"]
SHORT = {"run.epochs": 1}


BOTH = {"data.targets": ["y", "active"], **SHORT}


def test_a_joined_model_predicts_the_weighted_mean(trained):
    """Also of models that standardise labels in other ways, as those of other folds do. They can be
    joined again, and networks that are equal become one with the sum of their weights."""
    seeds = ({"run.seed": seed, "data.split_seed": seed} for seed in (0, 1))
    models = [trained({**BOTH, **each}).model for each in seeds]
    assert len({model.task.targets[0].mean for model in models}) == 2
    joined = join([join(models, [1, 3]), models[0]])
    assert joined.weights.tolist() == [[0.625] * 2, [0.375] * 2]
    expected = np.average([predicted(model, SMILES) for model in models], axis=0, weights=[5, 3])
    np.testing.assert_allclose(predicted(joined, SMILES), expected, rtol=1e-4, atol=1e-6)


def test_joining_copies_the_networks_and_keeps_their_exclusions(trained):
    one, two = (trained({**BOTH, "run.seed": seed}).model for seed in (0, 1))
    two = dataclasses.replace(two, excludes={"zinc": "why"})
    joined = join([one, two])
    assert joined.excludes == {"zinc": "why"}
    before = predicted(one, SMILES)
    for parameter in joined.network.parameters():
        parameter.data.zero_()
    np.testing.assert_array_equal(predicted(one, SMILES), before)


def test_models_that_differ_are_not_joined(trained):
    one, other = (trained({**BOTH, "model.max_path_length": k}).model for k in (3, 2))
    with pytest.raises(ConfigError, match="only models with the same encoding can be joined"):
        join([one, other])
    task = Task((Target("z", "regression"),), "mae")
    renamed = dataclasses.replace(one, task=task, weights=np.ones(1))
    with pytest.raises(ConfigError, match=r"same targets can be joined: model 1 has y \(regr"):
        join([one, renamed])
    for models, weights in (([], None), ([one], [1, 1]), ([one, one], [2, -1])):
        with pytest.raises(ConfigError, match="each with a weight of 0 or more"):
            join(models, weights)


def of_columns(columns: tuple[FeatureColumn, ...]) -> PropertyModel:
    """A small model that reads these columns."""
    sizes = {"layers": 1, "width": 16, "ffn_width": 16, "heads": 2}
    network = Graphormer(GraphormerConfig(**sizes, molecule_features=len(columns))).eval()
    task = Task((Target("y", "regression"),), "mae")
    return PropertyModel.of(network, "zinc", task, inputs=ExtraInputs(columns))


def test_a_joined_column_has_the_range_of_all_models():
    one, other, unknown = (
        of_columns((FeatureColumn("t", low=low, high=high),))
        for low, high in ((20, 39), (35, 59), (None, None))
    )
    for models, ends in (((one, other), (20, 59)), ((unknown, one), (None, None))):
        (column,) = join(models).inputs.columns
        assert (column.low, column.high) == ends


def test_models_with_feature_columns_are_joined():
    """Their output weights depend on the columns, and are scaled alike."""
    torch.manual_seed(0)
    inputs = ExtraInputs((FeatureColumn("solvent", ("a", "b")), FeatureColumn("t")))
    config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2)
    config = dataclasses.replace(config, molecule_features=3, columns=3)
    models = []
    for mean, scale in ((0.0, 1.0), (5.0, 3.0)):
        network = Graphormer(config).eval()
        torch.nn.init.normal_(network.head.interactions)
        task = Task((Target("y", "regression", mean=mean, scale=scale),), "mae")
        models.append(PropertyModel.of(network, "zinc", task, inputs=inputs))
    columns = {"solvent": ["a", "b"] * 2, "t": [0.1, -2.0, 0.5, 3.0]}

    def values(model):
        rows = Predictor(model).predict(SMILES, columns)
        return np.array([row.values["y"] for row in rows])

    expected = (values(models[0]) + values(models[1])) / 2
    np.testing.assert_allclose(values(join(models)), expected, rtol=1e-5, atol=1e-5)


def test_members_equal_runs_with_their_seeds(configure, trained, tmp_path):
    """The scores are those of the mean; the folder is one of a run. The ensemble with the next seed
    has members 12 and 13."""
    config = configure({**SHORT, "run.ensemble": 2, "run.seed": 5})
    result = train(config, tmp_path / "run")
    models = []
    for number, seed in ((1, 10), (2, 11)):
        alone = trained({**SHORT, "run.seed": seed})
        models.append(alone.model)
        assert outcome(alone.folder) == outcome(tmp_path / "run" / "members" / f"{number}")
    np.testing.assert_array_equal(predicted(result.model, SMILES), predicted(join(models), SMILES))
    assert result.finished and len(result.metrics["members"]) == 2
    assert result.metrics["seed"] == 5
    assert result.metrics == json.loads((tmp_path / "run" / "metrics.json").read_text())
    table = load_config(config=tmp_path / "run" / "config.yaml").data
    for split in ("val", "test"):
        scores = evaluate(tmp_path / "run", table, split).scores
        assert scores["mae"] == pytest.approx(result.metrics[split]["mae"], rel=1e-5)
    assert result.metrics["test"] != result.metrics["members"][0]["test"]


def test_members_that_learn_nothing_are_one_network(with_columns, other_target, tmp_path):
    settings = {"data.targets": ["y"], "finetune.start": str(other_target), "run.ensemble": 2}
    settings |= {"optim.lr": 1e-30, "optim.weight_decay": 0.0, "run.refit": True, "run.epochs": 1}
    result = train(with_columns(LABELS, settings), tmp_path / "run")
    assert [part.kind for part in result.model.parts].count("network") == 1
    assert "network" in result.metrics["refit"]


def test_a_stopped_ensemble_resumes_exactly(configure, trained, tmp_path):
    """In the second member; the first is not trained again. Then after both, before the end."""
    config, whole, first = configure({"run.ensemble": 2}), trained({"run.ensemble": 2}), trained()

    class StopInSecond(Callback):
        runs = 0

        def on_start(self, *event):
            self.runs += 1

        def on_epoch(self, record, epochs):
            return self.runs == 2 and record.epoch == 2

    stopped = train(config, tmp_path / "parts", callback=StopInSecond())
    assert not stopped.finished and stopped.folder == tmp_path / "parts"
    seen = []

    class Spy(Callback):
        def on_start(self, config, *others):
            seen.append(config.run.seed)

    resumed = train(None, tmp_path / "parts", resume=True, callback=Spy())
    assert resumed.finished and seen == [1]
    assert resumed.metrics["test"] == whole.metrics["test"]
    np.testing.assert_array_equal(predicted(resumed.model, SMILES), predicted(whole.model, SMILES))
    assert first.metrics["test"] == whole.metrics["members"][0]["test"]
    again = train(None, tmp_path / "parts", resume=True)
    assert again.metrics == resumed.metrics
    (tmp_path / "parts" / "metrics.json").unlink()
    again = train(None, tmp_path / "parts", resume=True, callback=Spy())
    assert again.metrics == resumed.metrics and seen == [1, config.run.seed]
