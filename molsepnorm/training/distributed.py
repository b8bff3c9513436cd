"""Data-parallel training: each process that torchrun starts takes its share of each batch."""

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

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")  # as in DistributedContext
_BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
_TIMEOUT = timedelta(hours=12)  # the first process may prepare a large data set

_LEFT: list[Any] = []
"""The process groups that were left. Freeing one waits for its threads, which may wait for Python's
lock. Python frees a group without the lock, but a DDP object holds it, so the process would hang if
a DDP object were the last to refer to the group."""


@dataclass(frozen=True)
class DistributedContext:
    """One process among those of a run; by default the only one.

    All processes must call the same methods in the same order; each call waits for the others.
    """

    rank: int = 0
    size: int = 1  # number of processes on all machines
    local_rank: int = 0  # number of this process on its machine, and of its GPU
    local_size: int = 1

    @staticmethod
    @contextmanager
    def join(device: str) -> Iterator[DistributedContext]:
        """Join the processes that torchrun started, if any, and leave them at the end."""
        names = _TORCHRUN if all(name in os.environ for name in _TORCHRUN) else ()
        world = DistributedContext(*(int(os.environ[name]) for name in names))
        if world.size == 1:
            yield world
            return
        chosen = device_of_rank(device, world)
        if chosen.type == "cuda":
            torch.cuda.set_device(chosen)
        # default arguments of its functions hold the group that exists when DDP imports it
        importlib.import_module("torch.distributed.nn.functional")
        atexit.unregister(_release)
        atexit.register(_release)
        try:
            dist.init_process_group(_BACKENDS[chosen.type], timeout=_TIMEOUT)
            yield world
        except MolsepnormError:
            _leave()
            raise
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and "gloo" not in str(error).lower():
                raise  # after such an error, leaving could wait for the other processes
            if chosen.type == "cpu":
                _leave()  # NCCL might wait for the lost process
            what = str(error).strip().partition("\n")[0].partition(". ")[0]
            raise MolsepnormError(
                f"process {world.rank} of {world.size} lost another process, whose output may say "
                f"why: {what}. Continue the run with --resume"
            ) from error
        _leave()

    def share(self, graphs: np.ndarray, min_size: int = 0) -> np.ndarray:
        """Return this process's part of `graphs`; each molecule belongs to exactly one process."""
        if len(graphs) < min_size * self.size:
            raise ConfigError(
                f"a step of {len(graphs)} molecules cannot be divided among {self.size} processes: "
                "use fewer of them, more training molecules, or a higher run.batch_size or "
                "run.max_pairs"
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

    def sum(self, tensor: Tensor) -> None:
        if self.size > 1:
            dist.all_reduce(tensor)

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process, without waiting for a GPU."""
        if self.size == 1:
            return flag
        flags = torch.tensor(int(flag))
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return bool(flags)

    def on_main_process(self, action: Callable[[], T]) -> T:
        """Run the action in the first process; return its result, or raise its error, in all."""
        return self._exchange(self._run(action, self.rank == 0))[0]

    def main_process_first(self, action: Callable[[], T]) -> T:
        """Run the action in the first process, then in the others, which find cached results."""
        result = self._run(action, self.rank == 0)
        others = self._run(action, self.rank > 0)
        return result if self.rank == 0 else others

    def spread_random(self, *key: int) -> None:
        if self.rank > 0:
            seed = np.random.SeedSequence((*key, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(seed[0]))

    def random_states(self) -> dict[str, Tensor]:
        """Return the random states of all processes, such as `cpu`, `cuda` and `cpu.1`."""
        states = {self._name("cpu"): torch.get_rng_state()}
        if torch.cuda.is_available():
            states[self._name("cuda")] = torch.cuda.get_rng_state()
        return dict(ChainMap(*self._exchange(states)))

    def restore_random(self, states: Mapping[str, Tensor], *key: int) -> None:
        """Restore the states of this process, or call `spread_random(*key)` if it has none."""
        if self._name("cpu") not in states:
            self.spread_random(*key)
            return
        torch.set_rng_state(states[self._name("cpu")])
        if torch.cuda.is_available() and self._name("cuda") in states:
            torch.cuda.set_rng_state(states[self._name("cuda")])

    def _name(self, kind: str) -> str:
        return kind if self.rank == 0 else f"{kind}.{self.rank}"

    def _run(self, action: Callable[[], T], here: bool) -> T:
        """Run an action in some processes, and raise an error of one in all, so that none hangs."""
        if self.size == 1 and here:
            return action()
        result, error, shared = None, None, None
        try:
            result = action() if here else None
        except BaseException as raised:
            error = shared = raised
            if not isinstance(raised, MolsepnormError):
                what = f"{type(raised).__name__}: {raised}"
                shared = MolsepnormError(f"process {self.rank} failed: {what}")
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
    """Return the device of a process; each of several processes needs its own GPU."""
    if world.size == 1:
        return pick_device(name)
    gpus = torch.cuda.device_count()
    if name.startswith("cuda:"):
        raise ConfigError(
            f"{world.size} processes cannot share the device '{name}': with --device cuda each "
            "gets its own GPU (CUDA_VISIBLE_DEVICES chooses which)"
        )
    if name not in ("auto", "cuda") or not gpus:
        return pick_device(name)
    if world.local_size > gpus:
        raise ConfigError(
            f"each process needs its own GPU: torchrun started {world.local_size} of them on "
            f"this machine, which has {gpus}. Try --nproc-per-node {gpus}, or --device cpu"
        )
    return torch.device("cuda", world.local_rank)


def _release() -> None:
    """Release process groups and their threads before Python ends, since a thread that releases a
    tensor at that moment aborts the process (https://github.com/pytorch/pytorch/issues/190489)."""
    gc.collect()  # DDP objects are in reference cycles
    _LEFT.clear()


def _leave() -> None:
    if dist.is_initialized():  # joining itself may have failed
        _LEFT.append(dist.group.WORLD)
        dist.destroy_process_group()
