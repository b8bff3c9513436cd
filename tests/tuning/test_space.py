"""The search space: its default, the recipe's values, and what is refused."""

from __future__ import annotations

import pytest

from molsepnorm.errors import ConfigError
from molsepnorm.training import load_config
from molsepnorm.training.recipes import config_folder, read_yaml
from molsepnorm.tuning.space import Range, make_space, value_of


@pytest.fixture
def finetuning(write_table):
    """The recipe for tables, which starts from molsepnorm-small, with its number of epochs."""
    return load_config(write_table("data.csv"), overrides={"run.epochs": 15})


def _file():
    content = read_yaml(config_folder() / "tune.yaml")
    return {f"{section}.{key}" for section in content for key in content[section]}


def test_the_default_space_fits_both_recipes_for_tables(finetuning, configure):
    """Without a start, the settings of fine-tuning are left out, and nothing else."""
    assert set(make_space(finetuning)) == _file()
    assert 6 <= len(_file()) <= 8
    scratch = {name for name in _file() if not name.startswith("finetune.")}
    assert set(make_space(configure())) == scratch


def test_settings_that_are_given_are_not_in_the_default_space(configure):
    names = set(make_space(configure(), fixed={"optim.lr", "data.targets"}))
    assert names == set(make_space(configure())) - {"optim.lr"}


@pytest.mark.parametrize("value", [1e-5, 3e-3, 0.5])
def test_ranges_and_choices_include_the_value_of_the_recipe(configure, value):
    config = configure({"optim.lr": value, "run.batch_size": 7})
    space = make_space(config, {"optim.lr": {"low": 1e-3, "high": 1e-2}, "run.batch_size": [4, 8]})
    assert space["optim.lr"] == Range(min(value, 1e-3), max(value, 1e-2), False)
    assert space["run.batch_size"] == (4, 8, 7)


def test_the_setting_decides_whether_a_range_holds_integers(configure):
    space = make_space(
        configure(),
        {
            "optim.weight_decay": {"low": 0, "high": 1},
            "run.epochs": {"low": 1, "high": 9, "log": True},
            "optim.ema": [None, 0.5],
            "optim.lr": {"low": "1e-4", "high": "1e-2"},
        },
    )
    assert [type(each) for each in space["optim.weight_decay"][:2]] == [float, float]
    assert [type(each) for each in space["run.epochs"][:2]] == [int, int]
    assert space["optim.ema"] == (None, 0.5, 0.99)
    assert space["optim.lr"] == Range(1e-4, 1e-2, False)  # YAML reads 1e-4 as a text


def test_a_file_has_the_sections_of_a_recipe(configure, tmp_path):
    path = tmp_path / "space.yaml"
    path.write_text(
        "optim:\n  lr: {low: 1.0e-4, high: 1.0e-2, log: true}\n  decay: [linear, cosine]\n"
    )
    assert make_space(configure(), path) == {
        "optim.lr": Range(1e-4, 1e-2, True),
        "optim.decay": ("linear", "cosine"),
    }


WRONG = [
    ({}, "the search space has no setting to tune, such as optim.lr"),
    ({"optim.lrr": [1, 2]}, "unknown setting 'optim.lrr'. Did you mean 'lr'?"),
    ({"optimiser.lr": [1, 2]}, "unknown setting 'optimiser.lr'"),
    ({"optim.lr": 0.1}, "optim.lr must be a list of choices, such as .*; got 0.1"),
    ({"optim.lr": {"low": 0.1, "hi": 1}}, "must be a list of choices"),
    ({"optim.lr": {"low": 0.1, "high": 0.1}}, "the range is empty, since low 0.1 is not below"),
    ({"optim.lr": {"low": 1.0, "high": 0.1}}, "the range is empty"),
    ({"optim.lr": {"low": -1, "high": 0.1}}, "optim.lr: Input should be greater than 0; got -1"),
    ({"optim.lr": {"low": "a", "high": 0.1}}, "optim.lr: .*; got 'a'"),
    ({"optim.lr": {"low": 0.1, "high": 1, "log": "yes"}}, "log must be true or false; got 'yes'"),
    ({"optim.weight_decay": {"low": 0, "high": 1, "log": True}}, "logarithmic range starts above"),
    ({"optim.decay": {"low": "linear", "high": "cosine"}}, "'cosine' in the recipe, and a range"),
    ({"optim.ema": {"low": 0.9, "high": 0.99}}, "optim.ema is None in the recipe"),
    ({"run.batch_size": [8]}, "run.batch_size has one value, 8"),
    ({"run.seed": [0, 1]}, "run.seed cannot be tuned: it is no property of a recipe"),
    ({"run.ensemble": [1, 5]}, "run.ensemble cannot be tuned: a trial trains one network"),
    ({"run.blend": ["none", "forest"]}, "run.blend cannot be tuned: trials compare networks"),
    ({"run.metric": ["mae", "rmse"]}, "run.metric cannot be tuned: it compares the trials"),
    ({"data.split_seed": [0, 1]}, "cannot be tuned: all trials have the same data"),
    ({"model.max_path_length": [3, 5]}, "it changes how the molecules are encoded"),
    ({"finetune.body_lr": [0.1, 1]}, "no effect without a model to start from"),
    ({"model.width": [16, 17]}, "width"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=lambda value: str(value)[:50])
def test_a_space_that_cannot_be_searched_is_refused(configure, given, message):
    with pytest.raises(ConfigError, match=message) as caught:
        make_space(configure({"optim.ema": None}), given)
    assert str(caught.value).startswith("the search space")


def test_settings_that_the_start_fixes_are_refused(finetuning):
    with pytest.raises(ConfigError, match="starts from, molsepnorm-small, fixes the archi"):
        make_space(finetuning, {"model.layers": [2, 4]})
    with pytest.raises(ConfigError, match=r"finetune\.start cannot be tuned: all trials"):
        make_space(finetuning, {"finetune.start": ["molsepnorm-small", "none"]})


def test_a_setting_is_either_given_or_in_the_space_of_the_user(configure):
    with pytest.raises(ConfigError, match=r"optim\.lr is set on its own as well"):
        make_space(configure(), {"optim.lr": [1e-3, 1e-2]}, fixed={"optim.lr"})


def test_value_of_is_the_plain_value(configure):
    config = configure({"optim.ema": None})
    assert value_of(config, "optim.ema") is None
    assert value_of(config, "run.epochs") == 2
