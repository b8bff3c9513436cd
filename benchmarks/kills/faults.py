"""Run a command line in a forked child with a fault at a chosen moment."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

FAULTS = ("kill", "time", "full", "readonly", "disk")
"""kill: SIGKILL before a file operation. time: SIGKILL after a number of seconds. full and
readonly: from a file operation on, all that need space, or all, fail. disk: a file system of so
many bytes, which root alone can mount."""

LIMIT = 180.0
"""Seconds after which a command counts as hanging."""

_OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NEEDS_SPACE = {"open", "os.mkdir"}


@dataclass(frozen=True)
class Operation:
    """A change of a file: its kind, and the paths relative to the folder of the case."""

    kind: str
    path: str
    to: str = ""

    def __str__(self) -> str:
        words = {"open": "opening", "rename": "renaming", "mkdir": "making", "remove": "removing"}
        return f"{words.get(self.kind, self.kind)} {plain(self.path)}"


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit status, negative for a signal, its output and operations."""

    code: int
    output: str
    operations: tuple[Operation, ...]
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def stage(self) -> str:
        """The last file operation, which a killed command may not have finished."""
        return str(self.operations[-1]) if self.operations else "the first file operation"


def plain(path: str) -> str:
    """Return a path without the random part in the names of temporary files."""
    parts = []
    for part in Path(path).parts:
        words = part.rsplit(".", 2)
        hidden = part.startswith(".") and words[-1] in ("partial", "old", "spool")
        parts.append(f"{words[0]}.{words[-1]}" if hidden else part)
    return "/".join(parts)


def run(
    arguments: Sequence[str],
    folder: Path,
    fault: str = "",
    at: float = 0,
    command: Callable[[Sequence[str]], int] | None = None,
) -> Outcome:
    """Run `molsepnorm` with these arguments in a child whose current folder is `folder`.

    Args:
        arguments: of the command line; other paths than relative ones are not observed.
        folder: the folder of the case.
        fault: one of `FAULTS`, or an empty text. The caller mounts the small file system of disk.
        at: number of the file operation, from 0 on, or the seconds.
        command: called in the child in place of the command line.
    """
    folder, begun = folder.resolve(), time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as log:
        child = os.fork()
        if not child:
            _child(arguments, folder, fault, at, output.fileno(), log.fileno(), command or _main)
        code = _wait(child, begun + (at if fault == "time" else LIMIT))
        seconds = time.monotonic() - begun
        output.seek(0)
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").splitlines()
        text = output.read().decode("utf-8", "replace")
    return Outcome(code, text, tuple(Operation(*line.split("\t")) for line in lines), seconds)


def _wait(child: int, end: float) -> int:
    """Return the exit status of the child, which is killed at a time."""
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _child(
    arguments: Sequence[str],
    folder: Path,
    fault: str,
    at: float,
    output: int,
    log: int,
    command: Callable[[Sequence[str]], int],
) -> None:
    code = 70
    try:
        torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        os.chdir(folder)
        os.environ["MOLSEPNORM_CACHE"] = str(folder / "cache")
        sys.addaudithook(_hook(folder, fault, at, log))
        code = command(arguments)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _main(arguments: Sequence[str]) -> int:
    from molsepnorm.cli.main import main

    try:
        main.main(list(arguments), prog_name="molsepnorm")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _hook(folder: Path, fault: str, at: float, log: int) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that writes the operations below a folder to a file, and has the fault.

    Operations of native code, such as SQLite's, raise no audit event: moments between events are
    the task of `time`, and failures of writing of `disk`.
    """
    done = 0

    def inside(path: Any, at_folder: Any = -1) -> str | None:
        if isinstance(path, int) or path is None:
            return None
        name = os.fsdecode(path)
        if at_folder not in (-1, None):
            return f"…/{name}"
        relative = os.path.relpath(os.path.abspath(name), folder)
        return None if relative.startswith("..") else relative

    def hook(event: str, values: tuple[Any, ...]) -> None:
        nonlocal done
        if event not in _OPERATIONS:
            return
        if event == "open" and not (values[2] or 0) & _CHANGES:
            return
        in_folder = event in ("os.remove", "os.rmdir")
        path = inside(values[0], values[1] if in_folder else -1)
        if path is None:
            return
        to = (inside(values[1]) or "") if event == "os.rename" else ""
        kind = event.removeprefix("os.")
        os.write(log, f"{kind}\t{path}\t{to}\n".encode("utf-8", "replace"))
        done += 1
        if done <= at:
            return
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "full" and event in _NEEDS_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), values[0])
        if fault == "readonly":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), values[0])

    return hook


def mount(folder: Path, size: int) -> bool:
    """Mount a file system of so many bytes at a folder; False where this is not permitted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        return not subprocess.run(command, capture_output=True).returncode
    except OSError:
        return False


def enlarge(folder: Path) -> None:
    """Give a file system of `mount` more space."""
    subprocess.run(["mount", "-o", "remount,size=1g", str(folder)], check=True)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
