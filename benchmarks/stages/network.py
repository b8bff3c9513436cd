"""Training steps of Graphormer-SLIM on batches of 256 molecules of ZINC.

12 layers, 80 wide, 8 heads, feed-forward 80, dropout and attention dropout 0.1, paths of 20 bonds,
AdamW, gradient clipping. Ours has SepNorm, its default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from interleaved import Row, Target, Work, compare
from lower_bounds import matrix_products, padded_groups
from peers import PeerMissing, hf_graphormer
from torch import Tensor, nn

from molsepnorm.data.batching import GraphTensors
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.training.config import OptimConfig, RunConfig
from molsepnorm.training.step import make_optimizer
from stages import Settings
from stages.common import SLIM_ENCODING, zinc_table

__all__ = ["train"]

_SIZE, _MAX_GROUPS, _CLIP = 256, RunConfig().max_groups, 5.0

Labelled = tuple[Any, Tensor]
"""A collated batch and its labels (256, 1)."""


def train(settings: Settings) -> list[Row]:
    """Take training steps on batches that were collated before, the same molecules for both."""
    torch.manual_seed(0)
    count = settings.count(6, 2)
    table, read = zinc_table("train", count * _SIZE), featurize.get("zinc")
    graphs = [read(smiles) for smiles in table["smiles"]]
    labels = torch.tensor(table["y"].to_numpy(), dtype=torch.float32)[:, None]
    batches = np.arange(len(graphs)).reshape(count, _SIZE)
    tensors = GraphTensors.of(encode(graphs, SLIM_ENCODING))
    ours = [(tensors.cut(batch, _MAX_GROUPS), labels[batch]) for batch in batches]
    groups = [padded_groups(tensors.sizes[batch] + 1, _MAX_GROUPS) for batch in batches]
    products = [matrix_products(each, backward=True) for each in groups]

    def bound(number: int) -> int:
        products[number % count]()
        return _SIZE

    works = {"ours": _steps(Graphormer(GraphormerConfig()), lambda net, batch: net(batch), ours)}
    remark = f"threads: {torch.get_num_threads()}"
    try:
        preprocess, collate = hf_graphormer.preprocessor(), hf_graphormer.collator()
        labelled = zip(graphs, labels[:, 0].tolist(), strict=True)
        items = [preprocess(hf_graphormer.raw_item(graph, label)) for graph, label in labelled]
        theirs = [(collate([items[i] for i in batch]), labels[batch]) for batch in batches]
        works["peer"] = _steps(hf_graphormer.slim(), hf_graphormer.outputs, theirs)
    except PeerMissing as missing:
        remark += f"; no peer: {missing}"
    row = compare(
        {**works, "bound": bound},
        settings.plan(round_seconds=1.0),
        what="training step of SLIM, model only, batch 256",
        unit="graphs/s",
        peer_name=hf_graphormer.NAME,
        peer_work="SLIM on batches as its collator makes them",
        bound_name="the matrix products of layers, forward and backward",
        target=Target("ratio", 4),
        remark=remark,
    )
    return [row]


def _steps(
    network: nn.Module, outputs: Callable[[nn.Module, Any], Tensor], batches: Sequence[Labelled]
) -> Work:
    """Return the work of one training step, the same for both programs."""
    optimizer = make_optimizer(network.train(), OptimConfig(lr=2e-4))

    def work(number: int) -> int:
        batch, labels = batches[number % len(batches)]
        loss = (outputs(network, batch) - labels).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
        optimizer.step()
        return len(labels)

    return work
