"""One training step: forward pass, loss, gradients, clipping, optimiser, weight average.

On a GPU, launching the kernels of a small network takes longer than running them. Batches therefore
have a few fixed shapes there, and the whole step is recorded once per shape as a CUDA graph (see
`training.steps.capture`). Nothing in a step synchronises with the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.batching.bucketing import Layout, assign_rows, fixed_layout, tight_layout
from molsepnorm.devices.context import autocast, products_in
from molsepnorm.devices.verdict import first_line
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.objectives.objective import TINY, Objective
from molsepnorm.training.steps.capture import CaptureFailed, can_capture, record
from molsepnorm.training.steps.optim import WeightAverage

__all__ = ["StepBatch", "TrainStep"]

_MAX_LAYOUTS = 4  # batch sizes; an epoch has two unless batches with large molecules are halved


@dataclass(frozen=True)
class StepBatch:
    """This process's molecules of one step."""

    graphs: Tensor
    """int64 [B], on the device, sorted by size."""
    layout: Layout
    fixed: bool
    """True if the layout is one of the few fixed ones."""


class TrainStep:
    """Takes training steps.

    Args:
        config: the configuration of the run.
        objective, average, optimizer: what a step changes; the average may be None.
        train: int [n], the molecules from which batches are drawn.
        world: the processes that take each step together.
        warn: called with a message if steps cannot be taken as configured.
    """

    def __init__(
        self,
        config: TrainConfig,
        objective: Objective,
        average: WeightAverage | None,
        optimizer: torch.optim.Optimizer,
        train: np.ndarray,
        world: DistributedContext,
        warn: Callable[[str], None],
    ) -> None:
        self.config, self.objective = config, objective
        self.optimizer, self.average = optimizer, average
        self.world, self.warn = world, warn
        self.graphs = objective.examples.graphs
        self.device = objective.examples.labels.device
        self.totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        """Sum of this process's losses and of their weights, since it was last set to zero."""
        self._train_sizes = self.graphs.sizes[train]
        self._rates = [torch.zeros((), device=self.device) for _ in optimizer.param_groups]
        self._weight = torch.ones((), device=self.device)
        self._layouts: dict[int, Layout] = {}
        self._recorded: dict[Layout, tuple[Tensor, Callable[[], None]]] = {}
        self._forward = _parallel(objective, world, self.device)
        self._compiled: Callable[..., tuple[Tensor, Tensor]] | None = None
        self._captured = False
        self._choose_mode(config.run.step)

    def lay_out(self, batches: Sequence[np.ndarray]) -> Iterator[StepBatch]:
        """Lay out the batches of several steps; all indices are copied to the device at once."""
        if not batches:
            return
        laid_out = [self._lay_out(self.world.share(batch, min_size=1)) for batch in batches]
        flat = torch.from_numpy(np.concatenate([graphs for graphs, *_ in laid_out]))
        parts = flat.to(self.device).split([len(graphs) for graphs, *_ in laid_out])
        for part, (_, layout, fixed) in zip(parts, laid_out, strict=True):
            yield StepBatch(part, layout, fixed)

    def __call__(self, batch: StepBatch, rate: float, weight: float = 1.0) -> None:
        """Take a step at a learning rate; `weight` is that of the new parameters in the average."""
        self._weight.fill_(weight)
        for group, on_device in zip(self.optimizer.param_groups, self._rates, strict=True):
            own = rate * group["lr_factor"]
            on_device.fill_(own)  # a recorded step reads the rate from the device
            group["lr"] = on_device if self._captured else own
        if not (batch.fixed and self._captured and self._replay(batch)):
            self._take(batch.graphs, batch.layout, batch.fixed)

    @property
    def recordings(self) -> int:
        """The number of batch shapes that have a recorded step."""
        return len(self._recorded)

    def rebuild(self) -> None:
        """Drop everything that depends on which parameters are trained, after a change of these."""
        self._recorded.clear()
        self._forward = _parallel(self.objective, self.world, self.device)

    def state(self) -> Iterator[Tensor]:
        """Yield every tensor that a step changes."""
        yield self.totals
        yield from self.objective.state_dict(keep_vars=True).values()
        if self.average is not None:
            yield from self.average.state_dict(keep_vars=True).values()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))

    def _choose_mode(self, mode: str) -> None:
        """Decide whether steps are captured and the objective is compiled."""
        gpu = can_capture(self.device)
        if self.world.size > 1 and mode in ("captured", "compiled"):
            self.warn(f"With several processes steps are taken eagerly, not {mode}")
        elif mode == "captured" and not gpu:
            self.warn(f"There are no CUDA graphs on {self.device}: steps are taken eagerly")
        elif mode != "eager" and self.world.size == 1:
            self._captured = gpu
            if mode == "compiled":
                self._compiled = torch.compile(self.objective, dynamic=False)

    def _lay_out(self, batch: np.ndarray) -> tuple[np.ndarray, Layout, bool]:
        """Return the molecules sorted by size, their layout, and whether it is fixed."""
        sizes = self.graphs.sizes[batch]
        if self._captured or self._compiled is not None:
            layout = self._fixed_layout(len(batch))
            rows = assign_rows(sizes, layout) if layout else None
            if rows is not None:
                return batch[rows], layout, True
        rows = np.argsort(sizes, kind="stable")
        return batch[rows], tight_layout(sizes[rows] + 1, self.config.run.max_groups), False

    def _fixed_layout(self, batch_size: int) -> Layout:
        """Return the layout for batches of a size; empty if there are too many sizes."""
        if batch_size not in self._layouts and len(self._layouts) < _MAX_LAYOUTS and batch_size > 1:
            max_groups = self.config.run.max_groups
            self._layouts[batch_size] = fixed_layout(self._train_sizes, batch_size, max_groups)
        return self._layouts.get(batch_size, ())

    def _take(self, graphs: Tensor, layout: Layout, fixed: bool) -> None:
        run, clip_norm = self.config.run, self.config.optim.clip_norm
        with products_in(run.precision, self.device):
            with autocast(run.precision, self.device):
                loss_sum, count = self._loss(graphs, layout, fixed)
            total = count.clone()
            self.world.sum(total)
            self.optimizer.zero_grad()
            # gradients are averaged over the processes, hence the factor
            (loss_sum * self.world.size / total.clamp(min=TINY)).backward()
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(self.objective.parameters(), clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.objective, self._weight)
        self.totals += torch.stack([loss_sum.detach(), count])

    def _loss(self, graphs: Tensor, layout: Layout, fixed: bool) -> tuple[Tensor, Tensor]:
        batch = self.graphs.gather(graphs, layout)
        if fixed and self._compiled is not None:
            try:
                return self._compiled(batch, graphs)
            except Exception as error:  # the compiler raises many kinds of errors
                self.warn(f"The network is not compiled: {first_line(error)}")
                self._compiled = None
        return self._forward(batch, graphs)

    def _replay(self, batch: StepBatch) -> bool:
        """Take a step by its recording; return False if it cannot be recorded."""
        if batch.layout not in self._recorded:
            graphs = batch.graphs.clone()
            try:
                again = record(lambda: self._take(graphs, batch.layout, True), self.state)
            except CaptureFailed as error:
                self.warn(f"Steps are taken eagerly, since they cannot be captured: {error}")
                self._captured = False
                return False
            self._recorded[batch.layout] = graphs, again
        graphs, again = self._recorded[batch.layout]
        graphs.copy_(batch.graphs)
        again()
        return True


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
