"""The metric of early stopping: the default, the configured one, or the loss."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.model import PropertyModel
from molsepnorm.training import train
from runs import rows_of, split_rows
from support import Recorder

COLUMNS = {
    "y": [0.5, 2, -1.5, 3, 1, -0.2, 0.7],
    "z": [300, -200, 900, 0, 1500],  # in other units
    "a": [0, 1, 0, 0, 1],
    "c": ["red", "blue", "green", "red"],
}


@pytest.mark.parametrize(
    ("targets", "metric", "wanted"),
    [
        (["y"], None, "rmse"),  # the recipe for tables has squared errors
        (["y", "a"], None, "loss"),
        (["y", "z"], "r2", "r2"),
        (["y", "a", "c"], "mcc", "mcc"),
    ],
)
def test_the_kept_epoch_has_the_best_value_of_the_metric(
    with_columns, tmp_path, targets, metric, wanted
):
    """The scores and the model folder belong to it."""
    settings = {"data.targets": targets, "data.split": [0.5, 0.3, 0.2], "optim.lr": 5e-3}
    settings |= {"run.metric": metric, "run.patience": 9}
    config = with_columns(COLUMNS, settings)
    result = train(config, tmp_path / "run")
    assert result.metrics["chosen_by"] == wanted
    assert PropertyModel.from_pretrained(tmp_path / "run").task.metric == wanted
    scores = [float(row[f"val_{wanted}"]) for row in rows_of(tmp_path / "run" / "history.csv")]
    higher = wanted in ("r2", "roc_auc", "accuracy", "mcc")
    chosen = scores.index(max(scores) if higher else min(scores))
    assert result.metrics["kept_epoch"] == chosen + 1
    if wanted != "loss":
        best = pytest.approx(scores[chosen], rel=1e-5, abs=1e-7)
        assert result.metrics["val"][wanted] == best


@pytest.mark.parametrize(("loss", "wanted"), [("l1", "mae"), ("mse", "rmse")])
def test_regression_is_selected_by_the_metric_of_its_loss(with_columns, tmp_path, loss, wanted):
    """The loss is the mean absolute or squared error in standard deviations of the training labels;
    the model folder records the loss and the metric."""
    settings = {
        "data.targets": ["y"],
        "data.split": [0.5, 0.3, 0.2],
        "optim.regression_loss": loss,
    }
    config = with_columns(COLUMNS, settings)
    result = train(config, tmp_path / "run")
    assert result.metrics["chosen_by"] == wanted
    assert PropertyModel.from_pretrained(tmp_path / "run").task.regression_loss == loss
    labels = np.array([float(row["y"]) for row in rows_of(config.data.table)])
    scale = labels[split_rows(tmp_path / "run")["train"]].std()
    for row in rows_of(tmp_path / "run" / "history.csv"):
        error = float(row[f"val_{wanted}"]) / scale
        assert float(row["val_loss"]) == pytest.approx(
            error if loss == "l1" else error**2, rel=1e-4
        )


@pytest.mark.parametrize(
    ("target", "metric", "validation", "label"),
    [
        ("a", None, [0], "ROC-AUC"),
        ("y", None, [""], "RMSE"),
    ],
)
def test_the_loss_selects_if_the_metric_is_undefined_on_validation(
    with_columns, tmp_path, target, metric, validation, label
):
    """A warning gives the reason; undefined scores are null."""
    parts = ["train"] * 8 + ["val", "test"]
    cells = [*(COLUMNS[target] * 2)[:8], *validation, COLUMNS[target][1]]
    columns = {target: cells, "part": parts}
    settings = {"data.targets": [target], "data.splits_column": "part", "run.metric": metric}
    settings["run.patience"] = 9
    seen = Recorder()
    result = train(with_columns(columns, settings), tmp_path / "run", callback=seen)
    start = f"{label} is undefined on the validation molecules (too"
    assert any(remark.startswith(start) for remark in seen.dataset.warnings)
    assert result.metrics["chosen_by"] == "loss"
    losses = [float(row["val_loss"]) for row in rows_of(tmp_path / "run" / "history.csv")]
    assert result.metrics["kept_epoch"] == losses.index(min(losses)) + 1
    assert None in result.metrics["val"].values()


def test_an_undefined_target_is_left_out_of_the_mean(with_columns, tmp_path):
    """Its own score is null; the other targets select the epoch."""
    parts = ["train"] * 8 + ["val"] * 4 + ["test"] * 3
    a = [0, 1, 0, 0, 1, 0, 1, 1, *[0, 0, 0, 0], *[0, 1, 1]]
    b = [1, 0, 0, 1, 1, 0, 0, 1, *[0, 1, 1, 0], *[1, 1, 0]]
    columns = {"a": a, "b": b, "part": parts}
    settings = {"data.targets": ["a", "b"], "data.splits_column": "part"}
    metrics = train(with_columns(columns, settings), tmp_path / "run").metrics
    assert metrics["chosen_by"] == "roc_auc"
    assert metrics["val"]["roc_auc/a"] is None
    assert metrics["val"]["roc_auc"] == metrics["val"]["roc_auc/b"] is not None
