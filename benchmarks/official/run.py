"""Train on the 30 activity tables of MoleculeACE, and compare with published scores.

    pip download MoleculeACE==3.0.0 --no-deps && unzip MoleculeACE-3.0.0-py3-none-any.whl -d ace
    python benchmarks/moleculeace/run.py results.jsonl --tables ace/MoleculeACE/Data/benchmark_data
    python benchmarks/moleculeace/run.py results.jsonl                      # only the tables

Each table has the affinities of 615 to 3,657 molecules for one protein (pKi or pEC50, ChEMBL), and
the official split into training and test rows. More than a third of the molecules are activity
cliffs: similar to another one, with an affinity that differs by a factor of ten or more. The
command is that of a user, `molsepnorm train --data TABLE --targets y --splits-column split`, which
draws its validation rows from the training rows. Each run is a line of the file of results. Runs
that are in the file are skipped, so the same command continues after a stop.

`published.csv` has the test RMSE of other methods on the same split: CheMeleon, chemprop and a
random forest on Morgan fingerprints (means of five seeds, Burns et al., arXiv 2506.15792, from the
authors' repository, commit e629639), and a support-vector machine on ECFP with tuned
hyperparameters (van Tilborg et al., J. Chem. Inf. Model. 2022, 62, 5938, from the authors'
repository).

Source of the tables: van Tilborg et al., as above.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from commands import OURS, measured  # noqa: E402
from environment import commit, machine  # noqa: E402
from table import line  # noqa: E402

__all__ = ["comparison", "report", "rmse", "train"]

PUBLISHED = HERE / "published.csv"


def rmse(rows: pd.DataFrame) -> float:
    """Return the root mean square error of predictions, of the columns `y` and `y_pred`."""
    return float(np.sqrt(np.square(rows["y"] - rows["y_pred"]).mean()))


def train(table: Path, seed: int, threads: int, folder: Path) -> dict[str, Any]:
    """Train on a table, and return the line of the results."""
    run = folder / "run"
    options = ("--targets", "y", "--splits-column", "split", "--seed", str(seed))
    command = [OURS, "train", "--quiet", "--data", str(table), *options, "--output", str(run)]
    environment = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL")}
    usage = measured(command, folder, **environment, MOLSEPNORM_CACHE=str(folder / "cache"))
    given = pd.read_csv(table)
    given = given[given["split"] == "test"].reset_index(drop=True)
    predicted = pd.read_csv(run / "predictions_test.csv")
    if predicted["smiles"].tolist() != given["smiles"].tolist():
        sys.exit(f"{table}: the predictions are not those of the test rows")
    cliffs = predicted[given["cliff_mol"] == 1]
    return {
        "table": table.stem,
        "seed": seed,
        "test": rmse(predicted),
        "cliffs": rmse(cliffs),
        "seconds": usage.seconds,
        "cpu_seconds": usage.cpu_seconds,
        "memory": usage.memory,
        "threads": threads,
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "command": _shown(command, table, folder),
    }


def _shown(command: Sequence[str], table: Path, folder: Path) -> str:
    """Return a command without the folders of this machine."""
    text = shlex.join(["molsepnorm", *command[1:]])
    return text.replace(str(folder), "DIR").replace(f"{table.parent}/", "")


def comparison(runs: Sequence[Mapping[str, Any]], published: pd.DataFrame) -> list[list[str]]:
    """Return a row for each method: its mean RMSE, the difference, and who is better.

    Args:
        runs: lines of the results; the seeds of a table are averaged.
        published: test RMSE of each table (index) by each method (columns).
    """
    from molsepnorm.training.comparing.replicates import paired_difference

    own = pd.DataFrame(runs).groupby("table")["test"].mean()
    rows = [["molsepnorm", f"{own.mean():.3f}", "", ""]]
    for name, scores in published.loc[own.index].items():
        found = paired_difference(own.tolist(), scores.tolist())
        low, high = found.interval or (found.mean, found.mean)
        better = f"{int((own < scores).sum())} of {len(own)}"
        difference = f"{found.mean:+.3f} ({low:+.3f} to {high:+.3f})"
        rows.append([str(name), f"{scores.mean():.3f}", difference, better])
    return rows


def report(runs: Sequence[Mapping[str, Any]], published: pd.DataFrame) -> str:
    """Return two Markdown tables: the comparison over all tables, and the scores of each."""
    own = pd.DataFrame(runs).groupby("table")["test"].mean()
    others = published.loc[own.index]
    rows = [("mean test RMSE of", "all", "difference", "molsepnorm is better on"), ("---",) * 4]
    rows += map(tuple, comparison(runs, published))
    each = [("table", "molsepnorm", *map(str, others)), ("---",) * (2 + others.shape[1])]
    for table, scores in others.iterrows():
        shown = (f"{score:.3f}" for score in (own[table], *scores))
        each.append((str(table), *shown))
    return "\n\n".join("\n".join(map(line, part)) for part in (rows, each))


def main() -> None:
    """Run what is missing, and print the tables."""
    options = _options()
    path = options.results
    runs = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    done = {(run["table"], run["seed"]) for run in runs}
    names = pd.read_csv(PUBLISHED, index_col="table").index if options.tables else ()
    for seed in options.seeds:
        for name in names:
            if (name, seed) in done:
                continue
            table = (options.tables / f"{name}.csv").absolute()
            with tempfile.TemporaryDirectory() as folder:
                runs.append(train(table, seed, options.threads, Path(folder)))
            with open(path, "a") as file:
                file.write(f"{json.dumps(runs[-1])}\n")
            print(json.dumps(runs[-1]), file=sys.stderr)
    print(report(runs, pd.read_csv(PUBLISHED, index_col="table")))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="file of results, a line of JSON for each run")
    parser.add_argument("--tables", type=Path, help="folder with MoleculeACE's CSV files")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
