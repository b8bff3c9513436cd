"""Fit a model of scikit-learn or LightGBM for each target, and predict validation and test rows.

    python fit.py forest molecules.csv features.npy out.csv regression 0 splits_column target ...

Models are fitted to the training rows that have the label, those of the methods `-refit` to the
training and validation rows. This file needs no molsepnorm.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer

__all__ = ["METHODS", "PEERS", "REFIT", "estimator", "predictions"]

_MAX_FEATURES = {"forest": "log2", "forest-third": 1 / 3}
REFIT = ("forest-refit", "lightgbm-refit")
"""Methods that are fitted to the training and validation rows."""
PEERS = ("lightgbm", "lightgbm-refit")
"""Methods that run in the environment of the peers."""
METHODS = (*_MAX_FEATURES, "lightgbm", *REFIT)


def estimator(method: str, classify: bool, seed: int) -> Any:
    """Return the estimator of a method."""
    name = method.removesuffix("-refit")
    if name in _MAX_FEATURES:
        forest = RandomForestClassifier if classify else RandomForestRegressor
        return forest(500, max_features=_MAX_FEATURES[name], random_state=seed)
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
    own, held_out = _fitted_to(method, split) & ~np.isnan(labels), features[split != "train"]
    fitted = estimator(method, classify, seed).fit(features[own], labels[own])
    return fitted.predict_proba(held_out)[:, 1] if classify else fitted.predict(held_out)


def _fitted_to(method: str, split: np.ndarray) -> np.ndarray:  # (rows,)
    return split != "test" if method in REFIT else split == "train"


def main() -> None:
    """Read the table and the features, and write the predictions."""
    method, data, inputs, output, kind, seed, splits_column, *targets = sys.argv[1:]
    rows, features = pd.read_csv(data), np.load(inputs)
    split, classify = rows[splits_column].to_numpy(), kind == "classification"
    own = features[_fitted_to(method, split)]
    features = SimpleImputer(strategy="median").fit(own).transform(features)
    predicted = rows.loc[split != "train", ["smiles"]]
    for target in targets:
        labels = rows[target].to_numpy(float)
        predicted[f"{target}_pred"] = predictions(
            method, features, labels, split, classify, int(seed)
        )
    predicted.to_csv(output, index=False)


if __name__ == "__main__":
    main()
