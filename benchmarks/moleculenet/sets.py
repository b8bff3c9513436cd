"""The sets, their targets and splits, and the score that every method gets.

MoleculeACE's tables (see official/run.py) are in the folder `moleculeace` of the data sets.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from environment import data_folder

from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.splitters import draw_splits

__all__ = ["SETS", "SPLITS_COLUMN", "Set", "readable_rows", "score"]

SPLITS_COLUMN = "scaffold_split"


class Set(NamedTuple):
    """A table in the folder of the data sets, and its targets."""

    file: str
    kind: Literal["regression", "classification"]
    targets: tuple[str, ...] = ("y",)
    of_clusters: bool = False  # whether the splits are of clusters of similar molecules, drawn here

    @property
    def metric(self) -> str:
        return "RMSE" if self.kind == "regression" else "ROC-AUC"


_TOX21 = (
    *("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma"),
    *("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
)
SETS = {
    "esol": Set("moleculenet/esol.csv", "regression", ("log_solubility",)),
    "freesolv": Set("moleculenet/freesolv.csv", "regression", ("expt",)),
    "bace-pic50": Set("moleculenet/bace.csv", "regression", ("pIC50",)),
    "bace-class": Set("moleculenet/bace.csv", "classification", ("Class",)),
    "tox21": Set("moleculenet/tox21.csv", "classification", _TOX21),
    "molhiv": Set("ogbg_molhiv", "classification", ("HIV_active",)),
    "lipo-clusters": Set("moleculenet/lipo.csv", "regression", ("exp",), of_clusters=True),
    "ld50-clusters": Set("tdc/ld50_zhu.csv", "regression", of_clusters=True),
    "ames-clusters": Set("tdc/ames.csv", "classification", of_clusters=True),
    "CHEMBL204-clusters": Set("moleculeace/CHEMBL204_Ki.csv", "regression", of_clusters=True),
    "CHEMBL214-clusters": Set("moleculeace/CHEMBL214_Ki.csv", "regression", of_clusters=True),
}


def readable_rows(chosen: Set) -> pd.DataFrame:
    """Return SMILES, targets and split of the rows that RDKit can read.

    It cannot read 8 rows of Tox21 and 7 of molhiv's test molecules, and chemprop stops at them.
    """
    from rdkit import Chem, rdBase

    path = data_folder() / chosen.file
    rows = _molhiv(path) if path.is_dir() else pd.read_csv(path)
    rows["smiles"] = rows["smiles"].str.strip()
    with rdBase.BlockLogs():
        readable = [Chem.MolFromSmiles(smiles) is not None for smiles in rows["smiles"]]
    rows = rows[readable].reset_index(drop=True)
    if chosen.of_clusters:
        every, config = np.arange(len(rows)), DataConfig(table=path, split_type="butina")
        for part, graphs in draw_splits(config, every, every, rows["smiles"], path).items():
            rows.loc[graphs, SPLITS_COLUMN] = part
    return rows[["smiles", *chosen.targets, SPLITS_COLUMN]]


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
