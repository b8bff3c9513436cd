"""Compare methods on MoleculeNet's tables and ogbg-molhiv, seed by seed.

    python -m venv /tmp/peers
    /tmp/peers/bin/pip install torch==2.13.0 chemprop==2.3.1 lightgbm==4.7.0   # torch for CPUs
    export MOLSEPNORM_DATA=/path/to/datasets PEERS=/tmp/peers/bin
    python benchmarks/moleculenet/run.py --run default chemprop --seeds 0 1 --peers $PEERS
    make results                                                               # the tables

Each run is a line of results.jsonl. Runs that are in the file are skipped, so the same command
continues after a stop. All methods get the rows that RDKit can read and the same split (the column
`scaffold_split`; OGB's split for molhiv). scikit-learn scores all predictions of the test rows.

- `default`, `no-forest`, `ensemble`, `scratch`: `molsepnorm train`, whose kernel regression and
  forest are finally fitted to the training and validation rows.
- `networks`: without a forest, and without this second fit.
- `chemprop` keeps the validation rows apart. For `chemprop-val` a copy of each is a training row.
- `forest`, `lightgbm` read Morgan counts and RDKit's descriptors, and are fitted to both.

CPU seconds and memory are those of the training command, with an empty cache. For forests and
LightGBM they include the features, which are computed once for all seeds. LightGBM draws no random
numbers, so its seeds give equal scores.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import pandas as pd  # noqa: E402
from commands import OURS, Usage, measured  # noqa: E402
from environment import commit, machine  # noqa: E402
from peers import chemprop  # noqa: E402

from moleculenet import fit  # noqa: E402
from moleculenet.sets import SETS, SPLITS_COLUMN, Set, readable_rows, score  # noqa: E402

RESULTS = HERE / "results.jsonl"
OURS_OPTIONS: dict[str, tuple[str, ...]] = {
    "default": (),
    "no-forest": ("--no-baseline",),
    "ensemble": ("--ensemble", "5"),
    "networks": ("--no-baseline", "--no-refit"),
    "scratch": ("--from", "none", "--no-baseline"),
}
_ASSAYS = ("tox21", "molhiv")  # the teacher of molsepnorm-taught may have seen their labels
METHODS = (*OURS_OPTIONS, "chemprop", "chemprop-val", *fit.METHODS)


def compare(name: str, options: argparse.Namespace, folder: Path) -> None:
    """Append the runs of a set that the file of results lacks."""
    rows = readable_rows(SETS[name])
    test = rows[rows[SPLITS_COLUMN] == "test"]
    rows.to_csv(folder / "molecules.csv", index=False)
    copies = rows[rows[SPLITS_COLUMN] == "val"].assign(**{SPLITS_COLUMN: "train"})
    pd.concat([rows, copies]).to_csv(folder / "more_training.csv", index=False)
    test[["smiles"]].to_csv(folder / "test.csv", index=False)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done = {(run["set"], run["method"], run["seed"]) for run in map(json.loads, lines)}
    features: list[Usage] = []
    for seed, method in product(options.seeds, options.run):
        if (name, method, seed) in done:
            continue
        own = folder / f"{method}-{seed}"
        own.mkdir()
        environment = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment["MOLSEPNORM_CACHE"] = str(own / "cache")
        if method in fit.METHODS and not features:
            command = [sys.executable, str(HERE / "features.py"), "molecules.csv", "features.npy"]
            features = [measured(command, folder, **environment)]
        train, predict = commands(name, method, seed, own, options.peers)
        usages = [measured(train, own, **environment), *(features * (method in fit.METHODS))]
        if predict:
            measured(predict, own, **environment)
        run = {
            "set": name,
            "method": method,
            "seed": seed,
            "test": test_score(SETS[name], test, pd.read_csv(own / "predictions.csv")),
            "cpu_seconds": round(sum(usage.cpu_seconds for usage in usages), 1),
            "memory": round(max(usage.memory for usage in usages), 3),
            "date": time.strftime("%Y-%m-%d"),
            "commit": commit(),
            "machine": machine(),
        }
        with open(RESULTS, "a") as file:
            print(json.dumps(run), file=file)
        print(json.dumps(run))


def commands(
    name: str, method: str, seed: int, folder: Path, peers: Path
) -> tuple[list[str], list[str]]:
    """Return the commands that train and predict; the second is empty if the first does both.

    They read the files of the folder's parent, and write `predictions.csv` into the folder.
    """
    chosen, files, run = SETS[name], folder.parent, folder / "run"
    data, smiles, predictions = files / "molecules.csv", files / "test.csv", "predictions.csv"
    if method in fit.METHODS:
        python = sys.executable if method == "forest" else str(peers / "python")
        inputs = [str(data), str(files / "features.npy"), predictions, chosen.kind, str(seed)]
        train = [python, str(HERE / "fit.py"), method, *inputs, SPLITS_COLUMN, *chosen.targets]
        return train, []
    if method in OURS_OPTIONS:
        train = [OURS, "train", "--quiet", "--data", str(data), "--splits-column", SPLITS_COLUMN]
        train += ["--targets", ",".join(chosen.targets), "--seed", str(seed), "--output", str(run)]
        predict = [OURS, "predict", "--model", str(run), "--processes", "1"]
        predict += ["--input", str(smiles), "--output", predictions]
        if name in _ASSAYS and "--from" not in OURS_OPTIONS[method]:
            train += ["--from", "molsepnorm-small"]
        return [*train, *OURS_OPTIONS[method]], predict
    data = files / "more_training.csv" if method == "chemprop-val" else data
    train = [str(peers / "chemprop"), "train", "--data-path", str(data), "--output-dir", str(run)]
    train += ["--smiles-columns", "smiles", "--target-columns", *chosen.targets]
    train += ["--task-type", chosen.kind, "--splits-column", SPLITS_COLUMN]
    train += ["--pytorch-seed", str(seed), "--data-seed", str(seed)]
    train += ["--epochs", "3"] if name == "molhiv" else []
    model = run / "model_0" / "best.pt"
    return train, chemprop.predict(peers / "chemprop", model, smiles, folder / predictions)


def test_score(chosen: Set, test: pd.DataFrame, predicted: pd.DataFrame) -> float:
    """Return the score of the test rows, whose SMILES the predictions must have in their order."""
    if predicted["smiles"].tolist() != test["smiles"].tolist():
        sys.exit("the predictions are not those of the test rows")
    columns = [f"{name}_pred" if f"{name}_pred" in predicted else name for name in chosen.targets]
    return score(chosen.metric, test[[*chosen.targets]].to_numpy(float), predicted[columns].values)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", nargs="+", choices=METHODS, required=True, help="methods to run")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument(
        "--peers", type=Path, default=".", help="folder with the executables of the peers"
    )
    options = parser.parse_args()
    options.peers = options.peers.absolute()
    if {*options.run} - {*OURS_OPTIONS, "forest"} and not (options.peers / "chemprop").is_file():
        parser.error(f"there is no chemprop in {options.peers}: give the folder with --peers")
    for name in options.sets:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, options, Path(folder))


if __name__ == "__main__":
    main()
