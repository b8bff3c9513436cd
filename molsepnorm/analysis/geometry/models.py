"""Load trained models from folders, and the molecules to embed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from molsepnorm.analysis.geometry.analysis import ModelOnMolecules
from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.tables.formats import hold
from molsepnorm.errors import ConfigError, ModelError, prefixed, require_several
from molsepnorm.pretrained import resolve
from molsepnorm.tasks import Task
from molsepnorm.training.evaluation import select
from molsepnorm.training.recipes import load_config
from molsepnorm.training.run_folder.folder import RunFolder

_DEPTH = 3  # of runs in a folder: ABLATION/VARIANT/SEED


def load_models(
    folders: Sequence[Path | str],
    data: DataConfig | None = None,
    split: str | None = None,
    max_molecules: int = 2000,
) -> list[ModelOnMolecules]:
    """Load models, and the same molecules for all.

    Args:
        folders: folders of runs or models. An ablation or a benchmark stands for all its finished
            runs; those that differ only in their seed are one group.
        data: the molecules; labels are not needed. By default the data of the first run.
        split: train, val, test, or all. By default val, which keeps the test molecules unseen, or
            all for a table that the run was not trained on.
        max_molecules: from a larger split, the same random molecules are selected each time.

    Raises:
        ConfigError: there is no folder, one of them twice, no such split, the models predict
            different targets, or the data do not fit a model, which the message names.
        DataError: the data cannot be loaded or used.
        ModelError: a folder holds no complete model.
    """
    require_several(folders, "folders")
    runs = [found for folder in folders for found in _runs_in(resolve(folder))]
    if not runs:
        raise ConfigError("there is no model to analyze")
    names = _names([run for run, _ in runs])
    groups = _names(dict.fromkeys(group for _, group in runs))
    data = data or _own_data(runs[0][0])
    models = []
    with hold(data.table, data.splits_file):
        for run, group in runs:
            with prefixed(run):
                model, dataset, extra, _, graphs, _ = select(
                    run, data, split, default="val", labelled=False
                )
            if len(graphs) > max_molecules:
                rng = np.random.default_rng(0)
                graphs = np.sort(rng.choice(graphs, max_molecules, replace=False))
            if dataset.targets and not model.task.targets:  # it was trained without labels
                task = Task.fit(dataset.targets, dataset.labels, "loss", strict=False)
                model = replace(model, task=task)
            labels = dataset.labels[graphs]
            if dataset.bounds is not None:
                labels = np.where(dataset.bounds[graphs], np.nan, labels)
            smiles = dataset.source_smiles
            if smiles is not None:
                smiles = tuple(smiles[row] for row in dataset.store.rows[graphs])
            molecules = (dataset.store, graphs, labels, smiles, extra)
            models.append(ModelOnMolecules(names[run], groups[group], model, *molecules))
    return models


def _runs_in(folder: Path) -> list[tuple[Path, Path]]:
    """Return the model in a folder, or all finished runs below it, each with the folder of its
    group; a `ModelError` if there is none."""
    if _holds_model(folder):
        return [(folder, folder)]
    found: list[Path] = []
    for depth in range(1, _DEPTH + 1):
        for metrics in sorted(folder.glob("*/" * depth + "metrics.json")):
            run = metrics.parent
            if _holds_model(run) and not any(outer in run.parents for outer in found):
                found.append(run)
    if not found:
        raise ModelError(f"{folder} holds neither a model nor finished runs")
    return [(run, run.parent) for run in sorted(found)]


def _holds_model(folder: Path) -> bool:
    return any((folder / inside / "config.json").is_file() for inside in ("", "model"))


def _names(folders: Iterable[Path]) -> dict[Path, str]:
    """Return the shortest ends of paths that distinguish the folders.

    >>> list(_names([Path("runs/a/seed-0"), Path("runs/b/seed-0")]).values())
    ['a/seed-0', 'b/seed-0']

    Raises:
        ConfigError: a folder is given twice.
    """
    folders = list(folders)
    paths = [folder.resolve().parts for folder in folders]
    for folder, parts in zip(folders, paths, strict=True):
        if paths.count(parts) > 1:
            raise ConfigError(f"{folder} is given twice")
    count = 1
    while len(set(names := ["/".join(parts[-count:]) for parts in paths])) < len(names):
        count += 1
    return dict(zip(folders, names, strict=True))


def _own_data(folder: Path) -> DataConfig:
    """Return the data of a run, for models of any targets."""
    run = RunFolder.of_model(folder)
    if run is None:
        raise ConfigError(
            f"{folder} is a model without a run, so its data are unknown: give "
            "--dataset NAME or --data FILE.csv"
        )
    return load_config(config=run.config).data.model_copy(update={"targets": None})
