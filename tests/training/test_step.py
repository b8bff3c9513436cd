"""Training steps: compiled ones, precision, validation every few epochs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from molsepnorm.data import datasets
from molsepnorm.model import ExtraArrays, PropertyModel, encoding_of
from molsepnorm.nn import Graphormer
from molsepnorm.tasks import NO_INPUTS, Task
from molsepnorm.training import Callback, TrainConfig, train
from molsepnorm.training.loop import Trainer
from molsepnorm.training.preparing import Prepared
from molsepnorm.training.recipes import architecture
from molsepnorm.training.run_folder.folder import RunFolder
from runs import require_exact_resume
from support import Recorder

EXACT = {"model.dropout": 0.0, "model.attention_dropout": 0.0, "run.max_groups": 2}


@pytest.fixture
def trainer(configure: Callable[..., TrainConfig], tmp_path: Path) -> Callable[..., Trainer]:
    """`trainer({"run.compile": True})`: a trainer before its first step."""

    def make(settings: dict[str, Any], callback: Callback | None = None) -> Trainer:
        config = configure({"optim.warmup": 0.3, **settings})
        dataset = datasets.load(config.data, encoding_of(architecture(config)))
        labels = dataset.labels[dataset.splits["train"]]
        torch.manual_seed(0)
        task = Task.fit(dataset.targets, labels)
        network = Graphormer(replace(architecture(config), outputs=task.outputs))
        model = PropertyModel.of(network, "zinc", task)
        folder = RunFolder(tmp_path / "run")
        extra = ExtraArrays.none(len(dataset.store))
        prepared = Prepared(dataset, model, None, (), NO_INPUTS, extra)
        return Trainer(config, prepared, folder, callback or Callback())

    return make


def losses(trainer: Trainer) -> list[float]:
    """The mean losses of two steps on the first batch; the second depends on the gradients."""
    found = []
    for _ in range(2):
        trainer.step.totals.zero_()
        next(trainer.steps(trainer.schedule.batches(0)[:1]))
        loss, count = trainer.step.totals.tolist()
        found.append(loss / count)
    return found


def test_a_compiled_network_gives_the_same_losses(trainer, monkeypatch):
    """It is traced and differentiated by the compiler; the kernels are those of torch, to save
    time."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda network: plain(network, backend="aot_eager"))
    compiled = losses(trainer({**EXACT, "run.compile": True}))
    assert compiled == pytest.approx(losses(trainer(EXACT)), rel=1e-4)
    assert compiled[0] != compiled[1]
    torch._dynamo.reset()


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_precision_affects_only_the_run(configure, trained, tmp_path, precision):
    """The result is close to fp32, and torch's setting is restored."""
    before = torch.get_float32_matmul_precision()
    settings = {**EXACT, "run.epochs": 2}
    exact = trained(settings).metrics["val"]["mae"]
    mine = train(configure({**settings, "run.precision": precision}), tmp_path / "mine")
    assert mine.metrics["val"]["mae"] == pytest.approx(exact, rel=0.05)
    assert (mine.metrics["val"]["mae"] == exact) == (precision != "bf16")
    assert torch.get_float32_matmul_precision() == before


def test_validation_every_few_epochs(configure, tmp_path):
    """And after the last epoch. The records cover all steps in between, and resuming is exact."""
    settings = {"run.epochs": 7, "run.validate_every": 3}
    notes = Recorder()
    train(configure(settings), tmp_path / "whole", callback=notes)
    assert [record.epoch for record in notes.records] == [3, 6, 7]
    assert [record.step for record in notes.records] == [9, 18, 21]
    require_exact_resume(configure(settings), tmp_path / "whole", tmp_path / "parts", 11)


def test_losses_of_epochs_without_validation_are_in_the_next_record(configure, tmp_path):
    """As the mean over labels; training itself does not change."""
    records = {}
    for every in (1, 3):
        notes = Recorder()
        config = configure({"run.epochs": 3, "run.validate_every": every})
        train(config, tmp_path / f"{every}", callback=notes)
        records[every] = notes.records
    (one,) = records[3]
    assert one.train_loss == pytest.approx(np.mean([r.train_loss for r in records[1]]), rel=1e-12)
    assert one.val_loss == records[1][-1].val_loss
    assert math.isfinite(one.graphs_per_second)
