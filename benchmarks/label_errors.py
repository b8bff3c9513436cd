"""Compare models of labels with known noise, with and without their standard errors.

    python benchmarks/label_errors.py MoleculeACE/Data/benchmark_data --output label_errors.json

A random half of the training molecules of a table of MoleculeACE gets labels plus normal noise with
a standard deviation of one log unit, the others of 0.1. The official test molecules have no noise.
Scores are those of the model, and of its random forest alone.

Source of the tables: van Tilborg et al., "Exposing the Limitations of Molecular Machine Learning
with Activity Cliffs", J. Chem. Inf. Model. 2022, 62, 5938.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from simulated import compare

from molsepnorm.training import load_config, train

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


if __name__ == "__main__":
    compare(scores, __doc__)
