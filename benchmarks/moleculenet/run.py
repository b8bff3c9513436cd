"""Compare methods on MoleculeNet's tables and ogbg-molhiv, seed by seed.

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install torch==2.13.0 chemprop==2.3.1 lightgbm==4.7.0   # torch for CPUs
    export MOLSEPNORM_DATA=/path/to/datasets PEERS=/tmp/peers/bin
    python benchmarks/moleculenet/run.py results.jsonl --run scratch chemprop --peers $PEERS
    python benchmarks/moleculenet/run.py results.jsonl --against chemprop      # only the tables

Each run is a line of the file of results. Runs that are in the file are skipped, so the same
command continues after a stop. All methods get the rows that RDKit can read and the same split (the
column `scaffold_split`; OGB's split for molhiv). Networks use the validation rows to choose the
epoch; `forest` and `lightgbm` use the training rows only. `default`, `no-forest`, `ensemble`,
`forest-refit` and `lightgbm-refit` are fitted to the validation rows, too, and `chemprop-refit` is
trained on them; these have no validation score. scikit-learn scores all predictions against the
labels of the table.

Seconds and memory are those of the training command, from the CSV to the predictions of the test
rows, with an empty cache. For forests and LightGBM they include the features, which are computed
once for all seeds. The seeds of LightGBM give equal scores, because its fit draws no random
numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import pandas as pd  # noqa: E402
from commands import Usage, measured  # noqa: E402
from environment import commit, machine  # noqa: E402
from table import difference, line, mean_sd  # noqa: E402

from moleculenet import fit  # noqa: E402
from moleculenet.methods import (  # noqa: E402
    METHODS,
    WITHOUT_VALIDATION_SCORE,
    Job,
    commands,
)
from moleculenet.sets import SETS, SPLITS_COLUMN, Set, readable_rows, score  # noqa: E402

__all__ = ["compare", "read", "report", "scores"]

_SPLITS = {"validation": "val", "test": "test"}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of results; none if there is no file."""
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def compare(name: str, options: argparse.Namespace, folder: Path) -> None:
    """Append the runs of a set that the file of results lacks."""
    rows = readable_rows(SETS[name])
    held_out = rows[rows[SPLITS_COLUMN] != "train"]
    names = ("molecules.csv", "more_training.csv", "held_out.csv")
    data, more, smiles = (folder / name for name in names)
    rows.to_csv(data, index=False)
    copies = rows[rows[SPLITS_COLUMN] == "val"].assign(**{SPLITS_COLUMN: "train"})
    pd.concat([rows, copies]).to_csv(more, index=False)
    held_out[["smiles"]].to_csv(smiles, index=False)
    environment = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "MKL")}
    done = [(run["set"], run["method"], run["seed"]) for run in read(options.results)]
    code = {"threads": options.threads, "commit": commit(), "machine": machine()}
    prepared: dict[str, Usage] = {}
    for seed, method in product(options.seeds, options.run):
        if (name, method, seed) in done:
            continue
        own = folder / f"{method}-{seed}"
        own.mkdir()
        job = Job(name, method, seed, data, more, smiles, own, options.model, options.peers)
        todo, environment["MOLSEPNORM_CACHE"] = commands(job), str(own / "cache")
        if (features := shlex.join(todo.prepare)) and features not in prepared:
            prepared[features] = measured(todo.prepare, own, **environment)
        usages = [*filter(None, [prepared.get(features)]), measured(todo.train, own, **environment)]
        if todo.predict:
            measured(todo.predict, own, **environment)
        predicted = pd.read_csv(own / "predictions.csv")
        found = scores(SETS[name], held_out, predicted)
        if method in WITHOUT_VALIDATION_SCORE:
            del found["validation"]
        result = {"set": name, "method": method, "seed": seed}
        result |= {
            **found,
            "seconds": sum(usage.seconds for usage in usages),
            "cpu_seconds": sum(usage.cpu_seconds for usage in usages),
            "memory": max(usage.memory for usage in usages),
            **code,
            "command": _shown(todo.train, folder),
        }
        with open(options.results, "a") as file:
            file.write(f"{json.dumps(result)}\n")
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
    labels, values = held_out[[*chosen.targets]].to_numpy(float), predicted[columns].to_numpy()
    split = held_out[SPLITS_COLUMN].to_numpy()
    return {
        title: score(chosen.metric, labels[split == part], values[split == part])
        for title, part in _SPLITS.items()
    }


def report(runs: Sequence[dict[str, Any]], against: str, split: str) -> str:
    """Return three Markdown tables: scores, differences from one method, and CPU seconds."""

    def by_seed(key: str, *of: str) -> dict[int, float]:
        return {
            run["seed"]: run[key]
            for run in runs
            if (run["set"], run["method"]) == of and key in run
        }

    tables: dict[str, Callable[[str, str], str]] = {
        f"{split} score": lambda *of: mean_sd(by_seed(split, *of), 3),
        f"minus {against}": lambda name, method: (
            difference(by_seed(split, name, method), by_seed(split, name, against), 3)
            if method != against
            else ""
        ),
        "CPU seconds": lambda *of: mean_sd(by_seed("cpu_seconds", *of), 0),
    }
    sets = [name for name in SETS if any(run["set"] == name for run in runs)]
    methods = [method for method in METHODS if any(run["method"] == method for run in runs)]
    text = []
    for title, cell in tables.items():
        rows = [
            (f"{name}, {SETS[name].metric}", *(cell(name, m) for m in methods)) for name in sets
        ]
        text.append("\n".join(map(line, [(title, *methods), ("---",) * (1 + len(methods)), *rows])))
    return "\n\n".join(text)


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
    parser.add_argument("--model", default="molsepnorm-small", help="that fine-tuning starts from")
    parser.add_argument(
        "--peers", type=Path, default=".", help="folder with the executables of the peers"
    )
    parser.add_argument("--against", choices=METHODS, default="scratch", help="for differences")
    parser.add_argument("--split", choices=_SPLITS, default="test", help="whose scores to show")
    options = parser.parse_args()
    options.peers = options.peers.absolute()
    if Path(options.model).exists():
        options.model = str(Path(options.model).absolute())
    peers = {"chemprop", "chemprop-refit", *fit.PEERS}
    if peers & {*options.run} and not (options.peers / "chemprop").is_file():
        parser.error(f"there is no chemprop in {options.peers}: give the folder with --peers")
    return options


if __name__ == "__main__":
    main()
