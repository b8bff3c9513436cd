"""Draw cases, run them in forked children with limits, shrink and list those that fail."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from pprint import pformat
from typing import Any

import torch

from benchmarks.fuzz.kinds import KINDS
from benchmarks.fuzz.promises import Broken
from benchmarks.fuzz.work import Work

SECONDS = 20  # of CPU for a case, if its kind sets no limit; and the longest time without CPU use
MEMORY = 6 << 30  # bytes of address space for a case, in addition to the parent's

Case = dict[str, Any]


class Campaign:
    """Runs the kinds in turn, the one with the least time so far first, and writes findings."""

    def __init__(self, work: Work, seed: int, output: Path, shrinking: float = 20.0) -> None:
        self.work, self.seed, self.output, self.shrinking = work, seed, output, shrinking
        self.found: Counter[tuple[str, str, str]] = Counter()  # by kind, promise and key
        self.tried: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def run(self, kinds: tuple[str, ...], minutes: float, cases: int | None) -> None:
        """Run cases until the time, or the number of cases, is used up."""
        end = None if cases else time.monotonic() + minutes * 60
        left = set(kinds)
        while left and (end is None or time.monotonic() < end):
            name = min(left, key=lambda each: (self.seconds[each], kinds.index(each)))
            kind, first, begun = KINDS[name], self.tried[name], time.monotonic()
            if first == cases:
                left.discard(name)
                continue
            case = draw(kind, self.seed, first, self.work)
            finding = run_case(kind, case, self.work)
            self.tried[name] += 1
            self.seconds[name] += time.monotonic() - begun
            if finding is not None:
                self._add(name, first, case, finding)

    def _add(self, name: str, number: int, case: Case, finding: Broken) -> None:
        key = (name, finding.promise, finding.key)
        self.found[key] += 1
        if self.found[key] > 1:
            return
        kind = KINDS[name]

        def fails(smaller: Case) -> bool:
            again = run_case(kind, smaller, self.work)
            return again is not None and again.key == finding.key

        if finding.promise not in ("no hang", "the campaign itself"):
            case = shrink(case, kind.PARTS, fails, self.shrinking)
        self.output.mkdir(parents=True, exist_ok=True)
        path = self.output / f"{name}-{self.seed}-{number}.py"
        content = {"kind": name, "promise": finding.promise, "case": case}
        note = "".join(f"# {line}\n" for line in finding.what.splitlines())
        text = note + pformat(content, width=110) + "\n"
        path.write_text(text, encoding="utf-8", errors="replace")
        print(f"\n{name} {number}: {finding.promise}: {finding.what.strip().splitlines()[-1]:.300}")
        print(f"  python -m benchmarks.fuzz --replay {path}\n  {case!r:.600}", flush=True)

    def replay(self, content: Case) -> None:
        """Run the case of a finding and print it."""
        finding = run_case(KINDS[content["kind"]], content["case"], self.work)
        print(pformat(content, width=110))
        print(f"{finding.promise}: {finding.what}" if finding else "every promise was kept")
        if finding:
            self.found[content["kind"], finding.promise, finding.key] = 1

    def summarise(self) -> None:
        """Print the number of cases of each kind, and each finding with its number of cases."""
        for name, count in self.tried.items():
            print(
                f"{name:<10}{count:>8} cases, {count / max(self.seconds[name], 1e-9):.1f} a second"
            )
        for (name, promise, key), times in sorted(self.found.items()):
            print(f"{times:>6} × {name}: {promise}: {key}")


def draw(kind: Any, seed: int, number: int, work: Work) -> Case:
    """Return the case of this number."""
    return kind.make(random.Random(f"{seed} {kind.__name__} {number}"), work)


def run_case(kind: Any, case: Case, work: Work) -> Broken | None:
    """Run a case in a child process; return the promise that it broke, if any."""
    patience = getattr(kind, "SECONDS", SECONDS)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        _serve(kind, case, work, theirs)
    theirs.close()
    ends, spent = os.pidfd_open(child), -1.0
    while not wait([ours, ends], patience):
        if (now := _cpu_seconds(child)) == spent:
            os.kill(child, signal.SIGALRM)
        spent = now
    try:
        outcome = [ours.recv()] if ours.poll() else []
    except EOFError:
        outcome = []
    status = os.waitpid(child, 0)[1]
    os.close(ends)
    ours.close()
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)  # whatever it has started
    return outcome[0] if outcome else _death(status)


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


def _serve(kind: Any, case: Case, work: Work, channel: Connection) -> None:
    """Run a case in a child, which has a session and a scratch folder of its own."""
    try:
        os.setsid()
        torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
        with open("/proc/self/statm") as file:
            limit = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        seconds = int(getattr(kind, "SECONDS", SECONDS)) + 1
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
        channel.send(_attempt(kind, case, work))
    finally:
        os._exit(0)


def _attempt(kind: Any, case: Case, work: Work) -> Broken | None:
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
    """Yield the value without a half, a quarter, …"""
    if not isinstance(value, str | bytes | list):
        return
    step = len(value)
    while step := step // 2 if step > 1 else 0:
        for start in range(0, len(value), step):
            yield value[:start] + value[start + step :]
