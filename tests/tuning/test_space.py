"""The search space: its default, the recipe's values, and what is refused."""

from __future__ import annotations

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from molsepnorm.errors import ConfigError
from molsepnorm.training import load_config
from molsepnorm.training.recipes import config_folder, read_yaml
from molsepnorm.tuning.study import make_space


@pytest.fixture
def finetuning(write_table):
    """The recipe for tables, which starts from molsepnorm-assays, with its number of epochs."""
    return load_config(write_table("data.csv"), overrides={"run.epochs": 15})


def test_the_default_space_fits_both_recipes_for_tables(finetuning, configure):
    """Settings of fine-tuning need a start, and settings that are given are not tuned."""
    content = read_yaml(config_folder() / "tune.yaml")
    names = {f"{section}.{key}" for section in content for key in content[section]}
    assert set(make_space(finetuning)) == names
    scratch = {name for name in names if not name.startswith("finetune.")}
    assert set(make_space(configure())) == scratch
    fixed = {"optim.lr", "data.targets"}
    assert set(make_space(configure(), fixed=fixed)) == scratch - {"optim.lr"}


@pytest.mark.parametrize("value", [1e-5, 3e-3, 0.5])
def test_ranges_and_choices_include_the_value_of_the_recipe(configure, value):
    config = configure({"optim.lr": value, "run.batch_size": 7})
    space = make_space(config, {"optim.lr": {"low": 1e-3, "high": 1e-2}, "run.batch_size": [4, 8]})
    assert space["optim.lr"] == FloatDistribution(min(value, 1e-3), max(value, 1e-2))
    assert space["run.batch_size"] == CategoricalDistribution((4, 8, 7))


def test_a_file_has_the_sections_of_a_recipe(configure, tmp_path):
    """The setting decides whether a range holds integers. YAML reads 1e-4 as a text."""
    path = tmp_path / "space.yaml"
    path.write_text(
        "optim:\n  lr: {low: 1e-4, high: 1.0e-2, log: true}\n  weight_decay: {low: 0, high: 1}\n"
        "  ema: [null, 0.5]\nrun:\n  epochs: {low: 1, high: 9}\n"
    )
    assert make_space(configure(), path) == {
        "optim.lr": FloatDistribution(1e-4, 1e-2, log=True),
        "optim.weight_decay": FloatDistribution(0, 1),
        "optim.ema": CategoricalDistribution((None, 0.5, 0.9)),
        "run.epochs": IntDistribution(1, 9),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the search space has no setting to tune, such as optim.lr"),
        ({"optim.lrr": [1, 2]}, "unknown setting 'optim.lrr'. Did you mean 'lr'?"),
        ({"optim.lr": 0.1}, "optim.lr must be a list of choices, such as .*; got 0.1"),
        ({"optim.lr": {"low": 1.0, "high": 0.1}}, "optim.lr: .*low"),
        ({"optim.lr": {"low": -1, "high": 0.1}}, "optim.lr: Input should be greater than 0"),
        ({"run.seed": [0, 1]}, "run.seed cannot be tuned"),
        ({"data.split_seed": [0, 1]}, "cannot be tuned: all trials .* same data"),
        ({"model.max_path_length": [3, 5]}, "it changes how the molecules are encoded"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_space_that_cannot_be_searched_is_refused(configure, given, message):
    with pytest.raises(ConfigError, match=message) as caught:
        make_space(configure({"optim.ema": None}), given)
    assert str(caught.value).startswith("the search space")
