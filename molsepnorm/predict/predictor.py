"""`Predictor`: SMILES to predictions, with a trained model."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np

from molsepnorm.errors import ConfigError, require_several
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.predict.inference import Precision, pick_device
from molsepnorm.predict.work import Outcome, Predict, Prepare, Prepared, Run, encoded_groups
from molsepnorm.predict.workers import Workers

__all__ = ["Prediction", "Predictor"]

_TASK = 2048  # most SMILES of a task: fewer would be padded more, more would wait longer
_FEWEST = 128  # fewer are not worth a process of their own


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
    """Predicts from SMILES. A molecule that cannot be read costs its row, never the job. So does a
    prediction that is not finite, for all targets of the row.

    All SMILES of one molecule are the same graph and get the same prediction, but for rounding:
    atoms come in the order of the text. So do predictions in other company, where a molecule is
    padded to another size: of other calls, or of other numbers of processes, they agreed to 2e-6 of
    their spread for trained models, and tests ask for 1e-4.

    >>> predictor = Predictor.from_pretrained("runs/zinc-1")              # doctest: +SKIP
    >>> predictor.predict(["CCO", "not a molecule"])                      # doctest: +SKIP
    [Prediction(smiles='CCO', values={'penalised_logp': 0.41}, error=None),
     Prediction(smiles='not a molecule', values=None, error="RDKit cannot read ...")]

    Args:
        model: a trained model.
        device: where to run it: cpu, cuda, cuda:1, …, or auto.
        processes: 1 does all in this process. More start so many besides, for as long as a call
            takes and if it has SMILES enough for two: each predicts a part with one thread, or on a
            GPU prepares a part for this process to predict. Where the system cannot fork, a script
            needs `if __name__ == "__main__":` for it.
        precision: of matrix products: fp32, tf32 on a GPU, or bf16.

    Raises:
        ConfigError: there is no such device, or `processes` is below 1.
    """

    def __init__(
        self,
        model: PropertyModel,
        device: str = "cpu",
        processes: int = 1,
        precision: Precision = "fp32",
    ) -> None:
        if processes < 1:
            raise ConfigError(f"processes must be 1 or more; got {processes}")
        self.model = model
        self.device = pick_device(device)
        self.processes = processes
        self.targets = model.task.names
        self._prepare = Prepare(model, self.device)
        self._run = Run(model, self.device, precision)
        self._run_here = self.device.type != "cpu"
        model.network.to(self.device).eval()

    @staticmethod
    def from_pretrained(
        folder: Path | str,
        device: str = "cpu",
        processes: int = 1,
        precision: Precision = "fp32",
    ) -> Predictor:
        """From a run's folder, or a model folder.

        Raises:
            ModelError: the folder is not there, incomplete, damaged or of a newer molsepnorm.
        """
        return Predictor(PropertyModel.from_pretrained(folder), device, processes, precision)

    def predict(self, smiles: Iterable[str]) -> list[Prediction]:
        """Return the predictions in the order of the SMILES.

        Raises:
            ConfigError: `smiles` is one text, a mapping or a table, not a list of texts.
        """
        return list(self.stream(smiles))

    def stream(self, smiles: Iterable[str]) -> Iterator[Prediction]:
        """The same, one after the other, in memory that does not grow with their number."""
        require_several(smiles, "smiles")  # here, not when the first prediction is taken
        return (
            prediction
            for texts, outcome in self._parts(smiles)
            for prediction in self._by_row(texts, outcome)
        )

    def outcomes(self, smiles: Iterable[str]) -> Iterator[Outcome]:
        """The same in columns, some thousand rows at once: for many SMILES the quicker way."""
        require_several(smiles, "smiles")
        return (outcome for _, outcome in self._parts(smiles))

    def predict_graphs(self, graphs: Sequence[MolGraph]) -> np.ndarray:
        """Predictions for molecules that are graphs already: float32 (G, O), a column for each of
        the network's outputs; `Task.tables` names them. Where one prediction of a molecule is not
        finite, its row is NaN.

        Raises:
            ConfigError: one is no `MolGraph`, or has other features than the model reads; the
                message has its index.
        """
        groups = encoded_groups(graphs, self.model.encoding, self.model.network.config.atom_sizes)
        return self._run(Prepared([None] * len(graphs), groups)).values

    def _parts(self, smiles: Iterable[str]) -> Iterator[tuple[list[str], Outcome]]:
        """The stream cut into tasks, each with what became of it."""
        blocks = self._blocks(iter(smiles))
        first = next(blocks, [])
        every = chain(first, chain.from_iterable(blocks))
        both = Predict(self._prepare, self._run)
        if len(first) <= 1:
            yield from ((texts, both(texts)) for texts in every)
            return
        under_way: deque[list[str]] = deque()

        def tasks() -> Iterator[list[str]]:
            for texts in every:
                under_way.append(texts)
                yield texts

        with Workers(len(first), self._prepare if self._run_here else both) as workers:
            for result in workers.map(tasks()):
                yield under_way.popleft(), self._run(result) if self._run_here else result

    def _blocks(self, smiles: Iterator[str]) -> Iterator[list[list[str]]]:
        """Tasks for all processes at once, so that the last ones too have equal shares."""
        while rows := list(islice(smiles, _TASK * self.processes)):
            shares = min(self.processes, max(1, len(rows) // _FEWEST))
            ends = [len(rows) * share // shares for share in range(shares + 1)]
            yield [rows[start:end] for start, end in pairwise(ends)]

    def _by_row(self, smiles: list[str], outcome: Outcome) -> Iterator[Prediction]:
        targets, tables = self.model.task.targets, self.model.task.tables(outcome.values)
        columns = [[values.tolist() for values in table.values()] for table in tables]
        for row, (text, error) in enumerate(zip(smiles, outcome.errors, strict=True)):
            if error is not None:
                yield Prediction(text, None, error)
                continue
            cells = [[column[row] for column in of_target] for of_target in columns]
            both = list(zip(targets, cells, strict=True))
            yield Prediction(
                text,
                {target.name: value for target, (value, *_) in both},
                None,
                {t.name: dict(zip(t.classes, rest, strict=True)) for t, (_, *rest) in both if rest},
            )
