"""Do the tasks of a screen with actors of a Ray cluster."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from molsepnorm.errors import ConfigError, MolsepnormError
from molsepnorm.optional import require_package
from molsepnorm.workers import attempt

if TYPE_CHECKING:
    from molsepnorm.predict.screening.results import Done
    from molsepnorm.predict.screening.screen import Jobs, Work

_AHEAD = 2  # tasks per actor that are given to it
_SECONDS = 10.0  # for the cluster to answer
_RETRIES = 3  # of a task whose actor dies


class Cluster:
    """Actors that hold the model and do one task after the other.

    Ray places the actors, starts an actor that died again, and repeats its task. The cluster is the
    one that this process is connected to, that of the environment variable `RAY_ADDRESS`, or one
    that runs on this machine; otherwise Ray is started on this machine for the time of the screen.
    All nodes need molsepnorm, and the files of the library and of the output under the same paths.

    Args:
        actors: their number; by default one for each CPU of the cluster.

    Raises:
        ConfigError: Ray is not installed, the cluster cannot be reached, or it has fewer CPUs.
    """

    def __init__(self, work: Work, actors: int | None = None) -> None:
        self._ray = require_package("ray", "ray", "a screen on Ray")
        self._ours = not self._ray.is_initialized()
        if self._ours:
            _require_listening(os.environ.get("RAY_ADDRESS", ""))
            try:
                self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise _unreachable(error) from None
        cpus = int(self._ray.cluster_resources().get("CPU", 0))
        if (actors or 1) > cpus:
            self._leave()
            raise ConfigError(
                f"the Ray cluster has {cpus} CPUs, and each process needs one: give --processes "
                f"up to {cpus}"
            )
        self._work = self._ray.put(work)
        options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": _RETRIES}
        make = self._ray.remote(**options)(_Actor)
        self._actors = [make.remote() for _ in range(actors or cpus)]

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._leave()

    def _leave(self) -> None:
        if self._ours:
            self._ray.shutdown()

    def map(self, jobs: Jobs) -> Iterator[Done]:
        """Yield the results as they are finished; few jobs are taken in advance.

        Raises:
            MolsepnormError: the actor of a task died several times.
            Exception: the exception of a task.
        """
        jobs = iter(jobs)
        idle = self._actors * _AHEAD
        running: dict[Any, Any] = {}
        while True:
            while idle and (job := next(jobs, None)) is not None:
                actor = idle.pop(0)
                running[actor.do.remote([self._work], job)] = actor
            if not running:
                return
            (ready,), _ = self._ray.wait(list(running), num_returns=1)
            idle.append(running.pop(ready))
            try:
                failed, result = self._ray.get(ready)
            except self._ray.exceptions.RayError as error:
                raise MolsepnormError(
                    f"a process of the Ray cluster ended {_RETRIES + 1} times in the same task: "
                    f"{str(error).strip().splitlines()[0]} Often memory has run out: use fewer "
                    "processes for each node"
                ) from None
            if failed:
                raise result
            yield result


def _require_listening(address: str) -> None:
    """Check that a server listens at an address such as 10.0.0.1:6379; Ray tries for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():  # such as auto
        return
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(f"{address}, {error}") from None


def _unreachable(reason: object) -> ConfigError:
    return ConfigError(
        f"the Ray cluster cannot be reached: {str(reason).strip()}. Check the environment variable "
        "RAY_ADDRESS, or leave it empty to start Ray on this machine"
    )


class _Actor:
    """A process of the cluster that does tasks, with one thread."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._work: Work | None = None

    def do(self, works: list[Any], job: Any) -> tuple[bool, Any]:
        """Return whether the task failed, and its result or the exception.

        Args:
            works: a reference to the work, in a list, which keeps Ray from copying it to each task.
        """
        if self._work is None:
            self._work = importlib.import_module("ray").get(works[0])
        assert self._work is not None
        return attempt(self._work, job)
