"""Times training steps of this package's Graphormer-SLIM against transformers 4.57.6's.

    MOLSEPNORM_DATA=/path/to/datasets python benchmarks/peers/hf_graphormer.py

Both train on the same batches of ZINC molecules, in turns, so that a machine whose speed drifts
does so for both: 12 layers, 80 wide, 8 heads, feed-forward 80, dropout and attention dropout 0.1,
paths of 20 bonds, AdamW, gradient clipping. Ours is timed with SepNorm, its default. A step is
model only: batches are collated before, theirs by hand with the tensors that its own collator
would give (no molecule padded beyond its batch, no path beyond the longest of the batch). Theirs
take a minute to collate and are kept in the temporary folder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from molsepnorm import featurize
from molsepnorm.batch import GraphTensors
from molsepnorm.convert.parity import reference_inputs
from molsepnorm.encodings import EncodingSpec, encode
from molsepnorm.molecule import MolGraph
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.training.config import OptimConfig, RunConfig
from molsepnorm.training.optim import make_optimizer

LENGTH, WARM_UP, SEED = 20, 2, 0


def hf_slim() -> nn.Module:
    """Graphormer-SLIM of transformers, pre-norm, with tables of the size that v1 has for ZINC."""
    home = "transformers.models.deprecated.graphormer"
    config = import_module(f"{home}.configuration_graphormer").GraphormerConfig(
        num_classes=1,
        num_atoms=63,
        num_edges=63,
        num_in_degree=64,
        num_out_degree=64,
        num_spatial=512,
        num_edge_dis=40,
        multi_hop_max_dist=LENGTH,
        num_hidden_layers=12,
        embedding_dim=80,
        ffn_embedding_dim=80,
        num_attention_heads=8,
        dropout=0.1,
        attention_dropout=0.1,
        activation_dropout=0.0,
        pre_layernorm=True,
    )
    network = import_module(f"{home}.modeling_graphormer").GraphormerForGraphClassification
    return network(config)


def hf_batches(batches: list[list[MolGraph]], name: str) -> list[dict[str, Tensor]]:
    """Every batch as transformers reads it; collated once, and kept under `name`."""
    file = Path(tempfile.gettempdir()) / "molsepnorm-bench-hf" / f"{name}.pt"
    if not file.exists():
        collated = [_collate(graphs) for graphs in batches]
        file.parent.mkdir(exist_ok=True)
        torch.save(collated, file)
    stored = torch.load(file, weights_only=True)
    return [
        {key: value if value.is_floating_point() else value.long() for key, value in each.items()}
        for each in stored
    ]


def _collate(graphs: list[MolGraph]) -> dict[str, Tensor]:
    inputs = reference_inputs(graphs, "hf", "zinc", LENGTH)
    distances = inputs["spatial_pos"] - 1
    longest = int(distances[distances < 510].max())
    inputs["input_edges"] = inputs["input_edges"][:, :, :, :longest].clone()
    return {
        key: value if value.is_floating_point() else value.short() for key, value in inputs.items()
    }


def stepper(network: nn.Module, outputs: Callable[[Any], Tensor]) -> Callable[[Any, Tensor], float]:
    """A function that takes one training step and returns its seconds."""
    optimizer = make_optimizer(network, OptimConfig(lr=2e-4))
    network.train()

    def step(batch: Any, labels: Tensor) -> float:
        begun = time.perf_counter()
        loss = (outputs(batch) - labels).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        return time.perf_counter() - begun

    return step


def sample(count: int) -> tuple[list[MolGraph], Tensor]:
    """Random training molecules of ZINC and their labels (count, 1)."""
    if not (folder := os.environ.get("MOLSEPNORM_DATA")):
        sys.exit("set MOLSEPNORM_DATA to the folder of real data sets")
    table = pd.read_csv(Path(folder) / "zinc" / "train.csv.gz").sample(count, random_state=SEED)
    read = featurize.get("zinc")
    labels = torch.tensor(table["y"].to_numpy(), dtype=torch.float32)[:, None]
    return [read(smiles) for smiles in table["smiles"]], labels


def main() -> None:
    """Print both medians and their ratio."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    turns, size = WARM_UP + options.runs, options.batch_size
    graphs, labels = sample(turns * size)
    places = np.arange(turns * size).reshape(turns, size)

    theirs = hf_slim()
    their_step = stepper(theirs, lambda batch: theirs(**batch, return_dict=True).logits)
    their_batches = hf_batches([[graphs[i] for i in row] for row in places], f"{turns}x{size}")
    ours = Graphormer(GraphormerConfig())
    our_step = stepper(ours, ours)
    tensors = GraphTensors.of(encode(graphs, EncodingSpec(bond_sizes=(3,))))
    our_batches = [tensors.cut(row, RunConfig().blocks) for row in places]

    seconds: dict[str, list[float]] = {"ours": [], "transformers": []}
    for turn, row in enumerate(places):
        for name, step, batch in (
            ("ours", our_step, our_batches[turn]),
            ("transformers", their_step, their_batches[turn]),
        ):
            taken = step(batch, labels[row])
            if turn >= WARM_UP:
                seconds[name].append(taken)
    rates = {name: size / statistics.median(values) for name, values in seconds.items()}
    print(f"{options.runs} steps of {size} molecules, {torch.get_num_threads()} threads")
    for name, values in seconds.items():
        spread = f"{size / max(values):,.0f} to {size / min(values):,.0f}"
        print(f"{name}: {rates[name]:,.0f} graphs/s ({spread})")
    print(f"ratio: {rates['ours'] / rates['transformers']:.2f}")


if __name__ == "__main__":
    main()
