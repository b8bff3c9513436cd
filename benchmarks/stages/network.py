"""Collating batches of 256 molecules, training steps and evaluation of Graphormer-SLIM.

12 layers, 80 wide, 8 heads, feed-forward 80, dropout and attention dropout 0.1, paths of 20 bonds,
AdamW, gradient clipping. Ours has SepNorm, its default.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from interleaved import Row, Target, Work, compare
from lower_bounds import copying
from peers import hf_graphormer
from settings import Settings
from torch import Tensor

from molsepnorm.data.batching.bucketing import size_sorted_batches
from molsepnorm.predict.inference import infer
from stages.common import BLOCKS, Side, sides

__all__ = ["collate", "epoch", "evaluate", "step"]

_BOUND = "the matrix products of layers, forward and backward"


def collate(settings: Settings) -> list[Row]:
    """Collate from our store's tensors, and from transformers' preprocessed molecules."""
    both = sides(settings, settings.count(8, 2))
    batches = both.ours.batches
    batch = both.ours.cut(batches[0])
    values = (getattr(batch, field.name) for field in fields(batch))
    # without the path table, which all batches share
    size = sum(value.nbytes for value in values if isinstance(value, Tensor))
    copy = copying(size)

    def cutting(side: Side) -> Work:
        def work(number: int) -> int:
            side.cut(batches[number % len(batches)])
            return len(batches[0])

        return work

    def bound(number: int) -> int:
        copy()
        return len(batches[0])

    row = compare(
        {**both.works(cutting), "bound": bound},
        settings.plan(seconds=5, round_seconds=0.25),
        what="cutting batches of 256",
        unit="graphs/s",
        peer_name=hf_graphormer.NAME,
        peer_work="GraphormerDataCollator on preprocessed items",
        bound_name=f"copying the batch's {size / 2**20:.1f} MiB in memory",
        remark=both.remark,
    )
    return [row]


def step(settings: Settings) -> list[Row]:
    """Take training steps on batches that were collated before."""
    both = sides(settings, settings.count(6, 2))
    count, size = len(both.ours.batches), len(both.ours.batches[0])
    products = [both.products(batch, BLOCKS, backward=True) for batch in both.ours.batches]

    def stepping(side: Side) -> Work:
        take, batches = side.train_step(), side.ready()

        def work(number: int) -> int:
            take(*batches[number % count])
            return size

        return work

    def bound(number: int) -> int:
        products[number % count]()
        return size

    row = compare(
        {**both.works(stepping), "bound": bound},
        settings.plan(round_seconds=1.0),
        what="training step of SLIM, model only, batch 256",
        unit="graphs/s",
        peer_name=hf_graphormer.NAME,
        peer_work="SLIM on batches as its collator makes them",
        bound_name=_BOUND,
        target=Target("ratio", 4),
        remark=both.remark,
    )
    return [row]


def epoch(settings: Settings) -> list[Row]:
    """Collate and take steps, from the store and from preprocessed items, two batches a round."""
    both = sides(settings, settings.count(8, 2))
    batches = both.ours.batches
    pairs, size = len(batches) // 2, len(batches[0])
    products = [both.products(batch, BLOCKS, backward=True) for batch in batches]

    def two(number: int) -> range:
        return range(2 * (number % pairs), 2 * (number % pairs) + 2)

    def training(side: Side) -> Work:
        take = side.train_step()

        def work(number: int) -> int:
            for i in two(number):
                take(side.cut(batches[i]), side.labels[batches[i]])
            return 2 * size

        return work

    def bound(number: int) -> int:
        for i in two(number):
            products[i]()
        return 2 * size

    row = compare(
        {**both.works(training), "bound": bound},
        settings.plan(min_rounds=settings.count(pairs, 1), round_seconds=0.0),
        what="epoch of SLIM end to end: cutting batches of 256, and steps",
        unit="graphs/s",
        peer_name=hf_graphormer.NAME,
        peer_work="collator and SLIM, its items preprocessed before",
        bound_name=_BOUND,
        target=Target("ratio", 5),
        remark=f"{both.remark}; {2 * pairs} batches, two in a round",
    )
    return [row]


def evaluate(settings: Settings) -> list[Row]:
    """Evaluate ours by `infer`, which sorts by size and cuts; theirs on collated batches."""
    both = sides(settings, settings.count(8, 2))
    everything = np.arange(len(both.graphs))
    network = both.ours.network()
    sorted_batches = size_sorted_batches(everything, both.tensors.sizes, len(both.ours.batches[0]))
    products = [both.products(batch, 1, backward=False) for batch in sorted_batches]

    def ours(number: int) -> int:
        return len(infer(network, both.tensors, everything))

    def bound(number: int) -> int:
        for multiply in products:
            multiply()
        return len(everything)

    works: dict[str, Work] = {"ours": ours}
    if side := both.peer:
        theirs, batches = side.network().eval(), side.ready()

        def peer(number: int) -> int:
            with torch.no_grad():
                return sum(len(side.outputs(theirs, batch)) for batch, _ in batches)

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
