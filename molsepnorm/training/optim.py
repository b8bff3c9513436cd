"""Optimiser and learning-rate schedule."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from molsepnorm.training.config import OptimConfig

__all__ = ["learning_rate", "make_average", "make_optimizer"]


def make_optimizer(network: nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """AdamW over all parameters, as in Graphormer v1: the weight decay spares none."""
    return torch.optim.AdamW(
        network.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True
    )


def make_average(network: nn.Module, decay: float) -> AveragedModel:
    """An exponential moving average of the weights.

    The first steps are averaged over a shorter time, with the decay (1 + n) / (10 + n) after n
    steps, so that the initial weights are soon forgotten. Batch-norm statistics are not averaged:
    they would not be those of the averaged weights, and `estimate_statistics` makes them anew.
    """

    @torch.no_grad()
    def update(averages: Any, current: Any, num_averaged: Tensor | int) -> None:
        count = int(num_averaged)
        torch._foreach_lerp_(averages, current, 1 - min(decay, (1 + count) / (10 + count)))

    return AveragedModel(network, multi_avg_fn=update)


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
