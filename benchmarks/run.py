"""Measures the stages from a molecule to a prediction and prints them as a Markdown table.

    make bench                               every stage, some ten minutes
    python benchmarks/run.py encode step     some of them

Each stage runs in a process of its own, several times, one stage after the other and then again,
so that a machine whose speed drifts does so for all; the median is given with the least and the
greatest. Needs MOLSEPNORM_DATA for the stages on ZINC.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from where import commit, machine

if TYPE_CHECKING:
    from molsepnorm.datasets import Dataset


class Stage(NamedTuple):
    """One row of the table."""

    what: str
    unit: str
    measure: Callable[[], float]
    runs: int


def encode_rate() -> float:
    """MolGraph to store on one core, ZINC's 10,000 training molecules: molecules a second."""
    import torch
    from torch_geometric.datasets import ZINC

    from molsepnorm.datasets.dataset import LabelledGraph, cached_store
    from molsepnorm.encodings import EncodingSpec
    from molsepnorm.featurize.pyg import from_data

    os.sched_setaffinity(0, {0})
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ZINC"
        root.mkdir()
        (root / "raw").symlink_to(_data() / "ZINC" / "raw")
        graphs = [
            LabelledGraph(row, from_data(data, bond_offset=1), data.y.tolist())
            for row, data in enumerate(ZINC(str(root), subset=True, split="train"))
        ]
        os.environ["MOLSEPNORM_CACHE"] = folder
        begun = time.perf_counter()
        cached_store("bench", "zinc", EncodingSpec((3,)), ("y",), graphs, {})
        return len(graphs) / (time.perf_counter() - begun)


def prepare_full() -> float:
    """All of ZINC from its csv.gz files to a store, two cores free: seconds."""
    begun = time.perf_counter()
    _load("zinc-full")
    return time.perf_counter() - begun


def prepare_full_memory() -> float:
    """The same: peak memory of the process, GiB."""
    prepare_full()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def second_start() -> float:
    """From `import molsepnorm` to full ZINC ready for training, its store being there: seconds."""
    cache = str(Path(tempfile.gettempdir()) / "molsepnorm-bench-cache")
    code = (
        "import molsepnorm\n"
        "from molsepnorm import datasets, training, model\n"
        "from molsepnorm.batch import GraphTensors\n"
        "config = molsepnorm.load_config('zinc-full')\n"
        "spec = model.encoding_of(training.run.architecture(config))\n"
        "GraphTensors.of(datasets.load(config.data, spec).store).cut([0, 1, 2])\n"
    )
    environment = {**os.environ, "MOLSEPNORM_CACHE": cache}
    if not list(Path(cache).glob("*.store")):
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return _seconds([sys.executable, "-c", code], environment)


def step_rate() -> float:
    """Training steps of SLIM with SepNorm, batch 256, dropout 0.1: graphs a second."""
    return _step_rate(norm="sep", dropout=0.1, attention_dropout=0.1)


def step_rate_shared() -> float:
    """The same with one layer norm for all tokens."""
    return _step_rate(norm="shared", dropout=0.1, attention_dropout=0.1)


def step_rate_plain() -> float:
    """The same with SepNorm and no dropout."""
    return _step_rate(norm="sep", dropout=0.0, attention_dropout=0.0)


def evaluate_rate() -> float:
    """Evaluation of SLIM with SepNorm on 10,000 ZINC molecules: graphs a second."""
    from molsepnorm.batch import GraphTensors
    from molsepnorm.inference import infer
    from molsepnorm.nn import Graphormer, GraphormerConfig

    dataset = _load("zinc")
    network, tensors = Graphormer(GraphormerConfig()), GraphTensors.of(dataset.store)
    graphs = dataset.splits["train"]
    infer(network, tensors, graphs[:512])
    begun = time.perf_counter()
    infer(network, tensors, graphs)
    return len(graphs) / (time.perf_counter() - begun)


def predict_rate() -> float:
    """SMILES to predictions, SLIM, ZINC's 5,000 test molecules: molecules a second."""
    import pandas as pd

    from molsepnorm.model import PropertyModel
    from molsepnorm.nn import Graphormer, GraphormerConfig
    from molsepnorm.predict import Predictor
    from molsepnorm.tasks import Target, Task

    smiles = pd.read_csv(_data() / "zinc" / "test.csv.gz")["smiles"].tolist()
    task = Task((Target("y", "regression"),), "mae")
    predictor = Predictor(PropertyModel(Graphormer(GraphormerConfig()), "zinc", task))
    predictor.predict(smiles[:64])
    begun = time.perf_counter()
    predictor.predict(smiles)
    return len(smiles) / (time.perf_counter() - begun)


def help_seconds() -> float:
    """`molsepnorm --help`: seconds."""
    return _seconds([str(Path(sys.executable).with_name("molsepnorm")), "--help"], dict(os.environ))


def features_rate() -> float:
    """SMILES of molhiv to OGB's features on one core, by this package: molecules a second."""
    from molsepnorm import featurize

    return _features_rate(featurize.get("ogb"))


