"""Fit a model of scikit-learn or LightGBM for each target, and predict validation and test rows.

    python fit.py forest molecules.csv features.npy out.csv regression 0 splits_column target ...

Models are fitted to the training rows that have the label. The penalty of the linear probe is
chosen on the validation rows. This file needs no molsepnorm.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

__all__ = ["METHODS", "candidates", "predictions"]

_MAX_FEATURES = {"forest": "log2", "forest-third": 1 / 3}
METHODS = (*_MAX_FEATURES, "lightgbm", "probe")


def candidates(method: str, classify: bool, seed: int) -> list[Any]:
    """Return the estimators to choose from on the validation rows."""
    if method in _MAX_FEATURES:
        forest = RandomForestClassifier if classify else RandomForestRegressor
        return [forest(500, max_features=_MAX_FEATURES[method], random_state=seed)]
    if method == "lightgbm":
        from lightgbm import LGBMClassifier, LGBMRegressor

        boosted = LGBMClassifier if classify else LGBMRegressor
        return [boosted(random_state=seed, n_jobs=1, verbose=-1)]
    penalties = 10.0 ** np.arange(-2, 6)
    heads = [
        LogisticRegression(C=1 / p, max_iter=1000) if classify else Ridge(p) for p in penalties
    ]
    return [make_pipeline(StandardScaler(), head) for head in heads]


def predictions(
    method: str,
    features: np.ndarray,
    labels: np.ndarray,
    split: np.ndarray,
    classify: bool,
    seed: int,
) -> np.ndarray:  # (G,)
    """Return the predictions of one target for the rows that are not of the training split.

    Arguments:
        features: (rows, F), without NaN.
        labels: (rows,); NaN is a missing label.
        split: (rows,), `train`, `val` or `test`.
    """
    train, val = ((split == part) & ~np.isnan(labels) for part in ("train", "val"))
    fitted = [
        each.fit(features[train], labels[train]) for each in candidates(method, classify, seed)
    ]
    if len(fitted) > 1:
        scorer = get_scorer("roc_auc" if classify else "neg_root_mean_squared_error")
        fitted.sort(key=lambda each: scorer(each, features[val], labels[val]))
    held_out = features[split != "train"]
    return fitted[-1].predict_proba(held_out)[:, 1] if classify else fitted[-1].predict(held_out)


def main() -> None:
    """Read the table and the features, and write the predictions."""
    method, data, inputs, output, kind, seed, splits_column, *targets = sys.argv[1:]
    rows, features = pd.read_csv(data), np.load(inputs)
    split, classify = rows[splits_column].to_numpy(), kind == "classification"
    features = SimpleImputer(strategy="median").fit(features[split == "train"]).transform(features)
    predicted = rows.loc[split != "train", ["smiles"]]
    for target in targets:
        labels = rows[target].to_numpy(float)
        predicted[f"{target}_pred"] = predictions(
            method, features, labels, split, classify, int(seed)
        )
    predicted.to_csv(output, index=False)


if __name__ == "__main__":
    main()
