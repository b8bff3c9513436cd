"""Measure ours, the peers and the lower bounds side by side, and print a table.

    make bench                                     all stages, some minutes
    python benchmarks/speed.py train predict       some stages
    python benchmarks/speed.py --quick             a minute or two, to try it out

Each stage has a process of its own, in which ours, the peer and the bound are interleaved; the
ratio is the median of the rounds' ratios, with their range. MOLSEPNORM_DATA must be set. chemprop
is found by --chemprop or CHEMPROP, and transformers needs peers/requirements.txt; a
stage whose peer is missing runs without it. Nothing else should run on the machine. The raw figures
are written to benchmarks/results/speed.json, under the names of the stages if only some were
measured. Those of a quick run go to the scratch folder.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from environment import commit, machine, versions
from interleaved import Row
from stages import STAGES, Settings, function
from table import markdown

_RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("torch", "numpy", "rdkit", "ogb", "transformers", "cython")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    options = _parser().parse_args(arguments)
    settings = Settings(options.chemprop, options.quick, options.scratch.absolute())
    names = options.stages or list(STAGES)
    if unknown := [name for name in names if name not in STAGES]:
        print(f"unknown stage(s) {', '.join(unknown)}; known: {', '.join(STAGES)}", file=sys.stderr)
        return 2
    begun, rows = time.perf_counter(), {name: _in_own_process(name, settings) for name in names}
    failed = [name for name in names if not rows[name]]
    every = [row for each in rows.values() for row in each]
    figures = {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "threads": f"{len(os.sched_getaffinity(0))} cores, torch's default number of threads",
        "versions": versions(*_PACKAGES),
        "quick": settings.quick,
        "failed": failed,
        "minutes": round((time.perf_counter() - begun) / 60, 1),
        "rows": [asdict(row) for row in every],
    }
    lines = [
        "{date}, commit {commit}; {machine}; {threads}.".format(**figures),
        f"{', '.join(map(' '.join, figures['versions'].items()))}. {figures['minutes']} minutes.",
        *(["", "**A quick run: its figures mean nothing.**"] if settings.quick else []),
        *(["", f"**Failed: {', '.join(failed)}.**"] if failed else []),
    ]
    text = "\n".join([*lines, "", markdown(every)])
    folder = options.out or (settings.folder("results") if settings.quick else _RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{'-'.join(options.stages) or 'speed'}.json"
    path.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{text}\n\nwritten to {path}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument(
        "--chemprop",
        type=Path,
        default=os.environ.get("CHEMPROP") or None,
        help="chemprop's executable [default: $CHEMPROP; its stages have no peer without it]",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, to try it out")
    parser.add_argument(
        "--scratch",
        type=Path,
        default=Path(tempfile.gettempdir()) / "molsepnorm-bench",
        help="folder of stores, models and tables [default: %(default)s]",
    )
    parser.add_argument("--out", type=Path, help=f"folder of the results [default: {_RESULTS}]")
    return parser


def _in_own_process(name: str, settings: Settings) -> list[Row]:
    """Return the rows of a stage; none if it failed, after its error."""
    print(f"{name} …", end=" ", file=sys.stderr, flush=True)
    begun = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            rows = pool.submit(_measure, name, settings).result()
            print(f"{time.perf_counter() - begun:.0f} s", file=sys.stderr)
            return rows
        except (Exception, SystemExit) as error:
            print(f"failed: {type(error).__name__}: {error}", file=sys.stderr)
            return []


def _measure(name: str, settings: Settings) -> list[Row]:
    return function(name)(settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
