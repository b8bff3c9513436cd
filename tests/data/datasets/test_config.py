"""The `data` section: what it takes for granted, and what it refuses with a reason."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError
from molsepnorm.training import load_config

TABLE = Path("my.csv")
OF_TABLES = {
    "targets": ["y"],
    "task_type": "binary",
    "classes": {"y": ["a", "b"]},
    "ignore_columns": ["id"],
    "weight_column": "w",
    "feature_columns": ["t"],
    "split": (0.6, 0.2, 0.2),
    "split_type": "scaffold",
    "split_seed": 1,
    "splits_column": "split",
    "splits_file": Path("splits.json"),
    "folds": 5,
    "fold": 1,
    "standardize": "salts",
}


def test_a_table_alone_is_split_at_random():
    """And its targets are guessed."""
    config = DataConfig(table=TABLE)
    assert config.split == (0.8, 0.1, 0.1)
    assert (config.split_type, config.split_seed, config.folds, config.fold) == (
        *("random", 0, None, 0),
    )
    assert (config.targets, config.task_type, config.classes) == (None, None, {})
    assert (config.smiles_column, config.featurizer, config.on_invalid) == ("smiles", "ogb", "skip")


@pytest.mark.parametrize("source", [{}, {"dataset": "zinc", "table": TABLE}])
def test_exactly_one_source(source):
    with pytest.raises(ValidationError, match="name one source: data.dataset .* data.table"):
        DataConfig(**source)


@pytest.mark.parametrize(("name", "value"), OF_TABLES.items())
def test_settings_of_tables_are_refused_for_named_sets(name, value):
    """They would be ignored without a word; what they are by default may stand in a file."""
    message = f"data.{name} is for tables: zinc has its own targets"
    with pytest.raises(ValidationError, match=message):
        DataConfig(dataset="zinc", **{name: value})
    assert getattr(DataConfig(table=TABLE, **{name: value}), name) == value
    default = getattr(DataConfig(table=TABLE), name)
    assert getattr(DataConfig(dataset="zinc", **{name: default}), name) == default


def test_features_are_chosen_for_tables_alone():
    """A named set's follow from its name, such as zinc-rich."""
    with pytest.raises(ValidationError, match="data.featurizer is for tables: zinc has its own"):
        DataConfig(dataset="zinc", featurizer="rich")
    assert DataConfig(table=TABLE, featurizer="rich").featurizer == "rich"


@pytest.mark.parametrize(
    ("one", "other"),
    [("splits_column", "splits_file"), ("splits_file", "folds")],
)
def test_only_one_way_to_split(one, other):
    with pytest.raises(
        ValidationError, match=f"data.{one} and data.{other} both define the split: keep one"
    ):
        DataConfig(table=TABLE, **{name: OF_TABLES[name] for name in (one, other)})


@pytest.mark.parametrize("way", ["splits_column", "splits_file", "folds"])
def test_no_split_and_a_way_to_split(way):
    message = f"data.split: null means no split, but data.{way} defines one: keep one"
    with pytest.raises(ValidationError, match=message):
        DataConfig(table=TABLE, split=None, **{way: OF_TABLES[way]})


def test_replicates_of_what_is_not_drawn():
    """They would all be the same, and their spread be taken for the model's."""
    with pytest.raises(
        ValidationError, match="data.splits_column holds one split, so data.fold must be 0; got 2"
    ):
        DataConfig(table=TABLE, splits_column="split", fold=2)
    with pytest.raises(ValidationError, match="scaffold-ogb is not random, so there are no repl"):
        DataConfig(table=TABLE, split_type="scaffold-ogb", fold=2)
    assert DataConfig(table=TABLE, split_type="scaffold-ogb", fold=2, folds=3).fold == 2


@pytest.mark.parametrize("way", ["splits_column", "splits_file"])
def test_a_split_that_is_named_is_not_drawn(way):
    """A way of drawing beside it would be ignored."""
    message = f"data.split_type: scaffold and data.{way} both define the split: keep one"
    with pytest.raises(ValidationError, match=message):
        DataConfig(table=TABLE, split_type="scaffold", **{way: OF_TABLES[way]})


