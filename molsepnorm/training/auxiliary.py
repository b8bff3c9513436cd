"""Auxiliary tables: models of other measurements, whose predictions are inputs of the main model.

An auxiliary model is a kernel regression on embeddings of the network that training starts from,
fingerprint counts and descriptors. Its table may hold any molecules. Those of the validation and
test split of the main table are left out, so predictions for them are as good as for new molecules.
The training molecules of the main table that are in the auxiliary table, too, are divided into five
folds, and each fold gets predictions of a regression that is fitted without it. If each molecule
were left out alone, the predictions would reveal its label, since everything else in them is a
smooth function of the structure: where both labels of 633 molecules were the same noise, a kernel
regression that read leave-one-out predictions expected half of the error that it had.

Source: predictions for low-fidelity labels as inputs, Buterez et al., "Transfer learning with graph
neural networks for improved molecular property prediction in the multi-fidelity setting", Nature
Communications 2024, 15, 1517; out-of-fold predictions as inputs, Wolpert, "Stacked generalization",
Neural Networks 1992, 5, 241.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig, Dataset
from molsepnorm.data.datasets.config import NONE
from molsepnorm.errors import ConfigError, DataError, counted, listed, prefixed
from molsepnorm.files.tables import free_name
from molsepnorm.model import Inputs, PropertyModel
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.molecules.featurize.standardize import molecule_key
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import probe_inputs, with_inputs
from molsepnorm.training.objectives import Examples
from molsepnorm.training.probe.kernel import fit_out_of_fold
from molsepnorm.training.recipes import encoding

_OF_FILES = ("smiles_column", "decimal", "encoding", "sheet", "header_row", "missing_values")
"""Settings of the main table that hold for auxiliary tables, too."""
_FOLDS = 5  # of the molecules that both tables have
_MIN_MOLECULES = 20

Progress = Callable[[int, int], None]


class Auxiliary(NamedTuple):
    """Auxiliary models, and their predictions for the G molecules of the main table."""

    models: tuple[PropertyModel, ...] = ()
    predicted: Mapping[str, np.ndarray] = {}
    """float32 (G,), by name."""
    lines: tuple[str, ...] = ()
    """Sentences about the tables for the user."""
    molecules: MoleculeColumns | None = None
    """Computes the vectors of columns of molecules, which need no auxiliary table."""


def fit_auxiliary(
    config: TrainConfig,
    dataset: Dataset,
    start: PropertyModel | None,
    inputs: ExtraInputs,
    progress: Progress,
) -> Auxiliary:
    """Fit a model to each auxiliary table, and predict the molecules of the main table.

    Targets that cannot be predicted from structures are left out, since a model that reads noise is
    not better, but too certain.

    Args:
        start: the model whose network embeds the molecules.
        inputs: inputs of the main model; auxiliary models read the same kinds of descriptors.

    Raises:
        ConfigError: there is no start, the molecules are no SMILES, or a target has several
            classes.
        DataError: a table cannot be used, or has too few molecules.
    """
    if start is None:
        raise ConfigError(
            "data.auxiliary needs a pre-trained network, which embeds the molecules of the "
            "auxiliary table: leave out --from none and options of the architecture"
        )
    if dataset.smiles is None:
        raise ConfigError(f"data.auxiliary needs SMILES, and {dataset.name} has none")
    keys = _keys(dataset)
    scored = np.concatenate([dataset.splits["val"], dataset.splits["test"]])
    held, trained = {*keys[scored]}, {*keys[dataset.splits["train"]]}
    models, predicted, lines = list[PropertyModel](), dict[str, np.ndarray](), list[str]()
    for path, targets in config.data.auxiliary.items():
        with prefixed(f"data.auxiliary, {path.name}"):
            table = _load(config, path, targets)
            fitted = _fit(table, held, trained, start, config, inputs, progress)
            known = np.flatnonzero(fitted.explained > fitted.chance)
            lines.append(_about(path.name, table, fitted))
            if 0 < len(known) < len(targets):
                some = tuple(table.targets[number] for number in known)
                table = replace(table, targets=some, labels=table.labels[:, known])
                fitted = _fit(table, held, trained, start, config, inputs, progress)
        if len(known):
            models.append(fitted.model)
            values = fitted.predict(dataset, keys, progress)
            for name, column in zip(table.target_names, values.T, strict=True):
                taken = {*dataset.columns, *dataset.target_names, *predicted}
                name = free_name(f"{path.name.split('.')[0]}_{name}", taken, "_")
                predicted[name] = np.ascontiguousarray(column)
    return Auxiliary(tuple(models), predicted, tuple(lines))


def _keys(dataset: Dataset) -> np.ndarray:  # object (G,)
    """Return a text for each molecule that is the same in all tables."""
    texts = [molecule_key(text, "none") for text in dataset.smiles_of(slice(None))]
    return np.array(texts, dtype=object)


def _load(config: TrainConfig, path: Path, targets: Sequence[str]) -> Dataset:
    data = config.data
    same = data.model_dump(mode="json", include={*_OF_FILES, "featurizer", "standardize"})
    for name in ("relation_column", "unit_column"):  # columns are those of the main table
        same[name] = NONE if getattr(data, name) == NONE else None
    own = DataConfig(table=path, targets=[*targets], split=None, **same)
    table = datasets.load(own, encoding(config), for_training=False)
    for target in table.targets:
        if target.kind == "multiclass":
            raise ConfigError(
                f"'{target.name}' has several classes, and an auxiliary target is a number or "
                "yes/no: write it as yes/no columns"
            )
    return table


class _Fitted(NamedTuple):
    model: PropertyModel
    keys: np.ndarray  # (n,), of the rows that the model is fitted to
    left_out: np.ndarray  # float32 (n, T): predictions without their folds, NaN where unknown
    held: int  # number of rows that are left out
    explained: np.ndarray  # (T,): share of the variance that these predictions explain
    chance: np.ndarray  # (T,): the share for a correlation of two standard errors

    def predict(self, dataset: Dataset, keys: np.ndarray, progress: Progress) -> np.ndarray:
        """Return the predictions for the molecules of the main table, float32 (G, T), by models
        that were not fitted to them."""
        extra = with_inputs(dataset, self.model.inputs, progress)[1]
        rows = np.arange(len(dataset.store))
        values = self.model.predict(Inputs.of(dataset.store, extra), rows).values
        known = pd.DataFrame(self.left_out).groupby(self.keys).mean().reindex(keys).to_numpy()
        return np.where(np.isnan(known), values, known).astype(np.float32)


def _fit(
    table: Dataset,
    held: Collection[str],
    trained: Collection[str],
    start: PropertyModel,
    config: TrainConfig,
    inputs: ExtraInputs,
    progress: Progress,
) -> _Fitted:
    """Fit the model of a table without the molecules `held`; folds of `trained` are left out."""
    keys = _keys(table)
    is_held = np.array([key in held for key in keys])
    rows = np.flatnonzero(table.has_label & ~is_held)
    if len(rows) < _MIN_MOLECULES:
        raise DataError(
            f"{counted(len(rows), 'row')} with a label remain, and {_MIN_MOLECULES} are needed: "
            "molecules of the validation and test split are left out"
        )
    shared = sorted({*keys[rows]} & {*trained})
    order = np.random.default_rng(0).permutation(len(shared))
    fold_of = {shared[place]: number % _FOLDS for number, place in enumerate(order)}
    others = _FOLDS + np.unique(keys, return_inverse=True)[1]  # left out one by one
    groups = np.array([fold_of.get(key, other) for key, other in zip(keys, others, strict=True)])
    reads = probe_inputs(config, table, replace(inputs, columns=(), predicted=()), True)
    task = Task.fit(table.targets, table.labels[rows], "loss")
    standardize = config.data.standardize
    model = PropertyModel.of(start.network, table.store.featurizer, task, standardize=standardize)
    extra = with_inputs(table, reads, progress)[1]
    examples = Examples.of(table, extra, model, torch.device("cpu"))
    model, left_out = fit_out_of_fold(model, examples, rows, reads, groups)
    left_out, labels = left_out[rows], table.labels[rows]
    labels = np.where(np.isnan(left_out), np.nan, labels)
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.nansum((labels - left_out) ** 2, axis=0)
        explained = 1 - errors / np.nansum((labels - np.nanmean(labels, axis=0)) ** 2, axis=0)
    chance = 4 / np.maximum(np.isfinite(labels).sum(axis=0), 1)
    return _Fitted(model, keys[rows], left_out, int(is_held.sum()), explained, chance)


def _about(name: str, table: Dataset, fitted: _Fitted) -> str:
    """Return sentences on a table and what its model can predict."""
    triples = [*zip(table.target_names, fitted.explained, fitted.chance, strict=True)]
    useful = [
        f"{share:.0%} of the variance of {target}" for target, share, by in triples if share > by
    ]
    noise = [target for target, share, by in triples if not share > by]
    lines = [
        f"Auxiliary table {name}: {counted(len(fitted.keys), 'row')}, without "
        f"{counted(fitted.held, 'row')} of validation and test molecules and "
        f"{counted(len(table.rejected), 'row')} that cannot be read."
    ]
    if useful:
        lines.append(f"Its model explains {listed(useful)}, of molecules that it has not seen.")
    if noise:
        lines.append(
            f"Its targets {listed(noise)} are no inputs, because they cannot be predicted from "
            "structures."
        )
    return " ".join(lines)
