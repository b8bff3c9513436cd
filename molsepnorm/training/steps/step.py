"""One training step: forward pass, loss, gradients, clipping, optimiser, weight average.

Nothing in a step synchronises with the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from molsepnorm.data.batching.bucketing import Layout, tight_layout
from molsepnorm.devices import autocast, products_in
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives.objective import TINY, Objective
from molsepnorm.training.steps.optim import WeightAverage


@dataclass(frozen=True)
class StepBatch:
    """This process's molecules of one step."""

    graphs: Tensor
    """int64 [B], on the device, sorted by size."""
    layout: Layout


class TrainStep:
    """Takes training steps.

    Args:
        config: the configuration of the run.
        objective, average, optimizer: what a step changes; the average may be None.
        world: the processes that take each step together.
    """

    def __init__(
        self,
        config: TrainConfig,
        objective: Objective,
        average: WeightAverage | None,
        optimizer: torch.optim.Optimizer,
        world: DistributedContext,
    ) -> None:
        self.config, self.objective = config, objective
        self.optimizer, self.average, self.world = optimizer, average, world
        self.graphs = objective.examples.graphs
        self.device = objective.examples.labels.device
        self.totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        """Sum of this process's losses and of their weights, since it was last set to zero."""
        self.rebuild()

    def lay_out(self, batches: Sequence[np.ndarray]) -> Iterator[StepBatch]:
        """Lay out the batches of several steps; all indices are copied to the device at once."""
        if not batches:
            return
        laid_out = [self._lay_out(self.world.share(batch, min_size=1)) for batch in batches]
        flat = torch.from_numpy(np.concatenate([graphs for graphs, _ in laid_out]))
        parts = flat.to(self.device).split([len(graphs) for graphs, _ in laid_out])
        for part, (_, layout) in zip(parts, laid_out, strict=True):
            yield StepBatch(part, layout)

    def __call__(self, batch: StepBatch, rate: float, weight: float = 1.0) -> None:
        """Take a step at a learning rate; `weight` is that of the new parameters in the average."""
        run, clip_norm = self.config.run, self.config.optim.clip_norm
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_factor"]
        with products_in(run.precision, self.device):
            with autocast(run.precision, self.device):
                molecules = self.graphs.gather(batch.graphs, batch.layout)
                loss_sum, count = self._forward(molecules, batch.graphs)
            total = count.clone()
            self.world.sum(total)
            self.optimizer.zero_grad()
            # gradients are averaged over the processes, hence the factor
            (loss_sum * self.world.size / total.clamp(min=TINY)).backward()
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters(), clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.objective, weight)
        self.totals += torch.stack([loss_sum.detach(), count])

    def rebuild(self) -> None:
        """Drop everything that depends on which parameters are trained, after a change of these."""
        self._forward = _parallel(self.objective, self.world, self.device)
        if self.config.run.compile:
            self._forward = torch.compile(self._forward)

    def state(self) -> Iterator[Tensor]:
        """Yield every tensor that a step changes."""
        yield self.totals
        yield from self.objective.state_dict(keep_vars=True).values()
        if self.average is not None:
            yield from self.average.state_dict(keep_vars=True).values()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))

    def _lay_out(self, batch: np.ndarray) -> tuple[np.ndarray, Layout]:
        """Return the molecules sorted by size, and their layout."""
        sizes = self.graphs.sizes[batch]
        rows = np.argsort(sizes, kind="stable")
        return batch[rows], tight_layout(sizes[rows] + 1, self.config.run.max_groups)


def _parallel(
    objective: Objective, world: DistributedContext, device: torch.device
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the objective; its gradients are averaged over the processes."""
    if world.size == 1:
        return objective
    parallel = nn.parallel.DistributedDataParallel(
        objective,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
        find_unused_parameters=not objective.uses_all_outputs,
    )
    parallel.broadcast_buffers = False  # synchronised norms keep them equal
    return parallel


@torch.no_grad()
def estimate_statistics(network: nn.Module, batches: Iterable[GraphBatch]) -> None:
    """Replace the running statistics of every batch norm by their mean over training batches.

    Running averages lag behind the weights. In the first hundred steps they are still close to
    their initial values, which degrades scores on small data sets, and an average of the weights
    has no running averages of its own. Dropout is off. The network is left in evaluation mode.
    """
    network.eval()
    norms = [module for module in network.modules() if isinstance(module, _BatchNorm)]
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
