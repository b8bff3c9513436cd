"""Files as data sets: the labels and inputs of all rows, their molecules, and the split."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import Columns
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import BOUNDS, ERRORS, Dataset
from molsepnorm.data.datasets.labels import Labels, about_features, read_labels, read_weights
from molsepnorm.data.datasets.splits import SPLIT_OF_WORD, with_splits
from molsepnorm.data.store import GraphStore, Rejected, graphs_of
from molsepnorm.data.tables import read_chunks, read_table
from molsepnorm.data.tables.columns import require_column
from molsepnorm.data.tables.formats import require_file, row_word
from molsepnorm.errors import DataError, InvalidMolecule, OpenChoice
from molsepnorm.files.tables import free_name
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.further import PLUS, first_molecule, with_further
from molsepnorm.molecules.featurize.standardize import cached_standard
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.tasks.inputs import cell_text

_T = TypeVar("_T")
Refusals = list[tuple[str, DataError | OpenChoice]]
"""Errors that stop training, each with what cannot be read: targets, weights, features or split."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table, which is read to its end whatever is wrong with it."""

    table: Columns
    labels: Labels  # without targets if none can be read
    weights: np.ndarray | None  # (rows,)
    refusals: Refusals

    @staticmethod
    def read(table: Columns, dtype: type[np.floating], for_training: bool = True) -> Rows:
        """Read the labels in numbers of this type, the weights, and the feature columns, which must
        not be empty or constant for training. A missing column is a `ConfigError`."""
        refusals: Refusals = []
        empty = np.zeros((len(table.frame), 0))
        labels = Labels((), empty, empty.astype(np.int8))
        labels = attempt(refusals, "targets", lambda: read_labels(table, dtype), labels)
        weights = attempt(refusals, "weights", lambda: read_weights(table), None)
        lines: list[str] = []
        if for_training:
            lines += attempt(refusals, "features", lambda: about_features(table), [])
            lines += _unused_split(table)
        labels = replace(labels, warnings=(*labels.warnings, *lines))
        if weights is not None:
            labels.values[weights == 0], labels.bounds[weights == 0] = np.nan, 0
        return Rows(table, labels, weights, refusals)

    def without_refusals(self) -> Rows:
        """Return the rows if all can be used; otherwise raise the first error."""
        for _, error in self.refusals:
            raise error
        for issue in self.labels.issues:
            raise DataError(issue.message)
        return self

    def dataset(
        self,
        graphs: Iterable[MolGraph | InvalidMolecule],
        encoding: EncodingSpec,
        name: str = "",
        source_smiles: Sequence[str] | None = None,
        **more: Any,
    ) -> Dataset:
        """Return the data set of the molecules among the graphs of all rows, before duplicates are
        merged, with `more` fields; its name is by default the number of molecules. It is a
        `DataError` if a row has no molecule and `on_invalid` is fail."""
        config, labels, table = self.table.config, self.labels, self.table
        rejected: list[Rejected] = []

        def molecules() -> Iterator[tuple[int, MolGraph]]:
            for row, graph in enumerate(graphs):
                if isinstance(graph, MolGraph):
                    yield row, graph
                else:
                    text = "" if source_smiles is None else source_smiles[row]
                    if PLUS in text and first_molecule(text, text):  # "" if it is invalid
                        option = f"--feature-columns {config.smiles_column}:molecule"
                        raise DataError(f"{table.where(row)}: {graph}: add {option}")
                    rejected.append(Rejected(row, text, str(graph)))

        further = {name: [*map(cell_text, table.cells(name))] for name in config.molecules}
        graphs = with_further(graphs, further, config.standardize)
        store = GraphStore.encode(molecules(), rejected, encoding, config.featurizer)
        if rejected and config.on_invalid == "fail":
            raise DataError(
                f"{table.where(rejected[0].row)}: {rejected[0].reason}. Fix the row, or leave such "
                "rows out and have them listed with data.on_invalid: skip (--on-invalid skip)"
            )
        rows = store.rows
        arrays = {BOUNDS: labels.bounds if labels.bounds.any() else None, ERRORS: labels.errors}
        return Dataset(
            name=name or f"{len(store):,} molecules",
            store=store,
            labels=labels.values[rows].astype(np.float32),
            targets=labels.targets,
            splits={},
            weights=None if self.weights is None else self.weights[rows].astype(np.float32),
            rejected=store.rejected,
            source_smiles=source_smiles,
            columns={n: np.array(table.cells(n), object)[rows].tolist() for n in config.features},
            warnings=labels.warnings,
            arrays={name: each[rows] for name, each in arrays.items() if each is not None},
            **more,
        )

    def encoded(self, encoding: EncodingSpec) -> Dataset:
        """Return the data set of the molecules of files, before duplicates are merged."""
        table, config = self.table, self.table.config
        files = config.structures or [Path(table.source)]
        columns = map(table.cells, [config.smiles_column, *config.molecules])
        smiles = [*map(first_molecule, *columns)]
        standard = cached_standard(smiles, config.standardize)
        word = "file" if config.structures else row_word(files[0])
        identifiers = [name for name in table.identifiers if name not in self.labels.names]
        return self.dataset(
            graphs_of(standard, config.featurizer),
            encoding,
            name=" + ".join(path.name for path in files),
            source_smiles=smiles,
            smiles=standard,
            identifiers={name: table.cells(name) for name in identifiers},
            positions=(word, table.frame.index.to_numpy()),
        )


