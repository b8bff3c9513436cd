"""Compare pre-trained networks by kernel regressions on their frozen embeddings.

    python benchmarks/pretraining/probe.py molsepnorm-small runs/pretrained \\
        --tables ace/MoleculeACE/Data/benchmark_data

The tables are those of MOLSEPNORM_DATA and ten of MoleculeACE. Their test rows are left out first,
so nothing that is chosen here has seen them. At most 2,000 of the other molecules are used, and a
fifth of these, of scaffolds that the others lack, is held out. The score is the correlation of
predictions and labels of the held-out molecules, or their ROC-AUC for two classes.

The regression has a Matérn kernel of the embeddings (`embedding`), the sum of kernels of Morgan
counts and descriptors (`features`), or the sum of all three (`both`), each of the same weight. The
penalty has the smallest leave-one-out error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]  # benchmarks/, and this checkout's package

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import torch  # noqa: E402
from environment import data_folder  # noqa: E402
from rdkit import Chem, rdBase  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402
from table import line  # noqa: E402

from molsepnorm import Predictor  # noqa: E402
from molsepnorm.model.parts.kernel import matern, tanimoto  # noqa: E402
from molsepnorm.molecules.featurize.descriptors import COUNTS, FAST_DESCRIPTORS  # noqa: E402
from molsepnorm.molecules.fragments import murcko_scaffold  # noqa: E402
from molsepnorm.tasks import ExtraInputs  # noqa: E402
from molsepnorm.training.inputs import structure_features  # noqa: E402

MOLECULES = 2000
HELD_OUT = 0.2
ACTIVITY_TABLES = 10
READS = ExtraInputs(morgan=COUNTS, descriptors=FAST_DESCRIPTORS)
_PENALTIES = np.logspace(-3, 2, 16)


class Table(NamedTuple):
    """The molecules of a table that are not in its test split."""

    name: str
    smiles: list[str]
    labels: np.ndarray
    """float64 [n]."""
    held_out: np.ndarray
    """bool [n]."""

    def score(self, kernel: np.ndarray) -> float:
        """Fit the molecules that are not held out, and score the others; kernel (n, n)."""
        fitted, held = ~self.held_out, self.held_out
        mean = self.labels[fitted].mean()
        values, vectors = np.linalg.eigh(kernel[np.ix_(fitted, fitted)])
        projected = vectors.T @ (self.labels[fitted] - mean)
        errors = []
        for penalty in _PENALTIES:
            inverse = 1 / (values + penalty)
            residual = vectors @ (projected * inverse) / (vectors**2 @ inverse)
            errors.append((residual**2).sum())
        dual = vectors @ (projected / (values + _PENALTIES[int(np.argmin(errors))]))
        predicted = kernel[np.ix_(held, fitted)] @ dual
        if len(np.unique(self.labels)) == 2:
            return float(roc_auc_score(self.labels[held], predicted))
        return float(np.corrcoef(self.labels[held], predicted)[0, 1])


def tables(activity: Path | None) -> list[Table]:
    """Return the tables; of those with several targets, the first one."""
    paths = [
        path
        for name in ("moleculenet", "tdc", "biogen_adme")
        for path in sorted((data_folder() / name).glob("*.csv"))
        if path.stem not in ("published", "joint")
    ]
    paths += sorted(activity.glob("CHEMBL*.csv"))[::3][:ACTIVITY_TABLES] if activity else []
    return [_table(path) for path in paths]


def _table(path: Path) -> Table:
    rows = pd.read_csv(path)
    split = next(name for name in ("split", "scaffold_split") if name in rows)
    target = "y" if "y" in rows else rows.columns[1]
    rows = rows[(rows[split] != "test") & rows[target].notna()]
    with rdBase.BlockLogs():
        rows = rows[[Chem.MolFromSmiles(text.strip()) is not None for text in rows["smiles"]]]
    rows = rows.sample(min(len(rows), MOLECULES), random_state=0)
    smiles = [text.strip() for text in rows["smiles"]]
    scaffolds = pd.Series([murcko_scaffold(text, False) for text in smiles])
    sizes, chosen, room = scaffolds.value_counts(), [], HELD_OUT * len(rows)
    for scaffold in np.random.default_rng(0).permutation(scaffolds.unique()):
        if sizes[scaffold] <= room:
            chosen.append(scaffold)
            room -= sizes[scaffold]
    held = scaffolds.isin(chosen).to_numpy()
    name = f"{path.parent.name}/{path.stem}" if path.stem.islower() else path.stem
    return Table(name, smiles, rows[target].to_numpy(float), held)


def standardized(values: np.ndarray, fitted: np.ndarray) -> torch.Tensor:
    """Return columns (n, p) in units of their deviation among the fitted rows, float64."""
    mean, scale = np.nanmean(values[fitted], 0), np.nanstd(values[fitted], 0)
    return torch.from_numpy(
        np.nan_to_num((values - mean) / np.where(scale > 1e-6, scale, 1)).clip(-6, 6)
    )


def main() -> None:
    """Print a row for each table, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--tables", type=Path, help="folder of MoleculeACE's tables")
    options = parser.parse_args()
    predictors = [Predictor.from_pretrained(model) for model in options.models]
    head = ["table", "features"]
    for model in options.models:
        head += [f"{Path(model).name} embedding", "both"]
    print(line(head), line(["---"] * len(head)), sep="\n", flush=True)
    scores = []
    for table in tables(options.tables):
        found = structure_features(table.smiles, READS)
        fitted = ~table.held_out
        descriptors = standardized(found["descriptors"].astype(np.float64), fitted)
        counts = torch.from_numpy(found["counts"].astype(np.float64))
        features = matern(descriptors, descriptors) + tanimoto(counts, counts)
        row = [table.score(features.numpy())]
        for predictor in predictors:
            embedded = predictor.embed(table.smiles).molecules.astype(np.float64)
            own = standardized(embedded, fitted)
            kernel = matern(own, own)
            row += [table.score(kernel.numpy()), table.score((features + kernel).numpy())]
        scores.append(row)
        print(line([table.name, *(f"{score:.3f}" for score in row)]), flush=True)
    print(line(["mean", *(f"{score:.4f}" for score in np.mean(scores, axis=0))]))


if __name__ == "__main__":
    main()
