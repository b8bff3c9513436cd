"""`Dataset`: encoded molecules with their labels and splits, and summaries of the labels."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.store import GraphStore, Rejected
from molsepnorm.errors import ConfigError
from molsepnorm.files.digests import short_digest
from molsepnorm.tasks import Target
from molsepnorm.tasks.label_errors import label_weights as of_errors
from molsepnorm.tasks.summary import TargetSummary

SPLITS = ("train", "val", "test")
BOUNDS, ERRORS = "bounds", "errors"  # keys of `Dataset.arrays`


class Merged(NamedTuple):
    """A row that was merged into an earlier row of the same molecule."""

    row: int  # counted from 0 as in `splits.json`, like `into`
    smiles: str
    reason: str
    into: int  # the row with the merged labels


@dataclass(frozen=True)
class Dataset:
    """G encoded molecules with T labels each and their splits, ready for training."""

    name: str
    """The file, or the name and size of the set, for display."""
    store: GraphStore
    labels: np.ndarray
    """float32 [G, T], on the scale that is learned: NaN where a label is missing."""
    targets: tuple[Target, ...]
    """The T targets, without mean and scale."""
    splits: dict[str, np.ndarray]
    """int64 indices of molecules in each of `SPLITS`."""
    rejected: tuple[Rejected, ...] = ()
    left_out: pd.DataFrame | None = None
    """The rejected and merged rows of a table to train on, with position, cells and reason."""
    positions: tuple[str, np.ndarray] | None = None
    """The word for a row of a file (line, row or record), and int64 positions, from 1."""
    smiles: Sequence[str] | None = None
    """SMILES of every row of the source, standardised if structures are."""
    source_smiles: Sequence[str] | None = None
    """SMILES of every row as in the source."""
    identifiers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Cells of columns such as compound_id, of every row, for output."""
    weights: np.ndarray | None = None
    """float32 [G]: weight of each molecule in the loss; None for equal weights."""
    unexplained: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation that a model cannot explain beside the errors of labels, by target; see
    `tasks.label_errors`. It is not part of the `digest`."""
    metric: str | None = None
    """Usual metric of a named set in the literature."""
    evaluator: Callable[[np.ndarray, np.ndarray], float] | None = None
    """The official score of a named set, from predictions and labels (G, T)."""
    warnings: tuple[str, ...] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """G cells of each feature column, by name."""
    groups: np.ndarray | None = None
    """[G]: numbers of the cells of `data.split_by`; None if a split draws molecules."""
    predicted: Mapping[str, np.ndarray] = field(default_factory=dict)
    """float32 [G]: predictions of auxiliary models, by name. They are not part of the `digest`."""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Further values of the molecules, by name: the bounds, and what the objective computed."""
    merged: tuple[Merged, ...] = ()
    """Rows that were merged into others. They are in no split."""
    repeats: Mapping[str, dict[str, float]] = field(default_factory=dict)
    """Number of molecules with several labels, and the pooled standard deviation of a label about
    the mean of its molecule, by regression target."""

    @property
    def target_names(self) -> tuple[str, ...]:
        return tuple(target.name for target in self.targets)

    @property
    def has_test(self) -> bool:
        return len(self.splits.get("test", ())) > 0

    def require_test(self, what: str) -> None:
        """Raise a `ConfigError` that begins with `what` if the test split is empty."""
        if not self.has_test:
            raise ConfigError(
                f"{what} is scored on a test split, and that of {self.name} has no molecules: "
                "name test rows in data.splits_column or data.splits_file, or draw them with "
                "shares such as 0.8,0.1,0.1 (data.split)"
            )

    @property
    def bounds(self) -> np.ndarray | None:
        """int8 [G, T]: 1 for lower bounds, -1 for upper bounds, 0 for exact labels; None if there
        are no bounds."""
        return self.arrays.get(BOUNDS)

    @property
    def bound_signs(self) -> np.ndarray:
        """int8 [G, T]: `bounds`, or zeros."""
        return np.zeros(self.labels.shape, np.int8) if self.bounds is None else self.bounds

    @property
    def exact_labels(self) -> np.ndarray:
        """float32 [G, T]: the labels with NaN for bounds, for metrics."""
        return self.labels if self.bounds is None else np.where(self.bounds, np.nan, self.labels)

    @property
    def errors(self) -> np.ndarray | None:
        """float32 [G, T]: standard errors of the labels, NaN for targets without; None if no target
        has errors."""
        return self.arrays.get(ERRORS)

    @cached_property
    def label_weights(self) -> np.ndarray | None:
        """float32 [G, T]: weight of each label in the loss, that of the molecule times that of its
        error; None for equal weights."""
        if self.weights is None and not self.unexplained:
            return None
        weights = np.ones(self.labels.shape)
        for i, name in enumerate(self.target_names):
            if self.errors is not None and name in self.unexplained:
                train = self.splits["train"][np.isfinite(self.labels[self.splits["train"], i])]
                weights[:, i] = of_errors(self.errors[:, i], self.unexplained[name], train)
        rows = 1 if self.weights is None else self.weights[:, None]
        return (weights * rows).astype(np.float32)

    @property
    def has_label(self) -> np.ndarray:  # bool [G]
        return ~np.isnan(self.labels).all(axis=1)

    @property
    def molecules(self) -> np.ndarray:
        """int64 indices of the molecules that were not merged into others."""
        return np.flatnonzero(~np.isin(self.store.rows, [entry.row for entry in self.merged]))

    @cached_property
    def molecule_ids(self) -> np.ndarray:
        """Numbers [G], the same for rows of one molecule; see `duplicates.molecule_numbers`."""
        from molsepnorm.data.datasets.duplicates import molecule_numbers

        return molecule_numbers(self)

    @cached_property
    def together(self) -> np.ndarray:
        """Numbers [G], the same for rows that the split keeps together: the rows of a molecule if
        training lacks the molecules of most validation rows; otherwise the rows with the same cell
        of a feature column, if training lacks most of its cells; otherwise single rows."""
        train, rows = self.splits["train"], np.arange(len(self.store))
        val = np.setdiff1d(self.splits["val"], train)
        columns = (pd.factorize(np.array(cells, object))[0] for cells in self.columns.values())
        every = [self.molecule_ids, *columns] if self.groups is None else [self.groups]
        are_new = (2 * np.isin(ids[val], ids[train]).sum() <= len(val) for ids in every)
        return next(compress(every, are_new), rows)

    def smiles_of(self, graphs: np.ndarray | slice) -> list[str]:
        assert self.smiles is not None
        return [self.smiles[row] for row in self.store.rows[graphs]]

    def position(self, rows: Any) -> tuple[str, Any]:
        """Return the word and the position of a row, or of an array of rows; see `positions`. Rows
        without a file are counted from 0."""
        if self.positions is None:
            return "row", rows
        word, numbers = self.positions
        return word, numbers[rows]

    def split_rows(self) -> dict[str, list[int]]:
        """Return the rows of each split, merged rows included."""
        rows = {name: self.store.rows[graphs].tolist() for name, graphs in self.splits.items()}
        if self.merged:
            for name, unmerged in rows.items():
                kept = {*unmerged}
                more = [entry.row for entry in self.merged if entry.into in kept]
                rows[name] = sorted([*unmerged, *more])
        return rows

    def summaries(self, graphs: np.ndarray) -> Iterator[TargetSummary]:
        """Summarise each target in the molecules with these indices (int64)."""
        labels, exact = self.labels[graphs], self.exact_labels[graphs]
        return map(TargetSummary.of, self.targets, labels.T, exact.T)

    def about_labels(self, parts: Mapping[str, np.ndarray]) -> dict[str, dict[str, Any]]:
        """Return the scale, the number of bounds and the spread of repeats by target; `parts` are
        int64 indices of the scored molecules by split."""
        about: dict[str, dict[str, Any]] = {name: {} for name in self.target_names}
        for target, signs in zip(self.targets, self.bound_signs.T, strict=True):
            entry = about[target.name]
            if target.transformation is not None:
                entry["scale"] = str(target.transformation)
            if signs.any():
                entry["bounds"] = {n: int((signs[at] != 0).sum()) for n, at in parts.items()}
            if target.name in self.repeats:
                entry["repeats"] = self.repeats[target.name]
        return {name: entry for name, entry in about.items() if entry}

    @property
    def digest(self) -> str:
        """Hash of the encoded molecules, labels, weights, feature columns and further values."""
        values = (self.labels, self.weights, *self.arrays.values())
        arrays = [array.tobytes() for array in values if array is not None]
        columns = [json.dumps(self.columns)] if self.columns else []
        return short_digest(self.store.digest, json.dumps(self.target_names), *columns, *arrays)


def data_folder(given: Path | None) -> Path | None:
    """Return the folder of raw files: the one given, else $MOLSEPNORM_DATA, else None."""
    environment = os.environ.get("MOLSEPNORM_DATA")
    return given or (Path(environment) if environment else None)
