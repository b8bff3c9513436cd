"""Evaluating SLIM on molecules that are encoded already."""

from __future__ import annotations

import numpy as np
import torch
from peers import hf_graphormer
from settings import Settings
from turns import Asked, Row, Work, in_turns

from molsepnorm.data.batching.bucketing import size_sorted_batches
from molsepnorm.predict.inference import infer
from stages.slim import products, sides

__all__ = ["evaluate"]


def evaluate(settings: Settings) -> list[Row]:
    """Ours through `infer`, which sorts by size and cuts; theirs on batches collated before."""
    ours, theirs, remark = sides(settings, settings.count(8, 2))
    molecules = ours.sample
    everything = np.arange(len(molecules.graphs))
    network = ours.network()
    sorted_batches = size_sorted_batches(everything, ours.tensors.sizes, len(molecules.batches[0]))
    floors = [products(molecules, batch, 1, backward=False) for batch in sorted_batches]

    def our_work(turn: int) -> int:
        return len(infer(network, ours.tensors, everything))

    def floor(turn: int) -> int:
        for multiply in floors:
            multiply()
        return len(everything)

    contestants: dict[str, Work] = {"ours": our_work}
    if theirs:
        their_network, outputs = theirs.network()
        their_network.eval()
        their_batches = [theirs.cut(batch) for batch in molecules.batches]

        def their_work(turn: int) -> int:
            with torch.no_grad():
                return sum(len(outputs(batch)) for batch in their_batches)

        contestants["peer"] = their_work
    rates = in_turns({**contestants, "floor": floor}, settings.plan(least=4))
    return [
        Row(
            "evaluate",
            "evaluation of SLIM, batch 256",
            "graphs/s",
            rates["ours"],
            rates.get("peer", ()),
            hf_graphormer.NAME,
            "SLIM alone, on batches as its collator makes them",
            rates["floor"],
            "the matrix products of layers, forward",
            Asked("ratio", 3),
            f"{remark}; ours with cutting its batches",
        )
    ]
