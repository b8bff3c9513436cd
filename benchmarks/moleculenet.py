"""Train this package and chemprop side by side on MoleculeNet's tables, and on ogbg-molhiv.

    python -m venv /tmp/chemprop
    /tmp/chemprop/bin/pip install torch==2.13.0 chemprop==2.3.1      # torch first: the CPU build
    MOLSEPNORM_DATA=/path/to/datasets python benchmarks/moleculenet.py \\
        --peer /tmp/chemprop/bin/chemprop --out results.json

Both run through their command lines with default settings on the same file: the table with its
column `scaffold_split`, without the rows whose SMILES RDKit cannot read (8 of Tox21; chemprop
stops at such a row). The runs alternate, so that a drift of the machine's speed affects both.
scikit-learn scores both files of test predictions against the labels of the table. Times are those
of the whole training command, from the CSV to the predictions of the test split, with an empty
cache. Runs that --out already has are not repeated.

On ogbg-molhiv, with OGB's split, this package reads OGB's graphs and uses its preset mini; both
train for 3 epochs, and are scored on the molecules that RDKit can read.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from commands import OURS, measured
from environment import commit, data_folder, machine, versions
from peers import chemprop
from table import line

SPLITS_COLUMN = "scaffold_split"
SIDES = ("ours", "chemprop")
COSTS = {"seconds": ("s", 0), "cpu_seconds": ("s of CPU", 0), "memory": ("GiB", 2)}


class Table(NamedTuple):
    """A file of MoleculeNet and its targets."""

    file: str
    kind: Literal["regression", "classification"]
    targets: tuple[str, ...]
    ours: tuple[str, ...] = ()
    """Options that name the data for this package, if not the file."""
    epochs: int | None = None
    """For both, in place of their defaults."""


TOX21 = (
    *("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma"),
    *("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
)
MOLHIV = ("--dataset", "ogbg-molhiv", "--preset", "mini")
TABLES = {
    "esol": Table("esol.csv", "regression", ("log_solubility",)),
    "freesolv": Table("freesolv.csv", "regression", ("expt",)),
    "bace-pic50": Table("bace.csv", "regression", ("pIC50",)),
    "bace-class": Table("bace.csv", "classification", ("Class",)),
    "tox21": Table("tox21.csv", "classification", TOX21),
    "molhiv": Table("molhiv.csv", "classification", ("HIV_active",), MOLHIV, epochs=3),
}


def readable_rows(table: Table, folder: Path) -> tuple[Path, int]:
    """Write the rows that RDKit can read; return the file and the number of other rows."""
    from rdkit import Chem, rdBase

    if table.ours:
        source = data_folder() / "ogbg_molhiv"
        rows = pd.read_csv(source / "mapping" / "mol.csv.gz")
        for part in ("train", "valid", "test"):
            path = source / "split" / "scaffold" / f"{part}.csv.gz"
            rows.loc[pd.read_csv(path, header=None)[0], SPLITS_COLUMN] = part
    else:
        source = data_folder() / "moleculenet" / table.file
        rows = pd.read_csv(source, dtype=str, keep_default_na=False)
    with rdBase.BlockLogs():
        readable = [Chem.MolFromSmiles(smiles) is not None for smiles in rows["smiles"]]
    # this package numbers all rows of OGB's set, but those of the file for a table
    rows["row"] = np.arange(len(rows)) if table.ours else np.cumsum(readable) - 1
    columns = ["row", "smiles", *table.targets, SPLITS_COLUMN]
    rows.loc[readable, columns].to_csv(folder / table.file, index=False)
    return folder / table.file, len(rows) - sum(readable)


def our_command(table: Table, data: Path, seed: int, folder: Path) -> list[str]:
    """Train with this package's default recipe for a table."""
    source = table.ours or (
        *("--data", str(data), "--targets", ",".join(table.targets)),
        *("--splits-column", SPLITS_COLUMN),
    )
    return [OURS, "train", "--quiet", *source, "--seed", str(seed), "--output", str(folder)]


def our_predictions(table: Table, folder: Path, test: pd.DataFrame) -> np.ndarray:  # (G, T)
    """Read the predictions of this package for the test rows."""
    predicted = pd.read_csv(folder / "predictions_test.csv").set_index("row")
    if missing := set(test.index) - set(predicted.index):
        sys.exit(f"{folder}: no prediction for row(s) {sorted(missing)[:5]} of the test split")
    return predicted.loc[test.index, [f"{name}_pred" for name in table.targets]].to_numpy()


def peer_command(peer: str, table: Table, data: Path, seed: int, folder: Path) -> list[str]:
    """Train with chemprop's default settings."""
    return [
        *(peer, "train", "--data-path", str(data), "--smiles-columns", "smiles"),
        *("--target-columns", *table.targets, "--task-type", table.kind),
        *("--splits-column", SPLITS_COLUMN, "--output-dir", str(folder)),
        *("--pytorch-seed", str(seed), "--data-seed", str(seed)),
    ]


def peer_predictions(table: Table, folder: Path, test: pd.DataFrame) -> np.ndarray:  # (G, T)
    """Read the predictions of chemprop for the test rows, which its file has in order."""
    predicted = pd.read_csv(folder / "model_0" / "test_predictions.csv")
    if predicted["smiles"].str.strip().tolist() != test["smiles"].str.strip().tolist():
        sys.exit(f"{folder}: the predictions are not for the rows of the test split")
    return predicted[list(table.targets)].to_numpy()


