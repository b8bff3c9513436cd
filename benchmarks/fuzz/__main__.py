"""`python -m benchmarks.fuzz`; see the package."""

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

from benchmarks.fuzz.kinds import KINDS
from benchmarks.fuzz.promises import PACKAGE
from benchmarks.fuzz.run import BATCH, Finding, draw, run_case, run_cases
from benchmarks.fuzz.shrink import shrink
from benchmarks.fuzz.work import Work, prepare


@click.command()
@click.option("--minutes", type=float, default=5.0, help="Duration, for all kinds together.")
@click.option("--seed", type=int, default=0, help="Random seed of the cases.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)))
@click.option("--cases", type=int, help="Cases per kind; then --minutes does not count.")
@click.option("--shrink", "shrinking", type=float, default=20.0, help="Seconds for each finding.")
@click.option("--replay", type=click.Path(path_type=Path, exists=True), help="Run a kept finding.")
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
    """Try hostile input on molsepnorm and list the promises that it broke."""
    torch.set_num_threads(1)
    output = output.resolve()
    with tempfile.TemporaryDirectory(prefix="molsepnorm-fuzz-") as folder:
        campaign = Campaign(prepare(Path(folder)), seed, output, shrinking)
        print(f"{PACKAGE}, seed {seed}")
        if replay is not None:
            campaign.replay(ast.literal_eval(replay.read_text(encoding="utf-8")))
        else:
            campaign.run(kinds or tuple(KINDS), minutes, cases)
            campaign.tell()
    sys.exit(1 if campaign.found else 0)


class Campaign:
    """Runs kinds in turn, the one that has had the least time first, and keeps what is found."""

    def __init__(self, work: Work, seed: int, output: Path, shrinking: float = 20.0) -> None:
        self.work, self.seed, self.output, self.shrinking = work, seed, output, shrinking
        self.found: dict[tuple[str, str, str], int] = {}  # by kind, promise and key: how often
        self.tried: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def run(self, kinds: tuple[str, ...], minutes: float, cases: int | None) -> None:
        """Run batches until the time, or the number of cases, is used up."""
        end = time.monotonic() + minutes * 60
        left = set(kinds)
        while left:
            name = min(left, key=lambda each: (self.seconds[each], kinds.index(each)))
            first = self.tried[name]
            count = getattr(KINDS[name], "BATCH", BATCH)
            count = count if cases is None else min(count, cases - first)
            if count <= 0:
                left.discard(name)
                continue
            self._batch(name, range(first, first + count), None if cases else end)
            if cases is None and time.monotonic() > end:
                return

    def _batch(self, name: str, numbers: range, end: float | None) -> None:
        begun = time.monotonic()
        batch = [draw(KINDS[name], self.seed, number, self.work) for number in numbers]
        found = []
        for finding in run_cases(KINDS[name], batch, self.work):
            found.append(finding)
            if end is not None and time.monotonic() > end:
                break
        self.tried[name] += len(found)
        self.seconds[name] += time.monotonic() - begun
        for number, case, finding in zip(numbers, batch, found, strict=False):
            if finding is not None:
                self._keep(name, number, case, finding)

    def _keep(self, name: str, number: int, case: dict, finding: Finding) -> None:
        key = (name, finding.promise, finding.key)
        self.found[key] = self.found.get(key, 0) + 1
        if self.found[key] > 1:
            return
        kind = KINDS[name]

        def fails(smaller: dict) -> bool:
            again = run_case(kind, smaller, self.work)
            return again is not None and again.key == finding.key

        if finding.promise not in ("no hang", "the campaign itself"):
            case = shrink(case, kind.PARTS, fails, self.shrinking)
        self.output.mkdir(parents=True, exist_ok=True)
        path = self.output / f"{name}-{self.seed}-{number}.py"
        kept = {"kind": name, "promise": finding.promise, "case": case}
        note = "".join(f"# {line}\n" for line in finding.what.splitlines())
        path.write_text(note + pformat(kept, width=110) + "\n", encoding="utf-8", errors="replace")
        print(f"\n{name} {number}: {finding.promise}: {finding.what.strip().splitlines()[-1]:.300}")
        print(f"  python -m benchmarks.fuzz --replay {path}\n  {case!r:.600}", flush=True)

    def replay(self, kept: dict) -> None:
        """Run a kept case and print all that is known of it."""
        finding = run_case(KINDS[kept["kind"]], kept["case"], self.work)
        print(pformat(kept, width=110))
        print(f"{finding.promise}: {finding.what}" if finding else "every promise was kept")
        if finding:
            self.found[kept["kind"], finding.promise, finding.key] = 1

    def tell(self) -> None:
        """Print a line per kind, and every finding with how often it came."""
        print(f"\n{'kind':<16}{'cases':>8}{'cases/s':>9}  findings (different ones)")
        for name, count in self.tried.items():
            mine = {key: times for key, times in self.found.items() if key[0] == name}
            told = Counter(promise for _, promise, _ in mine)
            rate = count / max(self.seconds[name], 1e-9)
            listed = ", ".join(f"{promise}: {n}" for promise, n in told.items()) or "none"
            print(f"{name:<16}{count:>8}{rate:>9.1f}  {listed}")
        for (name, promise, key), times in sorted(self.found.items()):
            print(f"{times:>6} × {name}: {promise}: {key}")


if __name__ == "__main__":
    main()
