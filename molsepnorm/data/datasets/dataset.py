"""`Dataset`: encoded molecules with their labels and splits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from molsepnorm.data.store import GraphStore, Rejected
from molsepnorm.files.writing import fingerprint
from molsepnorm.tasks.metrics import Kind

__all__ = ["SPLITS", "Dataset", "Rejected", "data_folder"]

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Dataset:
    """G encoded molecules with T labels each and their splits, ready for training."""

    name: str
    """The file, or the name and size of the set, for display."""
    store: GraphStore
    labels: np.ndarray
    """float32 [G, T]: NaN where a label is missing."""
    targets: tuple[str, ...]
    """Names of the T targets."""
    kinds: tuple[Kind, ...]
    """Kind of each target."""
    splits: dict[str, np.ndarray]
    """int64 indices of molecules for each of `SPLITS`."""
    rejected: tuple[Rejected, ...] = ()
    smiles: Sequence[str] | None = None
    """SMILES of every row of the source, where it has them; standardised if structures are."""
    written: Sequence[str] | None = None
    """SMILES of every row as they are in the source, for output; None if they equal `smiles`."""
    classes: tuple[tuple[str, ...], ...] = ()
    """Class names of each target, empty unless it is multi-class; () if no target is."""
    weights: np.ndarray | None = None
    """float32 [G]: weight of each molecule in the loss; None for equal weights."""
    metric: str | None = None
    """Usual metric of the set in the literature, if there is one."""
    evaluator: Callable[[np.ndarray, np.ndarray], float] | None = None
    """The set's own evaluation by that metric, from predictions and labels (G, T)."""
    warnings: tuple[str, ...] = ()
    """Messages for the user: guesses about the source, and problems with its files."""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Further values that the objective computed for the molecules, by name."""

    @property
    def fingerprint(self) -> str:
        """Hash of the encoded molecules, their labels, their weights and the further values."""
        values = (self.labels, self.weights, *self.arrays.values())
        arrays = (each for each in values if each is not None)
        return fingerprint(
            self.store.digest, json.dumps(self.targets), *(each.tobytes() for each in arrays)
        )


def data_folder(given: Path | None) -> Path | None:
    """Return the folder of raw files: the one given, else $MOLSEPNORM_DATA, else None."""
    environment = os.environ.get("MOLSEPNORM_DATA")
    return given or (Path(environment) if environment else None)
