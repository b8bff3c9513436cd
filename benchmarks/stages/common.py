"""Molecules, networks and models that several stages share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from commands import run, script
from interleaved import Work
from lower_bounds import in_blocks, matrix_products
from peers import PeerMissing, chemprop, hf_graphormer
from settings import Settings
from torch import Tensor, nn

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training import load_config
from molsepnorm.training.config import OptimConfig, RunConfig
from molsepnorm.training.optim import make_optimizer
from molsepnorm.training.run import architecture

SLIM_ENCODING = EncodingSpec(bond_sizes=(3,))
"""The encoding that Graphormer-SLIM reads of ZINC: paths of 20 bonds."""
BLOCKS = RunConfig().blocks
PREPARE = """
from molsepnorm import load_config
from molsepnorm.data import datasets
from molsepnorm.model import encoding_of
from molsepnorm.training.run import architecture

config = load_config({name!r})
datasets.load(config.data, encoding_of(architecture(config)))
"""
"""Make, or open, the store that training on a data set reads."""
_SEED, _CLIP = 0, 5.0


def zinc_table(settings: Settings, split: str, rows: int | None = None) -> pd.DataFrame:
    """Return `smiles` and `y` of a split of full ZINC, all rows or a random sample."""
    table = pd.read_csv(settings.data / "zinc" / f"{split}.csv.gz")
    return table if rows is None else table.sample(rows, random_state=_SEED)


def on_one_core() -> None:
    """Keep this process on the first core that it may use."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)


@dataclass(frozen=True)
class Side:
    """One of the two programs, with the batches of 256 molecules that both share."""

    labels: Tensor  # (G, 1)
    batches: Sequence[np.ndarray]
    """Indices of each batch's molecules."""
    cut: Callable[[np.ndarray], Any]
    """Collates a batch as training does."""
    network: Callable[[], nn.Module]
    """Makes SLIM."""
    outputs: Callable[[nn.Module, Any], Tensor]

    def ready(self) -> list[tuple[Any, Tensor]]:
        """Return all batches, collated, with their labels."""
        return [(self.cut(batch), self.labels[batch]) for batch in self.batches]

    def train_step(self) -> Callable[[Any, Tensor], Tensor]:
        """Return a function that takes one training step, the same for both sides."""
        network = self.network().train()
        optimizer = make_optimizer(network, OptimConfig(lr=2e-4))

        def step(batch: Any, labels: Tensor) -> Tensor:
            loss = (self.outputs(network, batch) - labels).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
            optimizer.step()
            return loss.detach()

        return step


@dataclass(frozen=True)
class Sides:
    """Ours and the peer's side, with the same molecules."""

    graphs: list[MolGraph]
    tensors: GraphTensors
    ours: Side
    peer: Side | None
    remark: str
    """The number of threads, and why there is no peer."""

    def works(self, make: Callable[[Side], Work]) -> dict[str, Work]:
        """Return the work of each side."""
        return {"ours": make(self.ours), **({"peer": make(self.peer)} if self.peer else {})}

    def products(self, batch: np.ndarray, blocks: int, backward: bool) -> Callable[[], None]:
        """Return SLIM's matrix products for a batch that is padded in so many groups."""
        slots = np.array([self.graphs[i].num_atoms + 1 for i in batch])
        return matrix_products(in_blocks(slots, blocks), backward)


def sides(settings: Settings, batches: int, size: int = 256) -> Sides:
    """Sample training molecules of ZINC, the same in every run, and prepare both sides."""
    torch.manual_seed(_SEED)
    table, read = zinc_table(settings, "train", batches * size), featurize.get("zinc")
    graphs = [read(smiles) for smiles in table["smiles"]]
    labels = torch.tensor(table["y"].to_numpy(), dtype=torch.float32)[:, None]
    chosen = list(np.arange(batches * size).reshape(batches, size))
    tensors = GraphTensors.of(encode(graphs, SLIM_ENCODING))

    def cut(batch: np.ndarray) -> GraphBatch:
        return tensors.cut(batch, BLOCKS)

    def slim() -> nn.Module:
        return Graphormer(GraphormerConfig())

    ours = Side(labels, chosen, cut, slim, lambda network, batch: network(batch))
    peer, remark = None, f"{torch.get_num_threads()} threads"
    try:
        preprocess, collate = hf_graphormer.preprocessor(), hf_graphormer.collator()
        hf_graphormer.slim()
        labelled = zip(graphs, labels[:, 0].tolist(), strict=True)
        items = [preprocess(hf_graphormer.raw_item(graph, label)) for graph, label in labelled]

        def their_cut(batch: np.ndarray) -> dict[str, Tensor]:
            return collate([items[i] for i in batch])

        peer = Side(labels, chosen, their_cut, hf_graphormer.slim, hf_graphormer.outputs)
    except PeerMissing as missing:
        remark += f"; no peer: {missing}"
    return Sides(graphs, tensors, ours, peer, remark)


def slim_model(settings: Settings) -> Path:
    """Save untrained Graphormer-SLIM on ZINC's features; its speed is that of a trained one."""
    return _saved(settings.folder("models") / "slim", GraphormerConfig(), "zinc")


def table_model(settings: Settings) -> Path:
    """Save the untrained architecture of `configs/table.yaml`, on OGB's features."""
    config = load_config(str(validation_csv(settings)))
    return _saved(settings.folder("models") / "table", architecture(config), "ogb")


def _saved(folder: Path, config: GraphormerConfig, featurizer: str) -> Path:
    task = Task((Target("penalised_logp", "regression"),), "mae")
    PropertyModel(Graphormer(config), featurizer, task).save_pretrained(folder)
    return folder


def validation_csv(settings: Settings) -> Path:
    """Return `smiles,y` of ZINC's validation split, 24,445 rows, as an uncompressed CSV file."""
    rows = settings.count(0, 500) or None
    path = settings.folder("tables") / f"val-{rows or 'all'}.csv"
    if not path.exists():
        zinc_table(settings, "val", rows).to_csv(path, index=False)
    return path


def chemprop_model(settings: Settings, program: Path) -> Path:
    """Return chemprop's default model, trained for one epoch on 500 rows."""
    path = settings.folder("tables") / "train-500.csv"
    if not path.exists():
        zinc_table(settings, "train", 500).to_csv(path, index=False)
    return chemprop.model(program, path, settings.folder("models") / "chemprop")


def full_zinc(settings: Settings) -> tuple[str, Path]:
    """Return the name of the data set (the subset for a quick run), and a cache with its store."""
    name = "zinc" if settings.quick else "zinc-full"
    cache = settings.folder(f"cache-{name}")
    if not any(cache.glob("*.store")):
        run(script(PREPARE.format(name=name)), cache, MOLSEPNORM_CACHE=str(cache))
    return name, cache
