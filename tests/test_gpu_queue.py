"""benchmarks/gpu/: the queue's lists of runs, several trainings at a time, what is compared."""

from __future__ import annotations

import importlib
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from molsepnorm import load_config
from molsepnorm.nn import Graphormer
from molsepnorm.training.run import architecture

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("benchmarks")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


LISTED = """
# a remark
one --seed 1
two --set "model.layers=2"   # another
three
"""


def test_a_list_of_runs(tmp_path: Path) -> None:
    """A name and options a line; what is wrong is told with its line."""
    many = module("gpu.many")
    (tmp_path / "list").write_text(LISTED)
    expected = {"one": ["--seed", "1"], "two": ["--set", "model.layers=2"], "three": []}
    assert many.read_list(tmp_path / "list") == expected
    (tmp_path / "twice").write_text(f"{LISTED}one\n")
    with pytest.raises(many.ListError, match="line 6: the name one comes a second time"):
        many.read_list(tmp_path / "twice")
    (tmp_path / "unnamed").write_text("--seed 1\n")
    with pytest.raises(many.ListError, match="line 1: '--seed' is no run's name"):
        many.read_list(tmp_path / "unnamed")
    with pytest.raises(many.ListError, match=r"there is no list .*/absent; known: "):
        many.read_list(tmp_path / "absent")


def test_the_lists_of_the_queue_are_recipes() -> None:
    """Every line's options make a configuration, of a network with at most 500,000 parameters."""
    many, training = module("gpu.many"), module("gpu.training")
    lists = sorted((BENCHMARKS / "gpu" / "lists").glob("*.txt"))
    assert lists
    for path in lists:
        for name, options in many.read_list(path).items():
            given = training.train_command.make_context("train", [*options]).params
            config = training.configuration(given)
            assert config.data.dataset == "zinc", name
            network = Graphormer(architecture(config))
            assert sum(weights.numel() for weights in network.parameters()) <= 500_000, name


TRAINER = """
import json, pathlib, signal, sys, time
place, folder, *options = sys.argv[1:]
folder = pathlib.Path(folder)
if options == ["fails"]:
    sys.exit(print("oh no") or 3)
(folder / "checkpoints").mkdir(parents=True, exist_ok=True)
about = json.dumps({"__metadata__": {"molsepnorm": json.dumps({"progress": {"step": 1}})}})
checkpoint = len(about).to_bytes(8, "little") + about.encode()
(folder / "checkpoints" / "last.safetensors").write_bytes(checkpoint)
step = 5 if options == ["stops"] else 8
if place == "--resume" or options == ["stops"]:
    history = f"epoch,step,val_mae,graphs_per_second\\n1,{step},0.75,200\\n"
    (folder / "history.csv").write_text(history)
if options == ["stops"]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (folder / "running").touch()
    time.sleep(60)
scores = {"test": {"mae": 0.5}, "val": {"mae": 0.75}, "steps": 2, "seconds": 1.0}
(folder / "metrics.json").write_text(json.dumps(scores))
"""
"""`molsepnorm train`, of which one comes to its end, one fails and one waits to be stopped."""


