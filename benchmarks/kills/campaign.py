"""Disturb commands at random moments, repeat them, and collect what does not hold."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kills.checks import (
    comparable,
    differences,
    files,
    incomplete,
    lost,
    unannounced,
    unclear,
)
from benchmarks.kills.commands import Command, filled
from benchmarks.kills.faults import FAULTS, Outcome, enlarge, mount, run, unmount

EARLIER = "earlier content\n"


@dataclass(frozen=True)
class Undisturbed:
    """The folder and the outcome of a command without a fault."""

    folder: Path
    outcome: Outcome

    def moments(self, fault: str) -> float:
        """Return the largest moment of a fault."""
        if fault == "time":
            return self.outcome.seconds
        if fault == "disk":
            sizes = [path.stat().st_size for path in files(self.folder).values()]
            return sum(-(-size // 4096) * 4096 for size in sizes)
        return len(self.outcome.operations) - 1


@dataclass(frozen=True)
class Case:
    """A command with a fault, and what did not hold."""

    command: str
    fault: str
    at: float
    stage: str
    """The last file operation before the fault."""
    ended: str
    """killed, failed, or succeeded where the fault had no effect."""
    found: tuple[str, ...]


class Campaign:
    """Disturbs commands in a folder of its own; `cases` grows.

    Args:
        work: the folder with the common files (see `commands.prepare`).
        commands: the commands by name.
        seed: of the moments.
    """

    def __init__(self, work: Path, commands: dict[str, Command], seed: int = 0) -> None:
        self.work, self.commands, self.seed = work, commands, seed
        self.cases: list[Case] = []
        self._undisturbed: dict[str, Undisturbed] = {}

    def undisturbed(self, name: str) -> Undisturbed:
        """Return the run of a command without a fault, which must succeed."""
        if name not in self._undisturbed:
            folder = self._folder(name, "undisturbed")
            self._earlier(name, folder)
            outcome = run(filled(self.commands[name].start, self.work), folder)
            if outcome.code:
                raise SystemExit(f"{name} fails without a fault:\n{outcome.output}")
            print(f"{name}: {len(outcome.operations)} operations, {outcome.seconds:.1f} s")
            self._undisturbed[name] = Undisturbed(folder, outcome)
        return self._undisturbed[name]

    def moment(self, name: str, fault: str, number: int) -> float:
        """Draw the moment of a case; file operations repeat only when all have had their turn."""
        last = self.undisturbed(name).moments(fault)
        if fault in ("time", "disk"):
            return random.Random(f"{self.seed}/{name}/{fault}/{number}").uniform(0, last)
        operations = list(range(int(last) + 1))
        random.Random(f"{self.seed}/{name}/{fault}").shuffle(operations)
        return operations[number % len(operations)]

    def try_case(self, name: str, fault: str, at: float) -> Case | None:
        """Run one case; None if this machine has no such fault."""
        command, undisturbed = self.commands[name], self.undisturbed(name)
        folder = self._folder(name, "case")
        with ExitStack() as stack:
            if fault == "disk":
                if not mount(folder, max(4096, int(at) // 4096 * 4096)):
                    return None
                stack.callback(unmount, folder)
            self._earlier(name, folder)
            outcome = run(filled(command.start, self.work), folder, fault, at)
            if fault == "disk":
                enlarge(folder)
            found = incomplete(folder, command.replaces)
            if outcome.killed and fault not in ("kill", "time"):
                found.append("it hangs")
            found += lost(folder, outcome.operations) if outcome.killed else unclear(outcome)
            found += self._replaced(name, folder)
            if not outcome.code:
                changed = differences(folder, undisturbed.folder, command.repeats)
                found += unannounced(changed, outcome.output, fault)
            else:
                found += self._repeat(command, folder, undisturbed.folder)
        ended = "killed" if outcome.killed else "failed" if outcome.code else "succeeded"
        case = Case(name, fault, at, outcome.stage, ended, tuple(found))
        self.cases.append(case)
        return case

    def _repeat(self, command: Command, folder: Path, undisturbed: Path) -> list[str]:
        """Repeat or resume a command, and return what is not as if it had not been disturbed."""
        begun = bool(command.resume) and (folder / command.begun).exists()
        again = run(filled(command.resume if begun else command.start, self.work), folder)
        if again.code:
            how = "resumed" if begun else "repeated"
            return [f"it cannot be {how}: exit status {again.code}: {again.output[-1500:]}"]
        return differences(folder, undisturbed, command.repeats)

    def _folder(self, name: str, kind: str) -> Path:
        """Return an empty folder, of the same name for all cases."""
        folder = self.work / kind / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _earlier(self, name: str, folder: Path) -> None:
        if replaces := self.commands[name].replaces:
            (folder / replaces).write_text(EARLIER)

    def _replaced(self, name: str, folder: Path) -> list[str]:
        """Return the file that is neither the earlier nor the new one."""
        if not (replaces := self.commands[name].replaces):
            return []
        path = folder / replaces
        if path.exists() and path.read_bytes() == EARLIER.encode():
            return []
        new = self.undisturbed(name).folder / replaces
        if path.exists() and comparable(path) == comparable(new):
            return []
        return [f"{replaces} is neither the earlier nor the new file"]

    def table(self) -> str:
        """Return the number of cases by command and fault, and of those with findings."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for case in self.cases:
            counts[case.command, case.fault, case.ended] += 1
            counts[case.command, case.fault, "found"] += bool(case.found)
        lines = ["| command | fault | killed | failed | no effect | findings |"]
        lines.append("| --- | --- | ---: | ---: | ---: | ---: |")
        for name in self.commands:
            for fault in FAULTS:
                ends = ("killed", "failed", "succeeded", "found")
                numbers = [counts[name, fault, end] for end in ends]
                if any(numbers):
                    lines.append(f"| {name} | {fault} | {' | '.join(map(str, numbers))} |")
        return "\n".join(lines)
