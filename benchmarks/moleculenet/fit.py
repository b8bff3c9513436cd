"""Fit a random forest or LightGBM for each target, and predict the test rows.

    python fit.py forest molecules.csv features.npy out.csv regression 0 splits_column target ...

Models are fitted to the training and validation rows that have the label. This file needs no
molsepnorm.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer

METHODS = ("forest", "lightgbm")


def estimator(method: str, classify: bool, seed: int) -> Any:
    """Return the estimator of a method."""
    if method == "forest":
        forest = RandomForestClassifier if classify else RandomForestRegressor
        return forest(500, max_features="log2", random_state=seed)
    from lightgbm import LGBMClassifier, LGBMRegressor

    boosted = LGBMClassifier if classify else LGBMRegressor
    return boosted(random_state=seed, n_jobs=1, verbose=-1)


def main() -> None:
    """Read the table and the features, and write the predictions."""
    method, data, inputs, output, kind, seed, splits_column, *targets = sys.argv[1:]
    rows, features = pd.read_csv(data), np.load(inputs)
    test, classify = (rows[splits_column] == "test").to_numpy(), kind == "classification"
    features = SimpleImputer(strategy="median").fit(features[~test]).transform(features)
    predicted = rows.loc[test, ["smiles"]]
    for target in targets:
        labels = rows[target].to_numpy(float)
        own = ~test & ~np.isnan(labels)
        fitted = estimator(method, classify, int(seed)).fit(features[own], labels[own])
        held_out = features[test]
        predicted[f"{target}_pred"] = (
            fitted.predict_proba(held_out)[:, 1] if classify else fitted.predict(held_out)
        )
    predicted.to_csv(output, index=False)


if __name__ == "__main__":
    main()
