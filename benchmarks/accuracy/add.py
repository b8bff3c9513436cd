"""Add the folders of finished runs to log.jsonl.

    python benchmarks/accuracy/add.py runs/zinc-ablation --prefix norms-

A run of `molsepnorm benchmark` is named after the folder above its seed (norms-shared, norms-sep),
any other run after its own folder. Call this in the checkout that trained the runs, whose commit
goes into the log.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent)]

from environment import commit, machine  # noqa: E402

LOG = HERE / "log.jsonl"


def from_folder(folder: Path, name: str) -> dict[str, Any]:
    """Return the line of a run: scores of the metric that chose its epoch, and where it ran."""
    metrics = json.loads((folder / "metrics.json").read_text())
    metric, begun = metrics["chosen_by"], (folder / "config.yaml").stat().st_mtime
    return {
        "name": name,
        "seed": metrics["seed"],
        "metric": metric,
        "val": metrics["val"][metric],
        "test": metrics["test"][metric],
        "test_interval_95": metrics["test_interval_95"].get(metric),
        "epochs": metrics["epochs"],
        "parameters": metrics["parameters"],
        "seconds": metrics["seconds"],
        "date": datetime.fromtimestamp(begun).strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
    }


def main() -> None:
    """Append the runs that the log lacks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--prefix", default="", help="beginning of the names in the log")
    options = parser.parse_args()
    lines = LOG.read_text().splitlines()
    logged = {(run["name"], run["seed"]) for run in map(json.loads, lines)}
    for path in sorted(path for each in options.folders for path in each.rglob("metrics.json")):
        folder = path.parent
        named = folder.parent if folder.name.startswith("seed-") else folder
        run = from_folder(folder, options.prefix + named.name)
        if (run["name"], run["seed"]) not in logged:
            with open(LOG, "a") as file:
                print(json.dumps(run), file=file)
            print(json.dumps(run))


if __name__ == "__main__":
    main()
