"""Run whole commands, and measure their time and the memory of all their processes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OURS", "Usage", "measured", "memory_of_session", "run", "script"]

OURS = str(Path(sys.executable).with_name("molsepnorm"))
"""The command line of this package."""

_GIB = 2**30
_SAMPLE_SECONDS = 0.05
_SAMPLE_SHARE = 0.04  # of one core, at most: reading the sizes of much memory takes a while


@dataclass(frozen=True)
class Usage:
    """Time and memory of a command."""

    seconds: float
    cpu_seconds: float
    """On all cores together."""
    memory: float
    """GiB at the peak: the private pages of all processes, and the shared pages of the process that
    has most of them. For a single process that is its resident set (RSS). (The sum of PSS would be
    too small: the measuring process shares libraries.)"""


def run(command: Sequence[str], folder: Path, **environment: str) -> None:
    """Run a command in a folder; if it fails, exit with the end of its output."""
    measured(command, folder, sample=False, **environment)


def measured(
    command: Sequence[str], folder: Path, sample: bool = True, **environment: str
) -> Usage:
    """Run a command and return its usage; memory is sampled only if `sample` is true."""
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OUTDATED_IGNORE": "1", **environment}
    log, memory, done = folder / "output.txt", 0, 0
    with open(log, "w") as output:
        begun = time.perf_counter()
        options = {"env": variables, "cwd": folder, "stdout": output, "stderr": output}
        process = subprocess.Popen(command, start_new_session=True, **options)  # type: ignore[call-overload]
        while sample:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            sampled = time.process_time()
            memory = max(memory, memory_of_session(process.pid))
            taken = time.process_time() - sampled
            time.sleep(max(_SAMPLE_SECONDS, taken / _SAMPLE_SHARE))
        if not done:
            _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = log.read_text().splitlines()[-15:]
        sys.exit("\n".join([f"exit status {process.returncode}: {shlex.join(command)}", *tail]))
    return Usage(seconds, usage.ru_utime + usage.ru_stime, memory / _GIB)


def script(text: str) -> list[str]:
    """Return the command that runs these lines with this interpreter."""
    return [sys.executable, "-c", text]


def memory_of_session(leader: int) -> int:
    """Return the bytes of the process and of all that it started; see `Usage`."""
    private, shared = 0, [0]
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or os.getsid(int(entry.name)) != leader:
                continue
            lines = (entry / "smaps_rollup").read_text().splitlines()[1:]
        except OSError:  # it has just ended
            continue
        size = {line.split()[0]: 1024 * int(line.split()[1]) for line in lines}
        own = size.get("Private_Clean:", 0) + size.get("Private_Dirty:", 0)
        private += own
        shared.append(size.get("Rss:", 0) - own)
    return private + max(shared)
