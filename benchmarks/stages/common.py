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
from environment import data_folder
from lower_bounds import in_blocks, matrix_products
from peers import PeerMissing, chemprop, hf_graphormer
from torch import Tensor, nn

from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec, encode
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training import load_config
from molsepnorm.training.config import OptimConfig, RunConfig
from molsepnorm.training.optim import make_optimizer
from molsepnorm.training.run import architecture
from stages import Settings

SLIM_ENCODING = EncodingSpec(bond_sizes=(3,))
"""The encoding that Graphormer-SLIM reads of ZINC: paths of 20 bonds."""
BLOCKS = RunConfig().blocks
_SEED, _CLIP = 0, 5.0


def zinc_table(split: str, rows: int | None = None) -> pd.DataFrame:
    """Return `smiles` and `y` of a split of full ZINC, all rows or a random sample."""
    table = pd.read_csv(data_folder() / "zinc" / f"{split}.csv.gz")
    return table if rows is None else table.sample(rows, random_state=_SEED)


def on_one_core() -> None:
    """Keep this process on the first core that it may use."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)


@dataclass(frozen=True)
class Side:
    """One of the two programs: its SLIM and its batches, which hold the same molecules."""

    network: nn.Module
    outputs: Callable[[nn.Module, Any], Tensor]
    batches: Sequence[tuple[Any, Tensor]]
    """Collated batches of 256 molecules, with their labels (256, 1)."""

    def train_step(self) -> Callable[[Any, Tensor], Tensor]:
        """Return a function that takes one training step, the same for both sides."""
        network = self.network.train()
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
    """Ours and the peer's side."""

    tensors: GraphTensors
    batches: np.ndarray
    """int64 [batches, 256]: indices of each batch's molecules."""
    ours: Side
    peer: Side | None
    remark: str
    """The number of threads, and why there is no peer."""

    def products(self, batch: np.ndarray, blocks: int, backward: bool) -> Callable[[], None]:
        """Return SLIM's matrix products for a batch that is padded in so many groups."""
        return matrix_products(in_blocks(self.tensors.sizes[batch] + 1, blocks), backward)


def sides(count: int, size: int = 256) -> Sides:
    """Sample training molecules of ZINC, the same in every run, and prepare both sides."""
    torch.manual_seed(_SEED)
    table, read = zinc_table("train", count * size), featurize.get("zinc")
    graphs = [read(smiles) for smiles in table["smiles"]]
    labels = torch.tensor(table["y"].to_numpy(), dtype=torch.float32)[:, None]
    batches = np.arange(count * size).reshape(count, size)
    tensors = GraphTensors.of(encode(graphs, SLIM_ENCODING))
    ready = [(tensors.cut(batch, BLOCKS), labels[batch]) for batch in batches]
    ours = Side(Graphormer(GraphormerConfig()), lambda network, batch: network(batch), ready)
    peer, remark = None, f"{torch.get_num_threads()} threads"
    try:
        preprocess, collate = hf_graphormer.preprocessor(), hf_graphormer.collator()
        network = hf_graphormer.slim()
        labelled = zip(graphs, labels[:, 0].tolist(), strict=True)
        items = [preprocess(hf_graphormer.raw_item(graph, label)) for graph, label in labelled]
        theirs = [(collate([items[i] for i in batch]), labels[batch]) for batch in batches]
        peer = Side(network, hf_graphormer.outputs, theirs)
    except PeerMissing as missing:
        remark += f"; no peer: {missing}"
    return Sides(tensors, batches, ours, peer, remark)


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
        zinc_table("val", rows).to_csv(path, index=False)
    return path


def chemprop_model(settings: Settings, program: Path) -> Path:
    """Return chemprop's default model, trained for one epoch on 500 rows."""
    path = settings.folder("tables") / "train-500.csv"
    if not path.exists():
        zinc_table("train", 500).to_csv(path, index=False)
    return chemprop.model(program, path, settings.folder("models") / "chemprop")
