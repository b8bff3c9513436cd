"""Runs that cannot be trained are refused before anything is written."""

from __future__ import annotations

import pytest

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.training import train
from runs import NUMBERS, YES_NO

PARTS = ["train"] * 8 + ["val", "test"]
CASES = {
    "a metric of another kind": (
        *({}, {"run.metric": "roc_auc"}),
        "the metric 'roc_auc' is for binary targets, and there is none among y",
    ),
    "a blend without its forest": (
        *({}, {"run.blend": "forest", "run.baseline": False}),
        "because run.baseline is off",
    ),
    "too little time": ({}, {"run.budget": "0.001s"}, r"an epoch .* are left of 0.001s"),
    "bounds alone": (
        {
            "y": ["5", *(f">{i}" for i in range(29))],
            "part": ["test", *["train"] * 25, *["val"] * 4],
        },
        {"data.splits_column": "part"},
        "target 'y': all 25 training labels are bounds",
    ),
    "a split of weight 0": (
        {"y": YES_NO, "w": [1] * 8 + [0, 1], "part": PARTS},
        {"data.weight_column": "w", "data.splits_column": "part"},
        "all 3 validation molecules have the weight 0",
    ),
    "inputs that training has not": (
        {"s": ["A", "B"] * 4 + ["A", "new"], "part": PARTS},
        {"data.feature_columns": ["s"], "data.splits_column": "part"},
        "none of the 3 rows of the split 'test' can be read: 'new' in column 's'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_the_reason(with_columns, tmp_path, name):
    columns, settings, message = CASES[name]
    config = with_columns({"y": NUMBERS, **columns}, {"data.targets": ["y"], **settings})
    with pytest.raises((ConfigError, DataError), match=message):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
