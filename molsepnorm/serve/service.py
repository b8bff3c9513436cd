"""`Service`: predictions and explanations for a server, within limits of size and time."""

from __future__ import annotations

import dataclasses
import io
import re
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from molsepnorm.analysis.explanations import Explanation, explain
from molsepnorm.analysis.explanations.files import chosen_targets, explanation_json
from molsepnorm.data.tables import read_chunks
from molsepnorm.data.tables.columns import names_in_file
from molsepnorm.errors import ConfigError, DataError, DataWarning, MolsepnormError, did_you_mean
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.alerts import structural_alerts
from molsepnorm.molecules.drawing import Panel, draw_grid, draw_structure
from molsepnorm.molecules.featurize.atom_order import traced
from molsepnorm.molecules.featurize.further import as_one_molecule, first_molecule
from molsepnorm.predict import Prediction, Predictor, Reference, TableRows, predict_rows
from molsepnorm.predict.uncertainty import require_calibrated
from molsepnorm.pretrained.card import EndPoint, ModelCard

T = TypeVar("T")

_BLOCK = 128  # rows that are predicted before another request has its turn
_WORK = 1_000_000
"""Maximum sum of the squared lengths of their SMILES, unless there is only one. A molecule of 1,000
atoms takes about a second on one core, so 128 of them would take two minutes."""
_MAX_COLUMNS = 2_000  # of a table; the time of a row grows with their number
_FORMATS = (".csv", ".tsv", ".txt", ".smi", ".smiles", ".sdf")
"""Tables that are accepted: those whose size in memory is known from their size as a file."""
_MAX_EXPLAINED = 80  # atoms; the time grows with the third power of their number
_EXPLANATIONS = 32  # that are remembered
_LEVELS = (0.8, 0.9, 0.95)  # of the intervals that the page offers
_SIZE = 240, 170  # pixels of a molecule
_SMILES = "smiles"
_SHOWN = ("name", "kind", "learned_name", "classes")  # of a target


class LimitError(MolsepnormError):
    """A request is larger, or takes longer, than the server allows."""

    def __init__(self, message: str, status: int = 413) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """The limits of a request: its molecules, the size of its body, and its time."""

    rows: int = 10_000
    megabytes: float = 20
    seconds: float = 60


class PredictedTable(NamedTuple):
    """A table with predictions, as `molsepnorm predict` writes it."""

    csv: str
    smiles_column: str
    failed: int
    """Number of rows without a prediction."""
    notes: list[str]
    """The data warnings."""


