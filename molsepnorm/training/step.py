"""A training step, which never synchronises with the device."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.devices import autocast, products_in
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.parts import in_head
from molsepnorm.training.config import OptimConfig, TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives.objective import TINY, Objective


def make_optimizer(
    objective: Objective, config: OptimConfig, body_lr: float = 1.0
) -> torch.optim.Optimizer:
    """Return AdamW over all parameters, all with weight decay, as in Graphormer v1.

    The entry `lr_factor` of a group multiplies the learning rate: `body_lr` for the body.
    """
    groups: dict[float, dict[str, Any]] = {}
    for name, parameter in objective.named_parameters():
        is_body = name.startswith("network.") and not in_head(name.removeprefix("network."))
        factor = body_lr if is_body else 1.0
        group = groups.setdefault(factor, {"params": [], "lr_factor": factor})
        group["params"].append(parameter)
    decay = config.weight_decay
    return torch.optim.AdamW([*groups.values()], lr=config.lr, weight_decay=decay, fused=True)


class WeightAverage(nn.Module):
    """An exponential moving average of the weights of an objective.

    After n steps the decay is at most (1 + n) / (10 + n), so that the initial weights are soon
    forgotten. Batch-norm statistics are not averaged.
    """

    def __init__(self, objective: Objective, decay: float) -> None:
        super().__init__()
        self.module = copy.deepcopy(objective).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, objective: Objective, step: int) -> None:
        weight = 1 - min(self.decay, (1 + step) / (10 + step)) if step else 1.0
        averages: list[Tensor] = list(self.module.parameters())
        changes = torch._foreach_sub(list(objective.parameters()), averages)
        torch._foreach_add_(averages, torch._foreach_mul(changes, weight))


def learning_rate(step: int, total: int, config: OptimConfig) -> float:
    """Return the learning rate of a step, counted from 0, of `total` steps."""
    warmup = round(config.warmup * total)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    if config.decay == "constant":
        return config.lr
    done = min((step - warmup) / max(total - warmup, 1), 1.0)
    share = 1 - done if config.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.final_lr + (config.lr - config.final_lr) * share


class TrainStep:
    """Takes training steps, which change the objective, the optimiser and the weight average."""

    def __init__(
        self, config: TrainConfig, objective: Objective, world: DistributedContext
    ) -> None:
        self.config, self.objective, self.world = config, objective, world
        self.optimizer = make_optimizer(objective, config.optim, config.finetune.body_lr)
        ema = config.optim.ema
        self.average = WeightAverage(objective, ema) if ema else None
        self.graphs = objective.examples.graphs
        self.device = objective.examples.labels.device
        # sums of this process's losses and of their weights
        self.totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        self._forward: Callable[..., tuple[Tensor, Tensor]] = objective
        if world.size > 1:
            parallel = nn.parallel.DistributedDataParallel(
                objective,
                device_ids=[self.device] if self.device.type == "cuda" else None,
                gradient_as_bucket_view=True,
                find_unused_parameters=not objective.uses_all_outputs,
            )
            parallel.broadcast_buffers = False  # synchronised norms keep them equal
            self._forward = parallel
        if config.run.compile:
            self._forward = torch.compile(self._forward)

    def __call__(self, batch: np.ndarray, rate: float, number: int) -> None:
        """Take step `number`, from 0, on the molecules of all processes, int64 [B]."""
        run, clip_norm = self.config.run, self.config.optim.clip_norm
        molecules = self.world.share(batch, min_size=1)
        molecules = molecules[np.argsort(self.graphs.sizes[molecules], kind="stable")]
        indices = torch.from_numpy(molecules).to(self.device, non_blocking=True)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_factor"]
        with products_in(run.precision, self.device):
            with autocast(run.precision, self.device):
                graphs = self.graphs.cut(molecules, run.max_groups)
                loss_sum, count = self._forward(graphs, indices)
            total = count.clone()
            self.world.sum(total)
            self.optimizer.zero_grad()
            # gradients are averaged over the processes, hence the factor
            (loss_sum * self.world.size / total.clamp(min=TINY)).backward()
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters(), clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.objective, number)
        self.totals += torch.stack([loss_sum.detach(), count])


def batch_norms(network: nn.Module) -> list[_BatchNorm]:
    return [module for module in network.modules() if isinstance(module, _BatchNorm)]


@torch.no_grad()
def estimate_statistics(network: nn.Module, batches: Iterable[GraphBatch]) -> None:
    """Replace the running statistics of every batch norm by their mean over training batches.

    Running averages lag behind the weights, which degrades scores on small data sets. Dropout is
    off, and the network is left in evaluation mode.
    """
    network.eval()
    norms = batch_norms(network)
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches
        norm.train()
    for batch in batches:
        network(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()
