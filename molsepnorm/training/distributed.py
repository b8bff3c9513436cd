"""Data-parallel training with several processes.

Under `torchrun --nproc-per-node N -m molsepnorm train …` every process draws the same weights,
computes the same schedule and takes its share of each batch. Only the first process writes files.
Without torchrun there is one process, `DistributedContext()`, and `torch.distributed` is not used.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from molsepnorm.devices import pick_device
from molsepnorm.errors import ConfigError, MolsepnormError

T = TypeVar("T")

# in the order of the fields of DistributedContext
_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
_TIMEOUT = timedelta(hours=12)  # the first process may prepare a large data set

_LEFT: list[Any] = []
"""The process groups that were left. Freeing one waits for its threads, which may wait for Python's
lock to release a tensor. Python frees a group without the lock, but a DDP object holds it, so the
process would hang for ever if a DDP object were the last to refer to the group."""


class _LostProcess(MolsepnormError):
    """Another process has ended."""


@dataclass(frozen=True)
class DistributedContext:
    """One process among those of a run.

    All processes must call the same methods in the same order; each call waits for the others.

    >>> import numpy as np
    >>> DistributedContext(rank=1, size=2).share(np.array([7, 8, 9]))
    array([8])
    """

    rank: int = 0
    """Number of this process, from 0."""
    size: int = 1
    """Number of processes on all machines."""
    local_rank: int = 0
    """Number of this process on its machine, and of its GPU."""
    local_size: int = 1
    """Number of processes on this machine."""

    @staticmethod
    @contextmanager
    def join(device: str) -> Iterator[DistributedContext]:
        """Join the processes that torchrun started, if any, and leave them at the end.

        Raises:
            ConfigError: there are not enough devices.
            MolsepnormError: another process has ended.
        """
        names = _TORCHRUN if all(name in os.environ for name in _TORCHRUN) else ()
        world = DistributedContext(*(int(os.environ[name]) for name in names))
        if world.size == 1:
            yield world
            return
        chosen = device_of_rank(device, world)
        if chosen.type == "cuda":
            torch.cuda.set_device(chosen)
        _let_groups_end_before_python()
        try:
            with _clear_lost_process(world):
                dist.init_process_group(_BACKENDS[chosen.type], timeout=_TIMEOUT)
                yield world
        except MolsepnormError as error:
            if chosen.type == "cpu" or not isinstance(error, _LostProcess):
                _leave()  # NCCL might wait for the lost process
            raise  # after any other error, leaving could wait for the other processes
        _leave()

    @property
    def first(self) -> bool:
        return self.rank == 0

    def require_batch(self, batch_size: int) -> None:
        """Check that every process gets at least two molecules of a batch."""
        if self.size > 1 and batch_size < 2 * self.size:
            raise ConfigError(
                "run.batch_size counts the molecules of a step over all processes together, and "
                f"each needs at least 2: got {batch_size} for {self.size} processes. Try "
                f"--batch-size {2 * self.size} or more, or fewer processes"
            )

    def share(self, graphs: np.ndarray, min_size: int = 0) -> np.ndarray:
        """Return this process's part of `graphs`; each molecule belongs to exactly one process.

        Raises:
            ConfigError: a process would get fewer than `min_size`; raised by every process.
        """
        if len(graphs) < min_size * self.size:
            raise ConfigError(
                f"a step of {len(graphs)} molecules cannot be divided among {self.size} processes: "
                "use fewer of them, more training molecules or, where large molecules make small "
                "batches, a higher run.max_pairs"
            )
        return graphs[self.rank :: self.size]

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows (G, …) of all processes on the CPU, from this process's share (g, …)."""
        parts = self._exchange(rows.cpu())
        whole = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
        for rank, part in enumerate(parts):
            if len(part):  # an empty share may lack the other dimensions
                whole[rank :: self.size] = part
        return whole

    def sum(self, *tensors: Tensor) -> None:
        """Add up each tensor over all processes, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process, without waiting for a GPU."""
        if self.size == 1:
            return flag
        flags = torch.tensor(int(flag))
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return bool(flags)

    def on_main_process(self, action: Callable[[], T]) -> T:
        """Run the action in the first process, and return its picklable result, or raise its error,
        in all."""
        return self._exchange(self._run(action, self.first))[0]

    def main_process_first(self, action: Callable[[], T]) -> T:
        """Run the action in the first process, then in the others, which find its results in a
        cache. An error in one process is raised in all."""
        result = self._run(action, self.first)
        others = self._run(action, not self.first)
        return result if self.first else others

    def spread_random(self, *key: int) -> None:
        """Seed the random numbers of each process but the first by `key` and its rank."""
        if not self.first:
            seed = np.random.SeedSequence((*key, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(seed[0]))

    def random_states(self) -> dict[str, Tensor]:
        """Return the random states of all processes: `cpu`, `cuda` if there is a GPU, and `cpu.1`
        and so on for the other processes."""
        own = {self._name("cpu"): torch.get_rng_state()}
        if torch.cuda.is_available():
            own[self._name("cuda")] = torch.cuda.get_rng_state()
        return dict(ChainMap(*self._exchange(own)))

    def restore_random(self, states: Mapping[str, Tensor], *key: int) -> None:
        """Restore this process's states from those of `random_states`, or call
        `spread_random(*key)` if it has none."""
        if self._name("cpu") not in states:
            self.spread_random(*key)
            return
        torch.set_rng_state(states[self._name("cpu")])
        if torch.cuda.is_available() and self._name("cuda") in states:
            torch.cuda.set_rng_state(states[self._name("cuda")])

    def _name(self, kind: str) -> str:
        return kind if self.first else f"{kind}.{self.rank}"

    def _run(self, action: Callable[[], T], here: bool) -> T:
        """Run an action in some processes, and raise an error of one in all, so that none hangs."""
        result, error, shared = None, None, None
        try:
            result = action() if here else None
        except BaseException as own:
            error = shared = own
            if not isinstance(own, MolsepnormError):
                what = f"{type(own).__name__}: {own}"
                shared = MolsepnormError(f"process {self.rank} failed: {what}")
            if self.size == 1:
                raise
        for other in (error, *self._exchange(shared)):
            if other is not None:
                raise other
        return cast(T, result)

    def _exchange(self, value: T) -> list[T]:
        values: list[Any] = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values


def device_of_rank(name: str, world: DistributedContext) -> torch.device:
    """Return the device of a process; each of several processes has a GPU of its own.

    Raises:
        ConfigError: there is no such device, or there are too few.
    """
    if world.size == 1:
        return pick_device(name)
    gpus = torch.cuda.device_count()
    if name.startswith("cuda:"):
        raise ConfigError(
            f"{world.size} processes cannot share the device '{name}': with --device cuda each "
            "gets a GPU of its own (CUDA_VISIBLE_DEVICES chooses which)"
        )
    if name not in ("auto", "cuda") or not gpus:
        return pick_device(name)
    if world.local_size > gpus:
        raise ConfigError(
            f"each process needs a GPU of its own: torchrun started {world.local_size} of them on "
            f"this machine, which has {gpus}. Try --nproc-per-node {gpus}, or --device cpu"
        )
    return torch.device("cuda", world.local_rank)


def _let_groups_end_before_python() -> None:
    """Release process groups and their threads before Python ends, since a thread that releases a
    tensor at that moment aborts the process (https://github.com/pytorch/pytorch/issues/190489)."""
    # default arguments of its functions hold the group that exists when DDP imports it: none now
    importlib.import_module("torch.distributed.nn.functional")
    atexit.unregister(_release)
    atexit.register(_release)


def _release() -> None:
    gc.collect()  # DDP objects are in reference cycles
    _LEFT.clear()


def _leave() -> None:
    if dist.is_initialized():  # joining itself may have failed
        _LEFT.append(dist.group.WORLD)
        dist.destroy_process_group()


@contextmanager
def _clear_lost_process(world: DistributedContext) -> Iterator[None]:
    """Raise a clear error in place of torch's if another process has ended."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error).lower():
            raise
        what = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise _LostProcess(
            f"process {world.rank} of {world.size} lost another process, whose output may say why: "
            f"{what}. Continue the run with --resume"
        ) from error
