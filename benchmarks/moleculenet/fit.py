"""Fit a model of scikit-learn or LightGBM for each target, and predict validation and test rows.

    python fit.py forest molecules.csv features.npy out.csv regression 0 splits_column target ...

Models are fitted to the training rows that have the label. This file needs no molsepnorm.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer

__all__ = ["METHODS", "estimator", "predictions"]

_MAX_FEATURES = {"forest": "log2", "forest-third": 1 / 3}
METHODS = (*_MAX_FEATURES, "lightgbm")


def estimator(method: str, classify: bool, seed: int) -> Any:
    """Return the estimator of a method."""
    if method in _MAX_FEATURES:
        forest = RandomForestClassifier if classify else RandomForestRegressor
        return forest(500, max_features=_MAX_FEATURES[method], random_state=seed)
    from lightgbm import LGBMClassifier, LGBMRegressor

    boosted = LGBMClassifier if classify else LGBMRegressor
    return boosted(random_state=seed, n_jobs=1, verbose=-1)


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
    train, held_out = (split == "train") & ~np.isnan(labels), features[split != "train"]
    fitted = estimator(method, classify, seed).fit(features[train], labels[train])
    return fitted.predict_proba(held_out)[:, 1] if classify else fitted.predict(held_out)


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
