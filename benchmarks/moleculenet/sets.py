"""The sets, their targets and splits, and the score that every method gets."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from environment import data_folder

__all__ = ["SETS", "SPLITS_COLUMN", "Set", "readable_rows", "score"]

SPLITS_COLUMN = "scaffold_split"


class Set(NamedTuple):
    """A file of MoleculeNet and its targets."""

    file: str
    kind: Literal["regression", "classification"]
    targets: tuple[str, ...]

    @property
    def metric(self) -> str:
        return "RMSE" if self.kind == "regression" else "ROC-AUC"


_TOX21 = (
    *("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma"),
    *("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
)
SETS = {
    "esol": Set("esol.csv", "regression", ("log_solubility",)),
    "freesolv": Set("freesolv.csv", "regression", ("expt",)),
    "bace-pic50": Set("bace.csv", "regression", ("pIC50",)),
    "bace-class": Set("bace.csv", "classification", ("Class",)),
    "tox21": Set("tox21.csv", "classification", _TOX21),
    "molhiv": Set("molhiv.csv", "classification", ("HIV_active",)),
}


def readable_rows(chosen: Set) -> pd.DataFrame:
    """Return SMILES, targets and split of the rows that RDKit can read.

    It cannot read 8 rows of Tox21 and 7 of molhiv's test molecules, and chemprop stops at them.
    """
    from rdkit import Chem, rdBase

    if chosen.file == "molhiv.csv":
        rows = _molhiv(data_folder() / "ogbg_molhiv")
    else:
        rows = pd.read_csv(data_folder() / "moleculenet" / chosen.file)
    rows["smiles"] = rows["smiles"].str.strip()
    with rdBase.BlockLogs():
        readable = [Chem.MolFromSmiles(smiles) is not None for smiles in rows["smiles"]]
    return rows.loc[readable, ["smiles", *chosen.targets, SPLITS_COLUMN]].reset_index(drop=True)


def _molhiv(folder: Path) -> pd.DataFrame:
    """Return the rows of ogbg-molhiv with OGB's split."""
    rows = pd.read_csv(folder / "mapping" / "mol.csv.gz")
    for part in ("train", "valid", "test"):
        numbers = pd.read_csv(folder / "split" / "scaffold" / f"{part}.csv.gz", header=None)[0]
        rows.loc[numbers, SPLITS_COLUMN] = "val" if part == "valid" else part
    return rows


def score(metric: str, labels: np.ndarray, predictions: np.ndarray) -> float:
    """Return the mean of scikit-learn's metric over the targets, for (G, T).

    NaN is a missing label. ROC-AUC leaves out targets whose labels are all of one class.
    """
    from sklearn import metrics

    scores = []
    for truth, predicted in zip(labels.T, predictions.T, strict=True):
        present = ~np.isnan(truth)
        pair = truth[present], predicted[present]
        if metric == "RMSE":
            scores.append(float(metrics.root_mean_squared_error(*pair)))
        elif len(np.unique(pair[0])) == 2:
            scores.append(float(metrics.roc_auc_score(*pair)))
    return statistics.mean(scores)
