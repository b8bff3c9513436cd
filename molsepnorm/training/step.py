"""One training step: forward, loss, gradient, clipping, optimiser, average.

On a GPU a step of a small network takes less time to compute than to ask for, kernel by kernel. So
batches come in a few fixed shapes there, and for each the whole step is recorded once as a CUDA
graph (see `training.capture`). Nothing in a step waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.batching.bucketing import assign_rows, fixed_layout, tight_layout
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch, PaddedGroup
from molsepnorm.predict.inference import autocast, products_in
from molsepnorm.tasks import Loss
from molsepnorm.training.capture import CaptureFailed, can_capture, record
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.optim import WeightAverage

__all__ = ["TINY", "Examples", "Planned", "TrainStep"]

_MOST_PLANS = 4  # sizes of batches: an epoch has two, unless large molecules halve some
TINY = 1e-12
"""In place of a sum of weights that is zero, and the loss with it."""


@dataclass(frozen=True)
class Examples:
    """The molecules of a data set and their labels, on the device."""

    graphs: GraphTensors
    labels: Tensor
    """float32 [G, T]."""
    weights: Tensor | None
    """float32 [G]; None for all alike."""


@dataclass(frozen=True)
class Planned:
    """This process's part of one step's molecules, and how they are laid out."""

    graphs: Tensor
    """int64 [B], on the device, from small to large."""
    plan: tuple[PaddedGroup, ...]
    fixed: bool
    """Whether the plan is one of the few fixed ones."""


class TrainStep:
    """Takes training steps.

    Args:
        config: the run's.
        model: its network is trained, its task says what a loss is.
        average: of the network's weights, or None.
        optimizer: of the network's parameters.
        examples: what is trained on.
        train: int [G], the molecules from which batches are drawn.
        world: the processes that take each step together.
        note: is told where a step cannot be taken in the way that was asked for.
    """

    def __init__(
        self,
        config: TrainConfig,
        model: PropertyModel,
        average: WeightAverage | None,
        optimizer: torch.optim.Optimizer,
        examples: Examples,
        train: np.ndarray,
        world: DistributedContext,
        note: Callable[[str], None],
    ) -> None:
        self.config, self.optimizer, self.average = config, optimizer, average
        self.examples, self.world, self.note = examples, world, note
        self.network = model.network
        self.device = examples.labels.device
        self.totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        """Sum of this process's losses and of their weights, since it was last set to zero."""
        self._loss = Loss(model.task, self.device)
        self._train_sizes = examples.graphs.sizes[train]
        self._rate = torch.zeros((), device=self.device)
        self._weight = torch.ones((), device=self.device)
        self._plans: dict[int, tuple[PaddedGroup, ...]] = {}
        self._recorded: dict[tuple[PaddedGroup, ...], tuple[Tensor, Callable[[], None]]] = {}
        self._forward = _in_parallel(self.network, world, self.device)
        self._compiled: Callable[[GraphBatch], Tensor] | None = None
        self._captured = False
        self._choose(config.run.step)

    def plan(self, batches: Sequence[np.ndarray]) -> Iterator[Planned]:
        """Lay out the batches of several steps; all indices go to the device at once."""
        if not batches:
            return
        laid_out = [self._lay_out(self.world.share(batch, least=1)) for batch in batches]
        flat = torch.from_numpy(np.concatenate([graphs for graphs, *_ in laid_out]))
        parts = flat.to(self.device).split([len(graphs) for graphs, *_ in laid_out])
        for part, (_, plan, fixed) in zip(parts, laid_out, strict=True):
            yield Planned(part, plan, fixed)

    def __call__(self, planned: Planned, rate: float, weight: float = 1.0) -> None:
        """Take one step.

        Args:
            planned: on which molecules.
            rate: the learning rate.
            weight: of the new weights in the average.
        """
        self._weight.fill_(weight)
        self._rate.fill_(rate)  # where steps are recorded it must not be a number of the host's
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate if self._captured else rate
        replay = self._recording(planned) if planned.fixed and self._captured else None
        if replay is None:
            self._take(planned.graphs, planned.plan, planned.fixed)
        else:
            replay(planned.graphs)

    @property
    def recordings(self) -> int:
        """The number of batch shapes that have a recorded step."""
        return len(self._recorded)

    def state(self) -> Iterator[Tensor]:
        """All that a step changes."""
        yield self.totals
        yield from self.network.state_dict(keep_vars=True).values()
        if self.average is not None:
            yield from self.average.state_dict(keep_vars=True).values()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))

    def _choose(self, asked: str) -> None:
        """Decide how steps are taken."""
        gpu = can_capture(self.device)
        if self.world.size > 1 and asked in ("captured", "compiled"):
            self.note(f"Steps of several processes are taken eagerly, not {asked}")
        elif asked == "captured" and not gpu:
            self.note(f"There are no CUDA graphs on {self.device}: steps are taken eagerly")
        elif asked != "eager" and self.world.size == 1:
            self._captured = gpu
            if asked == "compiled":
                self._compiled = torch.compile(self.network, dynamic=False)

    def _lay_out(self, batch: np.ndarray) -> tuple[np.ndarray, tuple[PaddedGroup, ...], bool]:
        """The molecules in the order of their rows, the rectangles, and whether these are fixed."""
        sizes = self.examples.graphs.sizes[batch]
        if self._captured or self._compiled is not None:
            plan = self._fixed_plan(len(batch))
            rows = assign_rows(sizes, plan) if plan else None
            if rows is not None:
                return batch[rows], plan, True
        rows = np.argsort(sizes, kind="stable")
        return batch[rows], tight_layout(sizes[rows] + 1, self.config.run.blocks), False

    def _fixed_plan(self, batch_size: int) -> tuple[PaddedGroup, ...]:
        """The plan for batches of this size; empty for one more than a handful of sizes."""
        if batch_size not in self._plans:
            room = len(self._plans) < _MOST_PLANS and batch_size > 1
            blocks = self.config.run.blocks
            plan = fixed_layout(self._train_sizes, batch_size, blocks) if room else ()
            self._plans[batch_size] = plan
        return self._plans[batch_size]

    def _take(self, graphs: Tensor, plan: tuple[PaddedGroup, ...], fixed: bool) -> None:
        run, examples = self.config.run, self.examples
        batch = examples.graphs.gather(graphs, plan)
        weights = None if examples.weights is None else examples.weights[graphs]
        with products_in(run.precision, self.device):
            with autocast(run.precision, self.device):
                outputs = self._outputs(batch, fixed)
            loss_sum, count = self._loss(outputs, examples.labels[graphs], weights)
            of_all = count.clone()
            self.world.sum(of_all)
            self.optimizer.zero_grad()
            # several processes take the mean of their gradients, so each counts its sum that often
            (loss_sum * self.world.size / of_all.clamp(min=TINY)).backward()
        if self.config.optim.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.optim.clip_norm)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.network, self._weight)
        self.totals += torch.stack([loss_sum.detach(), count])

    def _outputs(self, batch: GraphBatch, fixed: bool) -> Tensor:
        if fixed and self._compiled is not None:
            try:
                return self._compiled(batch)
            except Exception as error:  # the compiler fails in many ways, the network in none
                self.note(f"The network is not compiled: {_first_line(error)}")
                self._compiled = None
        return self._forward(batch)

    def _recording(self, planned: Planned) -> Callable[[Tensor], None] | None:
        """What takes a step on molecules laid out like these; None where it cannot be recorded."""
        if planned.plan not in self._recorded:
            graphs = planned.graphs.clone()
            try:
                again = record(lambda: self._take(graphs, planned.plan, True), self.state)
            except CaptureFailed as error:
                self.note(f"Steps are taken eagerly, since they cannot be captured: {error}")
                self._captured = False
                return None
            self._recorded[planned.plan] = graphs, again
        graphs, again = self._recorded[planned.plan]

        def replay(molecules: Tensor) -> None:
            graphs.copy_(molecules)
            again()

        return replay


def _in_parallel(
    network: nn.Module, world: DistributedContext, device: torch.device
) -> Callable[[GraphBatch], Tensor]:
    """The network, its gradients averaged over the processes."""
    if world.size == 1:
        return network
    parallel = nn.parallel.DistributedDataParallel(
        network,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
    )
    parallel.broadcast_buffers = False  # synchronised norms keep them alike
    return parallel


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
