"""Whole commands: their seconds, and the memory of all their processes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OURS", "Usage", "measured", "run", "script"]

OURS = str(Path(sys.executable).with_name("molsepnorm"))
"""The command line of this package."""

_GIB = 2**30
_SAMPLE_SECONDS = 0.05
_SAMPLE_SHARE = 0.04  # of one core, at most: looking at much memory takes a while


@dataclass(frozen=True)
class Usage:
    """What a command took."""

    seconds: float
    memory: float
    """GiB, at the peak: the private pages of all its processes, and the shared pages of the one
    that has most of them. For a single process that is its resident set (RSS), in which mapped
    files count as far as they were read. (The sum of PSS would be too small: libraries are shared
    with the process that measures.)"""


def run(command: Sequence[str], folder: Path, **environment: str) -> None:
    """Run a command in a folder; its output goes to a file there, whose end is told if it fails."""
    measured(command, folder, sample=False, **environment)


def measured(
    command: Sequence[str], folder: Path, sample: bool = True, **environment: str
) -> Usage:
    """The same with its seconds, and where `sample` says so its memory, looked at now and then."""
    variables = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OUTDATED_IGNORE": "1", **environment}
    log, memory = folder / "output.txt", 0
    with open(log, "w") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=variables,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while sample and process.poll() is None:
            looked = time.perf_counter()
            memory = max(memory, _memory_of_session(process.pid))
            taken = time.perf_counter() - looked
            time.sleep(max(_SAMPLE_SECONDS, taken / _SAMPLE_SHARE))
        process.wait()
        seconds = time.perf_counter() - begun
    if process.returncode:
        tail = log.read_text().splitlines()[-15:]
        sys.exit("\n".join([f"exit status {process.returncode}: {shlex.join(command)}", *tail]))
    return Usage(seconds, memory / _GIB)


def script(text: str) -> list[str]:
    """The command that runs these lines of Python, with this interpreter."""
    return [sys.executable, "-c", text]


def _memory_of_session(leader: int) -> int:
    """Bytes, of the process and all that it started, now; see `Usage`."""
    private, shared = 0, [0]
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or os.getsid(int(entry.name)) != leader:
                continue
            lines = (entry / "smaps_rollup").read_text().splitlines()[1:]
        except OSError:  # it has just ended
            continue
        size = {line.split()[0]: 1024 * int(line.split()[1]) for line in lines}
        alone = size.get("Private_Clean:", 0) + size.get("Private_Dirty:", 0)
        private += alone
        shared.append(size.get("Rss:", 0) - alone)
    return private + max(shared)