def attempt(refusals: Refusals, what: str, read: Callable[[], _T], otherwise: _T) -> _T:
    """Return what is read; if it stops training, note the error and return the other value."""
    try:
        return read()
    except (DataError, OpenChoice) as error:
        refusals.append((what, error))
        return otherwise


def _unused_split(table: Columns) -> list[str]:
    """Return a warning if the split is drawn although a column could assign the rows."""
    config = table.config
    named = config.column_of_split or config.splits_file or config.split_by
    if named or config.folds or config.split is None:
        return []
    lines = []
    for name, cells in table.words().items():
        splits = {SPLIT_OF_WORD.get(cell.strip().lower()) for cell in cells if cell.strip()}
        if None not in splits and splits >= {"train", "test"}:
            lines.append(
                f"The split is drawn, although '{name}' could assign the rows to training, "
                f"validation and test: --splits-column {shlex.quote(name)}"
            )
    return lines


def load_table(
    config: DataConfig, encoding: EncodingSpec, labelled: bool = True, for_training: bool = True
) -> Dataset:
    """Load and split `config.table` or `config.structures`; see `datasets.load`."""
    table = read_columns(config, [] if labelled else config.targets or [])
    rows = Rows.read(table, np.float32, for_training).without_refusals()
    dataset = with_splits(rows.encoded(encoding), table)
    return replace(dataset, left_out=_left_out(dataset, table.frame)) if for_training else dataset


def read_columns(config: DataConfig, blank: Sequence[str] = ()) -> Columns:
    """Read `config.table`, or the SMILES of `config.structures`. Columns `blank` may be missing."""
    if config.structures:
        return Columns.of(pd.concat(map(partial(_read_smiles, config), config.structures)), config)
    assert config.table is not None
    require_file(config.table)
    frame = read_table(config.table, config.reading)
    for name in {*blank} - {*frame.columns}:
        frame[name] = ""
    return Columns.of(frame, config)


def _read_smiles(config: DataConfig, path: Path) -> pd.DataFrame:
    """Return the column of SMILES of a file, indexed by the file and the position."""
    pieces, word, name = [], row_word(path), config.smiles_column
    for chunk in read_chunks(path, options=config.reading):
        require_column(chunk.columns, name, path)
        places = [f"{path}, {word} {number}" for number in chunk.index]
        pieces.append(chunk[[name]].set_axis(places))
    return pd.concat(pieces)


def _left_out(dataset: Dataset, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the table that were rejected or merged, with all their cells."""
    reasons = {entry.row: entry.reason for entry in dataset.rejected}
    reasons |= {entry.row: entry.reason for entry in dataset.merged}
    rows = np.array(sorted(reasons), dtype=np.int64)
    word, numbers = dataset.position(rows)
    first, last = (free_name(name, frame.columns, "_") for name in (word, "reason"))
    left_out = frame.iloc[rows].reset_index(drop=True)
    left_out.insert(0, first, numbers)
    left_out[last] = [reasons[row] for row in rows.tolist()]
    return left_out