def test_folds_that_are_test_sets_need_their_number():
    with pytest.raises(
        ValidationError, match=r"each fold the test set of one run: set data\.folds"
    ):
        DataConfig(table=TABLE, test_set=False)
    assert not DataConfig(table=TABLE, test_set=False, folds=5).test_set


def test_folds_are_counted_from_0():
    """The last of five is the fourth; without folds it is the replicate's number, of any size."""
    assert DataConfig(table=TABLE, folds=5, fold=4).fold == 4
    assert DataConfig(table=TABLE, fold=40).fold == 40
    assert DataConfig(table=TABLE, splits_file=TABLE, fold=40).fold == 40
    with pytest.raises(
        ValidationError, match="data.fold counts from 0, so with 5 folds it is at most 4; got 5"
    ):
        DataConfig(table=TABLE, folds=5, fold=5)


def test_a_class_named_twice():
    """One of both would have an output that is never right."""
    classes = {"x": ["a", "b"], "y": ["a", "b", "a"]}
    message = "data.classes repeats a class of 'y': a, b, a"
    with pytest.raises(ValidationError, match=message):
        DataConfig(table=TABLE, classes=classes)


@pytest.mark.parametrize(
    "split",
    [
        (0.8, 0.1, 0.2),
        (0.8, 0.1, 0.0),
        (0.9, 0.0, 0.1),
        (0.9, 0.2, -0.1),
        (math.nan, 0.5, 0.5),
        (0.5, math.nan, 0.5),
        (math.inf, 0.5, 0.5),
        (math.inf, -math.inf, 1),
        (0, 0, 0),
    ],
)
def test_shares_that_are_none(split):
    with pytest.raises(ValidationError, match="must be three fractions that sum to 1"):
        DataConfig(table=TABLE, split=split)


@pytest.mark.parametrize(
    "split", [(0.6, 0.3, 0.1), (1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1), (0.9, 0.1, 0), None]
)
def test_shares_as_they_are_written(split):
    """Decimals do not sum to 1 exactly."""
    assert DataConfig(table=TABLE, split=split).split == split


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("task_type", "classes", "'classes' is none of regression, binary, multiclass"),
        ("task_type", {"y": "ordinal"}, "'ordinal' is none of regression, binary, multiclass"),
        (
            "split_type",
            "murcko",
            "'random', 'stratified', 'scaffold', 'scaffold-ogb', 'butina' or 'time'",
        ),
        ("split_seed", -1, "greater than or equal to 0"),
        ("folds", 1, "greater than or equal to 2"),
        ("fold", -1, "greater than or equal to 0"),
        ("targets", "y", "valid list"),
        ("ignore_columns", "id", "valid list"),
        ("classes", {"y": "a,b"}, "valid list"),
        ("weights", "w", "Extra inputs are not permitted"),
    ],
)
def test_values_that_do_not_fit(name, value, message):
    with pytest.raises(ValidationError, match=message):
        DataConfig(table=TABLE, **{name: value})


def test_classification_means_binary():
    assert DataConfig(table=TABLE, task_type="classification").task_type == "binary"


def test_mistakes_reach_the_user_as_one_line():
    """This applies to errors of a validator and of a field with two types."""
    with pytest.raises(ConfigError) as caught:
        load_config("my.csv", overrides={"data.folds": 3, "data.fold": 3})
    assert "data.fold counts from 0, so with 3 folds it is at most 2; got 3" in str(caught.value)
    for value in ("ordinal", {"y": "ordinal"}):
        with pytest.raises(
            ConfigError, match=r"data\.task_type: 'ordinal' is none of regression, b"
        ):
            load_config("my.csv", overrides={"data.task_type": value})
    with pytest.raises(ConfigError, match=r"data\.targets: .*; got 'logS', write \['logS'\]"):
        load_config("my.csv", overrides={"data.targets": "logS"})


