"""The processes that train one model together: who they are, and how they agree.

Under `torchrun --nproc-per-node N -m molsepnorm train …` every process draws the same weights and
plans the same epochs, and takes its share of each batch. The first process alone writes. Outside
torchrun there is one process, `DistributedContext()`, and `torch.distributed` is not touched.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from molsepnorm.errors import ConfigError, MolsepnormError
from molsepnorm.predict.inference import pick_device

__all__ = ["DistributedContext", "device_of_rank"]

T = TypeVar("T")

_TORCHRUN = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
)  # a DistributedContext's, in order
_BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
_PATIENCE = timedelta(hours=12)  # the first process may have a large data set to prepare


class _LostProcess(MolsepnormError):
    pass


@dataclass(frozen=True)
class DistributedContext:
    """The processes of a run, as one of them sees them.

    All of them call the same methods in the same order: each waits for the others.

    >>> import numpy as np
    >>> DistributedContext(rank=1, size=2).share(np.array([7, 8, 9]))
    array([8])
    """

    rank: int = 0
    """This process's number, from 0."""
    size: int = 1
    """How many there are, on all machines."""
    local_rank: int = 0
    """This process's number on its machine, which is also its GPU's."""
    local_size: int = 1
    """How many there are on its machine."""

    @staticmethod
    @contextmanager
    def join(device: str) -> Iterator[DistributedContext]:
        """Meet the other processes that torchrun started, if it did, and take leave at the end.

        Where the program has initialised `torch.distributed` by itself, that is used as it is.

        Args:
            device: which they will compute on, as in `run.device`.

        Raises:
            ConfigError: the device cannot be had by all, or the program's own process group
                cannot exchange CPU tensors.
            MolsepnormError: another process is gone.
        """
        if dist.is_available() and dist.is_initialized():
            yield _of_the_program()
            return
        world = _of_torchrun() or DistributedContext()
        if world.size == 1:
            yield world
            return
        place = device_of_rank(device, world)
        if place.type == "cuda":
            torch.cuda.set_device(place)
        _let_groups_end_before_python()
        try:
            with _lost_processes_told(world):
                dist.init_process_group(_BACKENDS[place.type], timeout=_PATIENCE)
                yield world
        except MolsepnormError as error:
            if place.type == "cpu" or not isinstance(error, _LostProcess):
                _leave()  # NCCL might wait for the lost one
            raise  # after anything unforeseen, taking leave could wait for the others
        _leave()

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and reports."""
        return self.rank == 0

    def require_batch(self, batch_size: int) -> None:
        """Check that every process gets two molecules of a batch or more.

        Raises:
            ConfigError: it does not.
        """
        if self.size > 1 and batch_size < 2 * self.size:
            raise ConfigError(
                "run.batch_size counts the molecules of a step over all processes together, and "
                f"each needs at least 2: got {batch_size} for {self.size} processes. Try "
                f"--batch-size {2 * self.size} or more, or fewer processes"
            )

    def share(self, graphs: np.ndarray, least: int = 0) -> np.ndarray:
        """This process's part of `graphs`: each belongs to exactly one process.

        Args:
            graphs: the same on every process.
            least: how many each process needs; a network cannot be trained on none.

        Raises:
            ConfigError: there are too few, on every process alike.
        """
        if len(graphs) < least * self.size:
            raise ConfigError(
                f"a step of {len(graphs)} molecules cannot be divided among {self.size} processes: "
                "use fewer of them, more training molecules or, where large molecules make small "
                "batches, a higher run.max_pairs"
            )
        return graphs[self.rank :: self.size]

    def gather(self, rows: Tensor) -> Tensor:
        """Undo `share`: from each process's rows those of all, in order, on the CPU, bit for bit.

        Args:
            rows: (g, …), one for each molecule of this process's share.

        Returns:
            (G, …), the same on every process.
        """
        if self.size == 1:
            return rows.cpu()
        parts = self._exchange(rows.cpu())
        whole = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
        for rank, part in enumerate(parts):
            if len(part):  # a share of nothing may not know the other dimensions
                whole[rank :: self.size] = part
        return whole

    def sum(self, *tensors: Tensor) -> None:
        """Add up each tensor over all processes, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def any(self, flag: bool) -> bool:
        """Whether any process says so. No GPU is waited for."""
        if self.size == 1:
            return flag
        said = torch.tensor(int(flag))
        dist.all_reduce(said, dist.ReduceOp.MAX)
        return bool(said)

    def on_main_process(self, action: Callable[[], T]) -> T:
        """The first process does this for all, while the others wait: its result, or error.

        For what must happen once: choosing a folder, writing a file. The result must be picklable.

        Raises:
            MolsepnormError: the action raised it; the same on every process.
        """
        if self.size == 1:
            return action()
        result, error = _attempt(action) if self.first else (None, None)
        self._agree(error)
        results = [result]
        dist.broadcast_object_list(results)
        return cast(T, results[0])

    def main_process_first(self, action: Callable[[], T]) -> T:
        """The first process does this, and then the others, which find what it left in a cache.

        Raises:
            MolsepnormError: on one of them the action raised it; the same on every process.
        """
        if self.size == 1:
            return action()
        result, error = _attempt(action) if self.first else (None, None)
        self._agree(error)
        if not self.first:
            result, error = _attempt(action)
        self._agree(error)
        return cast(T, result)

    def spread_random(self, *key: int) -> None:
        """Give every process random numbers (dropout) of its own, which follow from `key`. Those
        of the first one stay as they are, so that a run of one process knows nothing of this."""
        if not self.first:
            seed = np.random.SeedSequence((*key, self.rank)).generate_state(1, np.uint64)
            torch.manual_seed(int(seed[0]))

    def random_states(self) -> dict[str, Tensor]:
        """The states of all processes' generators, for a checkpoint, by name: `cpu`, and `cuda`
        where there is one; from the second process on `cpu.1` and so on."""
        own = {self._name("cpu"): torch.get_rng_state()}
        if torch.cuda.is_available():
            own[self._name("cuda")] = torch.cuda.get_rng_state()
        states: dict[str, Tensor] = {}
        for each in self._exchange(own) if self.size > 1 else [own]:
            states |= each
        return states

    def restore_random(self, states: Mapping[str, Tensor], *key: int) -> None:
        """Take this process's states from those of `random_states`. A process that has none, as
        the run had fewer of them, draws from `spread_random(*key)`: let the step be part of it."""
        if self._name("cpu") not in states:
            self.spread_random(*key)
            return
        torch.set_rng_state(states[self._name("cpu")])
        if torch.cuda.is_available() and self._name("cuda") in states:
            torch.cuda.set_rng_state(states[self._name("cuda")])

    def _name(self, kind: str) -> str:
        return kind if self.first else f"{kind}.{self.rank}"

    def _agree(self, error: BaseException | None) -> None:
        """Raise on every process what was raised on one, so that nobody waits in vain."""
        told = error
        if error is not None and not isinstance(error, MolsepnormError):
            told = MolsepnormError(f"process {self.rank} failed: {type(error).__name__}: {error}")
        errors = self._exchange(told)
        if error is not None:
            raise error
        for other in errors:
            if other is not None:
                raise other

    def _exchange(self, value: T) -> list[T]:
        """What every process has, in order."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


def device_of_rank(name: str, world: DistributedContext) -> torch.device:
    """What `pick_device` gives one process; of several, each has a GPU of its own.

    Raises:
        ConfigError: there is no such device, or not one for each process.
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


