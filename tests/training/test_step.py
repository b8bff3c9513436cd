"""Captured and compiled steps equal eager steps.

There are no CUDA graphs on a CPU; `tape.record` takes their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import Recorder
from tape import record

from molsepnorm.data import datasets
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.nn import Graphormer
from molsepnorm.nn.kernels import attention
from molsepnorm.tasks import Task
from molsepnorm.training import Callback, TrainConfig, load_config, train
from molsepnorm.training.architecture import architecture
from molsepnorm.training.loop import Trainer
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.steps import step

EXACT = {"model.dropout": 0.0, "model.attention_dropout": 0.0, "run.max_groups": 2}
RICH = {
    "model.layers": 2,
    "model.local": "gine",
    "model.node_norm": "batch",
    "model.node_walks": 4,
    "model.pair_walks": 3,
    "model.resistance_kernels": 3,
    "model.urpe": True,
    "model.readout": "token+sum",
}
"""All that can be added to a network."""


@pytest.fixture
def graphs_on_cpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replace CUDA graphs by the tape, and attention by a GPU's version, since the CPU's version
    reads a value. Returns a list with one entry per recording."""

    def plain(q, k, bias):
        logits = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
        return logits.softmax(-1), logits.new_ones(len(q), q.shape[1], 1)

    count: list[int] = []

    def counted(work, state):
        count.append(1)
        return record(work, state)

    monkeypatch.setattr(step, "can_capture", lambda device: True)
    monkeypatch.setattr(step, "record", counted)
    monkeypatch.setattr(attention, "_exponentials", plain)
    return count


@pytest.fixture
def trainer(configure: Callable[..., TrainConfig], tmp_path: Path) -> Callable[..., Trainer]:
    """`trainer({"run.step": "captured"})`: a trainer before its first step."""

    def make(settings: dict[str, Any], callback: Callback | None = None) -> Trainer:
        config = configure({"optim.warmup": 0.3, **settings})
        dataset = datasets.load(config.data, encoding_of(architecture(config)))
        labels = dataset.labels[dataset.splits["train"]]
        torch.manual_seed(0)
        task = Task.fit(dataset.targets, dataset.kinds, labels)
        network = Graphormer(replace(architecture(config), outputs=task.outputs))
        model = PropertyModel(network, "zinc", task)
        folder = RunFolder(tmp_path / "run")
        return Trainer(config, dataset, model, folder, callback or Callback())

    return make


def losses(trainer: Trainer, epochs: int = 3) -> list[float]:
    """Return the mean loss of every step."""
    found = []
    for epoch in range(epochs):
        for batch in trainer.schedule.batches(epoch):
            trainer.step.totals.zero_()
            trainer.take_steps([batch])
            loss, count = trainer.step.totals.tolist()
            found.append(loss / count)
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model.graph_norm": "layer", "optim.ema": None},
        {"model.node_norm": "batch"},
        {"model.norm": "shared", "optim.clip_norm": None},
        {"data.targets": ["y", "active"]},
        {"run.precision": "bf16"},
        RICH,
        {"model.graph_norm": "rms", "model.node_norm": "none", "model.norm_order": "post"},
    ],
    ids=[
        *("plain", "layer norms", "batch norms", "shared", "two targets", "bf16"),
        *("ingredients", "other norms"),
    ],
)
def test_recorded_steps_are_the_same_steps(trainer, graphs_on_cpu, settings):
    """Learning rate, EMA weight and molecules of each step are used, not those during recording;
    and recording does not train."""
    close = {"rel": 2e-2} if "run.precision" in settings else {"rel": 1e-4}
    eager = losses(trainer({**EXACT, **settings, "run.step": "eager"}))
    assert not graphs_on_cpu
    mine = trainer({**EXACT, **settings, "run.step": "captured"})
    assert losses(mine) == pytest.approx(eager, **close)
    assert len(graphs_on_cpu) == len(mine.step._recorded) <= 2
    still = losses(trainer({**EXACT, **settings, "run.step": "eager", "optim.lr": 1e-9}))
    assert still != pytest.approx(eager, **close)


def test_the_average_follows_in_recorded_steps(trainer, graphs_on_cpu):
    both = [trainer({**EXACT, "run.step": name}) for name in ("eager", "captured")]
    for each in both:
        losses(each)
        assert not torch.equal(each.average.module.network.head.weight, each.network.head.weight)
    weights = [each.average.module.network.embedding.atoms for each in both]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)


def test_every_replay_draws_its_own_dropout(trainer, graphs_on_cpu):
    """At a rate near 0 the same molecules have another loss each time."""
    mine = trainer({"run.step": "captured", "model.dropout": 0.3, "optim.lr": 1e-30})
    batch = mine.schedule.batches(0)[0]
    found = set()
    for _ in range(5):
        mine.step.totals.zero_()
        mine.take_steps([batch])
        found.add(mine.step.totals[0].item())
    assert len(found) == 5
    assert graphs_on_cpu


