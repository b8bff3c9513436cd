"""The `data` section: what it takes for granted, and what it refuses with a reason."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pydantic import ValidationError

from molsepnorm.data.datasets import DataConfig

TABLE = Path("my.csv")
OF_TABLES = {
    "targets": ["y"],
    "task_type": "binary",
    "classes": {"y": ["a", "b"]},
    "targets_except": ["id"],
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
TIMED = {"split_type": "time", "time_column": "date"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"table": None}, "name one source"),
        ({"splits_column": "part", "split_type": "scaffold"}, "both define the split"),
        ({"split": None, "folds": 5}, "data.split: null both"),
        ({"splits_column": "part", "fold": 2}, "holds one split, so data.fold must be 0"),
        ({"split_type": "scaffold-ogb", "fold": 2}, "not random, so there are neither folds"),
        ({"folds": 5, "fold": 5}, "with 5 folds it is at most 4"),
        ({"test_set": False}, r"set data\.folds"),
        ({"classes": {"y": ["a", "b", "a"]}}, "classes of 'y' repeats a name"),
        ({"split_type": "time"}, "belong together"),
        ({**TIMED, "folds": 3}, "neither folds nor"),
        ({**TIMED, "duplicates": "mean"}, "mean would mix measurements"),
        ({"table": None, "dataset": "zinc", "featurizer": "zinc"}, "zinc has its own"),
        ({"table": None, "structures": [TABLE], "molecule_features": ["rdkit"]}, "tables of"),
        ({"feature_columns": ["a"], "targets": ["a"]}, "both name 'a'"),
        ({"targets": ["a", "a"]}, "data.targets repeats a name: a, a"),
        ({"feature_columns": ["error"]}, "a column that predict adds"),
    ],
)
def test_settings_that_contradict_each_other(settings, message):
    with pytest.raises(ValidationError, match=message):
        DataConfig(**{"table": TABLE, **settings})


@pytest.mark.parametrize(("name", "value"), OF_TABLES.items())
def test_settings_of_tables_are_refused_for_named_sets(name, value):
    """They would be ignored without a word; what they are by default may stand in a file."""
    message = f"data.{name} is for tables: zinc has its own targets"
    with pytest.raises(ValidationError, match=message):
        DataConfig(dataset="zinc", **{name: value})
    assert getattr(DataConfig(table=TABLE, **{name: value}), name) == value
    default = getattr(DataConfig(table=TABLE), name)
    assert getattr(DataConfig(dataset="zinc", **{name: default}), name) == default


@pytest.mark.parametrize(
    "split",
    [(0.8, 0.1, 0.2), (0.9, 0.0, 0.1), (0.9, 0.2, -0.1), (math.nan, 0.5, 0.5), (math.inf, -1, 1)],
)
def test_shares_that_are_none(split):
    with pytest.raises(ValidationError, match="must be three fractions that sum to 1"):
        DataConfig(table=TABLE, split=split)


def test_the_dictionary_of_kinds_stays_as_it_is():
    DataConfig(table=TABLE, targets=["y"], task_type=(kinds := {"y": "classification"}))
    assert kinds == {"y": "classification"}
