"""Run cases in forked children: a child that dies or hangs is a finding, not the end."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

import torch

from benchmarks.fuzz.promises import Broken
from benchmarks.fuzz.work import Work

BATCH = 50
SECONDS = 20  # of CPU for a case, where its kind sets no limit; and as many without any use of CPU
MEMORY = 6 << 30  # bytes of address space for a case, besides what the campaign has


@dataclass(frozen=True)
class Finding:
    """A promise that a case broke."""

    promise: str
    what: str
    key: str


def draw(kind: ModuleType, seed: int, number: int, work: Work) -> dict[str, Any]:
    """The case of this number: plain values."""
    return kind.make(random.Random(f"{seed} {kind.__name__} {number}"), work)


def run_case(kind: ModuleType, case: dict[str, Any], work: Work) -> Finding | None:
    """Run one case in a child."""
    return next(run_cases(kind, [case], work))


def run_cases(
    kind: ModuleType, cases: Sequence[dict[str, Any]], work: Work
) -> Iterator[Finding | None]:
    """Yield the outcomes in order. A case that ends its child is run again by itself."""
    done = 0
    while done < len(cases):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = os.fork()
        if not child:
            _serve(kind, cases[done:], work, theirs)
        theirs.close()
        ends = os.pidfd_open(child)
        try:
            while done < len(cases) and _listen(ours, ends, child, _limit(kind)):
                found = ours.recv()
                done += 1
                yield found
        except EOFError:
            pass
        finally:
            ours.close()
            if done == len(cases):
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            os.close(ends)
            with suppress(OSError):
                os.killpg(child, signal.SIGKILL)  # whatever it has started
        if done < len(cases):
            found = _death(status)
            if len(cases) > 1:
                again = run_case(kind, cases[done], work)
                alone = f"{found.what}; not when run by itself"
                found = again or Finding(found.promise, alone, f"{found.key} in a batch")
            done += 1
            yield found


def _listen(ours: Connection, ends: int, child: int, patience: float) -> bool:
    """Wait for an outcome; return False if the child has ended. A child that uses no CPU for
    `patience` seconds is ended."""
    spent, since = 0.0, time.monotonic()
    while not (ready := wait([ours, ends], patience / 10)):
        if (now := _cpu_seconds(child)) > spent:
            spent, since = now, time.monotonic()
        elif time.monotonic() - since > patience:
            os.kill(child, signal.SIGALRM)
    return ours in ready


def _cpu_seconds(process: int) -> float:
    with open(f"/proc/{process}/stat") as file:
        times = file.read().rpartition(")")[2].split()[11:15]  # its own, and its ended children's
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _limit(kind: ModuleType) -> float:
    return getattr(kind, "SECONDS", SECONDS)


def _death(status: int) -> Finding:
    if not os.WIFSIGNALED(status):
        what = f"the interpreter left with status {os.waitstatus_to_exitcode(status)}"
        return Finding("no crash", what, what)
    name = signal.Signals(os.WTERMSIG(status)).name
    if name in ("SIGXCPU", "SIGALRM"):
        spent = "of CPU time" if name == "SIGXCPU" else "and waits for something"
        return Finding("no hang", f"it was not done within its seconds {spent}", f"hang {name}")
    return Finding("no crash", f"the interpreter was ended by {name}", name)


def _serve(
    kind: ModuleType, cases: Sequence[dict[str, Any]], work: Work, channel: Connection
) -> None:
    """A child's life. It has a session and a scratch folder of its own."""
    try:
        os.setsid()
        torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
        limit = _address_space() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for case in cases:
            _limit_cpu(_limit(kind))
            channel.send(_attempt(kind, case, work))
    finally:
        os._exit(0)


def _attempt(kind: ModuleType, case: dict[str, Any], work: Work) -> Finding | None:
    scratch = work.root / f"scratch-{os.getpid()}"
    scratch.mkdir()
    os.chdir(scratch)
    try:
        kind.check(case, work)
    except Broken as broken:
        return Finding(broken.promise, broken.what, broken.key)
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in the campaign, {frame.name}"
        return Finding("the campaign itself", traceback.format_exc()[-3000:], where)
    finally:
        os.chdir(work.root)
        shutil.rmtree(scratch, ignore_errors=True)
    return None


def _limit_cpu(seconds: float) -> None:
    """Let SIGXCPU end this process after so many seconds more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
