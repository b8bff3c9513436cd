"""An objective of another package: registered, configured, trained, resumed and scored."""

from __future__ import annotations

import pytest
import torch
from pydantic import Field
from torch import nn

from molsepnorm.training import train
from molsepnorm.training.config import OBJECTIVE_SETTINGS, ObjectiveConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives import OBJECTIVES, Objective, register
from runs import outcome, require_exact_resume, rows_of


class CountConfig(ObjectiveConfig):
    """Settings of `AtomCount`."""

    name: str = "atom-count"
    scale: float = Field(10.0, gt=0)


class AtomCount(Objective):
    """Predict the number of atoms with a head of its own; there are no labels."""

    def __init__(self, model, examples, config) -> None:
        super().__init__(model, examples, config)
        self.head = nn.Linear(model.network.config.width, 1)

    def forward(self, batch, graphs):
        counts = self.examples.graphs.num_atoms[graphs] / self.config.objective.scale
        predicted = self.head(self.network.embed(batch))[:, 0]
        return (predicted - counts).abs().sum(), counts.new_tensor(len(graphs))


@pytest.fixture(autouse=True)
def registered():
    register("atom-count", AtomCount, CountConfig)
    yield
    del OBJECTIVES["atom-count"], OBJECTIVE_SETTINGS["atom-count"]


@pytest.fixture
def count_atoms(configure):
    """`count_atoms({...})`: a configuration with this objective."""
    return lambda settings: configure({"objective.name": "atom-count", **settings})


def test_it_learns(count_atoms, tmp_path):
    config = count_atoms({"run.epochs": 25, "optim.lr": 1e-2, "optim.ema": None})
    train(config, tmp_path / "run")
    losses = [float(row["val_loss"]) for row in rows_of(tmp_path / "run" / "history.csv")]
    assert min(losses) < 0.3 * losses[0]


def test_the_final_scores_are_those_of_the_kept_epoch_with_its_head(
    count_atoms, tmp_path, monkeypatch
):
    """From the third epoch on, the validation loss is made worse; the best epoch is kept."""
    losses = []
    plain = AtomCount.validate

    def validate(self, graphs, world):
        losses.append(plain(self, graphs, world)[0])
        return losses[-1] + 100 * (len(losses) > 2), {}

    monkeypatch.setattr(AtomCount, "validate", validate)
    settings = {"run.epochs": 4, "run.patience": 4, "optim.lr": 0.05, "optim.ema": None}
    result = train(count_atoms(settings), tmp_path / "run")
    best = result.metrics["kept_epoch"]
    assert best in (1, 2)
    *epochs, val, test = losses
    assert val == pytest.approx(epochs[best - 1], rel=1e-5)
    assert val != pytest.approx(epochs[-1], rel=1e-3)
    assert result.metrics["test"]["loss"] == 100 + test
    assert not (tmp_path / "run" / "predictions_test.csv").exists()


def test_a_stopped_run_resumes_exactly_with_its_head(count_atoms, tmp_path):
    config = count_atoms({})
    train(config, tmp_path / "whole")
    require_exact_resume(config, tmp_path / "whole", tmp_path / "parts", 4)
    state = outcome(tmp_path / "parts")["state"]
    assert {"objective/head.weight", "average/head.weight"} <= state.keys()


def test_validation_batches_are_divided_among_processes(count_atoms, tmp_path, monkeypatch):
    """The totals of two processes sum to those of one."""
    objectives = []
    plain = AtomCount.validate

    def validate(self, graphs, world):
        objectives.append((self, graphs))
        return plain(self, graphs, world)

    monkeypatch.setattr(AtomCount, "validate", validate)
    settings = {"run.epochs": 1, "data.split": [0.4, 0.5, 0.1], "run.batch_size": 4}
    train(count_atoms(settings), tmp_path / "run")
    objective, graphs = objectives[0]
    totals = []
    monkeypatch.setattr(DistributedContext, "sum", lambda self, each: totals.append(each.clone()))
    for world in (DistributedContext(), DistributedContext(0, 2), DistributedContext(1, 2)):
        plain(objective, graphs, world)
    torch.testing.assert_close(totals[1] + totals[2], totals[0])
    assert totals[1][1] > 0
    assert totals[2][1] > 0