def score(table: Table, labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Return each metric's mean over the targets, for (G, T); NaN is a missing label."""
    from sklearn import metrics

    functions: dict[str, Callable[..., float]] = {
        "RMSE": metrics.root_mean_squared_error,
        "MAE": metrics.mean_absolute_error,
    }
    if table.kind == "classification":
        functions = {"ROC-AUC": metrics.roc_auc_score, "PR-AUC": metrics.average_precision_score}
    present = ~np.isnan(labels)
    columns = range(len(table.targets))
    pairs = [(labels[present[:, i], i], predictions[present[:, i], i]) for i in columns]
    return {
        name: statistics.mean(float(function(*pair)) for pair in pairs)
        for name, function in functions.items()
    }


def compare(
    name: str, options: argparse.Namespace, folder: Path, found: dict[str, Any]
) -> dict[str, Any]:
    """Add the runs of a table that `found` lacks, alternating between the sides."""
    table = TABLES[name]
    data, left_out = readable_rows(table, folder)
    rows = pd.read_csv(data)
    test = rows[rows[SPLITS_COLUMN] == "test"].set_index("row")
    labels = test[list(table.targets)].to_numpy(dtype=np.float64)
    found |= {"unreadable_rows_left_out": left_out}
    found |= {"molecules": rows[SPLITS_COLUMN].value_counts().to_dict()}
    runs = found.setdefault("runs", {side: {} for side in SIDES})
    for seed in options.seeds:
        for side in SIDES:
            if str(seed) in runs[side]:
                continue
            own = folder / f"{name}-{side}-{seed}"
            own.mkdir()
            if side == "ours":
                command = our_command(table, data, seed, own / "run")
                command += [f"--set={setting}" for setting in options.set]
                read = our_predictions
            else:
                command = peer_command(str(options.peer), table, data, seed, own / "run")
                read = peer_predictions
            if epochs := options.epochs or table.epochs:
                command += ["--epochs", str(epochs)]
            threads = {f"{name}_NUM_THREADS": str(options.threads) for name in ("OMP", "MKL")}
            usage = measured(command, own, MOLSEPNORM_CACHE=str(own / "cache"), **threads)
            scores = score(table, labels, read(table, own / "run", test))
            runs[side][str(seed)] = {**scores, **asdict(usage)}
            shown = shlex.join(command).replace(str(folder), "DIR")
            found.setdefault("commands", {}).setdefault(side, shown)
            print(f"{name}, seed {seed}, {side}: {runs[side][str(seed)]}", file=sys.stderr)
    return found


def report(tables: dict[str, Any]) -> str:
    """Return two Markdown tables: mean ± sd over the seeds, and median ratios of the costs."""
    scores = [("table", "test score", *SIDES), ("---",) * 4]
    costs = [("table", "cost", *SIDES, "ours / chemprop"), ("---",) * 5]
    for name, table in tables.items():
        ours, theirs = ({**table["runs"][side]} for side in SIDES)
        seeds = [seed for seed in ours if seed in theirs]
        for key in ours[seeds[0]]:
            both = [[runs[seed][key] for seed in seeds] for runs in (ours, theirs)]
            unit, digits = COSTS.get(key, (key, 3))
            pairs = [(statistics.mean(each), np.std(each, ddof=len(each) > 1)) for each in both]
            cells = [f"{mean:.{digits}f} ± {sd:.{digits}f}" for mean, sd in pairs]
            if key in COSTS:
                ratio = statistics.median(a / b for a, b in zip(*both, strict=True))
                costs.append((name, unit, *cells, f"{ratio:.2f}"))
            else:
                scores.append((name, unit, *cells))
    return "\n".join([*map(line, scores), "", *map(line, costs)])


def main() -> None:
    """Run the comparison, write everything as JSON and print both tables."""
    options = _options()
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    results |= {
        "commit": commit(),
        "machine": machine(),
        "threads": options.threads,
        "epochs": options.epochs or "each one's default",
        "settings": options.set,
        "versions": {**versions("molsepnorm", "torch"), "peer": chemprop.version(options.peer)},
    }
    tables = results.setdefault("tables", {})
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.sets:
            tables[name] = compare(name, options, Path(scratch), tables.get(name, {}))
            options.out.write_text(json.dumps(results, indent=2) + "\n")
    head = f"commit {results['commit']}; {results['machine']}; {options.threads} thread(s)"
    print(f"\n{head}; {results['versions']}\n\n{report(tables)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", type=Path, required=True, help="chemprop's executable")
    parser.add_argument("--sets", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--epochs", type=int, help="for both, to try it out; chemprop needs 3")
    parser.add_argument("--set", action="append", default=[], help="a setting of ours; repeatable")
    parser.add_argument("--out", type=Path, default=Path("moleculenet.json"))
    options = parser.parse_args()
    options.peer = options.peer.absolute()
    if not options.peer.is_file():
        parser.error(f"there is no {options.peer}: give the path of chemprop's executable")
    return options


if __name__ == "__main__":
    main()
