"""`torchrun -m molsepnorm train`: two processes train like one, stop together, and resume."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

import molsepnorm
from molsepnorm.training import TrainConfig, load_config, train
from runs import rows_of

SETTINGS = {
    "data.targets": ["y"],
    "data.featurizer": "zinc",
    "model.layers": 2,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
    "model.dropout": 0.0,
    "model.attention_dropout": 0.0,
    "model.max_path_length": 3,
    "model.init": "xavier",
    "optim.ema": 0.9,
    "run.epochs": 4,
    "run.blend": "none",
    "run.batch_size": 12,
    "run.device": "cpu",
}
STEP = 5
"""In the second epoch."""

OURS = f'File "{Path(molsepnorm.__file__).parent}'
"""In a traceback; torchrun prints one of its own."""

SIGNAL_AT_STEP = """
import os, signal, time
from molsepnorm.cli import main
from molsepnorm.training.callback import Callbacks

plain = Callbacks.on_step

def on_step(self, epoch, done, of, *rest):
    if epoch * of + done == STEP and os.environ["RANK"] == "0":
        os.kill(os.getppid(), signal.SIGTERM)  # torchrun, as a cluster does
        while not plain(self, epoch, done, of, *rest):
            time.sleep(0.01)
    return plain(self, epoch, done, of, *rest)

Callbacks.on_step = on_step
main()
"""

MANY_TRAININGS = """
import faulthandler, os, sys, torch
from torch import distributed, nn
from molsepnorm.training.distributed import DistributedContext

faulthandler.dump_traceback_later(60, exit=True)
init = distributed.init_process_group

def joined(number):  # by a file, since torchrun's store serves one group
    ranks = {"rank": int(os.environ["RANK"]), "world_size": 2}
    file = f"file://{sys.argv[1]}/{number}"
    distributed.init_process_group = lambda *args, **kwargs: init(
        *args, **kwargs, init_method=file, **ranks
    )
    return DistributedContext.join("cpu")

def train(number):
    with joined(number) as world:
        network = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
        network(torch.randn(8, 64)).sum().backward()
        world.on_main_process(lambda: "done")
        return network

for number in range(40):
    network = train(number)
    del network  # the last that refers to the group
print("finished")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.csv, and config.yaml for it."""
    folder = tmp_path_factory.mktemp("torchrun")
    ends = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}
    rows = [f"{'C' * n}{end},{n / 2 + y}" for n in range(1, 8) for end, y in ends.items()]
    (folder / "data.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    (folder / "stop.py").write_text(SIGNAL_AT_STEP.replace("STEP", str(STEP)))
    return folder


@pytest.fixture(scope="module")
def config(place: Path) -> TrainConfig:
    config = load_config(place / "data.csv", overrides=SETTINGS)
    config.save(place / "config.yaml")
    return config


def torchrun(*args: Any) -> subprocess.CompletedProcess[str]:
    """Run a command with two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", port]
    path = str(Path(molsepnorm.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *map(str, options), *map(str, args)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def state_of(folder: Path) -> dict[str, bytes]:
    """Return all tensors of the checkpoint as bytes."""
    with safe_open(folder / "checkpoints" / "last.safetensors", "np") as file:
        names = set(file.keys())
        return {name: file.get_tensor(name).tobytes() for name in names}


@pytest.fixture(scope="module")
def two(place: Path, config: TrainConfig) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of a run with two processes, and their output."""
    run = place / "two"
    done = torchrun("-m", "molsepnorm", "train", "--config", place / "config.yaml", "-o", run)
    assert done.returncode == 0, done.stdout + done.stderr
    return run, done


@pytest.mark.claim(
    "Two processes train as one does, with batch norms and optional parts; a run of two "
    "processes that was stopped resumes bit for bit."
)
def test_two_processes_train_as_one(two, place: Path, config: TrainConfig) -> None:
    """All values of the history and the final scores are equal up to rounding."""
    result = train(config, place / "one")
    of_one, of_two = (rows_of(folder / "history.csv") for folder in (place / "one", two[0]))
    assert len(of_one) == len(of_two) == 4
    for one, other in zip(of_one, of_two, strict=True):
        assert list(one) == list(other)
        for name in set(one) - {"seconds", "graphs_per_second", "threads"}:
            if name == "kept":
                assert other[name] == one[name]
            else:
                assert float(other[name]) == pytest.approx(float(one[name]), rel=1e-4, abs=1e-5)
    metrics = json.loads((two[0] / "metrics.json").read_text())
    assert metrics["steps"] == result.metrics["steps"]
    assert metrics["test"] == pytest.approx(result.metrics["test"], rel=1e-4, abs=1e-5)


def test_only_one_process_prints_and_writes(two, place: Path) -> None:
    run, done = two
    for part in ("Data: ", "Scores", "Epochs: ", "epoch 4/4"):
        assert done.stdout.count(part) == 1
    assert {path.name for path in run.iterdir()} >= {"model", "metrics.json", "history.csv"}
    assert "random/cpu.1" in state_of(run)


def test_a_signal_to_torchrun_stops_all_processes_and_the_run_resumes(two, place: Path) -> None:
    """The result is equal to the last bit."""
    run = place / "stopped"
    done = torchrun(place / "stop.py", "train", "--config", place / "config.yaml", "-o", run)
    assert done.returncode != 0
    assert done.stderr.count("Stopping after this step, or after the final scores …") == 1
    assert done.stderr.count(f"Continue: molsepnorm train --resume {run}") == 1
    assert OURS not in done.stderr
    assert not (run / "metrics.json").exists()
    done = torchrun("-m", "molsepnorm", "train", "--resume", run)
    assert done.returncode == 0, done.stderr
    assert state_of(run) == state_of(two[0])
    one, other = (folder / "model" / "model.safetensors" for folder in (run, two[0]))
    assert one.read_bytes() == other.read_bytes()


def test_processes_never_hang_when_a_training_ends(tmp_path: Path) -> None:
    """Freeing a network must not wait for a thread that waits for Python's lock."""
    (tmp_path / "many.py").write_text(MANY_TRAININGS)
    done = torchrun(tmp_path / "many.py", tmp_path)
    assert done.stdout.count("finished") == 2, done.stderr
