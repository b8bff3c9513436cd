"""Fit a random forest, LightGBM or a linear probe to features, and predict validation and test.

    python fit.py forest molecules.csv features.npy predictions.csv --targets a b --seed 0

Only training rows are fitted, one model for each target, without the rows that lack its label. The
strength of the probe's penalty is chosen on the validation rows. This file needs no molsepnorm.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

__all__ = ["METHODS", "candidates", "fitted"]

METHODS = ("forest", "lightgbm", "probe")


def candidates(method: str, classify: bool, seed: int) -> list[Any]:
    """Return the estimators among which the validation rows choose; a forest has no choice."""
    if method == "forest":
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        forest = RandomForestClassifier if classify else RandomForestRegressor
        return [forest(500, max_features="log2", random_state=seed, n_jobs=1)]
    if method == "lightgbm":
        from lightgbm import LGBMClassifier, LGBMRegressor

        boosted = LGBMClassifier if classify else LGBMRegressor
        return [boosted(random_state=seed, n_jobs=1, verbose=-1)]
    from sklearn.linear_model import LogisticRegression, Ridge

    heads = [
        LogisticRegression(C=1 / penalty, max_iter=1000) if classify else Ridge(penalty)
        for penalty in 10.0 ** np.arange(-2, 6)
    ]
    return [make_pipeline(StandardScaler(), head) for head in heads]


def fitted(
    method: str, classify: bool, seed: int, inputs: dict[str, Any], labels: dict[str, Any]
) -> Any:
    """Fit one target and return the estimator with the best validation score.

    `inputs` (G, F) and `labels` (G,) are those of the splits `train` and `val`.
    """
    choices = candidates(method, classify, seed)
    for estimator in choices:
        estimator.fit(inputs["train"], labels["train"])
    if len(choices) == 1:
        return choices[0]
    scorer = get_scorer("roc_auc" if classify else "neg_root_mean_squared_error")
    return max(choices, key=lambda estimator: scorer(estimator, inputs["val"], labels["val"]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=METHODS)
    for name in ("data", "features", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--targets", nargs="+", required=True)
    parser.add_argument("--splits-column", required=True)
    parser.add_argument("--classify", action="store_true")
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    rows, features = pd.read_csv(options.data), np.load(options.features)
    split = rows[options.splits_column]
    features = SimpleImputer(strategy="median").fit(features[split == "train"]).transform(features)
    held_out = (split != "train").to_numpy()
    predictions = rows.loc[held_out, ["smiles"]].copy()
    for target in options.targets:
        parts = {part: ((split == part) & rows[target].notna()) for part in ("train", "val")}
        model = fitted(
            options.method,
            options.classify,
            options.seed,
            {part: features[chosen] for part, chosen in parts.items()},
            {part: rows.loc[chosen, target].to_numpy() for part, chosen in parts.items()},
        )
        predictions[f"{target}_pred"] = (
            model.predict_proba(features[held_out])[:, 1]
            if options.classify
            else model.predict(features[held_out])
        )
    predictions.to_csv(options.output, index=False)


if __name__ == "__main__":
    main()
