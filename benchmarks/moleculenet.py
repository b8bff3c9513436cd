"""Trains this package and chemprop side by side on MoleculeNet's tables, and on ogbg-molhiv.

    python -m venv /tmp/chemprop
    /tmp/chemprop/bin/pip install torch==2.13.0 chemprop==2.3.1      # torch first: the CPU build
    MOLSEPNORM_DATA=/path/to/datasets python benchmarks/moleculenet.py \\
        --peer /tmp/chemprop/bin/chemprop --out results.json

Each is run through its command line as it comes, with default settings, on the same file: the
table with its column `scaffold_split`, less the rows whose SMILES RDKit cannot read (8 of tox21;
chemprop stops at such a row). The runs take turns, ours, chemprop's, ours, …, so that a machine
whose speed drifts does so for both. Both files of test predictions are scored here, by
scikit-learn, against the labels of the table. Time is that of the whole training command, from
the CSV to the predictions of the test split, without anything cached from an earlier run.

On ogbg-molhiv, whose split is OGB's, this package reads OGB's graphs and uses its preset mini;
both train for 3 epochs, and are scored on the molecules that RDKit can read.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from where import commit, machine

SPLITS_COLUMN = "scaffold_split"
SIDES = ("ours", "chemprop")


class Table(NamedTuple):
    """A file of MoleculeNet and what is predicted from it."""

    file: str
    kind: Literal["regression", "classification"]
    targets: tuple[str, ...]
    ours: tuple[str, ...] = ()
    """How this package is told of it, where not by the file."""
    epochs: int | None = None
    """For both, where not each one's default."""


