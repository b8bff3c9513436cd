"""A few training steps along the fast paths and the plain one, before a device is first used."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molsepnorm.devices.context import autocast, products_in
from molsepnorm.devices.layers import check_fused_dropout
from molsepnorm.devices.network import (
    SIZES,
    Way,
    act_on,
    bound_of,
    compare,
    network_of,
    small,
    tensors,
    undisturbed,
    usable,
)
from molsepnorm.devices.verdict import Results, Verdict, remembered
from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.kernels import fused_attention
from molsepnorm.tasks import Loss, Target, Task
from molsepnorm.training import step
from molsepnorm.training.capture import CaptureFailed
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives import Examples
from molsepnorm.training.objectives.supervised import Supervised
from molsepnorm.training.optim import WeightAverage, make_optimizer
from molsepnorm.training.step import TrainStep

__all__ = ["compared", "settled", "step_seconds", "verdicts_on"]

_STEPS, _BATCH = 3, 12
_RATE = 0.02
_EPSILON = 1.0
"""AdamW's: with the usual one it makes full steps of gradients that are nothing but rounding."""
_TASK = Task((Target("number", "regression"), Target("yes", "binary")), metric="mae")


def settled(
    config: TrainConfig,
    device: torch.device,
    world: DistributedContext,
    note: Callable[[str], None],
) -> TrainConfig:
    """Check the fast paths of a run's steps on a device, if that has not been done.

    The fused attention is switched off where it computes something else than PyTorch's operations.

    Args:
        config: the run's.
        device: where it trains.
        world: the processes that train together.
        note: is called with a line for each path that failed.

    Returns:
        The configuration with which to take steps: eager ones in place of captured ones that
        failed, unless `run.step` names them.
    """
    captured = world.size == 1 and config.run.step != "eager"
    verdicts = verdicts_on(config, device, captured)
    for line in act_on(verdicts, device):
        note(line)
    faulty = [each for each in verdicts if each.path == "captured steps" and not each.passed]
    for verdict in faulty:
        told = f"compared with eager ones {'they ' if verdict.error else 'their '}{verdict}"
        if config.run.step == "auto":
            note(f"Steps on {device} are taken eagerly, not captured: {told}")
        else:
            note(f"Steps on {device} are captured, as asked for, but {told}")
    if faulty and config.run.step == "auto":
        return config.model_copy(update={"run": config.run.model_copy(update={"step": "eager"})})
    return config


def verdicts_on(config: TrainConfig, device: torch.device, captured: bool) -> tuple[Verdict, ...]:
    """The verdicts on the fast paths of a run's steps, `captured` ones among them or not."""
    network, rate = small(config.model), config.model.attention_dropout
    wanted = Way(config.run.precision, usable(config.model, device), captured)
    optim: dict[str, Any] = {
        "clip_norm": config.optim.clip_norm,
        "ema": config.optim.ema is not None,
    }
    optim |= {"loss": config.optim.regression_loss, "decay": config.optim.weight_decay}
    settings = {
        "of": "steps",
        "network": {**asdict(network), "dropout": bool(config.model.dropout), "rate": rate},
        "way": asdict(wanted),
        "optim": optim,
    }

    if wanted == Way():
        return ()
    return remembered(device, settings, lambda: _compared(config, wanted, device))


def compared(config: TrainConfig, device: torch.device) -> Iterator[Verdict]:
    """Verdicts on all fast paths of a run's steps, computed now; nothing is kept."""
    yield from _compared(config, _fastest(config, device), device)


def step_seconds(config: TrainConfig, device: torch.device, steps: int = 20) -> dict[str, float]:
    """Time a step of the small network, plain and along the fast paths."""
    found = {}
    for name, way in (("eager in fp32", Way()), ("along the fast paths", _fastest(config, device))):
        with fused_attention.without_kernels(not way.fused), undisturbed(device):
            found[name] = _Trial(config, small(config.model), way, device).seconds(steps)
    return found


def _fastest(config: TrainConfig, device: torch.device) -> Way:
    return Way(config.run.precision, usable(config.model, device), step.can_capture(device))


def _compared(config: TrainConfig, wanted: Way, device: torch.device) -> Iterator[Verdict]:
    network = small(config.model)
    yield from compare(network, wanted, device, lambda way: _results(config, network, way, device))
    if wanted.fused and config.model.attention_dropout:
        precision, size = wanted.precision, network.width // network.heads
        with undisturbed(device), products_in(precision, device):
            dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            bound = bound_of(network, precision)
            yield check_fused_dropout(device, network.heads, size, bound, dtype)


