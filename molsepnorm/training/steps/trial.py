"""Compare a few training steps along the fast paths and the plain one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molsepnorm.devices.network import (
    BOUNDS,
    SIZES,
    Way,
    compare,
    network_of,
    settle,
    small,
    tensors,
    undisturbed,
    usable,
)
from molsepnorm.devices.verdict import Verdict, differences, judge, remembered
from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.kernels import fused_attention
from molsepnorm.tasks import Target, Task
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives import Examples
from molsepnorm.training.objectives.supervised import Supervised
from molsepnorm.training.steps import step
from molsepnorm.training.steps.capture import CaptureFailed
from molsepnorm.training.steps.optim import WeightAverage, make_optimizer
from molsepnorm.training.steps.step import TrainStep

__all__ = ["compare_captured", "compared", "settled", "step_seconds"]

_STEPS, _BATCH = 3, 12
_TIMED_STEPS = 20
_RATE = 0.02
_EPSILON = 1.0
"""ε of AdamW. With its default, gradients that are rounding errors lead to full steps."""
_TASK = Task((Target("number", "regression"), Target("yes", "binary")), metric="mae")


def settled(
    config: TrainConfig,
    device: torch.device,
    world: DistributedContext,
    note: Callable[[str], None],
) -> TrainConfig:
    """Check the fast paths of a run's steps before their first use on a device.

    The fused attention is switched off if its results differ from those of PyTorch's operations.

    Args:
        config: the configuration of the run.
        device: the training device.
        world: the processes that train together.
        note: called with a line for each path that failed.

    Returns:
        The configuration, with eager steps if captured ones failed and `run.step` is auto.
    """
    for line in settle(config.model, device, config.run.precision):
        note(line)
    if world.size > 1 or config.run.step == "eager":
        return config
    optim = config.optim
    settings = {
        "network": asdict(small(config.model)),
        "way": asdict(Way(config.run.precision, usable(config.model, device))),
        "dropout": bool(config.model.dropout or config.model.attention_dropout),
        "optim": (optim.clip_norm, bool(optim.ema), optim.regression_loss, optim.weight_decay),
    }
    (verdict,) = remembered(device, settings, lambda: [compare_captured(config, device)])
    if verdict.passed:
        return config
    reason = f"compared with eager ones {'they ' if verdict.error else 'their '}{verdict}"
    if config.run.step == "auto":
        note(f"Steps on {device} are taken eagerly, not captured: {reason}")
        return _with_run(config, step="eager")
    note(f"Steps on {device} are captured, as configured, but {reason}")
    return config


def compared(config: TrainConfig, device: torch.device) -> Iterator[Verdict]:
    """Compute the verdicts on all fast paths of a run's steps, without the cache."""
    yield from compare(config.model, config.run.precision, device)
    if step.can_capture(device):
        yield compare_captured(config, device)


def compare_captured(config: TrainConfig, device: torch.device) -> Verdict:
    """Compare the changes of captured steps with those of eager ones."""
    network = small(config.model)
    dropout = max(config.model.dropout, config.model.attention_dropout)

    def work() -> dict[str, float]:
        eager, captured = (
            _Trial(config, network, device, kind).changes() for kind in ("eager", "captured")
        )
        if dropout:
            _Trial(config, replace(network, dropout=dropout), device, "captured").check_masks()
        return differences(captured, eager)

    with undisturbed(device):
        return judge("captured steps", BOUNDS[config.run.precision], work)


def step_seconds(config: TrainConfig, device: torch.device) -> dict[str, float]:
    """Time a step of the small network along the plain and the fast paths."""
    network, found = small(config.model), {}
    plain = _with_run(config, precision="fp32")
    fastest = "captured" if step.can_capture(device) else "eager"
    with undisturbed(device):
        with fused_attention.without_kernels():
            found["eager in fp32"] = _Trial(plain, network, device, "eager").seconds()
        found["along the fast paths"] = _Trial(config, network, device, fastest).seconds()
    return found


def _with_run(config: TrainConfig, **settings: Any) -> TrainConfig:
    return config.model_copy(update={"run": config.run.model_copy(update=settings)})


class _Trial:
    """A small network that takes steps of one kind, eager or captured."""

    def __init__(
        self, config: TrainConfig, architecture: GraphormerConfig, device: torch.device, kind: str
    ) -> None:
        config = _with_run(config, step=kind, max_groups=4)
        self.captured = kind == "captured"
        self.network = network_of(architecture, device)
        # The labels are far from the outputs, so that rounding changes the sign of no error.
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

    def seconds(self) -> float:
        """Return the mean time of a step on one batch, without the first ones, which compile."""
        (batch,) = self.train_step.lay_out(self.batches[:1])
        for _ in range(_STEPS):
            self.train_step(batch, _RATE)
        self.train_step.totals.tolist()  # waits for the device
        begun = time.perf_counter()
        for _ in range(_TIMED_STEPS):
            self.train_step(batch, _RATE)
        self.train_step.totals.tolist()
        return (time.perf_counter() - begun) / _TIMED_STEPS

    def check_masks(self) -> None:
        """Check that each step draws new dropout masks."""
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
        average = self.average.parameters() if self.average is not None else ()
        state = {
            "weights": [*self.network.parameters(), *average],
            "statistics": [each for each in self.network.buffers() if each.is_floating_point()],
            "losses": [self.train_step.totals],
        }
        return {kind: [each.detach().clone() for each in parts] for kind, parts in state.items()}

    def _require_captured(self) -> None:
        if self.captured and not self.train_step.recordings:
            reason = self.notes[0].partition(": ")[2] if self.notes else "no batch fits a layout"
            raise CaptureFailed(reason)
