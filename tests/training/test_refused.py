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
    "a metric of other kinds": ({}, {"run.metric": "mcc"}, "is for binary and multiclass targets"),
    "an unknown metric": (
        *({}, {"run.metric": "rsme"}),
        r"unknown metric 'rsme'. Did you mean 'rmse'\? Known: accuracy, ",
    ),
    "a blend without its forest": (
        *({}, {"run.blend": "forest", "run.baseline": False}),
        "because run.baseline is off",
    ),
    "a blend without predictions": (
        *({}, {"run.blend": "forest", "objective.name": "pretraining"}),
        "the objective pretraining has no predictions",
    ),
    "a rate without a start": (
        *({}, {"finetune.body_lr": 0.5}),
        "finetune.body_lr has no effect without a model to",
    ),
    "no epochs and no probe": ({}, {"run.epochs": 0}, "run.epochs: 0 fits the probe of fine-tun"),
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
    "a constant input": (
        {"s": ["A"] * 8 + ["B", "B"], "part": PARTS},
        {"data.feature_columns": ["s"], "data.splits_column": "part"},
        "column 's' of the training rows: every row has 'A'",
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
