"""Checks, times and trains on a GPU; without one, on the CPU, to see that it would work.

run.py check                     outputs and gradients on the GPU against the CPU's
run.py time                      training steps and evaluation: graphs a second
run.py check time                both
run.py train FOLDER [options]    `molsepnorm train` with these options, into FOLDER
run.py store NAME FOLDER         put a data set's store where `time` and `train` find it
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from molsepnorm import datasets
from molsepnorm.batch import GraphTensors, epoch_batches
from molsepnorm.datasets import DataConfig, Dataset
from molsepnorm.datasets.dataset import cache_folder
from molsepnorm.encodings import EncodingSpec
from molsepnorm.inference import infer
from molsepnorm.model import encoding_of
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.training import load_config
from molsepnorm.training.config import OptimConfig
from molsepnorm.training.optim import make_optimizer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def check() -> None:
    """The same network on both devices, without dropout: outputs and gradients must agree."""
    dataset = _zinc()
    graphs = dataset.splits["train"][:64]
    labels = torch.from_numpy(dataset.store.labels[graphs])
    results = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        network = Graphormer(GraphormerConfig(dropout=0.0, attention_dropout=0.0)).to(device)
        outputs = network(GraphTensors.of(dataset.store, device).cut(graphs, 4))
        (outputs - labels.to(device)).abs().mean().backward()
        gradients = torch.cat(
            [p.grad.flatten() for p in network.parameters() if p.grad is not None]
        )
        results.append((outputs.detach().cpu(), gradients.cpu()))
    for name, one, other in zip(("outputs", "gradients"), *results, strict=True):
        error = float((one - other).norm() / one.norm())
        print(f"{name}: relative difference {error:.1e} between cpu and {DEVICE}")
        if not error < 1e-4:
            sys.exit(f"the {name} differ")


def measure() -> None:
    """SLIM with SepNorm at batch 256: training steps and evaluation."""
    dataset = _zinc()
    tensors = GraphTensors.of(dataset.store, DEVICE)
    labels = torch.from_numpy(dataset.store.labels[:]).to(DEVICE)
    network = Graphormer(GraphormerConfig()).to(DEVICE)
    optimizer = make_optimizer(network, OptimConfig())
    for blocks in (1, 4):
        rates = []
        graphs, rng = dataset.splits["train"], np.random.default_rng(0)
        for batch in epoch_batches(graphs, tensors.sizes, 256, rng, blocks)[:30]:
            _wait()
            begun = time.perf_counter()
            outputs = network(tensors.cut(batch, blocks))
            optimizer.zero_grad()
            (outputs - labels[torch.from_numpy(batch).to(DEVICE)]).abs().mean().backward()
            optimizer.step()
            _wait()
            rates.append(len(batch) / (time.perf_counter() - begun))
        rate = statistics.median(rates[5:])
        print(f"{DEVICE}: training step, {blocks} block(s): {rate:,.0f} graphs/s")
    infer(network, tensors, dataset.splits["train"])
    begun = time.perf_counter()
    infer(network, tensors, dataset.splits["train"])
    rate = len(dataset.splits["train"]) / (time.perf_counter() - begun)
    print(f"{DEVICE}: evaluation: {rate:,.0f} graphs/s")


def store(name: str, folder: str) -> None:
    """Load a data set from its raw files and copy its store to where it is found without them."""
    config = load_config(name)
    encodings = {EncodingSpec((3,)), encoding_of(config.model)}
    for encoding in encodings:
        before = set(cache_folder().glob("*.store"))
        path = Path(datasets.load(config.data, encoding).store.pairs.filename)
        tag = path.name.rsplit("-b", 1)[1]
        shutil.copy(path, Path(folder) / f"zinc-{name}-downloaded-b{tag}")
        print(f"{name}: {path.stat().st_size / 2**20:.0f} MiB", "" if path in before else "(made)")


def _zinc() -> Dataset:
    return datasets.load(DataConfig(dataset="zinc"), EncodingSpec((3,)))


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def main(arguments: list[str]) -> None:
    """Do what the arguments say."""
    if arguments[:1] == ["store"]:
        store(*arguments[1:])
    elif arguments[:1] == ["train"]:
        from molsepnorm.cli import main as command_line

        command_line(["train", "--output", *arguments[1:]])
    elif arguments and set(arguments) <= {"check", "time"}:
        name = torch.cuda.get_device_name() if DEVICE == "cuda" else "no GPU"
        print(f"torch {torch.__version__}, {name}")
        for argument in arguments:
            {"check": check, "time": measure}[argument]()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
