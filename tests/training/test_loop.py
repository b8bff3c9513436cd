"""Training is repeatable bit by bit, resumes exactly, learns, and keeps the best model."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from molsepnorm.errors import MolsepnormError
from molsepnorm.model import PropertyModel
from molsepnorm.tasks import Loss
from molsepnorm.tasks.metrics import Metric
from molsepnorm.training import Callback, train
from runs import outcome, rows_of, stop_at


@pytest.mark.claim(
    "One seed gives one run, bit for bit on a CPU, also if it is stopped, killed and resumed."
)
def test_the_same_seed_gives_the_same_run_bit_by_bit(configure, trained, tmp_path):
    """Another seed gives another run."""
    again = train(configure({"run.seed": 0}), tmp_path / "same")
    runs = trained({"run.seed": 0}), again, trained({"run.seed": 1})
    one, same, other = (outcome(run.folder) for run in runs)
    assert one == same
    assert one["history"][0]["train_loss"] != other["history"][0]["train_loss"]
    assert one["model"] != other["model"]


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_a_stopped_run_goes_on_as_if_it_had_not(configure, trained, tmp_path, steps):
    """Within an epoch, at its end (3 steps each) and before the last step; with dropout and EMA."""
    settings = {"model.dropout": 0.2, "model.attention_dropout": 0.2}
    stopped = train(configure(settings), tmp_path / "run", callback=stop_at(steps))
    assert not stopped.finished
    assert stopped.metrics == {}
    assert (stopped.model is None) == (steps <= 3)
    assert train(folder=tmp_path / "run", resume=True).finished
    assert outcome(tmp_path / "run") == outcome(trained(settings).folder)


class _Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("at", ["model saved", "history written", "checkpoint writing"])
def test_a_run_killed_at_the_end_of_an_epoch_resumes_exactly(configure, tmp_path, monkeypatch, at):
    """Files written after the last checkpoint are written again, without duplicates."""
    from molsepnorm.training import loop
    from molsepnorm.training.run_folder.folder import RunFolder

    monkeypatch.setattr(Metric, "better", lambda *_: True)  # a model is saved at every epoch's end
    config = configure()
    train(config, tmp_path / "whole")

    def killed(after: bool, plain):
        calls = []

        def run(*args, **kwargs):
            calls.append(1)
            if len(calls) == 2 and not after:
                raise _Killed
            plain(*args, **kwargs)
            if len(calls) == 2:
                raise _Killed

        return run

    with monkeypatch.context() as patch:
        if at == "model saved":
            place, name, after = PropertyModel, "save_pretrained", True
        elif at == "history written":
            place, name, after = RunFolder, "write_history", True
        else:
            place, name, after = loop.checkpoint, "save_checkpoint", False
        patch.setattr(place, name, killed(after, getattr(place, name)))
        with pytest.raises(_Killed):
            train(config, tmp_path / "parts")
    assert train(folder=tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_the_random_state_of_the_caller_does_not_change(configure, tmp_path):
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    train(configure({"run.epochs": 1}), tmp_path / "run", callback=stop_at(2))
    train(folder=tmp_path / "run", resume=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002


class _Snapshots(Callback):
    """Keeps the network's weights of every epoch."""

    def __init__(self) -> None:
        self.weights: list[dict[str, torch.Tensor]] = []

    def on_start(self, config, dataset, model, folder) -> None:
        self.network = model.network

    def on_epoch(self, record, epochs) -> None:
        self.weights.append({k: v.clone() for k, v in self.network.state_dict().items()})


@pytest.mark.parametrize(
    ("target", "metric", "scores", "patience", "best"),
    [
        ("y", "rmse", [0.5, 0.9, 0.4, 0.7], 4, 3),
        ("y", "rmse", [0.5, 0.9, 0.4, 0.7], None, 4),
        ("active", "roc_auc", [0.5, 0.9, 0.9, 0.9], 4, 2),
        ("active", "roc_auc", [float("nan"), 0.1, float("nan"), 0.05], 4, 2),
    ],
)
def test_the_best_model_is_kept_with_patience_and_else_the_last(
    configure, tmp_path, scripted, target, metric, scores, patience, best
):
    """Lower errors and higher ROC-AUC are better; a defined score is better than an undefined one;
    the first of equal scores is kept."""
    scripted(metric, scores)
    seen = _Snapshots()
    settings = {"data.split_seed": 2, "run.epochs": 4, "optim.ema": None}  # both classes in val
    settings["run.patience"] = patience
    config = configure({"data.targets": [target], **settings})
    result = train(config, tmp_path / "run", callback=seen)
    assert result.metrics["chosen_by"] == metric
    assert result.metrics["kept_epoch"] == best
    kept = PropertyModel.from_pretrained(tmp_path / "run").network.state_dict()
    for epoch, weights in enumerate(seen.weights, start=1):
        same = all(torch.equal(kept[name], weights[name]) for name in kept)
        assert same == (epoch == best)
    assert [row["kept"] for row in rows_of(tmp_path / "run" / "history.csv")][best - 1] == "1"


@pytest.mark.parametrize("batch_size", [8, 64])
def test_divergence_is_reported(configure, tmp_path, batch_size):
    """In the loss of a step or in the outputs of a validation."""
    settings = {"optim.clip_norm": None, "optim.warmup": 0, "optim.ema": None}
    config = configure({**settings, "run.batch_size": batch_size})
    optim = config.optim.model_copy(update={"lr": 1e30})  # above what a configuration may have
    config = config.model_copy(update={"optim": optim})
    with pytest.raises(MolsepnormError, match="diverged. Try a lower optim.lr"):
        train(config, tmp_path / "run")


@pytest.mark.parametrize("step", [2, 6])
def test_a_nan_loss_ends_the_run_at_its_step(configure, tmp_path, monkeypatch, step):
    """The message has the step and the settings to change; the best model so far is kept."""
    plain, calls = Loss.__call__, []

    def bad(*args):
        calls.append(1)
        loss, count = plain(*args)
        return (loss * float("nan"), count) if len(calls) == step else (loss, count)

    monkeypatch.setattr(Loss, "__call__", bad)
    with pytest.raises(MolsepnormError, match=r"diverged.*optim.lr \(now 0.001"):
        train(configure(), tmp_path / "run")
    if step == 6:
        assert PropertyModel.from_pretrained(tmp_path / "run").task.names == ("y",)


def test_batches_of_two_train_on_an_odd_number_of_molecules(configure, tmp_path, table):
    """No batch has a single molecule, on which a batch norm cannot be trained."""
    lines = table.read_text().splitlines()
    picked = [line for line in lines[1:] if line.split(",")[1]][:5]
    table.write_text("\n".join([lines[0], *picked]) + "\n")
    settings = {"data.split": [0.6, 0.2, 0.2], "run.epochs": 1, "run.batch_size": 2}
    assert train(configure(settings), tmp_path / "run").finished


def test_a_batch_without_labels_is_no_error(configure, tmp_path, table):
    lines = [line.split(",") for line in table.read_text().splitlines()]
    for number, cells in enumerate(lines[1:]):
        cells[1] = str(number) if number in (0, 1, 2, 3) else ""
        cells[2] = str(number % 2)
    table.write_text("\n".join(",".join(cells) for cells in lines) + "\n")
    settings = {"data.targets": ["y", "active"], "data.split_seed": 3, "run.batch_size": 2}
    assert train(configure({**settings, "run.epochs": 2}), tmp_path / "run").finished
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())