def test_a_captured_run_resumes_exactly(configure, tmp_path, outcome, stop_at, request):
    """With dropout: the checkpoint has the random state."""
    request.getfixturevalue("graphs_on_cpu")
    config = configure({"run.step": "captured", "run.epochs": 4})
    train(config, tmp_path / "whole")
    assert not train(config, tmp_path / "parts", callback=stop_at(4)).finished
    assert train(folder=tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_a_batch_that_fits_no_layout_is_taken_eagerly(trainer, graphs_on_cpu, monkeypatch):
    eager = losses(trainer({**EXACT, "run.step": "eager"}))
    graphs_on_cpu.clear()
    mine = trainer({**EXACT, "run.step": "captured"})
    fits = iter([True, False] * 100)
    plain = step.assign_rows
    monkeypatch.setattr(step, "assign_rows", lambda *a: plain(*a) if next(fits) else None)
    assert losses(mine) == pytest.approx(eager, rel=1e-4)
    assert graphs_on_cpu


def test_only_a_few_batch_sizes_are_recorded(trainer, graphs_on_cpu):
    mine = trainer({**EXACT, "run.step": "captured"})
    train_graphs = mine.dataset.splits["train"]
    batches = [train_graphs[:size] for size in range(2, 10)]
    mine.take_steps(batches)
    assert 1 <= len(graphs_on_cpu) <= step._MAX_LAYOUTS
    assert mine.progress.step == len(batches)


def test_steps_that_cannot_be_recorded_are_taken_eagerly(trainer, graphs_on_cpu, monkeypatch):
    """A step that reads a value on the host causes a warning."""
    eager = losses(trainer({**EXACT, "run.step": "eager"}))
    notes = Recorder()
    mine = trainer({**EXACT, "run.step": "captured"}, notes)
    plain = mine.objective.loss

    def reads(*args):
        loss_sum, count = plain(*args)
        float(loss_sum.detach())
        return loss_sum, count

    monkeypatch.setattr(mine.objective, "loss", reads)
    assert losses(mine) == pytest.approx(eager, rel=1e-4)
    (remark,) = notes.warnings
    assert remark.startswith("Steps are taken eagerly, since they cannot be captured: operation")


@pytest.mark.parametrize("name", ["auto", "eager", "captured"])
def test_steps_on_a_cpu_are_eager(configure, tmp_path, name):
    """A warning says so if captured steps were configured."""
    notes = Recorder()
    result = train(
        configure({"run.step": name, "run.device": "cpu"}), tmp_path / "r", callback=notes
    )
    assert result.finished
    wanted = ["There are no CUDA graphs on cpu: steps are taken eagerly"]
    assert notes.warnings == (wanted if name == "captured" else [])


def test_a_failing_compiler_causes_a_warning_and_eager_steps(trainer, monkeypatch):
    eager = losses(trainer({**EXACT, "run.step": "eager"}))

    def compile(network, **options):
        def fail(batch, graphs):
            raise RuntimeError("no compiler here\nand much more")

        return fail

    monkeypatch.setattr(torch, "compile", compile)
    notes = Recorder()
    mine = trainer({**EXACT, "run.step": "compiled"}, notes)
    assert losses(mine) == pytest.approx(eager, rel=1e-4)
    assert notes.warnings == ["The network is not compiled: RuntimeError: no compiler here"]


def test_a_compiled_network_gives_the_same_losses(trainer, monkeypatch):
    """It is traced and differentiated by the compiler; the kernels are those of torch, to save
    time."""
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda network, **o: plain(network, backend="aot_eager"))
    eager = losses(trainer({**EXACT, "run.step": "eager"}), epochs=1)
    notes = Recorder()
    mine = trainer({**EXACT, "run.step": "compiled"}, notes)
    assert losses(mine, epochs=1) == pytest.approx(eager, rel=1e-4)
    assert notes.warnings == []
    torch._dynamo.reset()


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_precision_affects_only_the_run(configure, tmp_path, precision):
    """The result is close to fp32, and torch's setting is restored."""
    before = torch.get_float32_matmul_precision()
    settings = {**EXACT, "run.epochs": 2}
    exact = train(configure(settings), tmp_path / "exact").metrics["val"]["mae"]
    mine = train(configure({**settings, "run.precision": precision}), tmp_path / "mine")
    assert mine.metrics["val"]["mae"] == pytest.approx(exact, rel=0.05)
    assert (mine.metrics["val"]["mae"] == exact) == (precision != "bf16")
    assert torch.get_float32_matmul_precision() == before


def test_an_unknown_step_mode_or_precision_is_refused(table):
    for name, value in {"run.step": "graph", "run.precision": "fp16"}.items():
        with pytest.raises(ConfigError, match=f"{name}: Input should be .*got '{value}'"):
            load_config(table, overrides={name: value})


@pytest.mark.parametrize("every", [1, 2, 3, 10])
def test_validation_every_few_epochs(configure, tmp_path, stop_at, outcome, every):
    """And after the last epoch. The records cover all steps in between, and resuming is exact."""
    settings = {"run.epochs": 7, "run.validate_every": every}
    notes = Recorder()
    train(configure(settings), tmp_path / "whole", callback=notes)
    wanted = sorted({*range(every, 8, every), 7})
    assert [record.epoch for record in notes.records] == wanted
    assert [record.step for record in notes.records] == [3 * epoch for epoch in wanted]
    assert not train(configure(settings), tmp_path / "parts", callback=stop_at(11)).finished
    assert train(folder=tmp_path / "parts", resume=True).finished
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_losses_of_epochs_without_validation_are_in_the_next_record(configure, tmp_path):
    """As the mean over labels; training itself does not change."""
    records = {}
    for every in (1, 3):
        notes = Recorder()
        train(
            configure({"run.epochs": 3, "run.validate_every": every}),
            tmp_path / f"{every}",
            callback=notes,
        )
        records[every] = notes.records
    (one,) = records[3]
    assert one.train_loss == pytest.approx(np.mean([r.train_loss for r in records[1]]), rel=1e-12)
    assert one.val_loss == records[1][-1].val_loss
    assert math.isfinite(one.graphs_per_second)
