"""`Predictor`: SMILES to predictions, with a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import numpy as np

from molsepnorm import featurize
from molsepnorm.batch import GraphTensors
from molsepnorm.encodings.encode import encode
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule
from molsepnorm.inference import pick_device, predict
from molsepnorm.model import PropertyModel
from molsepnorm.molecule import MolGraph
from molsepnorm.tables import locate, require_column

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Prediction", "Predictor", "predict_rows"]

_CHUNK = 1024  # molecules encoded together


@dataclass(frozen=True)
class Prediction:
    """What became of one SMILES."""

    smiles: str
    values: dict[str, float | str] | None
    """By target: in its own units, the probability of yes, or the most probable class; None where
    the row failed."""
    error: str | None = None
    """Why the row failed."""
    probabilities: dict[str, dict[str, float]] = field(default_factory=dict)
    """Of multi-class targets the probability of each class."""


class Predictor:
    """Predicts from SMILES. A molecule that cannot be read costs its row, never the job.

    All SMILES of one molecule get the same prediction, since featurisers put molecules into
    canonical form first.

    >>> predictor = Predictor.from_pretrained("runs/zinc-1")              # doctest: +SKIP
    >>> predictor.predict(["CCO", "not a molecule"])                      # doctest: +SKIP
    [Prediction(smiles='CCO', values={'penalised_logp': 0.41}, error=None),
     Prediction(smiles='not a molecule', values=None, error="RDKit cannot read ...")]

    Args:
        model: a trained model.
        device: where to run it: cpu, cuda, cuda:1, …, or auto.

    Raises:
        ConfigError: there is no such device.
    """

    def __init__(self, model: PropertyModel, device: str = "cpu") -> None:
        self.model = model
        self.device = pick_device(device)
        self.targets = model.task.names
        self._featurizer = featurize.get(model.featurizer)
        model.network.to(self.device).eval()

    @staticmethod
    def from_pretrained(folder: Path | str, device: str = "cpu") -> Predictor:
        """From a run's folder, or a model folder.

        Raises:
            ModelError: the folder is not there, incomplete, damaged or of a newer molsepnorm.
        """
        return Predictor(PropertyModel.from_pretrained(folder), device)

    def predict(self, smiles: Iterable[str]) -> list[Prediction]:
        """Predictions in the order of the SMILES."""
        return list(self.stream(smiles))

    def stream(self, smiles: Iterable[str]) -> Iterator[Prediction]:
        """The same, one after the other, in memory that does not grow with their number."""
        smiles = iter(smiles)
        while chunk := list(islice(smiles, _CHUNK)):
            yield from self._predict_chunk(chunk)

    def predict_graphs(self, graphs: list[MolGraph]) -> np.ndarray:
        """Predictions for molecules that are graphs already: float32 (G, O), a column for each of
        the network's outputs; `Task.tables` names them."""
        encoded = encode(graphs, self.model.encoding)
        tensors = GraphTensors.of(encoded, self.device)
        return predict(self.model, tensors, np.arange(len(graphs)))

    def _predict_chunk(self, smiles: list[str]) -> Iterator[Prediction]:
        graphs: list[MolGraph] = []
        errors: list[str | None] = []
        for text in smiles:
            try:
                graphs.append(self._featurizer(text))
                errors.append(None)
            except InvalidMolecule as error:
                errors.append(str(error))
        rows = self._by_target(self.predict_graphs(graphs)) if graphs else iter(())
        for text, reason in zip(smiles, errors, strict=True):
            if reason is None:
                values, probabilities = next(rows)
                yield Prediction(text, values, None, probabilities)
            else:
                yield Prediction(text, None, reason)

    def _by_target(
        self, predictions: np.ndarray
    ) -> Iterator[tuple[dict[str, float | str], dict[str, dict[str, float]]]]:
        """For each molecule its values and its probabilities of classes."""
        targets, tables = self.model.task.targets, self.model.task.tables(predictions)
        columns = [[values.tolist() for values in table.values()] for table in tables]
        for row in range(len(predictions)):
            cells = [[column[row] for column in of_target] for of_target in columns]
            both = list(zip(targets, cells, strict=True))
            yield (
                {target.name: value for target, (value, *_) in both},
                {t.name: dict(zip(t.classes, rest, strict=True)) for t, (_, *rest) in both if rest},
            )


def predict_rows(
    predictor: Predictor,
    chunks: Iterable[pd.DataFrame],
    out: TextIO,
    *,
    smiles_column: str,
    source: str,
    on_invalid: Literal["keep", "fail"] = "keep",
) -> tuple[int, int]:
    """Write a table with predictions, keeping its rows, their order and all columns.

    Added are <target>_pred for each target, <target>_prob_<class> for each class of a multi-class
    one, and `error`, the reason where a row failed.

    Args:
        predictor: what predicts.
        chunks: the table in pieces, such as `molsepnorm.tables.read_chunks` gives.
        out: where the CSV goes.
        smiles_column: name of the column of SMILES.
        source: the table's name in errors.
        on_invalid: keep a row that cannot be read, or fail at it.

    Returns:
        How many rows there were, and how many of them failed.

    Raises:
        ConfigError: no such column, or the table has a column of a name to be added.
        DataError: a row cannot be read and `on_invalid` says fail.
    """
    task = predictor.model.task
    columns = task.tables(np.empty((0, task.outputs)))
    added = [*(name for of_target in columns for name in of_target), _ERROR]
    rows = failed = 0
    for chunk in chunks:
        if not rows:
            require_column(chunk.columns, smiles_column, source)
            if taken := [name for name in added if name in chunk.columns]:
                raise ConfigError(
                    f"{source} has a column '{taken[0]}' already, which a prediction would "
                    "replace: rename or remove it"
                )
        predictions = predictor.predict(chunk[smiles_column])
        for index, prediction in zip(chunk.index, predictions, strict=True):
            if prediction.error is not None and on_invalid == "fail":
                raise DataError(f"{locate(source, index)}: {prediction.error}")
        for target in task.targets:
            name = target.name
            chunk[f"{name}_pred"] = [p.values[name] if p.values else None for p in predictions]
            for each in target.classes:
                chunk[f"{name}_prob_{each}"] = [
                    p.probabilities[name][each] if p.values else None for p in predictions
                ]
        chunk[_ERROR] = [p.error or "" for p in predictions]
        chunk.to_csv(out, index=False, header=not rows, float_format="%.6g")
        rows += len(predictions)
        failed += sum(p.error is not None for p in predictions)
    return rows, failed


_ERROR = "error"
