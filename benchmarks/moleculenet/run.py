"""Compare methods on MoleculeNet's tables and ogbg-molhiv, seed by seed.

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install torch==2.13.0 chemprop==2.3.1 lightgbm==4.7.0   # the CPU build
    export MOLSEPNORM_DATA=/path/to/datasets
    python benchmarks/moleculenet/run.py results.jsonl --run scratch chemprop forest \\
        --peers /tmp/peers
    python benchmarks/moleculenet/run.py results.jsonl --against chemprop        # only the table

Each run of a method on a set with a seed is one line of the file; runs that it has are skipped, so
that the same command continues. All methods get the same rows, those whose SMILES RDKit can read,
and the same split (the column `scaffold_split`, and OGB's split of molhiv). The networks and the
probe choose epochs and penalties on the validation rows; the forest and LightGBM use the training
rows only. scikit-learn scores all predictions against the labels of the table.

The time of a run is that of its training command, from the CSV to the predictions of the test rows,
with an empty cache. For the methods of fit.py it includes the features, which are computed once
for all seeds. LightGBM's default draws no random numbers, so its seeds give equal scores; so do
those of the probe.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import pandas as pd  # noqa: E402
from commands import Usage, measured  # noqa: E402
from commands import run as run_command  # noqa: E402
from environment import commit, machine  # noqa: E402
from table import difference, line, mean_sd  # noqa: E402

from moleculenet.methods import METHODS, Job, commands  # noqa: E402
from moleculenet.sets import SETS, SPLITS_COLUMN, Set, readable_rows, score  # noqa: E402

__all__ = ["compare", "read", "report", "scores"]

_SPLITS = {"validation": "val", "test": "test"}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of results; none if there is no file."""
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def compare(name: str, options: argparse.Namespace, folder: Path) -> None:
    """Append the runs of a set that the file of results lacks."""
    chosen, rows = SETS[name], readable_rows(SETS[name])
    held_out = rows[rows[SPLITS_COLUMN] != "train"]
    data, smiles = folder / "molecules.csv", folder / "held_out.csv"
    rows.to_csv(data, index=False)
    held_out[["smiles"]].to_csv(smiles, index=False)
    threads = {f"{library}_NUM_THREADS": str(options.threads) for library in ("OMP", "MKL")}
    prepared: dict[str, Usage] = {}
    done = {(run["set"], run["method"], run["seed"]) for run in read(options.results)}
    for seed, method in product(options.seeds, options.run):
        if (name, method, seed) in done:
            continue
        own = folder / f"{method}-{seed}"
        own.mkdir()
        job = Job(name, chosen, method, seed, data, smiles, own, options.model, options.peers)
        todo, environment = commands(job), {"MOLSEPNORM_CACHE": str(own / "cache"), **threads}
        if (features := shlex.join(todo.prepare)) and features not in prepared:
            prepared[features] = measured(todo.prepare, own, **environment)
        usages = [measured(todo.train, own, **environment)]
        usages += [prepared[features]] if features else []
        if todo.predict:
            run_command(todo.predict, own, **environment)
        result = {
            "set": name,
            "method": method,
            "seed": seed,
            "metric": chosen.metric,
            **scores(chosen, held_out, pd.read_csv(job.predictions)),
            "seconds": round(sum(usage.seconds for usage in usages), 1),
            "cpu_seconds": round(sum(usage.cpu_seconds for usage in usages), 1),
            "memory": round(max(usage.memory for usage in usages), 3),
            "threads": options.threads,
            "commit": commit(),
            "machine": machine(),
            "command": _shown(todo.train, folder),
        }
        with open(options.results, "a") as file:
            file.write(json.dumps(result) + "\n")
        shutil.rmtree(own)
        print(json.dumps(result), file=sys.stderr)


def _shown(command: Sequence[str], folder: Path) -> str:
    """Return a command without the folders of this machine."""
    text = shlex.join([Path(command[0]).name, *command[1:]])
    return text.replace(str(folder), "DIR").replace(f"{HERE.parents[1]}/", "")


def scores(chosen: Set, held_out: pd.DataFrame, predicted: pd.DataFrame) -> dict[str, float]:
    """Return the scores of the validation and the test rows.

    The predictions must have the SMILES of the held-out rows, in their order.
    """
    if predicted["smiles"].tolist() != held_out["smiles"].tolist():
        sys.exit("the predictions are not those of the validation and test rows")
    columns = [f"{name}_pred" if f"{name}_pred" in predicted else name for name in chosen.targets]
    labels, values = held_out[list(chosen.targets)].to_numpy(float), predicted[columns].to_numpy()
    split = held_out[SPLITS_COLUMN].to_numpy()
    return {
        title: score(chosen.metric, labels[split == part], values[split == part])
        for title, part in _SPLITS.items()
    }


def report(runs: Sequence[dict[str, Any]], against: str, split: str) -> str:
    """Return three Markdown tables: scores, differences from a method's, and training times."""
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for run in runs:
        found.setdefault(run["set"], {}).setdefault(run["method"], {})[run["seed"]] = run
    methods = [method for method in METHODS if any(method in of_set for of_set in found.values())]
    head = ["set", "score", *methods]
    score_rows, time_rows = ([head, ["---"] * len(head)] for _ in range(2))
    others = [method for method in methods if method != against]
    difference_head = ["set", "score", *(f"{method} − {against}" for method in others)]
    difference_rows = [difference_head, ["---"] * len(difference_head)]
    for name in [name for name in SETS if name in found]:
        title = [name, f"{split} {SETS[name].metric}"]
        values, seconds = (
            {
                method: {seed: run[key] for seed, run in found[name].get(method, {}).items()}
                for method in methods
            }
            for key in (split, "seconds")
        )
        score_rows.append([*title, *(mean_sd(values[method], 3) for method in methods)])
        time_rows.append([name, "s", *(mean_sd(seconds[method], 0) for method in methods)])
        base = values.get(against, {})
        compared = [difference(values[method], base, 3) for method in others]
        difference_rows.append([*title, *compared])
    tables = [score_rows, difference_rows, time_rows]
    return "\n\n".join("\n".join(map(line, rows)) for rows in tables)


def main() -> None:
    """Run what is missing, and print the tables."""
    options = _options()
    for name in options.sets if options.run else ():
        with tempfile.TemporaryDirectory() as folder:
            compare(name, options, Path(folder))
    print(report(read(options.results), options.against, options.split))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="file of results, a line of JSON for each run")
    parser.add_argument("--run", nargs="+", choices=METHODS, default=[], help="methods to run")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--model", default="molsepnorm-small", help="of finetuned and probe")
    parser.add_argument("--peers", type=Path, help="environment with chemprop and LightGBM")
    parser.add_argument("--against", choices=METHODS, default="scratch", help="for differences")
    parser.add_argument("--split", choices=_SPLITS, default="test", help="whose scores to show")
    options = parser.parse_args()
    if {"chemprop", "lightgbm"} & set(options.run):
        if options.peers is None or not (options.peers / "bin" / "python").exists():
            parser.error("give --peers, the folder of the environment of chemprop and LightGBM")
        options.peers = (options.peers / "bin").absolute()
    return options


if __name__ == "__main__":
    main()
