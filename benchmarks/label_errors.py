"""Compare models of labels with known noise, with and without their standard errors.

    python benchmarks/label_errors.py MoleculeACE/Data/benchmark_data --output label_errors.json

A random half of the training molecules of a table of MoleculeACE gets labels plus normal noise with
a standard deviation of one log unit, the others of 0.1. The official test molecules have no noise.
Scores are those of the model, and of its random forest alone.

Source of the tables: van Tilborg et al., "Exposing the Limitations of Molecular Machine Learning
with Activity Cliffs", J. Chem. Inf. Model. 2022, 62, 5938.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm.training import load_config, train

TABLES = "CHEMBL1862_Ki", "CHEMBL2034_Ki", "CHEMBL238_Ki", "CHEMBL287_Ki"
NOISE = 0.1, 1.0


def scores(table: pd.DataFrame, seed: int, folder: Path, settings: dict) -> dict[str, float]:
    """Return the test RMSE of models that know the errors, and of others."""
    random = np.random.default_rng(seed)
    errors = np.where(random.permutation(len(table)) % 2, *NOISE)
    noise = np.where(table["split"] == "train", errors, 0) * random.normal(size=len(table))
    path, found = folder / "table.csv", {}
    noisy = table[["smiles", "split"]].assign(y=table["y"] + noise, se=errors)
    noisy.to_csv(path, index=False)
    for name, column in (("without", None), ("errors", "se")):
        given = {"data.targets": ["y"], "data.splits_column": "split", "run.seed": seed, **settings}
        config = load_config(path, overrides={**given, "data.error_column": column})
        metrics = train(config, folder / name).metrics
        found[name] = metrics["test"]["rmse"]
        found[f"{name}_forest"] = metrics["baseline"]["test"]["rmse"]
    return found | {"tau": metrics["label_errors"]["y"]["unexplained"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    settings = {} if options.epochs is None else {"run.epochs": options.epochs}
    rows = []
    tables = {name: pd.read_csv(options.folder / f"{name}.csv") for name in options.tables}
    for seed, (name, table) in product(range(options.seeds), tables.items()):
        with tempfile.TemporaryDirectory() as folder:
            found = scores(table, seed, Path(folder), settings)
        rows.append({"table": name, "seed": seed, **found})
        print(rows[-1], flush=True)
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    print(pd.DataFrame(rows).drop(columns="seed").groupby("table").mean().round(3))


if __name__ == "__main__":
    main()
