"""Training steps and evaluation of SLIM under other options, beside the default ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from settings import Settings
from torch import Tensor, nn
from turns import Row, Work, in_turns

from molsepnorm.nn import GraphBatch, Graphormer
from molsepnorm.predict.inference import infer
from stages.slim import Ours, our_side, threads, train_step

__all__ = ["VARIANTS", "Variant", "variants"]


@dataclass(frozen=True)
class Variant:
    """A way to run SLIM."""

    architecture: dict[str, Any] = field(default_factory=dict)
    """What differs from `GraphormerConfig`'s defaults."""
    autocast: torch.dtype | None = None
    compiled: bool = False


VARIANTS = {
    "float32": Variant(),
    "one norm for all tokens": Variant({"norm": "shared"}),
    "no dropout": Variant({"dropout": 0.0, "attention_dropout": 0.0}),
    "bfloat16 autocast": Variant(autocast=torch.bfloat16),
    "torch.compile": Variant(compiled=True),
}
"""The first one is what the others are compared with."""


class _Running(nn.Module):
    """A variant's network as its user calls it."""

    def __init__(self, network: Graphormer, variant: Variant) -> None:
        super().__init__()
        self.network = torch.compile(network, dynamic=True) if variant.compiled else network
        self.autocast = variant.autocast

    def forward(self, batch: GraphBatch) -> Tensor:  # (B, outputs)
        context = torch.autocast("cpu", self.autocast) if self.autocast else nullcontext()
        with context:
            return self.network(batch).float()


def variants(settings: Settings) -> list[Row]:
    """Each variant's training steps, then each one's evaluation, all in turns."""
    ours = our_side(settings, settings.count(8, 2))
    works: dict[str, dict[str, Work]] = {"training step": {}, "evaluation": {}}
    first: dict[str, float] = {}
    failed = ""
    for name, variant in VARIANTS.items():
        begun = time.perf_counter()
        try:
            made = _works(ours, variant)
        except Exception as error:  # torch.compile fails in many ways; the others are still told
            failed += f"; {name} failed: {type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        for what, work in zip(works, made, strict=True):
            works[what][name] = work
        first[name] = time.perf_counter() - begun
    return [
        row
        for what, contestants in works.items()
        for row in _rows(what, in_turns(contestants, settings.plan()), first, failed)
    ]


def _rows(
    what: str, rates: dict[str, list[float]], first: dict[str, float], failed: str
) -> Iterator[Row]:
    base = next(iter(rates))
    for name, values in rates.items():
        yield Row(
            "options",
            f"{what}, {name}",
            "graphs/s",
            values,
            () if name == base else rates[base],
            base,
            remark=f"{threads()}; its first step and evaluation took {first[name]:.1f} s"
            + (failed if name == base else ""),
        )


def _works(ours: Ours, variant: Variant) -> tuple[Work, Work]:
    network = _Running(ours.network(**variant.architecture), variant)
    step = train_step(network, network)
    batches = [ours.cut(batch) for batch in ours.sample.batches]
    labels = [ours.sample.labels[batch] for batch in ours.sample.batches]
    everything = np.arange(len(ours.sample.graphs))

    def train(turn: int) -> int:
        network.train()
        place = turn % len(batches)
        step(batches[place], labels[place])
        return len(batches[place])

    def evaluate(turn: int) -> int:
        return len(infer(network, ours.tensors, everything))

    train(0), evaluate(0)
    return train, evaluate