def _of_torchrun() -> DistributedContext | None:
    """What torchrun told this process; None where it did not start it."""
    if not all(name in os.environ for name in _TORCHRUN):
        return None
    return DistributedContext(*(int(os.environ[name]) for name in _TORCHRUN))


def _of_the_program() -> DistributedContext:
    """The processes of a program that has initialised `torch.distributed` by itself."""
    backends = dist.get_backend_config()
    if "cpu" not in backends:
        raise ConfigError(
            f"the program's process group ({backends}) has no backend for CPU tensors: initialise "
            f"it by torch.distributed.init_process_group('{_BACKENDS['cuda']}')"
        )
    rank, size = dist.get_rank(), dist.get_world_size()
    told = _of_torchrun() or DistributedContext(rank, size, rank, size)  # all on this machine
    return DistributedContext(rank, size, told.local_rank, told.local_size)


def _let_groups_end_before_python() -> None:
    """See to it that nothing keeps a group that was left, nor its threads, until Python ends.

    One of them that lets go of a tensor in that moment aborts the process, whose work is done
    (https://github.com/pytorch/pytorch/issues/190489).
    """
    # its functions' default arguments are the group that there is when DDP imports it: now, none
    importlib.import_module("torch.distributed.nn.functional")
    atexit.unregister(gc.collect)
    atexit.register(gc.collect)  # DDP is in cycles of references


def _leave() -> None:
    if dist.is_initialized():  # what failed may have been the meeting
        dist.destroy_process_group()


def _attempt(action: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return action(), None
    except BaseException as error:
        return None, error


@contextmanager
def _lost_processes_told(world: DistributedContext) -> Iterator[None]:
    """An error of torch's that another process is gone, as one of ours."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error).lower():
            raise
        what = str(error).strip().partition("\n")[0].partition(". ")[0]
        raise _LostProcess(
            f"process {world.rank} of {world.size} lost another one, which may have said why: "
            f"{what}. Go on with the run by --resume"
        ) from error
