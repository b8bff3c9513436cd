"""Training steps and evaluation of Graphormer-SLIM on batches of 256 molecules.

12 layers, 80 wide, 8 heads, feed-forward 80, dropout and attention dropout 0.1, paths of 20 bonds,
AdamW, gradient clipping. Ours has SepNorm, its default.
"""

from __future__ import annotations

import numpy as np
import torch
from interleaved import Row, Target, Work, compare
from peers import hf_graphormer

from molsepnorm.data.batching.bucketing import size_sorted_batches
from molsepnorm.predict.inference import infer
from stages import Settings
from stages.common import BLOCKS, Side, sides

__all__ = ["evaluate", "step"]


def step(settings: Settings) -> list[Row]:
    """Take training steps on batches that were collated before."""
    both = sides(settings.count(6, 2))
    count, size = both.batches.shape
    products = [both.products(batch, BLOCKS, backward=True) for batch in both.batches]

    def training(side: Side) -> Work:
        take = side.train_step()

        def work(number: int) -> int:
            take(*side.batches[number % count])
            return size

        return work

    def bound(number: int) -> int:
        products[number % count]()
        return size

    works: dict[str, Work] = {"ours": training(both.ours)}
    if both.peer:
        works["peer"] = training(both.peer)
    row = compare(
        {**works, "bound": bound},
        settings.plan(round_seconds=1.0),
        what="training step of SLIM, model only, batch 256",
        unit="graphs/s",
        peer_name=hf_graphormer.NAME,
        peer_work="SLIM on batches as its collator makes them",
        bound_name="the matrix products of layers, forward and backward",
        target=Target("ratio", 4),
        remark=both.remark,
    )
    return [row]


def evaluate(settings: Settings) -> list[Row]:
    """Evaluate ours by `infer`, which sorts by size and cuts; theirs on collated batches."""
    both = sides(settings.count(8, 2))
    everything, size = np.arange(both.batches.size), both.batches.shape[1]
    sorted_batches = size_sorted_batches(everything, both.tensors.sizes, size)
    products = [both.products(batch, 1, backward=False) for batch in sorted_batches]

    def ours(number: int) -> int:
        return len(infer(both.ours.network, both.tensors, everything))

    def bound(number: int) -> int:
        for multiply in products:
            multiply()
        return len(everything)

    works: dict[str, Work] = {"ours": ours}
    if side := both.peer:
        theirs = side.network.eval()

        def peer(number: int) -> int:
            with torch.no_grad():
                return sum(len(side.outputs(theirs, batch)) for batch, _ in side.batches)

        works["peer"] = peer
    row = compare(
        {**works, "bound": bound},
        settings.plan(min_rounds=4),
        what="evaluation of SLIM, batch 256",
        unit="graphs/s",
        peer_name=hf_graphormer.NAME,
        peer_work="SLIM alone, on batches as its collator makes them",
        bound_name="the matrix products of layers, forward",
        target=Target("ratio", 3),
        remark=f"{both.remark}; ours with cutting its batches",
    )
    return [row]
