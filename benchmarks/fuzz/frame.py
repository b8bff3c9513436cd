"""Draw cases, run them in forked children with limits, and shrink the cases that fail."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

import torch

from benchmarks.fuzz.promises import Broken
from benchmarks.fuzz.work import Work

BATCH = 50
SECONDS = 20  # of CPU for a case, if its kind sets no limit; and the longest time without CPU use
MEMORY = 6 << 30  # bytes of address space for a case, in addition to the parent's

Case = dict[str, Any]


def draw(kind: ModuleType, seed: int, number: int, work: Work) -> Case:
    """Return the case of this number."""
    return kind.make(random.Random(f"{seed} {kind.__name__} {number}"), work)


def run_case(kind: ModuleType, case: Case, work: Work) -> Broken | None:
    """Run one case in a child."""
    return next(run_cases(kind, [case], work))


def run_cases(kind: ModuleType, cases: Sequence[Case], work: Work) -> Iterator[Broken | None]:
    """Yield the broken promise of each case, in order. A case that ends its child runs again by
    itself."""
    done, patience = 0, getattr(kind, "SECONDS", SECONDS)
    while done < len(cases):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = os.fork()
        if not child:
            _serve(kind, cases[done:], work, theirs)
        theirs.close()
        ends, spent = os.pidfd_open(child), -1.0
        try:
            while done < len(cases):
                if not (ready := wait([ours, ends], patience)):
                    if (now := _cpu_seconds(child)) == spent:
                        os.kill(child, signal.SIGALRM)
                    spent = now
                elif ours not in ready:
                    break
                else:
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
                found = again or Broken(found.promise, alone, f"{found.key} in a batch")
            done += 1
            yield found


def _cpu_seconds(process: int) -> float:
    with open(f"/proc/{process}/stat") as file:
        times = file.read().rpartition(")")[2].split()[11:15]  # with those of its ended children
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _death(status: int) -> Broken:
    if not os.WIFSIGNALED(status):
        what = f"the interpreter left with status {os.waitstatus_to_exitcode(status)}"
        return Broken("no crash", what, what)
    name = signal.Signals(os.WTERMSIG(status)).name
    if name in ("SIGXCPU", "SIGALRM"):
        spent = "of CPU time" if name == "SIGXCPU" else "and uses no CPU"
        return Broken("no hang", f"it was not done within its seconds {spent}", f"hang {name}")
    return Broken("no crash", f"the interpreter was ended by {name}", name)


def _serve(kind: ModuleType, cases: Sequence[Case], work: Work, channel: Connection) -> None:
    """Run cases in a child, which has a session and a scratch folder of its own."""
    try:
        os.setsid()
        torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
        with open("/proc/self/statm") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for case in cases:
            used = resource.getrusage(resource.RUSAGE_SELF)
            seconds = used.ru_utime + used.ru_stime + getattr(kind, "SECONDS", SECONDS)
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, hard))
            channel.send(_attempt(kind, case, work))
    finally:
        os._exit(0)


def _attempt(kind: ModuleType, case: Case, work: Work) -> Broken | None:
    scratch = work.root / f"scratch-{os.getpid()}"
    scratch.mkdir()
    os.chdir(scratch)
    try:
        kind.check(case, work)
    except Broken as broken:
        return broken.with_traceback(None)
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        key = f"{type(error).__name__} in the campaign, {frame.name}"
        return Broken("the campaign itself", traceback.format_exc()[-3000:], key)
    finally:
        os.chdir(work.root)
        shutil.rmtree(scratch, ignore_errors=True)
    return None


def shrink(case: Case, parts: Sequence[str], fails: Callable[[Case], bool], seconds: float) -> Case:
    """Remove pieces of the texts, bytes and lists under these names, as long as the case fails."""
    end = time.monotonic() + seconds
    found = True
    while found:
        found = False
        for name in parts:
            for smaller in _smaller(case[name]):
                if time.monotonic() > end:
                    return case
                if fails({**case, name: smaller}):
                    case, found = {**case, name: smaller}, True
                    break
    return case


def _smaller(value: Any) -> Iterator[Any]:
    """Yield the value without a half, a quarter, …; then with a smaller element."""
    if not isinstance(value, str | bytes | list):
        return
    step = len(value)
    while step := step // 2 if step > 1 else 0:
        for start in range(0, len(value), step):
            yield value[:start] + value[start + step :]
    if isinstance(value, list):
        for i, each in enumerate(value):
            for smaller in _smaller(each):
                yield [*value[:i], smaller, *value[i + 1 :]]