def features_rate_of_ogb() -> float:
    """The same by `ogb.utils.smiles2graph`."""
    os.environ["OUTDATED_IGNORE"] = "1"
    from ogb.utils import smiles2graph

    return _features_rate(smiles2graph)


STAGES = {
    "features": Stage("SMILES to OGB's features, one core", "molecules/s", features_rate, 5),
    "features-ogb": Stage("the same, ogb's smiles2graph", "molecules/s", features_rate_of_ogb, 5),
    "encode": Stage("MolGraph to store, one core", "molecules/s", encode_rate, 3),
    "prepare": Stage("full ZINC from csv.gz to store", "s", prepare_full, 1),
    "memory": Stage("the same, peak memory", "GiB", prepare_full_memory, 1),
    "start": Stage("second start on full ZINC", "s", second_start, 5),
    "step": Stage("training SLIM, SepNorm, batch 256", "graphs/s", step_rate, 5),
    "step-shared": Stage("the same, shared layer norm", "graphs/s", step_rate_shared, 5),
    "step-plain": Stage("the same, SepNorm, no dropout", "graphs/s", step_rate_plain, 5),
    "evaluate": Stage("evaluation, SLIM", "graphs/s", evaluate_rate, 5),
    "predict": Stage("SMILES to prediction, SLIM", "molecules/s", predict_rate, 3),
    "help": Stage("molsepnorm --help", "s", help_seconds, 7),
}


def main(names: list[str]) -> None:
    """Measure the named stages, or all, and print the table."""
    results: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(max(STAGES[name].runs for name in names)):
        for name in names:
            if turn < STAGES[name].runs:
                results[name].append(_in_own_process(name))
    print(f"\ncommit {commit()}; {machine()}\n")
    print("| stage | median | least to greatest | unit | runs |\n|---|---|---|---|---|")
    for name, values in results.items():
        stage = STAGES[name]
        spread = f"{_figure(min(values))} to {_figure(max(values))}"
        median = _figure(statistics.median(values))
        print(f"| {stage.what} | {median} | {spread} | {stage.unit} | {len(values)} |")


def _in_own_process(name: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        shared = Path(tempfile.gettempdir()) / "molsepnorm-bench-zinc"
        fresh = name in ("prepare", "memory")
        environment = {**os.environ, "MOLSEPNORM_CACHE": cache if fresh else str(shared)}
        command = [sys.executable, __file__, "--one", name]
        done = subprocess.run(command, check=True, env=environment, capture_output=True)
    value = float(json.loads(done.stdout))
    print(f"{STAGES[name].what}: {_figure(value)} {STAGES[name].unit}", file=sys.stderr)
    return value


def _features_rate(make: Callable[[str], object]) -> float:
    import gzip

    import pandas as pd
    from rdkit import Chem, rdBase

    with gzip.open(_data() / "ogbg_molhiv" / "mapping" / "mol.csv.gz") as file:
        smiles = pd.read_csv(file)["smiles"].tolist()[::10]
    with rdBase.BlockLogs():
        smiles = [text for text in smiles if Chem.MolFromSmiles(text) is not None]
        begun = time.perf_counter()
        for text in smiles:
            make(text)
    return len(smiles) / (time.perf_counter() - begun)


def _step_rate(**settings: object) -> float:
    import numpy as np
    import torch

    from molsepnorm.batch import GraphTensors, epoch_batches
    from molsepnorm.nn import Graphormer, GraphormerConfig
    from molsepnorm.training.config import OptimConfig, RunConfig
    from molsepnorm.training.optim import make_optimizer

    dataset = _load("zinc")
    tensors = GraphTensors.of(dataset.store)
    labels = torch.from_numpy(dataset.store.labels[:])
    network = Graphormer(GraphormerConfig(**settings))  # type: ignore[arg-type]
    optimizer = make_optimizer(network, OptimConfig(lr=2e-4))
    batches = epoch_batches(dataset.splits["train"], tensors.sizes, 256, np.random.default_rng(0))
    times = []
    for batch in batches[:16]:
        begun = time.perf_counter()
        outputs = network(tensors.cut(batch, RunConfig().blocks))
        loss = (outputs - labels[torch.from_numpy(batch)]).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        times.append((time.perf_counter() - begun) / len(batch))
    return 1 / statistics.median(times[3:])


def _load(name: str) -> Dataset:
    from molsepnorm import datasets
    from molsepnorm.datasets import DataConfig
    from molsepnorm.encodings import EncodingSpec

    return datasets.load(DataConfig(dataset=name), EncodingSpec((3,)))


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def _data() -> Path:
    if not (folder := os.environ.get("MOLSEPNORM_DATA")):
        sys.exit("set MOLSEPNORM_DATA to the folder of real data sets")
    return Path(folder)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(STAGES[sys.argv[2]].measure()))
    else:
        unknown = set(sys.argv[1:]) - set(STAGES)
        if unknown:
            sys.exit(f"unknown stage(s) {', '.join(unknown)}; known: {', '.join(STAGES)}")
        main(sys.argv[1:] or list(STAGES))
