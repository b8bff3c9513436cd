"""Trained runs and the molecules that they are shown, from folders and a choice of data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from molsepnorm.analysis.geometry.analysis import Subject
from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.tables import hold
from molsepnorm.errors import ConfigError, ModelError, prefixed, require_several
from molsepnorm.training.config import load_config
from molsepnorm.training.evaluation import select
from molsepnorm.training.folder import RunFolder

__all__ = ["load_subjects"]

_DEPTH = 3  # of runs in a folder: ABLATION/VARIANT/SEED


class _Found(NamedTuple):
    folder: Path
    group: Path
    """A folder too: what the runs in it have in common."""


def load_subjects(
    folders: Sequence[Path | str],
    data: DataConfig | None = None,
    split: str | None = None,
    most: int = 2000,
) -> list[Subject]:
    """Load runs, and one choice of molecules for all.

    Args:
        folders: of runs or models; or of an ablation or a series, whose finished runs are all
            taken, those that differ by their seed being one group.
        data: the molecules, a table of SMILES alone if need be; by default what the first run was
            trained on.
        split: train, val, test, or all; by default val, so that test is not looked at, or all of a
            table that the run was not trained on.
        most: of more molecules so many are drawn, always the same ones.

    Raises:
        ConfigError: no folder, one of them twice, no such split, or the data do not fit a model;
            which one, the message says.
        DataError: the data cannot be had or used.
        ModelError: a folder holds no complete model.
    """
    require_several(folders, "folders")
    runs = [found for folder in folders for found in _runs_in(Path(folder))]
    if not runs:
        raise ConfigError("there is no model to analyze")
    names = _names([run.folder for run in runs])
    groups = _names(dict.fromkeys(run.group for run in runs))
    data = data or _own_data(runs[0].folder)
    subjects = []
    with hold(data.table, data.splits_file):
        for run in runs:
            with prefixed(run.folder):
                model, dataset, _, graphs = select(
                    run.folder, data, split, default="val", labelled=False
                )
            if len(graphs) > most:
                graphs = np.sort(np.random.default_rng(0).choice(graphs, most, replace=False))
            rows = dataset.store.rows[graphs]
            smiles = None if dataset.smiles is None else tuple(dataset.smiles[row] for row in rows)
            name, group = names[run.folder], groups[run.group]
            subjects.append(Subject(name, group, model, dataset.store, graphs, smiles))
    return subjects


def _runs_in(folder: Path) -> list[_Found]:
    """The model in a folder, or all those below it, grouped by the folders that they lie in.

    Raises:
        ModelError: there is none.
    """
    if _holds_model(folder):
        of_run = folder.name == "model" and RunFolder.of_model(folder)
        whole = folder.parent if of_run else folder
        return [_Found(whole, whole)]
    found = [_Found(run, run.parent) for run in _models_below(folder, _DEPTH)]
    if not found:
        raise ModelError(f"{folder} holds neither a model nor finished runs")
    return found


def _holds_model(folder: Path) -> bool:
    return any((folder / inside / "config.json").is_file() for inside in ("", "model"))


def _models_below(folder: Path, depth: int) -> Iterator[Path]:
    inside = sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []
    for each in inside:
        # of runs the finished ones: others have a model that is not their best yet
        if _holds_model(each) and (each / "metrics.json").is_file():
            yield each
        elif depth > 1 and not _holds_model(each):
            yield from _models_below(each, depth - 1)


def _names(folders: Iterable[Path]) -> dict[Path, str]:
    """For each folder as little of the end of its path as tells it from the others.

    >>> list(_names([Path("runs/a/seed-0"), Path("runs/b/seed-0")]).values())
    ['a/seed-0', 'b/seed-0']

    Raises:
        ConfigError: one is there twice.
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
    """What a run was trained on.

    Raises:
        ConfigError: it is a model without a run.
    """
    run = RunFolder.of_model(folder)
    if run is None:
        raise ConfigError(
            f"{folder} is a model on its own, which does not know its data: name them by "
            "--dataset NAME or --data FILE.csv"
        )
    return load_config(config=run.config).data
