"""Compare models of 200 exact labels with and without a noisy screen as an auxiliary table.

    python benchmarks/auxiliary.py MoleculeACE/Data/benchmark_data --output auxiliary.json

The screen has all training molecules of a table of MoleculeACE, with labels plus normal noise of
one log unit; `noise` is a screen of normal numbers that have nothing to do with the molecules. The
main table has 200 of the training molecules, and the official test molecules.

Source of the tables: van Tilborg et al., "Exposing the Limitations of Molecular Machine Learning
with Activity Cliffs", J. Chem. Inf. Model. 2022, 62, 5938.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from simulated import compare

from molsepnorm.training import load_config, train

EXACT, NOISE = 200, 1.0


def scores(table: pd.DataFrame, seed: int, folder: Path, settings: dict) -> dict[str, float]:
    """Return the test RMSE without a screen, and with each."""
    random = np.random.default_rng(seed)
    train_rows = table[table["split"] == "train"]
    noise = random.normal(size=(2, len(train_rows)))
    screens = {"screen": train_rows["y"] + NOISE * noise[0], "noise": noise[1]}
    drawn = train_rows.iloc[random.permutation(len(train_rows))[:EXACT]]
    main = folder / "main.csv"
    pd.concat([drawn, table[table["split"] == "test"]]).to_csv(main, index=False)
    found = {}
    for name in ("without", *screens):
        given = {"data.targets": ["y"], "data.splits_column": "split", "run.seed": seed, **settings}
        if name in screens:
            path = folder / f"{name}.csv"
            train_rows[["smiles"]].assign(low=screens[name]).to_csv(path, index=False)
            given["data.auxiliary"] = {str(path): ["low"]}
        result = train(load_config(main, overrides=given), folder / name)
        found[name] = result.metrics["test"]["rmse"]
    return found


if __name__ == "__main__":
    compare(scores, __doc__)
