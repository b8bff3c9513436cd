"""`Predictor`: predictions and embeddings of a trained model from SMILES."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from molsepnorm.devices import Precision, pick_device
from molsepnorm.errors import ConfigError, warn_of_data
from molsepnorm.model import ExtraArrays, PropertyModel
from molsepnorm.model.parts import networks_of
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.predict.encode import Cells, EncodedRows, Prepare, Row, checked_rows, encoded_groups
from molsepnorm.predict.inference import Embed, Embeddings, Run
from molsepnorm.predict.prediction import Prediction, predictions_of
from molsepnorm.predict.reference import Reference
from molsepnorm.predict.uncertainty import further_columns, require_calibrated, require_domain
from molsepnorm.workers import results_of

Result = TypeVar("Result")

_TASK = 2048  # SMILES of a task: fewer need more padding, more delay the first
_MIN_SHARE = 128  # number of SMILES for which another process pays off


class Predictor:
    """Predicts from SMILES. A row fails if its SMILES is invalid or its prediction is not finite;
    the other rows are predicted.

    Other SMILES of a molecule, other batches and other numbers of processes change predictions by
    rounding only: up to 2e-6 of their spread for trained networks, and 1e-4 for kernel regressions.

    Args:
        device: cpu, cuda, cuda:1, …, or auto.
        processes: number of worker processes, which are started for a call with enough SMILES; 1
            runs everything in this process. Each predicts with one thread, or encodes for the GPU.
            Where the system cannot fork, a script needs `if __name__ == "__main__":`.
        precision: precision of matrix products: fp32, tf32 on a GPU, or bf16.
        level: add intervals or sets of classes that hold the label with this probability.
        domain: add the most similar training molecule, its labels, and whether the molecule is in
            the domain of the model.
        alerts: add the structural alerts, see `structural_alerts`.
        reference: add the percentiles of the predictions among known values.

    Raises:
        ConfigError: there is no such device, or the model has no intervals at this level or, with
            `domain`, no training molecules.
        ModelError: the file of the training molecules is damaged.
    """

    def __init__(
        self,
        model: PropertyModel,
        device: str = "cpu",
        processes: int = 1,
        precision: Precision = "fp32",
        level: float | None = None,
        domain: bool = False,
        alerts: bool = False,
        reference: Reference | None = None,
    ) -> None:
        if processes < 1:
            raise ConfigError(f"processes must be 1 or more; got {processes}")
        if level is not None:
            require_calibrated(model, level)
        molecules = require_domain(model) if domain else None
        self.model = model
        self.device = pick_device(device)
        self.processes = processes
        self.precision: Precision = precision
        self.targets = model.task.names
        self.level, self.domain = level, domain
        self._prepare = Prepare(model, self.device)
        self._prepare_near = Prepare(model, self.device, molecules=molecules, alerts=alerts)
        self._run = Run(model, self.device, precision, level, molecules, alerts, reference)
        self._run_here = self.device.type != "cpu"
        for network in networks_of(model.to(self.device).parts):
            network.eval()  # threads share it, so no call may change its mode

    @property
    def columns(self) -> dict[str, np.dtype]:
        """Types of the columns of `predicted` but for `error`, by name."""
        return dict(self._empty().drop(columns="error").dtypes)

    def _empty(self) -> pd.DataFrame:
        shape = (0, 1 + len(self.targets))
        nearest, alerts = np.empty(shape, dtype=np.int64), np.empty(0, dtype=object)
        return self._run(EncodedRows([], [], nearest, np.empty(shape), alerts=alerts))[0]

    @staticmethod
    def from_pretrained(folder: Path | str, **options: Any) -> Predictor:
        """Load a model from the folder of a run or a model, or by the name of a shipped one.
        Options are the arguments of `Predictor`."""
        return Predictor(PropertyModel.from_pretrained(folder), **options)

    def predict(self, smiles: Iterable[str], columns: Cells | None = None) -> list[Prediction]:
        """Return the predictions in the order of the SMILES.

        Args:
            smiles: SMILES or RDKit molecules.
            columns: the cells of the feature columns, by name, if the model has some. Other columns
                of a DataFrame are not used.

        Raises:
            ConfigError: the model was pre-trained without targets, or the arguments do not fit it.
        """
        return list(self.stream(smiles, columns))

    def stream(self, smiles: Iterable[str], columns: Cells | None = None) -> Iterator[Prediction]:
        """Yield the predictions one by one, in constant memory."""
        self.model.require_targets()
        rows = self.rows(smiles, columns)  # checked now, not at the first prediction
        further = [*chain.from_iterable(further_columns(self._run.molecules).values())]
        return (
            prediction
            for part, table in self.predicted(rows)
            for prediction in predictions_of(
                self.model.task, [row[0] for row in part], table, further
            )
        )

    def to_frame(self, smiles: Iterable[str], columns: Cells | None = None) -> pd.DataFrame:
        """Return a table with a row for each SMILES and the columns of `predicted`.

        It has the index of a pandas Series, so that
        `df["p"] = predictor.to_frame(df["smiles"])["logS_pred"]` fits.
        """
        tables, texts = [self._empty()], []
        for part, table in self.predicted(self.rows(smiles, columns)):
            tables.append(table)
            texts += [row[0] for row in part]
        column = pd.Series(texts, dtype=object, name="smiles")
        frame = pd.concat([column, pd.concat(tables, ignore_index=True)], axis=1)
        if isinstance(smiles, pd.Series):
            frame.index = smiles.index
        return frame

    def embed(
        self,
        smiles: Iterable[str],
        atoms: bool = False,
        columns: Cells | None = None,
    ) -> Embeddings:
        """Return embeddings of the molecules, and with `atoms` also of their atoms.

        The embedding of a molecule is the input of the network's head; see
        `Graphormer.embed_with_atoms` for the vectors of the atoms.

        Args:
            smiles, columns: as for `predict`.
            atoms: add the embeddings of the atoms, in the order of the given molecule.

        Raises:
            ConfigError: as for `predict`; `atoms`, and the model standardises structures, which
                changes the atoms.
        """
        none = self._embed(atoms)(EncodedRows([], []))
        return Embeddings.joined([none, *self.embed_stream(smiles, atoms, columns)])

    def embed_stream(
        self,
        smiles: Iterable[str],
        atoms: bool = False,
        columns: Cells | None = None,
    ) -> Iterator[Embeddings]:
        """Yield the results of `embed` some thousand molecules at a time, in constant memory."""
        parts = self.embedded(self.rows(smiles, columns, ordered=atoms), atoms)
        if not atoms:
            return (found for _, found in parts)
        return (_in_given_order(found, [row[-1] for row in part]) for part, found in parts)

    def embedded(
        self, rows: Iterator[Row], atoms: bool = False
    ) -> Iterator[tuple[list[Row], Embeddings]]:
        """Yield some thousand rows at a time with their embeddings."""
        prepare = Prepare(self.model, self.device, smiles_order=True) if atoms else self._prepare
        return self._parts(rows, prepare, self._embed(atoms))

    def _embed(self, atoms: bool) -> Embed:
        return Embed(self.model, self.device, self._run.precision, atoms)

    def predict_graphs(self, graphs: Sequence[MolGraph]) -> np.ndarray:
        """Return predictions for molecular graphs: float32 (G, O), one column per output, in the
        order of the targets and their classes.

        A target with a transform is on the learned scale. If a prediction of a molecule is not
        finite, its row is NaN. A model that standardises structures expects graphs of standardised
        SMILES.

        Raises:
            ConfigError: the model was pre-trained without targets, or needs more than the graphs;
                or a graph does not have the features that the model reads.
        """
        self.model.require_targets()
        if self.model.inputs.width:
            raise ConfigError(
                "the model reads feature columns, fingerprint counts or descriptors, which a graph "
                "does not have: predict from SMILES"
            )
        sizes = self.model.network.config.atom_sizes
        groups = encoded_groups(graphs, self.model.encoding, sizes)
        rows = [(index, encoded, ExtraArrays.none(len(index))) for index, encoded in groups]
        return self._run.predict(EncodedRows([None] * len(graphs), rows))[0].values

    def rows(
        self, smiles: Iterable[Any], columns: Cells | None = None, ordered: bool = False
    ) -> Iterator[Row]:
        """Check the arguments of `predict`, and return the rows, see `checked_rows`."""
        return checked_rows(smiles, columns, self.model.inputs.names, ordered)

    def predicted(self, rows: Iterator[Row]) -> Iterator[tuple[list[Row], pd.DataFrame]]:
        """Yield some thousand rows at a time, with a table of their predictions.

        The columns are those of `Task.tables`, for several networks <target>_spread, with `level`
        those of `uncertainty_columns`, with `domain` those of `domain_columns`, with `reference`
        <target>_percentile, with `alerts` the column alerts, and `error`, the reason why a row
        failed, whose other cells are missing. <target>_spread is that of the
        learned value, or of the probability of the most probable class. A `DataWarning` says once
        that a feature column has numbers outside the range of the training rows.
        """
        self.model.require_targets()
        warned: set[str] = set()
        for part, (table, outside) in self._parts(rows, self._prepare_near, self._run):
            yield part, table
            for column in self.model.inputs.columns:
                if column.name in outside - warned:
                    warn_of_data(
                        f"column '{column.name}' has numbers outside the range of the training "
                        f"rows, {column.low:.6g} to {column.high:.6g}; the model is untested there"
                    )
            warned |= outside

    def _parts(
        self, rows: Iterator[Row], prepare: Prepare, run: Callable[[EncodedRows], Result]
    ) -> Iterator[tuple[list[Row], Result]]:
        """Yield tasks of the stream with their results. Worker processes encode and run the rows; a
        network on a GPU is run by this process."""
        pending: deque[list[Row]] = deque()
        width = 1 + len(self.model.inputs.columns)

        def tasks() -> Iterator[list[Row]]:
            while block := list(islice(rows, _TASK * self.processes)):
                shares = min(self.processes, max(1, len(block) // _MIN_SHARE))
                ends = [len(block) * share // shares for share in range(shares + 1)]
                for start, end in pairwise(ends):
                    pending.append(block[start:end])
                    yield [row[:width] for row in pending[-1]]

        work = prepare if self._run_here else partial(_encoded_and_run, prepare, run)
        for result in results_of(work, tasks(), self.processes):
            yield pending.popleft(), run(result) if self._run_here else result


def _encoded_and_run(
    prepare: Prepare, run: Callable[[EncodedRows], Result], rows: Sequence[Row]
) -> Result:
    return run(prepare(rows))


def _in_given_order(part: Embeddings, orders: Sequence[np.ndarray | None]) -> Embeddings:
    """Return embeddings with the atoms in the order of the molecules, see `atoms_in_smiles`."""
    assert part.atoms is not None
    atoms, errors, molecules = list(part.atoms), list(part.errors), part.molecules.copy()
    for row, order in enumerate(orders):
        if order is None or errors[row] is not None:
            continue
        if len(order) == len(atoms[row]):
            atoms[row] = atoms[row][np.argsort(order)]
        else:
            atoms[row], molecules[row] = atoms[row][:0], np.nan
            errors[row] = "its hydrogens hide the order of its atoms: pass a SMILES"
    return replace(part, molecules=molecules, errors=errors, atoms=atoms)