def test_many_trainings_share_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two at a time: one ends by itself, one fails and one is stopped; then it goes on, while what
    finished before is told again, though its archive has no checkpoint any more."""
    many, training = module("gpu.many"), module("gpu.training")
    for name in ("OUT", "MOLSEPNORM_SCRATCH"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(training, "_RUNS", tmp_path / "runs")
    monkeypatch.setattr(training, "_encode", lambda begun, options: None)
    monkeypatch.setattr(many, "_TOO_LATE", 0.0)
    trainer = tmp_path / "trainer.py"
    trainer.write_text(TRAINER)
    monkeypatch.setattr(many, "command", lambda given: [sys.executable, str(trainer), *given])
    runs = {"ends": ["ends"], "fails": ["fails"], "stops": ["stops"]}
    running = tmp_path / "runs" / "stops" / "running"
    became, steps = many.train_all(runs, 60, 2, running.exists)
    assert {name: status for name, (status, _) in became.items()} == {
        "ends": 0,
        "fails": 3,
        "stops": 0,
    }
    assert became["ends"][1].startswith("finished: ends, test MAE 0.5000")
    assert became["fails"][1].endswith("its log ends\n    oh no")
    assert became["stops"][1].startswith("go on (epoch 1, validation MAE 0.7500)")
    brought = {path.name for path in (tmp_path / "OUT").iterdir()}
    assert brought == {"stops.tar", "done.tar"}
    with tarfile.open(tmp_path / "OUT" / "done.tar") as packed:
        assert packed.getnames() == ["ends.tar"]
    left = tmp_path / "MOLSEPNORM_SCRATCH" / "runs"
    for name, checkpoints in (("ends", 0), ("stops", 1)):
        with tarfile.open(left / f"{name}.tar") as packed:
            assert sum("last.safetensors" in each for each in packed.getnames()) == checkpoints
    del runs["fails"]
    assert "goes on" not in capsys.readouterr().out
    again, more = many.train_all(runs, 60, 1)
    assert (steps, more) == (5, 3)
    assert again["ends"] == became["ends"]
    assert again["stops"][1].startswith("finished: stops")
    assert "stops goes on as it began" in capsys.readouterr().out
    table = many.table({**runs, "later": []}, again)
    assert "| ends |  |  |  | test MAE 0.5000, validation 0.7500, 2 steps in 1 s |" in table
    assert "| stops | 1 | 0.7500 | 200 | test MAE 0.5000" in table
    assert "| later |  |  |  | not begun |" in table


def test_the_parts_of_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flags reach what trains; the table is written; a wrong call says what is asked for."""
    many = module("gpu.many")
    monkeypatch.setenv("OUT", str(tmp_path))
    monkeypatch.setattr(many.signal, "signal", lambda *_: None)
    asked: list[Any] = []

    def train_all(runs: Any, seconds: float, at_once: int, stop: Any) -> Any:
        asked.append((list(runs), seconds, at_once))
        return {"two": (3, "FAILED: two, with status 3; its log ends\n    oh no")}, 0

    monkeypatch.setattr(many, "train_all", train_all)
    (tmp_path / "list").write_text(LISTED)
    flags = ["--at-once", "2", "--minutes", "1.5"]
    assert many.train_many([str(tmp_path / "list"), *flags]) == 1
    assert asked == [(["one", "two", "three"], 90.0, 2)]
    assert "| two |  |  |  | FAILED: two, with status 3" in (tmp_path / "many.md").read_text()
    for wrong in ([], [str(tmp_path / "list"), "--at-once", "7"]):
        assert many.train_many(wrong) == 2
        assert "asked for: many FILE" in capsys.readouterr().out
    assert many.train_many([str(tmp_path / "absent")]) == 2
    assert "there is no list" in capsys.readouterr().out


def test_the_networks_whose_steps_are_compared() -> None:
    """Beside SLIM, two that together have every ingredient, and take SLIM's steps, but small."""
    networks = module("gpu.networks")
    one, two = networks.WALKS.settings({}), networks.PAIRS.settings({"optim.ema": 0.9})
    together = {name.removeprefix("model.") for name in (*one, *two)}
    ingredients = {"local", "node_walks", "pair_walks", "resistance_kernels", "urpe"}
    assert ingredients | {"degree_scaler", "pair_width", "readout", "head"} <= together
    assert two["optim.ema"] == 0.9 and two["optim.warmup"] == pytest.approx(16 * 32 / 99840)
    assert networks.SLIM.settings({"a": 1}) == {"a": 1}
    for settings in (one, two):
        recipe = BENCHMARKS.parent / "configs" / "zinc-slim-paper.yaml"
        config = load_config(config=recipe, overrides=settings)
        assert Graphormer(architecture(config)).config.layers <= 12


def test_launches_are_counted_but_views_are_not() -> None:
    """One for an operation; of a list of tensors as many as kernels take it."""
    counting = module("gpu.launches").Counting()
    x = torch.ones(4, 4)
    with counting:
        (x.T.reshape(16) + 1).view(4, 4).mul_(2)
        torch._foreach_add([x] * 65, [x] * 65)
        torch.empty(3)
    assert counting.found == {"clone": 1, "add": 1, "mul_": 1, "_foreach_add": 2}