class Service:
    """Predicts for one request at a time; the rows of several requests are predicted in turns.

    Args:
        models: one or more models by name. The first one is the default.
        cards: their cards, where they have one, by the same names.
    """

    def __init__(
        self,
        models: Mapping[str, PropertyModel],
        limits: Limits | None = None,
        device: str = "cpu",
        cards: Mapping[str, ModelCard] = MappingProxyType({}),
    ) -> None:
        self.limits = limits or Limits()
        self._device = device
        self._cards = cards
        self._models: dict[str, PropertyModel] = {}
        for name, model in models.items():
            model.require_targets()
            if model.structures:  # read once, not by every request
                model = replace(model, structures=(model.training_molecules(),))
            self._models[name] = model
        self._lock = threading.Lock()
        self._explanation = lru_cache(_EXPLANATIONS)(self._explained)

    def describe(self) -> list[dict[str, Any]]:
        """Return the facts of each model that the page shows."""
        return [
            {
                "name": name,
                "targets": [
                    {key: getattr(target, key) for key in _SHOWN} for target in model.task.targets
                ],
                "feature_columns": list(model.inputs.names),
                "molecule_columns": [each.name for each in model.inputs.columns if each.components],
                "levels": [level for level in _LEVELS if _has_level(model, level)],
                "domain": bool(model.domain and model.structures),
                **_about(model, self._cards.get(name)),
            }
            for name, model in self._models.items()
        ]

    def predict(
        self,
        smiles: Sequence[str],
        model: str | None = None,
        level: float | None = None,
        domain: bool = False,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> tuple[list[Prediction], list[str]]:
        """Return the predictions for some SMILES, and the data warnings.

        Args:
            smiles, columns: as for `Predictor.predict`.
            model: name of the model; None for the first one.
            level, domain: as for `Predictor`.

        Raises:
            LimitError: there are too many molecules, or it takes too long.
        """
        deadline = self._deadline()
        self._require_size(len(smiles))
        predictor = self._predictor(model, level, domain)
        for name, cells in (columns or {}).items():
            if len(cells) != len(smiles):
                count = f"{len(cells):,} cells for {len(smiles):,} SMILES"
                raise ConfigError(f"the feature column {name} has {count}")

        def block(rows: slice) -> list[Prediction]:
            cells_of = columns and {name: cells[rows] for name, cells in columns.items()}
            return predictor.predict(smiles[rows], cells_of)

        parts, notes = self._in_turns(smiles, deadline, block)
        return [*chain(*parts)], notes

    def table(
        self,
        content: bytes,
        name: str,
        model: str | None = None,
        level: float | None = None,
        domain: bool = False,
        reference: bool = False,
    ) -> PredictedTable:
        """Return a table with predictions. The extension of `name`, the name of the file, is its
        format, and `reference` adds percentiles, see `Reference.of`. The other arguments are those
        of `predict`."""
        deadline = self._deadline()
        predictor = self._predictor(model, level, domain, reference)
        name = name.replace("\0", "")  # codecs refuse it
        suffix = PurePosixPath(name).suffix.lower()
        if suffix not in _FORMATS:
            raise ConfigError(
                f"a table is accepted as {', '.join(_FORMATS)}; this one is called '{name}'. Save "
                "it in one of these formats, not compressed"
            )
        if suffix != ".sdf":  # counted before memory is needed for each column
            first = re.split(rb"[\r\n]", content, maxsplit=1)[0]
            self._require_size(0, max(map(first.count, (b",", b"\t", b";"))) + 1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"table{suffix}"
            path.write_bytes(content)
            chunks, count = [], 0
            with self._turn(deadline) as notes:
                numbers = predictor.model.inputs.names
                for chunk in read_chunks(path, name, rows=_BLOCK, numbers=numbers):
                    count += len(chunk)
                    self._require_size(count, len(chunk.columns))
                    self._left(deadline)
                    chunks.append(chunk)
        columns = dict(zip(chunks[0].columns, names_in_file(chunks[0]), strict=True))

        def predicted(chunk: pd.DataFrame, rows: slice) -> tuple[str, int]:
            """Return rows with predictions as CSV with a header, and how many failed."""
            out, part = io.StringIO(), TableRows([chunk.iloc[rows]], _SMILES, name)
            _, failed = predict_rows(predictor, part, out)
            return out.getvalue(), failed

        head, _ = predicted(chunks[0], slice(0))
        texts, failed = [head], 0
        for chunk in chunks:
            work = partial(predicted, chunk)
            parts, more = self._in_turns(chunk[_SMILES].tolist(), deadline, work)
            notes += (note for note in more if note not in notes)
            texts += (text.removeprefix(head) for text, _ in parts)
            failed += sum(count for _, count in parts)
        return PredictedTable("".join(texts), columns[_SMILES], failed, notes)

    def explain(
        self,
        smiles: str,
        model: str | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
        targets: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Return the numbers of `explanation_json`, and for each molecule and target an SVG.

        Args:
            targets: names of the targets; None for all. The last molecules are remembered, since
                the contributions to all targets are computed together.
        """
        deadline = self._deadline()
        predictor = self._predictor(model)
        names = chosen_targets(predictor.targets, targets)
        cells = None
        if columns is not None:
            cells = tuple((name, tuple(each)) for name, each in columns.items())
        with self._turn(deadline):
            explanation = self._explanation(self._name(model), smiles, cells)
            if explanation.error is not None:
                raise DataError(explanation.error)
            content = explanation_json(explanation, names)
        _draw(content, explanation)
        return content

    def _explained(
        self, model: str, smiles: str, columns: tuple[tuple[str, Any], ...] | None
    ) -> Explanation:
        predictor, cells = self._predictor(model), dict(columns or ())
        texts = [first_molecule(smiles, *chain(*cells.values()))]
        if (further := predictor.model.molecules) is not None:
            keys = (further.keys(name, cells.get(name, ())) for name in further.projections)
            texts += map(as_one_molecule, filter(None, chain(*keys)))
        atoms = max(len(traced(text).places) for text in texts)
        if atoms > _MAX_EXPLAINED:
            raise LimitError(
                f"a molecule of this row has {atoms} atoms, and the server explains up to "
                f"{_MAX_EXPLAINED}: use molsepnorm explain"
            )
        (explanation,) = explain(predictor, [smiles], cells or None)
        return explanation

    def alerts(self, smiles: str) -> list[dict[str, Any]]:
        """Return the fields of each `Alert` of a molecule."""
        with self._turn(self._deadline()):
            return [each._asdict() for each in structural_alerts(smiles)]

    def drawing(self, smiles: str, atoms: Sequence[int] = ()) -> str:
        """Return a molecule as SVG, with some atoms marked."""
        with self._turn(self._deadline()):
            picture = draw_structure(as_one_molecule(smiles), _SIZE, atoms)
        if picture is None:
            raise DataError("the molecule cannot be drawn: it is invalid or too large")
        return picture

    def _name(self, model: str | None) -> str:
        name = next(iter(self._models)) if model is None else model
        if name not in self._models:
            raise ConfigError(f"there is no model '{name}'. {did_you_mean(name, self._models)}")
        return name

    def _predictor(
        self,
        model: str | None,
        level: float | None = None,
        domain: bool = False,
        reference: bool = False,
    ) -> Predictor:
        name = self._name(model)
        known = Reference.of(self._models[name], self._cards.get(name)) if reference else None
        return Predictor(
            self._models[name], self._device, level=level, domain=domain, reference=known
        )

    def _deadline(self) -> float:
        return time.monotonic() + self.limits.seconds

    def _require_size(self, rows: int, columns: int = 0) -> None:
        if rows > self.limits.rows:
            raise LimitError(
                f"the server accepts up to {self.limits.rows:,} molecules at once: use molsepnorm "
                "predict for more"
            )
        if columns > _MAX_COLUMNS:
            raise LimitError(
                f"the table has {columns:,} columns, and the server accepts up to "
                f"{_MAX_COLUMNS:,}: remove some, or use molsepnorm predict"
            )

    def _left(self, deadline: float) -> float:
        """Return the seconds that are left."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise LimitError(
                f"the request took more than {self.limits.seconds:g} seconds: send fewer molecules",
                503,
            )
        return left

    def _in_turns(
        self, smiles: Sequence[str], deadline: float, work: Callable[[slice], T]
    ) -> tuple[list[T], list[str]]:
        """Return `work` of the rows of each turn, and the data warnings."""
        parts: list[T] = []
        notes: dict[str, None] = {}
        for rows in _blocks(smiles):
            with self._turn(deadline) as more:
                parts.append(work(rows))
            notes |= dict.fromkeys(more)
        return parts, list(notes)

    @contextmanager
    def _turn(self, deadline: float) -> Iterator[list[str]]:
        """Wait until no other request computes, since threads share Python's warnings and RDKit's
        log of invalid SMILES. Yield a list, which has the data warnings when the turn ends."""
        if not self._lock.acquire(timeout=self._left(deadline)):
            raise LimitError(
                f"the server was busy for {self.limits.seconds:g} seconds: try again later", 503
            )
        notes: list[str] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", DataWarning)
                yield notes
        finally:
            self._lock.release()
        texts = (str(note.message) for note in caught if issubclass(note.category, DataWarning))
        notes += dict.fromkeys(texts)


def _draw(content: dict[str, Any], explanation: Explanation) -> None:
    """Add drawings to what `explanation_json` returned, each with its own colour scale."""
    for name, numbers in content["targets"].items():
        target = explanation.targets[name]
        panel = Panel(explanation.structure, target.atoms)
        limit = float(np.abs(target.atoms).max(initial=0))
        numbers["svg"] = draw_grid([panel], limit, target.unit, png=False).decode()
    for column, parts in explanation.further.items():
        for numbers, part in zip(content["further"][column], parts, strict=True):
            _draw(numbers, part)


def _blocks(smiles: Sequence[str]) -> Iterator[slice]:
    """Yield the rows of each turn: fewer of large molecules, whose time grows with their square.

    >>> [rows.stop - rows.start for rows in _blocks(["C" * 20] * 300)]
    [128, 128, 44]
    >>> [rows.stop - rows.start for rows in _blocks(["C", "C" * 990, "CC", "C" * 990, "C" * 5000])]
    [3, 1, 1]
    """
    start, work = 0, 0
    for row, text in enumerate(smiles):
        if row > start and (row - start == _BLOCK or work + len(text) ** 2 > _WORK):
            yield slice(start, row)
            start, work = row, 0
        work += len(text) ** 2
    yield slice(start, len(smiles))


def _about(model: PropertyModel, card: ModelCard | None) -> dict[str, Any]:
    """Return what a card says about each target, and what percentiles are of, if there are any."""
    known = {} if card is None else card.end_points
    fields = [each.name for each in dataclasses.fields(EndPoint) if each.name != "reference"]
    end_points = {name: {key: getattr(of, key) for key in fields} for name, of in known.items()}
    reference = ""
    if end_points:
        with suppress(ConfigError):
            reference = Reference.of(model, card).molecules
    return {"end_points": end_points, "reference": reference}


def _has_level(model: PropertyModel, level: float) -> bool:
    """Return whether a model has intervals at a level; few validation molecules give few levels."""
    with suppress(ConfigError):
        require_calibrated(model, level)
        return True
    return False
