"""Train on tables with an official split, and compare with published scores.

    pip download MoleculeACE==3.0.0 --no-deps && unzip MoleculeACE-3.0.0-py3-none-any.whl -d ace
    python benchmarks/official/run.py moleculeace --tables ace/MoleculeACE/Data/benchmark_data
    export MOLSEPNORM_DATA=/path/to/datasets
    python benchmarks/official/run.py tdc --seeds 0 1 2 3 4
    python benchmarks/official/run.py biogen_adme
    make results                                                             # the page

The command is that of a user, `molsepnorm train --data TABLE --targets y --splits-column split`. It
draws its validation rows from the training rows, and has one thread. Each run is a line of
results.jsonl. Runs that are in the file are skipped, so the same command continues after a stop.

- **MoleculeACE:** affinities of 615 to 3,657 molecules for each of 30 proteins (van Tilborg et al.,
  J. Chem. Inf. Model. 2022, 62, 5938). More than a third of the molecules are activity cliffs:
  similar to another one, with an affinity that differs by a factor of ten or more.
- **TDC:** eleven tables of the ADMET group (Huang et al., NeurIPS 2021). As on the leaderboard, the
  validation rows depend on the seed, and the test rows do not.
- **Biogen:** six end points (Fang et al., J. Chem. Inf. Model. 2023, 63, 3263).

`moleculeace.csv` has the test RMSE of CheMeleon, chemprop and a random forest (means of five seeds,
Burns et al., arXiv 2506.15792, from the authors' repository, commit e629639) and of a tuned
support-vector machine on ECFP (van Tilborg et al.). `tdc.csv` has the scores of MiniMol (Kläser et
al., arXiv 2404.14986), MapLight (Notwell and Wood, arXiv 2310.00174, as reproduced by Koleiev et
al., bioRxiv 2026.02.26.708193), CheMeleon (Burns et al.), and the best score of any method on TDC's
leaderboard or in these papers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import pandas as pd  # noqa: E402
from commands import OURS, measured  # noqa: E402
from environment import commit, data_folder, machine  # noqa: E402
from sklearn import metrics  # noqa: E402

__all__ = ["comparison", "published", "train"]

RESULTS = HERE / "results.jsonl"
SETS = ("moleculeace", "tdc", "biogen_adme")
_SCORES = {
    "RMSE": metrics.root_mean_squared_error,
    "MAE": metrics.mean_absolute_error,
    "ROC-AUC": metrics.roc_auc_score,
    "PR-AUC": metrics.average_precision_score,
    "r": lambda labels, predictions: labels.corr(predictions),
}


def published(name: str) -> pd.DataFrame:
    """Return test scores of each table (index) by each method (columns)."""
    return pd.read_csv(HERE / f"{name}.csv", index_col="table")


def train(table: Path, metric: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train on a table, and return the line of the results."""
    run = folder / "run"
    options = ("--targets", "y", "--splits-column", "split", "--seed", str(seed))
    command = [OURS, "train", "--quiet", "--data", str(table), *options, "--output", str(run)]
    usage = measured(command, folder, OMP_NUM_THREADS="1", MOLSEPNORM_CACHE=str(folder / "cache"))
    predicted = pd.read_csv(run / "predictions_test.csv")
    scores = {"test": float(_SCORES[metric](predicted["y"], predicted["y_pred"]))}
    given = pd.read_csv(table)
    if "cliff_mol" in given:
        given = given[given["split"] == "test"].reset_index(drop=True)
        if predicted["smiles"].tolist() != given["smiles"].tolist():
            sys.exit(f"{table}: the predictions are not those of the test rows")
        cliffs = predicted[given["cliff_mol"] == 1]
        scores["cliffs"] = float(_SCORES[metric](cliffs["y"], cliffs["y_pred"]))
    return {
        "table": table.stem,
        "metric": metric,
        "seed": seed,
        **scores,
        "cpu_seconds": usage.cpu_seconds,
        "memory": usage.memory,
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
    }


def comparison(runs: Sequence[Mapping[str, Any]], others: pd.DataFrame) -> list[list[str]]:
    """Return a row for each method: its mean RMSE, the difference, and who is better.

    Args:
        runs: lines of the results; the seeds of a table are averaged.
        others: test RMSE of each table (index) by each method (columns).
    """
    from molsepnorm.training.comparing.replicates import paired_difference

    ours = pd.DataFrame(runs).groupby("table")["test"].mean()
    rows = [["molsepnorm", f"{ours.mean():.3f}", "", ""]]
    for name, scores in others.loc[ours.index].items():
        paired = paired_difference(ours.tolist(), scores.tolist())
        low, high = paired.interval or (paired.mean, paired.mean)
        better = f"{int((ours < scores).sum())} of {len(ours)}"
        difference = f"{paired.mean:+.3f} ({low:+.3f} to {high:+.3f})"
        rows.append([str(name), f"{scores.mean():.3f}", difference, better])
    return rows


def main() -> None:
    """Run what is missing."""
    options = _options()
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done = {(run["set"], run["table"], run["seed"]) for run in map(json.loads, lines)}
    folder = options.tables or data_folder() / options.set
    if options.set == "biogen_adme":
        tables = {p.stem: "r" for p in sorted(folder.glob("*.csv")) if p.stem != "joint"}
    elif options.set == "tdc":
        tables = published("tdc")["metric"].to_dict()
    else:
        tables = dict.fromkeys(published("moleculeace").index, "RMSE")
    for seed in options.seeds:
        for name, metric in tables.items():
            if (options.set, name, seed) in done:
                continue
            table = (folder / f"{name}.csv").absolute()
            with tempfile.TemporaryDirectory() as scratch:
                run = train(table, metric, seed, Path(scratch))
            text = json.dumps({"set": options.set, **run})
            with open(RESULTS, "a") as file:
                file.write(f"{text}\n")
            print(text, file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--tables", type=Path, help="their folder [default: in $MOLSEPNORM_DATA]")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    return parser.parse_args()


if __name__ == "__main__":
    main()
