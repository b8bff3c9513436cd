"""The `data` section: what it takes for granted, and what it refuses with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from molsepnorm.data.datasets import DataConfig

TABLE = Path("my.csv")
OF_TABLES = {
    "targets": ["y"],
    "weight_column": "w",
    "feature_columns": ["t"],
    "split": (0.6, 0.2, 0.2),
    "split_type": "scaffold",
    "split_seed": 1,
    "standardize": "salts",
}
TIMED = {"split_type": "time", "time_column": "date"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"splits_column": "part", "split_type": "scaffold"}, "both define the split"),
        ({"classes": {"y": ["a", "b", "a"]}}, "classes of 'y' repeats a name"),
        ({**TIMED, "duplicates": "mean"}, "mean would mix measurements"),
        ({"feature_columns": ["a"], "targets": ["a"]}, "both name 'a'"),
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


def test_the_dictionary_of_kinds_stays_as_it_is():
    DataConfig(table=TABLE, targets=["y"], task_type=(kinds := {"y": "classification"}))
    assert kinds == {"y": "classification"}