TOX21 = (
    *("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma"),
    *("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
)
TABLES = {
    "esol": Table("esol.csv", "regression", ("log_solubility",)),
    "freesolv": Table("freesolv.csv", "regression", ("expt",)),
    "bace-pic50": Table("bace.csv", "regression", ("pIC50",)),
    "bace-class": Table("bace.csv", "classification", ("Class",)),
    "tox21": Table("tox21.csv", "classification", TOX21),
    "molhiv": Table(
        "molhiv.csv",
        "classification",
        ("HIV_active",),
        ("--dataset", "ogbg-molhiv", "--preset", "mini"),
        epochs=3,
    ),
}


class Run(NamedTuple):
    """One training command."""

    scores: dict[str, float]
    seconds: float
    """From its start to its end."""
    cpu_seconds: float
    """On all cores together."""
    memory: float
    """GiB, the most that its largest process held."""


def readable_rows(table: Table, folder: Path) -> tuple[Path, int]:
    """The table without the rows that RDKit cannot read, for both; and how many these are."""
    from rdkit import Chem, rdBase

    if table.ours:
        rows = _molhiv()
    else:
        source = _data() / "moleculenet" / table.file
        rows = pd.read_csv(source, dtype=str, keep_default_na=False)
    with rdBase.BlockLogs():
        readable = [Chem.MolFromSmiles(smiles) is not None for smiles in rows["smiles"]]
    # of OGB's set this package knows all rows, of a table those of the file
    rows["row"] = np.arange(len(rows)) if table.ours else np.cumsum(readable) - 1
    columns = ["row", "smiles", *table.targets, SPLITS_COLUMN]
    rows.loc[readable, columns].to_csv(folder / table.file, index=False)
    return folder / table.file, len(rows) - sum(readable)


def _molhiv() -> pd.DataFrame:
    """All molecules in OGB's order, with its split."""
    folder = _data() / "ogbg_molhiv"
    rows = pd.read_csv(folder / "mapping" / "mol.csv.gz")
    for part in ("train", "valid", "test"):
        which = pd.read_csv(folder / "split" / "scaffold" / f"{part}.csv.gz", header=None)[0]
        rows.loc[which, SPLITS_COLUMN] = part
    return rows


def our_command(table: Table, data: Path, seed: int, folder: Path) -> list[str]:
    """Training with this package's default recipe for a table."""
    source = table.ours or (
        *("--data", str(data), "--targets", ",".join(table.targets)),
        *("--splits-column", SPLITS_COLUMN),
    )
    molsepnorm = str(Path(sys.executable).with_name("molsepnorm"))
    return [molsepnorm, "train", "--quiet", *source, "--seed", str(seed), "--output", str(folder)]


def our_predictions(table: Table, folder: Path, test: pd.DataFrame) -> np.ndarray:  # (G, T)
    """What the run in `folder` predicted for the test rows."""
    predicted = pd.read_csv(folder / "predictions_test.csv").set_index("row")
    if missing := set(test.index) - set(predicted.index):
        sys.exit(f"{folder}: no prediction for row(s) {sorted(missing)[:5]} of the test split")
    return predicted.loc[test.index, [f"{name}_pred" for name in table.targets]].to_numpy()


def peer_command(peer: str, table: Table, data: Path, seed: int, folder: Path) -> list[str]:
    """Training with chemprop's default settings."""
    return [
        *(peer, "train", "--data-path", str(data), "--smiles-columns", "smiles"),
        *("--target-columns", *table.targets, "--task-type", table.kind),
        *("--splits-column", SPLITS_COLUMN, "--output-dir", str(folder)),
        *("--pytorch-seed", str(seed), "--data-seed", str(seed)),
    ]


def peer_predictions(table: Table, folder: Path, test: pd.DataFrame) -> np.ndarray:  # (G, T)
    """What chemprop predicted for the test rows, in whose order its file is."""
    predicted = pd.read_csv(folder / "model_0" / "test_predictions.csv")
    if predicted["smiles"].str.strip().tolist() != test["smiles"].str.strip().tolist():
        sys.exit(f"{folder}: the predictions are not for the rows of the test split")
    return predicted[list(table.targets)].to_numpy()


def measured(command: list[str], folder: Path, threads: int) -> tuple[float, float, float]:
    """Run a command: its seconds, the seconds of CPU it used, and its peak memory in GiB.

    Memory is never less than what this process held itself when it began the command (0.25 GiB,
    with torch either trainer needs twice as much), for so Linux counts.
    """
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "CUDA_VISIBLE_DEVICES": "",
        "MOLSEPNORM_CACHE": str(folder / "cache"),
    }
    folder.mkdir(parents=True)
    with open(folder / "output.txt", "w") as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
        _, status, usage = os.wait4(process.pid, 0)  # with all processes that it waited for
        seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = (folder / "output.txt").read_text().splitlines()[-15:]
        sys.exit("\n".join([f"exit status {process.returncode}: {shlex.join(command)}", *tail]))
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def score(table: Table, labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Mean over the targets of each metric, (G, T) against (G, T), missing labels (NaN) aside."""
    from sklearn import metrics

    functions: dict[str, Callable[..., float]] = {
        "RMSE": lambda *both: metrics.mean_squared_error(*both) ** 0.5,
        "MAE": metrics.mean_absolute_error,
    }
    if table.kind == "classification":
        functions = {
            "ROC-AUC": metrics.roc_auc_score,
            "PR-AUC": metrics.average_precision_score,
        }
    present = ~np.isnan(labels)
    columns = range(len(table.targets))
    return {
        name: float(
            np.mean([f(labels[present[:, i], i], predictions[present[:, i], i]) for i in columns])
        )
        for name, f in functions.items()
    }


def compare(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All runs of one table, in turns."""
    table = TABLES[name]
    data, left_out = readable_rows(table, folder)
    rows = pd.read_csv(data)
    test = rows[rows[SPLITS_COLUMN] == "test"].set_index("row")
    labels = test[list(table.targets)].to_numpy(dtype=np.float64)
    runs: dict[str, list[Run]] = {side: [] for side in SIDES}
    commands: dict[str, str] = {}
    for seed in options.seeds:
        for side in SIDES:
            place = folder / f"{name}-{side}-{seed}"
            if side == "ours":
                command = our_command(table, data, seed, place / "run")
                command += [f"--set={setting}" for setting in options.set]
                read = our_predictions
            else:
                command = peer_command(options.peer, table, data, seed, place / "run")
                read = peer_predictions
            if epochs := options.epochs or table.epochs:
                command += ["--epochs", str(epochs)]
            used = measured(command, place, options.threads)
            run = Run(score(table, labels, read(table, place / "run", test)), *used)
            runs[side].append(run)
            commands.setdefault(side, shlex.join(command).replace(str(folder), "DIR"))
            print(f"{name}, seed {seed}, {side}: {_line(run)}", file=sys.stderr)
    return {
        "targets": len(table.targets),
        "molecules": rows[SPLITS_COLUMN].value_counts().to_dict(),
        "unreadable_rows_left_out": left_out,
        "commands": commands,
        "runs": {side: [each._asdict() for each in values] for side, values in runs.items()},
        "summary": summary(runs),
    }


def summary(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Mean and standard deviation over the seeds; of the cost, also the median ratio of a pair."""
    scores = {
        metric: {side: _spread([run.scores[metric] for run in runs[side]]) for side in SIDES}
        for metric in runs["ours"][0].scores
    }
    cost: dict[str, Any] = {}
    for field in ("seconds", "cpu_seconds", "memory"):
        used = {side: [getattr(run, field) for run in runs[side]] for side in SIDES}
        ratios = [a / b for a, b in zip(used["ours"], used["chemprop"], strict=True)]
        cost[field] = {side: _spread(values) for side, values in used.items()}
        cost[field]["ratio"] = statistics.median(ratios)
    return {"scores": scores, "cost": cost}


def report(tables: dict[str, Any]) -> str:
    """The summaries as two Markdown tables."""
    lines = ["| table | test score | ours | chemprop |", "|---|---|---|---|"]
    for name, result in tables.items():
        for metric, values in result["summary"]["scores"].items():
            cells = " | ".join(_cell(values[side], 3) for side in SIDES)
            lines.append(f"| {name} | {metric} | {cells} |")
    lines += ["", "| table | cost | ours | chemprop | ours / chemprop |", "|---|---|---|---|---|"]
    for name, result in tables.items():
        for field, unit, digits in (
            ("seconds", "s", 0),
            ("cpu_seconds", "s of CPU", 0),
            ("memory", "GiB", 2),
        ):
            values = result["summary"]["cost"][field]
            cells = " | ".join(_cell(values[side], digits) for side in SIDES)
            lines.append(f"| {name} | {unit} | {cells} | {values['ratio']:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Run the comparison, print both tables and write everything as JSON."""
    options = _options()
    results: dict[str, Any] = {
        "commit": commit(),
        "machine": machine(),
        "threads": options.threads,
        "seeds": options.seeds,
        "epochs": options.epochs or "each one's default",
        "settings": options.set,
        "versions": _versions(options.peer),
        "tables": {},
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.sets:
            results["tables"][name] = compare(name, options, Path(scratch))
            options.out.write_text(json.dumps(results, indent=2) + "\n")  # what there is so far
    head = f"commit {results['commit']}; {results['machine']}; {options.threads} thread(s)"
    print(f"\n{head}; seeds {options.seeds}; {results['versions']}\n\n{report(results['tables'])}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", required=True, help="chemprop's executable")
    parser.add_argument("--sets", type=_names, default=list(TABLES), help="esol,freesolv,…")
    parser.add_argument("--seeds", type=_numbers, default=[0, 1, 2], help="0,1,2")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--epochs", type=int, help="for both, to try it out (chemprop wants 3)")
    parser.add_argument("--set", action="append", default=[], help="a setting of ours; repeatable")
    parser.add_argument("--out", type=Path, default=Path("moleculenet.json"))
    options = parser.parse_args()
    options.peer = str(Path(options.peer).absolute())
    if not Path(options.peer).is_file():
        parser.error(f"there is no {options.peer}: give the path of chemprop's executable")
    return options


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(TABLES):
        raise argparse.ArgumentTypeError(
            f"unknown set(s) {', '.join(sorted(unknown))}; known: {', '.join(TABLES)}"
        )
    return names


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _spread(values: list[float]) -> dict[str, float]:
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.mean(values), "sd": sd}


def _cell(spread: dict[str, float], digits: int) -> str:
    return f"{spread['mean']:.{digits}f} ± {spread['sd']:.{digits}f}"


def _line(run: Run) -> str:
    scores = ", ".join(f"{name} {value:.3f}" for name, value in run.scores.items())
    return f"{scores}; {run.seconds:.0f} s, {run.cpu_seconds:.0f} s of CPU, {run.memory:.2f} GiB"


def _versions(peer: str) -> dict[str, str]:
    python = str(Path(peer).with_name("python"))
    code = "import importlib.metadata as m; print(m.version('chemprop'), m.version('torch'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    theirs, their_torch = done.stdout.split()
    return {
        "molsepnorm": importlib.metadata.version("molsepnorm"),
        "torch": importlib.metadata.version("torch"),
        "chemprop": theirs,
        "chemprop's torch": their_torch,
    }


def _data() -> Path:
    if not (folder := os.environ.get("MOLSEPNORM_DATA")):
        sys.exit("set MOLSEPNORM_DATA to the folder of real data sets")
    return Path(folder)


if __name__ == "__main__":
    main()