@pytest.mark.parametrize(
    ("path", "label"),
    [("a/my.csv", "my"), ("set.v2.sdf.gz", "set"), ("plain", "plain"), (".hidden", "table")],
)
def test_the_label_is_a_short_name(path, label):
    assert DataConfig(table=Path(path)).label == label
    assert DataConfig(dataset="ogbg-molhiv").label == "ogbg-molhiv"


def test_it_cannot_be_changed():
    """Whoever wants another makes another."""
    config = DataConfig(table=TABLE)
    with pytest.raises(ValidationError, match="frozen"):
        config.fold = 1


@pytest.mark.parametrize("way", ["splits_column", "splits_file", "folds"])
def test_every_setting_survives_the_run_s_file(tmp_path, way):
    """As YAML, from which a run is resumed; a class called yes or 1 stays a text."""
    others = {"splits_column", "splits_file", "folds"} - {way}
    settings = {name: value for name, value in OF_TABLES.items() if name not in others}
    if way == "splits_column":
        del settings["fold"]
    if way != "folds":
        for name in ("split_type", "split", "split_seed"):
            del settings[name]
    settings |= {"task_type": {"y": "multiclass"}, "classes": {"y": ["yes", "no", "1", "null"]}}
    config = load_config("my.csv", overrides={f"data.{k}": v for k, v in settings.items()})
    config.save(tmp_path / "config.yaml")
    again = load_config(config=tmp_path / "config.yaml")
    assert again == config.resolved()
    assert again.data.classes == settings["classes"]
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())["data"]
    assert Path(written["table"]).is_absolute()


def test_a_split_by_time_is_refused_where_it_cannot_be_made():
    """Without a column, with folds, replicates or merged rows, for named sets and no labels."""
    timed = {"split_type": "time", "time_column": "date"}
    config = DataConfig(table=TABLE, **timed)
    assert config.column_of_split == "date"
    for settings, message in (
        ({"table": TABLE, "split_type": "time"}, "belong together: set both or neither"),
        ({"table": TABLE, "time_column": "date"}, "belong together: set both or neither"),
        ({"table": TABLE, **timed, "folds": 3}, "is not random, so there are neither folds nor"),
        ({"table": TABLE, **timed, "fold": 1}, "leave data.folds and data.fold out"),
        ({"table": TABLE, **timed, "duplicates": "mean"}, "mean would mix measurements of diff"),
        ({"table": TABLE, **timed, "splits_column": "part"}, "both define the split: keep one"),
        ({"dataset": "zinc", "time_column": "date"}, "data.time_column is for tables: zinc has"),
        ({"structures": [TABLE], "time_column": "date"}, "data.time_column is for tables of lab"),
    ):
        with pytest.raises(ValidationError, match=message):
            DataConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"targets": ["a"]}, "data.feature_columns and data.targets both name 'a'"),
        ({"ignore_columns": ["a"]}, "data.feature_columns and data.ignore_columns both name 'a'"),
        ({"smiles_column": "a"}, "data.feature_columns and data.smiles_column both name 'a'"),
        ({"weight_column": "a"}, "data.feature_columns and data.weight_column both name 'a'"),
        ({"splits_column": "a"}, "data.feature_columns and data.splits_column both name 'a'"),
        ({"feature_columns": ["a", "b", "a"]}, "data.feature_columns repeats a name: a, b, a"),
        ({"feature_columns": ["error"]}, "names 'error', a column that predict adds to a table"),
        ({"molecule_features": ["rdkit", "rdkit"]}, "data.molecule_features repeats a name"),
    ],
)
def test_a_feature_column_has_no_other_role(settings, message):
    with pytest.raises(ValidationError, match=message):
        DataConfig(**{"table": TABLE, "feature_columns": ["a"], **settings})


def test_molecule_features_are_not_for_structures_without_labels():
    with pytest.raises(ValidationError, match="data.molecule_features are inputs of a model with"):
        DataConfig(structures=[TABLE], molecule_features=["rdkit"])
    assert DataConfig(dataset="zinc", molecule_features=["rdkit"]).molecule_features == ["rdkit"]
