"""Checks and measurements in processes of their own, so that one that dies or hangs costs itself.

A module of jobs has a dictionary `JOBS`, or a function of that name that makes one of any name. A
child does one job after the other; after one that broke the device, crashed or took too long,
another child goes on with the rest.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gpu.scale import scratch

__all__ = ["Outcome", "child", "run_jobs"]

_RUN = Path(__file__).with_name("run.py")
_POLL = 0.2


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    name: str
    result: Any = None
    """What it returned, as JSON values; None where it failed."""
    error: str = ""
    seconds: float = 0.0


def run_jobs(
    module: str,
    names: Sequence[str],
    deadline: float,
    limit: float = 60.0,
    first_path: str | None = None,
) -> dict[str, Outcome]:
    """Do the jobs of these names, one after the other.

    Args:
        module: where they are.
        names: which, in order.
        deadline: no job begins after this moment of `time.monotonic()`, and none outlasts it.
        limit: seconds that one job may take.
        first_path: a folder whose packages these processes prefer to those installed.
    """
    done: dict[str, Outcome] = {}
    while left := [name for name in names if name not in done]:
        if time.monotonic() >= deadline:
            done |= {name: Outcome(name, error="not begun: no time was left") for name in left}
            break
        file = scratch() / "jobs.jsonl"
        file.write_text("")
        command = [sys.executable, str(_RUN), "--jobs", module, str(file), *left]
        process = subprocess.Popen(command, env=_environment(first_path))
        killed = _wait(process, file, deadline, limit)
        before = len(done)
        done |= _outcomes(file, killed or f"its process ended with status {process.returncode}")
        if len(done) == before:  # it could not even begin
            error = killed or f"the process ended with status {process.returncode}"
            done |= {name: Outcome(name, error=error) for name in left}
    return {name: done[name] for name in names}


def child(module: str, file: Path, names: Sequence[str]) -> int:
    """Do the jobs in this process and write what becomes of them, line by line."""
    jobs = import_module(module).JOBS
    for name in names:
        _write(file, {"name": name, "begun": time.time()})
        work: Callable[[], Any] = jobs(name) if callable(jobs) else jobs[name]
        begun = time.perf_counter()
        try:
            result = {"result": work()}
        except Exception as error:
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0][:300]
            result = {"error": f"{type(error).__name__}: {first}"}
        _write(file, {"name": name, **result, "seconds": time.perf_counter() - begun})
        if "error" in result and not _device_works():
            return 3
        _tidy()
    return 0


def _environment(first_path: str | None) -> dict[str, str]:
    paths = [first_path, os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _wait(process: subprocess.Popen[bytes], file: Path, deadline: float, limit: float) -> str:
    """Until it ends, or is ended: then why."""
    while process.poll() is None:
        time.sleep(_POLL)
        lines = list(_lines(file))
        begun = lines[-1].get("begun") if lines else None
        late = begun is not None and time.time() - begun > limit
        if late or time.monotonic() > deadline + 5:
            process.kill()
            process.wait()
            return f"stopped after {limit:.0f} s" if late else "stopped: no time was left"
    return ""


def _outcomes(file: Path, otherwise: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for line in _lines(file):
        name = line["name"]
        if "begun" in line:
            found[name] = Outcome(name, error=otherwise)  # unless a later line says how it ended
        else:
            found[name] = Outcome(**{"result": None, "error": "", **line})
    return found


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text().splitlines():
        with contextlib.suppress(ValueError):  # a line that is being written
            yield json.loads(line)


def _write(file: Path, line: dict[str, Any]) -> None:
    with open(file, "a") as out:
        out.write(json.dumps(line) + "\n")


def _device_works() -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return True
    try:
        torch.cuda.synchronize()
        return bool((torch.ones(8, device="cuda") + 1).sum().item() == 16)
    except RuntimeError:
        return False


def _tidy() -> None:
    """Nothing of a job is left to the next."""
    gc.collect()
    if (torch := sys.modules.get("torch")) is None:
        return
    torch.compiler.reset()
    torch.set_float32_matmul_precision("highest")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
