"""Optimiser and learning-rate schedule."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from molsepnorm.training.config import OptimConfig
from molsepnorm.training.objectives.objective import Objective

__all__ = ["WeightAverage", "learning_rate", "make_optimizer"]


def make_optimizer(network: nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """AdamW over all parameters, as in Graphormer v1: the weight decay spares none."""
    parameters = list(network.parameters())
    return torch.optim.AdamW(
        parameters,
        lr=config.lr,
        weight_decay=config.weight_decay,
        fused=True,
        capturable=parameters[0].is_cuda,
    )


class WeightAverage(nn.Module):
    """An exponential moving average of the weights of an objective.

    The first steps are averaged over a shorter time, with the decay (1 + n) / (10 + n) after n
    steps, so that the initial weights are soon forgotten. Batch-norm statistics are not averaged:
    they would not be those of the averaged weights, and `estimate_statistics` makes them anew.
    """

    def __init__(self, objective: Objective, decay: float) -> None:
        super().__init__()
        self.module = copy.deepcopy(objective).requires_grad_(False)
        self.decay = decay

    def weight(self, step: int) -> float:
        """What the weights after a step, counted from 0, count in the average."""
        return 1 - min(self.decay, (1 + step) / (10 + step)) if step else 1.0

    @torch.no_grad()
    def update(self, objective: Objective, weight: Tensor) -> None:
        """Add the objective's weights to the average, with this weight (on their device)."""
        averages: list[Tensor] = list(self.module.parameters())
        weights: list[Tensor] = list(objective.parameters())
        torch._foreach_add_(
            averages, torch._foreach_mul(torch._foreach_sub(weights, averages), weight)
        )


def learning_rate(step: int, total: int, config: OptimConfig) -> float:
    """The rate of a step, counted from 0, of `total` steps.

    >>> config = OptimConfig(lr=1.0, warmup=0.5, decay="linear")
    >>> [learning_rate(step, 4, config) for step in range(4)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warmup = round(config.warmup * total)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    if config.decay == "constant":
        return config.lr
    done = (step - warmup) / (total - warmup)
    share = 1 - done if config.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.final_lr + (config.lr - config.final_lr) * share
