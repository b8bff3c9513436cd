"""`fit`: train on molecules and labels in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from molsepnorm.data.datasets import Dataset
from molsepnorm.data.datasets.memory import label_table, memory_dataset
from molsepnorm.errors import ConfigError
from molsepnorm.tasks import require_same_order, with_text_names
from molsepnorm.tasks.inputs import FeatureKind
from molsepnorm.training.callback import Callback, TrainingResult
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.recipes import encoding, load_config
from molsepnorm.training.run import train_on


def fit(
    molecules: Iterable[Any],
    y: Any,
    *,
    targets: Sequence[str] | None = None,
    weights: Any = None,
    errors: Any = None,
    feature_columns: pd.DataFrame | Mapping[str, Sequence[Any]] | None = None,
    splits: Mapping[str, Sequence[int]] | None = None,
    bond_offset: int | None = None,
    config: Path | str | None = None,
    preset: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    folder: Path | str | None = None,
    resume: bool = False,
    callback: Callback | None = None,
) -> TrainingResult:
    """Train a model on molecules and labels in memory; without a folder, no file is written.

    A network that is trained on SMILES or RDKit's molecules is averaged with a random forest unless
    `run.blend` is "none", as in `molsepnorm train`. Such a model predicts from SMILES only.

    >>> import molsepnorm
    >>> smiles = ["C" * n for n in range(1, 21)]
    >>> short = {"run.epochs": 2, "model.layers": 1}
    >>> result = molsepnorm.fit(smiles, [n / 10 for n in range(20)], overrides=short)
    >>> result.metrics["test"].keys() >= {"mae", "r2"}
    True
    >>> predictor = molsepnorm.Predictor(result.model)
    >>> list(predictor.predict(["CCO"])[0].values)
    ['y']

    Args:
        molecules: G SMILES, RDKit molecules, `MolGraph` or PyTorch Geometric's `Data`. Graphs must
            have the features of `data.featurizer`, by default those of OGB. `Data` with chirality
            tags need the attribute `smiles`, which determines the tags.
        y: labels, an array or list (G,) or (G, T), or a pandas Series or DataFrame, whose column
            names become the names of the targets. NaN and None are missing labels. Numbers are
            regression targets, 0 and 1 and two words binary ones, and more words classes, unless
            `data.task_type` is among the overrides.
        targets: names of the T targets; of a DataFrame, the columns to predict.
        weights: (G,) non-negative weights of the molecules in the loss; NaN is 1.
        errors: standard errors of the labels, in the shape of `y`; NaN is the median error. Labels
            with a larger error have a smaller weight.
        feature_columns: columns of G numbers or words that are inputs, such as a temperature, or
            of SMILES of further molecules, under a name such as "solvent:molecule".
        splits: indices of molecules under "train", "val" and "test"; other molecules are left out.
            Without "val", one in nine of "train" becomes a validation molecule, at random. Without
            test molecules, the result has no metrics and metrics.json only validation scores. By
            default `data.split` and `data.split_type` decide.
        bond_offset: only for `Data`, see `featurize.pyg.from_data`.
        config: a YAML file of settings. By default the recipe for tables, which fine-tunes a model
            that comes with molsepnorm unless the overrides set an architecture.
        overrides: single settings by their dotted names, such as {"data.split_type": "scaffold",
            "run.epochs": 50}. `data.on_invalid` is "fail" here unless set to "skip".
        resume: continue the run in `folder`, with the same molecules, labels and settings.
        preset, folder, callback: see `load_config` and `train`.

    Raises:
        ConfigError: an argument or a setting does not fit.
        DataError: a molecule cannot be read, or a label does not fit its target; the message has
            the index of the molecule.
        StorageError: a file in `folder` cannot be written.
    """
    require_same_order(
        molecules=molecules, y=y, weights=weights, errors=errors, feature_columns=feature_columns
    )
    if feature_columns is not None:
        feature_columns = with_text_names(feature_columns)
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ConfigError(f"overrides must be a dictionary of settings; got {overrides!r:.80}")
    settings, dataset = loaded(
        molecules,
        label_table(y, targets),
        config=config,
        preset=preset,
        overrides=overrides or {},
        features=feature_columns,
        weights=weights,
        errors=errors,
        splits=splits,
        bond_offset=bond_offset,
    )
    return train_on(settings, dataset, folder, resume=resume, callback=callback)


def loaded(
    molecules: Iterable[Any],
    labels: pd.DataFrame,
    *,
    config: Path | str | None = None,
    preset: str | None = None,
    overrides: Mapping[str, Any],
    features: pd.DataFrame | Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[TrainConfig, Dataset]:
    """Return the configuration and the data set of `fit`; `more` is for `memory_dataset`."""
    fixed = {"data.in_memory": True, "data.targets": list(labels.columns)}
    if features is not None:
        fixed["data.feature_columns"] = [_declared(name, features[name]) for name in features]
        features = {without_kind(name): features[name] for name in features}
    overrides = {"data.on_invalid": "fail", **overrides, **fixed}
    settings = load_config(config=config, preset=preset, overrides=overrides)
    dataset = memory_dataset(
        molecules, labels, settings.data, encoding(settings), features=features, **more
    )
    return settings, dataset


_KIND = re.compile(f":({'|'.join(get_args(FeatureKind))})$")


def without_kind(name: str) -> str:
    """Return the column that, for example, "solvent:molecule" names."""
    return _KIND.sub("", name)


def _declared(name: str, cells: Any) -> str:
    if _KIND.search(name):
        return name
    dtype = getattr(cells, "dtype", None) or np.asarray(cells).dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return f"{name}:category"
    is_number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    return f"{name}:number" if is_number else name
