"""The command `python -m benchmarks.fuzz`; see the package."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import ast
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from pprint import pformat

import click
import torch

from benchmarks.fuzz.frame import BATCH, Case, draw, run_case, run_cases, shrink
from benchmarks.fuzz.kinds import KINDS
from benchmarks.fuzz.promises import PACKAGE, Broken
from benchmarks.fuzz.work import Work, prepare


@click.command()
@click.option("--minutes", type=float, default=5.0, help="Duration, for all kinds together.")
@click.option("--seed", type=int, default=0, help="Random seed of the cases.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)))
@click.option("--cases", type=int, help="Cases per kind, in place of --minutes.")
@click.option("--shrink", "shrinking", type=float, default=20.0, help="Seconds for each finding.")
@click.option("--replay", type=click.Path(path_type=Path, exists=True), help="A finding of before.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("runs/fuzz"))
def main(
    minutes: float,
    seed: int,
    kinds: tuple[str, ...],
    cases: int | None,
    shrinking: float,
    replay: Path | None,
    output: Path,
) -> None:
    """Try invalid input on molsepnorm and list the promises that it broke."""
    torch.set_num_threads(1)
    output = output.resolve()
    with tempfile.TemporaryDirectory(prefix="molsepnorm-fuzz-") as folder:
        campaign = Campaign(prepare(Path(folder)), seed, output, shrinking)
        print(f"{PACKAGE}, seed {seed}")
        if replay is not None:
            campaign.replay(ast.literal_eval(replay.read_text(encoding="utf-8")))
        else:
            campaign.run(kinds or tuple(KINDS), minutes, cases)
            campaign.summarise()
    sys.exit(1 if campaign.found else 0)


class Campaign:
    """Runs the kinds in turn, the one with the least time so far first, and writes findings."""

    def __init__(self, work: Work, seed: int, output: Path, shrinking: float = 20.0) -> None:
        self.work, self.seed, self.output, self.shrinking = work, seed, output, shrinking
        self.found: Counter[tuple[str, str, str]] = Counter()  # by kind, promise and key
        self.tried: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def run(self, kinds: tuple[str, ...], minutes: float, cases: int | None) -> None:
        """Run batches until the time, or the number of cases, is used up."""
        end = None if cases else time.monotonic() + minutes * 60
        left = set(kinds)
        while left and (end is None or time.monotonic() < end):
            name = min(left, key=lambda each: (self.seconds[each], kinds.index(each)))
            kind, first, begun = KINDS[name], self.tried[name], time.monotonic()
            count = getattr(kind, "BATCH", BATCH)
            count = count if cases is None else min(count, cases - first)
            if count <= 0:
                left.discard(name)
                continue
            batch = [draw(kind, self.seed, first + i, self.work) for i in range(count)]
            found = []
            for finding in run_cases(kind, batch, self.work):
                found.append(finding)
                if end is not None and time.monotonic() > end:
                    break
            self.tried[name] += len(found)
            self.seconds[name] += time.monotonic() - begun
            for i, finding in enumerate(found):
                if finding is not None:
                    self._add(name, first + i, batch[i], finding)

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
        """Print a line for each kind, and each finding with its number of cases."""
        print(f"\n{'kind':<16}{'cases':>8}{'cases/s':>9}  different findings")
        for name, count in self.tried.items():
            promises = Counter(promise for kind, promise, _ in self.found if kind == name)
            listed = ", ".join(f"{promise}: {n}" for promise, n in promises.items()) or "none"
            print(f"{name:<16}{count:>8}{count / max(self.seconds[name], 1e-9):>9.1f}  {listed}")
        for (name, promise, key), times in sorted(self.found.items()):
            print(f"{times:>6} × {name}: {promise}: {key}")


if __name__ == "__main__":
    main()
