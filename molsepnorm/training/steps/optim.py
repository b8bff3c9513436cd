"""Optimiser and learning-rate schedule."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from molsepnorm.training.config import FinetuneConfig, OptimConfig
from molsepnorm.training.objectives.objective import Objective
from molsepnorm.training.start import in_head


def make_optimizer(
    objective: Objective, config: OptimConfig, finetune: FinetuneConfig | None = None
) -> torch.optim.Optimizer:
    """Return AdamW over all parameters, with weight decay on all of them, as in Graphormer v1.

    The body of the network and its head are in groups of their own if `finetune.body_lr` is set;
    the entry `lr_factor` of a group is the factor on the learning rate.
    """
    groups: dict[float, dict[str, Any]] = {}
    for name, parameter in objective.named_parameters():
        before, of_network, own = name.partition("network.")
        is_body = of_network and not before and not in_head(own)
        factor = finetune.body_lr if finetune is not None and is_body else 1.0
        group = groups.setdefault(factor, {"params": [], "lr_factor": factor})
        group["params"].append(parameter)
    every = list(groups.values())
    return torch.optim.AdamW(every, lr=config.lr, weight_decay=config.weight_decay, fused=True)


class WeightAverage(nn.Module):
    """An exponential moving average of the weights of an objective.

    After n steps the decay is at most (1 + n) / (10 + n), so that the initial weights are soon
    forgotten. Batch-norm statistics are not averaged, since they would not belong to the averaged
    weights; `estimate_statistics` computes them.
    """

    def __init__(self, objective: Objective, decay: float) -> None:
        super().__init__()
        self.module = copy.deepcopy(objective).requires_grad_(False)
        self.decay = decay

    def weight(self, step: int) -> float:
        """Return the weight in the average of the parameters after a step, counted from 0."""
        return 1 - min(self.decay, (1 + step) / (10 + step)) if step else 1.0

    @torch.no_grad()
    def update(self, objective: Objective, weight: float) -> None:
        """Add the objective's weights to the average, with this weight."""
        averages: list[Tensor] = list(self.module.parameters())
        changes = torch._foreach_sub(list(objective.parameters()), averages)
        torch._foreach_add_(averages, torch._foreach_mul(changes, weight))


def learning_rate(step: int, total: int, config: OptimConfig) -> float:
    """Return the learning rate of a step, counted from 0, of `total` steps.

    Steps beyond the last, which measure the speed of a run, have the rate at the end of the decay.

    >>> config = OptimConfig(lr=1.0, warmup=0.5, decay="linear")
    >>> [learning_rate(step, 4, config) for step in range(4)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warmup = round(config.warmup * total)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    if config.decay == "constant":
        return config.lr
    done = min((step - warmup) / max(total - warmup, 1), 1.0)
    share = 1 - done if config.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.final_lr + (config.lr - config.final_lr) * share