def _results(
    config: TrainConfig, architecture: GraphormerConfig, way: Way, device: torch.device
) -> Results:
    """Outputs and gradients of a batch, then what the weights changed by in three steps."""
    trial = _Trial(config, architecture, way, device)
    found = {**trial.first_pass(), **trial.changes()}
    if way.captured and (config.model.dropout or config.model.attention_dropout):
        dropout = max(config.model.dropout, config.model.attention_dropout)
        random = replace(architecture, dropout=dropout)
        _Trial(config, random, way, device).require_other_masks()
    return found


class _Trial:
    """A small network about to take steps along a way."""

    def __init__(
        self, config: TrainConfig, architecture: GraphormerConfig, way: Way, device: torch.device
    ) -> None:
        self.way, self.device = way, device
        taken = "captured" if way.captured else "eager"
        steps = {"step": taken, "precision": way.precision, "blocks": 4}
        config = config.model_copy(update={"run": config.run.model_copy(update=steps)})
        self.network = network_of(architecture, device)
        # far from the outputs, so that rounding changes the sign of no absolute error
        signs = torch.arange(len(SIZES)) % 2
        labels = torch.stack([(signs * 2.0 - 1) * 6, signs.flip(0).float()], 1).to(device)
        self.examples = Examples(tensors(architecture, device), labels, None)
        self.objective = Supervised(PropertyModel(self.network, "", _TASK), self.examples, config)
        self.optimizer = make_optimizer(self.objective, config.optim)
        self.optimizer.param_groups[0]["eps"] = _EPSILON
        ema = config.optim.ema
        self.average = WeightAverage(self.objective, ema) if ema else None
        self.notes: list[str] = []
        self.train_step = TrainStep(
            config,
            self.objective,
            self.average,
            self.optimizer,
            np.arange(len(SIZES)),
            DistributedContext(),
            self.notes.append,
        )
        rng = np.random.default_rng(0)
        self.batches = [rng.permutation(len(SIZES))[:_BATCH] for _ in range(_STEPS)]
        self.network.train()

    def first_pass(self) -> dict[str, list[Tensor]]:
        """Outputs of a batch and gradients of its loss."""
        (batch,) = self.train_step.lay_out(self.batches[:1])
        graphs = self.examples.graphs.gather(batch.graphs, batch.layout)
        with products_in(self.way.precision, self.device):
            with autocast(self.way.precision, self.device):
                outputs = self.network(graphs)
            labels = self.examples.labels[batch.graphs]
            loss, count = Loss(_TASK, self.device)(outputs, labels)
            (loss / count).backward()
        gradients = [each.grad for each in self.network.parameters() if each.grad is not None]
        found = {"outputs": [outputs.detach()], "gradients": [each.clone() for each in gradients]}
        self.optimizer.zero_grad()
        return found

    def changes(self) -> dict[str, list[Tensor]]:
        """Return the changes made by three steps, by kind, and the sum of their losses."""
        before = self._state()
        for weight, batch in zip(
            (1.0, 0.5, 0.25), self.train_step.lay_out(self.batches), strict=True
        ):
            self.train_step(batch, _RATE, weight)
        self._require_captured()
        after = self._state()
        return {
            kind: [new - old for new, old in zip(after[kind], before[kind], strict=True)]
            for kind in after
        }

    def seconds(self, steps: int) -> float:
        """Return the mean time of a step on one batch, without the first ones, which compile."""
        (batch,) = self.train_step.lay_out(self.batches[:1])
        for _ in range(_STEPS):
            self.train_step(batch, _RATE)
        self.train_step.totals.tolist()  # waits for the device
        begun = time.perf_counter()
        for _ in range(steps):
            self.train_step(batch, _RATE)
        self.train_step.totals.tolist()
        return (time.perf_counter() - begun) / steps

    def require_other_masks(self) -> None:
        """Check that a step draws other dropout masks than the step before."""
        (batch,) = self.train_step.lay_out(self.batches[:1])
        losses = []
        for _ in range(3):
            self.train_step.totals.zero_()
            self.train_step(batch, 0.0)
            losses.append(float(self.train_step.totals[0]))
        self._require_captured()
        if len(set(losses[1:])) < 2:
            raise ValueError("every step drops the same activations")

    def _state(self) -> dict[str, list[Tensor]]:
        average: list[Tensor] = list(self.average.parameters()) if self.average is not None else []
        state = {
            "weights": [*self.network.parameters(), *average],
            "statistics": [each for each in self.network.buffers() if each.is_floating_point()],
            "losses": [self.train_step.totals],
        }
        return {kind: [each.detach().clone() for each in parts] for kind, parts in state.items()}

    def _require_captured(self) -> None:
        if self.way.captured and not self.train_step.recordings:
            reason = self.notes[0].partition(": ")[2] if self.notes else "no batch fits a plan"
            raise CaptureFailed(reason)
