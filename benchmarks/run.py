"""Measures ours, the peers' and the floors side by side; prints one table and draws one plot.

    make bench                                    all but the long ones, a quarter of an hour
    python benchmarks/run.py train evaluate       some of them
    python benchmarks/run.py scaling              a long one
    python benchmarks/run.py --quick              a minute or two, to see that everything works
    python benchmarks/run.py --redraw FILE.json   table and plot of figures kept

Every stage has a process of its own, in which ours, the peer's and the floor take turns; the ratio
is the median of the turns' ratios, with the least and the greatest. Needs MOLSEPNORM_DATA; chemprop
is found by --chemprop or CHEMPROP, transformers' preprocessing needs peers/requirements.txt; a
stage whose peer is not here says so and runs without. Nothing else should run on the machine.
Writes speed.md, speed.json (raw figures) and speed.png below benchmarks/results, named after
the stages where not all were measured; those of a quick run go to the scratch folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from plot import plot
from settings import Settings
from stages import STAGES
from table import markdown
from turns import Asked, Row
from where import commit, machine, versions

_RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("torch", "numpy", "rdkit", "ogb", "transformers", "cython")


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; returns the exit status."""
    options = _parser().parse_args(arguments)
    settings = Settings.of(options)
    if options.redraw:
        _told(json.loads(options.redraw.read_text()), options.redraw.with_suffix(""))
        return 0
    if unknown := [name for name in options.stages if name not in STAGES]:
        known = ", ".join(STAGES)
        print(f"unknown stage(s) {', '.join(unknown)}; known: {known}", file=sys.stderr)
        return 2
    if options.into:
        stage = STAGES[options.stages[0]]
        rows = getattr(import_module(f"stages.{stage.module}"), stage.function)(settings)
        options.into.write_text(json.dumps([asdict(row) for row in rows]))
        return 0
    default = [name for name, stage in STAGES.items() if stage.default]
    names = options.stages or default
    begun, rows, failed = time.perf_counter(), [], []
    for name in names:
        measured = _in_own_process(name, settings)
        rows += measured
        failed += [] if measured else [name]
    kept = {
        **_circumstances(settings, names, failed),
        "minutes": round((time.perf_counter() - begun) / 60, 1),
        "rows": rows,
    }
    folder = options.out or (settings.folder("results") if settings.quick else _RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / ("speed" if names == default else "-".join(names))
    place.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n")
    _told(kept, place)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    Settings.add_to(parser)
    parser.add_argument("--out", type=Path, help=f"folder of the results [default: {_RESULTS}]")
    parser.add_argument("--redraw", type=Path, metavar="FILE.json", help="measure nothing")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)  # measure one stage, here
    return parser


def _in_own_process(name: str, settings: Settings) -> list[dict[str, Any]]:
    """The rows of a stage; none where it failed, whose end of output is shown."""
    print(f"{name} …", end=" ", file=sys.stderr, flush=True)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "rows.json"
        command = [sys.executable, __file__, name, *settings.flags(), "--into", str(into)]
        done = subprocess.run(command, capture_output=True, text=True)
        print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)
        if done.returncode or not into.exists():
            print("\n".join(done.stderr.splitlines()[-15:]), file=sys.stderr)
            return []
        return json.loads(into.read_text())


def _circumstances(settings: Settings, names: list[str], failed: list[str]) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "threads": f"{len(os.sched_getaffinity(0))} cores to use, torch's default of threads",
        "versions": versions(*_PACKAGES),
        "quick": settings.quick,
        "stages": names,
        "failed": failed,
    }


def _told(kept: dict[str, Any], place: Path) -> None:
    """Print and write the table, draw the plot."""
    rows = [
        Row(**{**row, "asked": Asked(**row["asked"]) if row["asked"] else None})
        for row in kept["rows"]
    ]
    installed = ", ".join(f"{name} {version}" for name, version in kept["versions"].items())
    lines = [
        f"{kept['date']}, commit {kept['commit']}; {kept['machine']}; {kept['threads']}.",
        f"{installed}. {kept['minutes']} minutes.",
    ]
    if kept["quick"]:
        lines += ["", "**A quick run: its figures say nothing.**"]
    if kept["failed"]:
        lines += ["", f"**Failed: {', '.join(kept['failed'])}.**"]
    text = "\n".join([*lines, "", markdown(rows)])
    print(text)
    place.with_suffix(".md").write_text(text + "\n")
    try:
        plot(rows, place.with_suffix(".png"), f"commit {kept['commit']}; {kept['machine']}")
    except ImportError:
        print("no plot: pip install matplotlib", file=sys.stderr)
    print(f"\nwritten to {place}.md, .json, .png", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
