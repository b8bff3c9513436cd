"""Measure ours, the peers and the lower bounds side by side; print a table and draw a plot.

    make bench                                     all stages but the long one, a quarter of an hour
    python benchmarks/speed.py train evaluate      some stages
    python benchmarks/speed.py scaling             the long one
    python benchmarks/speed.py --quick             a minute or two, to try it out
    python benchmarks/speed.py --redraw FILE.json  table and plot of earlier figures

Each stage has a process of its own, in which ours, the peer and the bound are interleaved; the
ratio is the median of the rounds' ratios, with their range. MOLSEPNORM_DATA must be set. chemprop
is found by --chemprop or CHEMPROP, and transformers' preprocessing needs peers/requirements.txt; a
stage whose peer is missing runs without it. Nothing else should run on the machine. The files
speed.md, speed.json (raw figures) and speed.png are written to benchmarks/results, under the names
of the stages if only some were measured. Those of a quick run go to the scratch folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import stages
from environment import commit, machine, versions
from interleaved import Row, Target
from plot import plot
from settings import Settings
from table import markdown

_RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("torch", "numpy", "rdkit", "ogb", "transformers", "cython")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    options = _parser().parse_args(arguments)
    settings = Settings.of(options)
    if options.redraw:
        _write(json.loads(options.redraw.read_text()), options.redraw.with_suffix(""))
        return 0
    if unknown := [name for name in options.stages if name not in stages.STAGES]:
        known = ", ".join(stages.STAGES)
        print(f"unknown stage(s) {', '.join(unknown)}; known: {known}", file=sys.stderr)
        return 2
    names = options.stages or stages.DEFAULT
    begun, rows = time.perf_counter(), {name: _in_own_process(name, settings) for name in names}
    failed = [name for name in names if not rows[name]]
    figures = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "threads": f"{len(os.sched_getaffinity(0))} cores, torch's default number of threads",
        "versions": versions(*_PACKAGES),
        "quick": settings.quick,
        "stages": names,
        "failed": failed,
        "minutes": round((time.perf_counter() - begun) / 60, 1),
        "rows": [row for each in rows.values() for row in each],
    }
    folder = options.out or (settings.folder("results") if settings.quick else _RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("speed" if names == stages.DEFAULT else "-".join(names))
    path.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    _write(figures, path)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(stages.STAGES))
    Settings.add_to(parser)
    parser.add_argument("--out", type=Path, help=f"folder of the results [default: {_RESULTS}]")
    parser.add_argument("--redraw", type=Path, metavar="FILE.json", help="measure nothing")
    return parser


def _in_own_process(name: str, settings: Settings) -> list[dict[str, Any]]:
    """Return the rows of a stage; none if it failed, after its error."""
    print(f"{name} …", end=" ", file=sys.stderr, flush=True)
    begun = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            rows = pool.submit(_measure, name, settings).result()
            print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)
            return [asdict(row) for row in rows]
        except (Exception, SystemExit) as error:
            print(f"failed: {type(error).__name__}: {error}", file=sys.stderr)
            return []


def _measure(name: str, settings: Settings) -> list[Row]:
    return stages.function(name)(settings)


def _write(figures: dict[str, Any], path: Path) -> None:
    """Print and write the table, and draw the plot."""
    rows = [
        Row(**{**row, "target": Target(**row["target"]) if row["target"] else None})
        for row in figures["rows"]
    ]
    installed = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    lines = [
        f"{figures['date']}, commit {figures['commit']}; {figures['machine']}; "
        f"{figures['threads']}.",
        f"{installed}. {figures['minutes']} minutes.",
    ]
    if figures["quick"]:
        lines += ["", "**A quick run: its figures mean nothing.**"]
    if figures["failed"]:
        lines += ["", f"**Failed: {', '.join(figures['failed'])}.**"]
    text = "\n".join([*lines, "", markdown(rows)])
    print(text)
    path.with_suffix(".md").write_text(text + "\n")
    try:
        plot(rows, path.with_suffix(".png"), f"commit {figures['commit']}; {figures['machine']}")
    except ImportError:
        print("no plot: pip install matplotlib", file=sys.stderr)
    print(f"\nwritten to {path}.md, .json, .png", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
