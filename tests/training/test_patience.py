"""Early stopping: `run.patience` ends a run at the right epoch, and the run is complete."""

from __future__ import annotations

import pytest

from molsepnorm.training import train
from runs import require_exact_resume, rows_of

NAN = float("nan")


@pytest.mark.parametrize(
    ("scores", "patience", "best", "epochs"),
    [
        ([0.5, 0.4, 0.6, 0.3, 0.7, 0.7], 2, 4, 6),
        ([0.5, 0.5, 0.501, 0.5, 0.6, 0.1], 4, 1, 5),  # as good is not better
        ([0.5, NAN, NAN, 0.1, 0.1, 0.1], 2, 1, 3),  # nor is what is not defined
    ],
)
def test_a_run_ends_after_the_configured_epochs_without_a_better_one(
    configure, tmp_path, scripted, scores, patience, best, epochs
):
    """History and metrics have the same number of epochs."""
    scripted("rmse", scores)
    result = train(configure({"run.epochs": 6, "run.patience": patience}), tmp_path / "run")
    assert result.finished
    history = rows_of(tmp_path / "run" / "history.csv")
    assert [int(row["epoch"]) for row in history] == [*range(1, epochs + 1)]
    assert (result.metrics["kept_epoch"], result.metrics["epochs"]) == (best, epochs)
    assert result.metrics["steps"] == 3 * epochs == int(history[-1]["step"])


def test_patience_ends_a_run_only_at_a_validation(configure, tmp_path, scripted):
    """Epoch 6 might be better than epoch 3, so the run continues until then."""
    scripted("rmse", [0.9, 0.9, 0.5, 0.9, 0.9, 0.6, 0.9, 0.9, 0.1])
    settings = {"run.epochs": 9, "run.validate_every": 3, "run.patience": 2}
    metrics = train(configure(settings), tmp_path / "run").metrics
    assert (metrics["kept_epoch"], metrics["epochs"]) == (3, 6)
    assert [row["epoch"] for row in rows_of(tmp_path / "run" / "history.csv")] == ["3", "6"]


def test_a_resumed_run_ends_at_the_same_epoch(configure, tmp_path, scripted):
    """Stopped in the last step; equal bit by bit."""
    scripted("rmse", [0.5, 0.4, 0.6, 0.7, 0.1, 0.1])
    config = configure({"run.epochs": 6, "run.patience": 2, "model.dropout": 0.2})
    train(config, tmp_path / "whole")
    require_exact_resume(config, tmp_path / "whole", tmp_path / "parts", 12)
