"""`Predictor`: predictions and embeddings of a trained model from SMILES."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
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
from molsepnorm.predict.uncertainty import require_calibrated, require_domain
from molsepnorm.workers import results_of

Result = TypeVar("Result")

_TASK = 2048  # maximum number of SMILES in a task: fewer need more padding, more delay the first
_MIN_SHARE = 128  # SMILES for which another process pays off


class Predictor:
    """Predicts from SMILES. A row with an invalid SMILES, or with a prediction that is not finite,
    fails by itself; the other rows are predicted.

    Other SMILES of a molecule, other batches and other numbers of processes change predictions by
    rounding only: up to 2e-6 of their spread for trained networks, and 1e-4 for kernel regressions.

    >>> predictor = Predictor.from_pretrained("runs/zinc-1")              # doctest: +SKIP
    >>> predictor.predict(["CCO", "not a molecule"])                      # doctest: +SKIP
    [Prediction(smiles='CCO', values={'penalised_logp': 0.41}, error=None),
     Prediction(smiles='not a molecule', values=None, error="RDKit cannot read ...")]

    Args:
        model: a trained model.
        device: cpu, cuda, cuda:1, …, or auto.
        processes: number of worker processes, which are started for a call with enough SMILES; 1
            runs everything in this process. Each predicts with one thread, or encodes for the GPU.
            Where the system cannot fork, a script needs `if __name__ == "__main__":`.
        precision: precision of matrix products: fp32, tf32 on a GPU, or bf16.
        level: add intervals or sets of classes that hold the label with this probability, such as
            0.9; None for predictions alone.
        domain: add the most similar training molecule, its labels, and whether the molecule is in
            the domain of the model.

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
        self.level = level
        self.domain = domain
        self._prepare = Prepare(model, self.device)
        self._prepare_near = Prepare(model, self.device, molecules=molecules)
        self._run = Run(model, self.device, precision, level, molecules)
        self._run_here = self.device.type != "cpu"
        for network in networks_of(model.to(self.device).parts):
            network.eval()  # threads share it, so no call may change its mode

    @property
    def columns(self) -> dict[str, np.dtype]:
        """Type of the columns of all targets by name, see `predicted`."""
        return dict(self._empty().drop(columns="error").dtypes)

    def _empty(self) -> pd.DataFrame:
        return self._run(EncodedRows([], [], np.empty(0, dtype=np.int64), np.empty(0)))[0]

    @staticmethod
    def from_pretrained(
        folder: Path | str,
        device: str = "cpu",
        processes: int = 1,
        precision: Precision = "fp32",
        level: float | None = None,
        domain: bool = False,
    ) -> Predictor:
        """Load the model from a run's folder or a model folder, or by the name of a shipped one."""
        model = PropertyModel.from_pretrained(folder)
        return Predictor(model, device, processes, precision, level, domain)

    def predict(self, smiles: Iterable[str], columns: Cells | None = None) -> list[Prediction]:
        """Return the predictions in the order of the SMILES.

        Args:
            smiles: SMILES or RDKit molecules.
            columns: the cells of the model's feature columns, by name: a mapping or a DataFrame,
                whose other columns are not used. Only for a model that has such columns.

        Raises:
            ConfigError: the model was pre-trained without targets, or the arguments do not fit it.
        """
        return list(self.stream(smiles, columns))

    def stream(self, smiles: Iterable[str], columns: Cells | None = None) -> Iterator[Prediction]:
        """Yield the predictions one by one, in memory that does not grow with their number."""
        self.model.require_targets()
        rows = self.rows(smiles, columns)  # checked now, not at the first prediction
        return (
            prediction
            for part, table in self.predicted(rows)
            for prediction in predictions_of(self.model.task, [row[0] for row in part], table)
        )

    def to_frame(self, smiles: Iterable[str], columns: Cells | None = None) -> pd.DataFrame:
        """Return a table with a row for each SMILES, whose columns `predicted` describes.

        It has the index of a pandas Series, so that
        `df["p"] = predictor.to_frame(df["smiles"])["logS_pred"]` fits.

        >>> predictor.to_frame(["CCO", "not a molecule"])                 # doctest: +SKIP
                   smiles  logS_pred                   error
        0             CCO       0.41                    None
        1  not a molecule        NaN  RDKit cannot read ...
        """
        found, texts = [self._empty()], []
        for part, table in self.predicted(self.rows(smiles, columns)):
            found.append(table)
            texts += [row[0] for row in part]
        frame = pd.concat(found, ignore_index=True)
        frame.insert(0, "smiles", pd.Series(texts, dtype=object))
        if isinstance(smiles, pd.Series):
            frame.index = smiles.index
        return frame

    def embed(
        self,
        smiles: Iterable[str],
        atoms: bool = False,
        columns: Cells | None = None,
        layer: int | None = None,
    ) -> Embeddings:
        """Return embeddings of the molecules, and with `atoms` also of their atoms.

        The embedding of a molecule is the input of the network's head, or with `layer` the
        read-out of that layer; see `Graphormer.embed_with_atoms` for the vectors of the atoms.

        >>> predictor.embed(["CCO", "not a molecule"]).molecules.shape    # doctest: +SKIP
        (2, 80)

        Args:
            smiles, columns: as for `predict`.
            atoms: add the embeddings of the atoms, in the order of the given molecule.
            layer: the layer, counted from 1; None for the input of the head.

        Raises:
            ConfigError: as for `predict`; `atoms`, and the model standardises structures, which
                changes the atoms; or there is no such layer.
        """
        parts = self.embed_stream(smiles, atoms, columns, layer)
        none = self._embed(atoms, layer)(EncodedRows([], []))
        return Embeddings.joined([none, *parts])

    def embed_stream(
        self,
        smiles: Iterable[str],
        atoms: bool = False,
        columns: Cells | None = None,
        layer: int | None = None,
    ) -> Iterator[Embeddings]:
        """Yield the results of `embed` some thousand molecules at a time, in constant memory."""
        parts = self.embedded(self.rows(smiles, columns, ordered=atoms), atoms, layer)
        if not atoms:
            return (found for _, found in parts)
        return (_in_given_order(found, [row[-1] for row in part]) for part, found in parts)

    def embedded(
        self, rows: Iterator[Row], atoms: bool = False, layer: int | None = None
    ) -> Iterator[tuple[list[Row], Embeddings]]:
        """Yield some thousand rows at a time with their embeddings."""
        prepare = Prepare(self.model, self.device, smiles_order=True) if atoms else self._prepare
        return self._parts(rows, prepare, self._embed(atoms, layer))

    def embedding_width(self, layer: int | None = None) -> int:
        """Return the width of the embeddings of molecules, see `embed`."""
        return self._embed(False, layer).width

    def _embed(self, atoms: bool, layer: int | None) -> Embed:
        return Embed(self.model, self.device, self._run.precision, atoms, layer)

    def predict_graphs(self, graphs: Sequence[MolGraph]) -> np.ndarray:
        """Return predictions for molecular graphs: float32 (G, O), a column for each output.

        The columns are in the order of the targets and their classes. A target with a transform is
        on the scale that is learned. If a prediction of a molecule is not finite, its row is NaN.
        A model that standardises structures expects graphs of standardised SMILES.

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
        groups = [
            (index, encoded, ExtraArrays.none(len(index)))
            for index, encoded in encoded_groups(
                graphs, self.model.encoding, self.model.network.config.atom_sizes
            )
        ]
        return self._run.predict(EncodedRows([None] * len(graphs), groups))[0].values

    def rows(
        self, smiles: Iterable[Any], columns: Cells | None = None, ordered: bool = False
    ) -> Iterator[Row]:
        """Check the arguments of `predict`, and return the rows, see `checked_rows`."""
        return checked_rows(smiles, columns, self.model.inputs.names, ordered)

    def predicted(self, rows: Iterator[Row]) -> Iterator[tuple[list[Row], pd.DataFrame]]:
        """Yield some thousand rows at a time, with a table of their predictions.

        The columns are those of `Task.tables`, for several networks <target>_spread, with `level`
        those of `uncertainty_columns`, with `domain` those of `domain_columns`, and `error`, the
        reason why a row failed; its other cells are then missing. <target>_spread is that of the
        learned value, or of the probability of the most probable class. A feature column with
        numbers outside the range of the training rows is announced once.
        """
        self.model.require_targets()
        warned: set[str] = set()
        for part, (table, outside) in self._parts(rows, self._prepare_near, self._run):
            yield part, table
            for column in self.model.inputs.columns:
                if column.name in outside - warned:
                    warned.add(column.name)
                    warn_of_data(
                        f"column '{column.name}' has numbers outside the range of the training "
                        f"rows, {column.low:.6g} to {column.high:.6g}; the model is not tested "
                        "there"
                    )

    def _parts(
        self, rows: Iterator[Row], prepare: Prepare, run: Callable[[EncodedRows], Result]
    ) -> Iterator[tuple[list[Row], Result]]:
        """Cut the stream into tasks, and yield each with its result. A network on a GPU is run by
        this process, on rows that worker processes encode."""
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
    """Return embeddings with the atoms in the order of the given molecules, which
    `atoms_in_smiles` found."""
    assert part.atoms is not None
    atoms, errors, molecules = [], list(part.errors), part.molecules.copy()
    for row, (own, order) in enumerate(zip(part.atoms, orders, strict=True)):
        if order is not None and errors[row] is None:
            if len(order) == len(own):
                own = own[np.argsort(order)]
            else:
                own, molecules[row] = own[:0], np.nan
                errors[row] = "its hydrogens hide the order of its atoms: pass a SMILES"
        atoms.append(own)
    return replace(part, molecules=molecules, errors=errors, atoms=atoms)
