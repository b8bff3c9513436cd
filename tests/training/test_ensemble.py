"""Ensembles: joining models, and training the members of one."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from molsepnorm.cli import main
from molsepnorm.data import datasets
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel, encoding_of, join
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.predict import Predictor
from molsepnorm.tasks import ExtraInputs, FeatureColumn, Target, Task
from molsepnorm.training import Callback, evaluate, load_config, train, train_on
from molsepnorm.training.recipes import architecture

SMILES = ["CCO", "c1ccccc1O", "CC(=O)O", "CCCl"]
SHORT = {"run.epochs": 1}


def predicted(model: PropertyModel, smiles=SMILES) -> np.ndarray:
    return np.array([list(each.values.values()) for each in Predictor(model).predict(smiles)])


@pytest.fixture
def trained(configure, tmp_path):
    """`trained(name, settings)`: the model of a short run on two targets."""

    def make(name, settings=None):
        settings = {"data.targets": ["y", "active"], **SHORT, **(settings or {})}
        return train(configure(settings), tmp_path / name).model

    return make


# Joining


def test_a_joined_model_predicts_the_weighted_mean(trained):
    """Also of models that standardise labels in other ways, as those of other folds do."""
    models = [trained(f"{seed}", {"run.seed": seed, "data.split_seed": seed}) for seed in (0, 1)]
    means = {model.task.targets[0].mean for model in models}
    assert len(means) == 2
    expected = np.average([predicted(model) for model in models], axis=0, weights=[1, 3])
    np.testing.assert_allclose(predicted(join(models, [1, 3])), expected, rtol=1e-4, atol=1e-6)
    assert join(models).weights == (0.5, 0.5)


def test_joined_models_can_be_joined_again(trained):
    """Networks that are equal become one with the sum of their weights."""
    one, two, three = (trained(f"{seed}", {"run.seed": seed}) for seed in range(3))
    joined = join([join([one, two]), join([one, three])])
    assert joined.weights == (0.5, 0.25, 0.25)
    expected = np.average([predicted(each) for each in (one, two, three)], 0, [2, 1, 1])
    np.testing.assert_allclose(predicted(joined), expected, rtol=1e-4, atol=1e-6)


def test_joining_copies_the_networks_and_keeps_their_exclusions(trained):
    one, two = trained("0"), trained("1", {"run.seed": 1})
    two = dataclasses.replace(two, excludes={"zinc": "why"})
    joined = join([one, two])
    assert joined.excludes == {"zinc": "why"}
    before = predicted(one)
    for parameter in joined.network.parameters():
        parameter.data.zero_()
    np.testing.assert_array_equal(predicted(one), before)


def test_models_that_differ_are_not_joined(trained, configure, tmp_path):
    one = trained("0")
    other = trained("1", {"model.max_path_length": 2})
    with pytest.raises(ConfigError, match="only models with the same encoding can be joined"):
        join([one, other])
    renamed = dataclasses.replace(one, task=Task((Target("z", "regression"),), "mae"))
    with pytest.raises(
        ConfigError,
        match=r"same targets can be joined: model 1 has y \(regr.* model 2 has z \(regr",
    ):
        join([one, renamed])
    untrained = dataclasses.replace(one, task=Task((), "loss"))
    with pytest.raises(ConfigError, match="pre-trained without targets"):
        join([untrained])
    for models, weights in (([], None), ([one], [1, 1]), ([one], [0.0]), ([one, one], [2, -1])):
        with pytest.raises(ConfigError, match="each with a weight of 0 or more"):
            join(models, weights)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
def test_models_with_other_feature_columns_are_not_joined(order):
    """In any order, also beside a model without feature columns."""
    task = Task((Target("y", "regression"),), "mae")
    models = []
    for columns in ((), (FeatureColumn("temperature"),), (FeatureColumn("ph"),)):
        config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2)
        config = dataclasses.replace(config, molecule_features=len(columns))
        inputs = ExtraInputs(columns)
        models.append(PropertyModel(Graphormer(config).eval(), "zinc", task, inputs=inputs))
    with pytest.raises(ConfigError, match="same feature columns and molecule features can be"):
        join([models[number] for number in order])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_joined_column_has_the_range_of_all_models(order):
    task = Task((Target("y", "regression"),), "mae")
    config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2, molecule_features=1)
    models = [
        PropertyModel(Graphormer(config).eval(), "zinc", task, inputs=ExtraInputs((column,)))
        for column in (FeatureColumn("t", low=20, high=39), FeatureColumn("t", low=35, high=59))
    ]
    (column,) = join([models[number] for number in order]).inputs.columns
    assert (column.low, column.high) == (20, 59)
    unknown = dataclasses.replace(models[0], inputs=ExtraInputs((FeatureColumn("t"),)))
    (column,) = join([unknown, models[1]]).inputs.columns
    assert (column.low, column.high) == (None, None)


def test_models_with_feature_columns_are_joined():
    """Their output weights depend on the columns, and are scaled alike."""
    torch.manual_seed(0)
    inputs = ExtraInputs((FeatureColumn("solvent", ("a", "b")), FeatureColumn("t")))
    config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2)
    config = dataclasses.replace(config, molecule_features=3, columns=(2, 1))
    models = []
    for mean, scale in ((0.0, 1.0), (5.0, 3.0)):
        network = Graphormer(config).eval()
        torch.nn.init.normal_(network.head.interactions)
        task = Task((Target("y", "regression", mean=mean, scale=scale),), "mae")
        models.append(PropertyModel(network, "zinc", task, inputs=inputs))
    columns = {"solvent": ["a", "b"] * 2, "t": [0.1, -2.0, 0.5, 3.0]}

    def values(model):
        rows = Predictor(model).predict(SMILES, columns)
        return np.array([row.values["y"] for row in rows])

    expected = (values(models[0]) + values(models[1])) / 2
    np.testing.assert_allclose(values(join(models)), expected, rtol=1e-5, atol=1e-5)


def test_the_command_joins_runs(trained, tmp_path, capsys):
    models = [trained(f"{seed}", {"run.seed": seed}) for seed in (0, 1)]
    folders = [str(tmp_path / "0"), str(tmp_path / "1" / "model")]
    main(["ensemble", *folders, "-o", str(tmp_path / "both")], standalone_mode=False)
    assert "2 networks of 2 models" in capsys.readouterr().out
    found = predicted(PropertyModel.from_pretrained(tmp_path / "both"))
    np.testing.assert_allclose(found, predicted(join(models)), rtol=1e-6)


# Training


def test_members_equal_runs_with_their_seeds(configure, tmp_path, outcome):
    """The scores are those of the mean; the folder is one of a run. The ensemble with the next seed
    has members 12 and 13."""
    config = configure({**SHORT, "run.ensemble": 2, "run.seed": 5})
    result = train(config, tmp_path / "run")
    models = []
    for number, seed in ((1, 10), (2, 11)):
        models.append(train(configure({**SHORT, "run.seed": seed}), tmp_path / f"{seed}").model)
        assert outcome(tmp_path / f"{seed}") == outcome(tmp_path / "run" / "members" / f"{number}")
    np.testing.assert_array_equal(predicted(result.model), predicted(join(models)))
    assert result.finished and len(result.metrics["members"]) == 2
    assert result.metrics["seed"] == 5
    assert result.metrics == json.loads((tmp_path / "run" / "metrics.json").read_text())
    table = load_config(config=tmp_path / "run" / "config.yaml").data
    for split in ("val", "test"):
        scores = evaluate(tmp_path / "run", table, split).scores
        assert scores["mae"] == pytest.approx(result.metrics[split]["mae"], rel=1e-5)
    assert result.metrics["test"] != result.metrics["members"][0]["test"]


def test_rows_that_training_left_out_are_no_change_of_the_table(with_columns, tmp_path, split_rows):
    """A word of a feature column that only a test row has."""
    words, parts = ["a", "b"] * 14 + ["a", "rare"], ["train"] * 20 + ["val"] * 5 + ["test"] * 5
    settings = {"data.targets": ["y"], "data.feature_columns": ["s"], "data.splits_column": "part"}
    columns = {"y": [1, 2, 4], "s": words, "part": parts}
    config = with_columns(columns, {**SHORT, **settings, "run.ensemble": 2})
    result = train(config, tmp_path / "run")
    assert split_rows(result.folder)["test"] == [25, 26, 27, 28]
    found = evaluate(result.folder, config.data)
    assert found.molecules == 4
    assert found.scores["mae"] == pytest.approx(result.metrics["test"]["mae"], rel=1e-5)
    assert train(None, result.folder, resume=True).metrics == result.metrics


def test_a_stopped_ensemble_resumes_exactly(configure, tmp_path, stop_at):
    """In the second member; the first is not trained again."""
    config = configure({"run.ensemble": 2})
    whole = train(config, tmp_path / "whole")
    first = train(configure(), tmp_path / "alone")

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
    np.testing.assert_array_equal(predicted(resumed.model), predicted(whole.model))
    assert first.metrics["test"] == whole.metrics["members"][0]["test"]
    again = train(None, tmp_path / "parts", resume=True)
    assert again.metrics == resumed.metrics


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"run.epochs": 0}, True),
        ({"run.epochs": 1}, False),
    ],
)
def test_members_by_seeds_without_epochs_are_announced_as_one_model(
    configure, tmp_path, settings, warned
):
    """Before the first member is loaded."""
    said = []

    class Spy(Callback):
        def on_warning(self, message):
            said.append(message)

        def on_start(self, *event):
            raise InterruptedError

    config = configure({**settings, "run.ensemble": 2, "data.targets": ["y"]})
    with pytest.raises((InterruptedError, ConfigError)):
        train(config, tmp_path / "run", callback=Spy())
    assert (
        any("all 2 members of the ensemble are the same model" in each for each in said) is warned
    )


def test_an_ensemble_without_epochs_is_the_model_of_one_run(table, tmp_path):
    """Its kernel regression compares descriptors and counts, too, and the members become one."""
    settings = {"data.targets": ["y"], "run.epochs": 0, "run.threads": 1}
    one, two = (
        train(load_config(table, overrides=settings | more), tmp_path / str(len(more)))
        for more in ({}, {"run.ensemble": 2})
    )
    assert one.model.inputs.descriptors
    assert two.model.inputs == one.model.inputs
    assert len(two.model.networks) == 1
    np.testing.assert_allclose(predicted(two.model), predicted(one.model), rtol=1e-5)


def test_a_folder_with_members_is_not_overwritten(configure, tmp_path):
    config = configure({**SHORT, "run.ensemble": 2})
    train(config, tmp_path / "run")
    with pytest.raises(ConfigError, match="or continue that run with --resume"):
        train(config, tmp_path / "run")


def test_ensembles_that_cannot_be_trained(configure, tmp_path):
    """Before any time is spent."""
    config = configure({**SHORT, "run.ensemble": 2})
    dataset = datasets.load(config.data, encoding_of(architecture(config)))
    with pytest.raises(ConfigError, match="run.ensemble is for molsepnorm.train"):
        train_on(config, dataset)
