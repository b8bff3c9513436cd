"""Pre-training on structures: a weighted sum of losses that need no labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule
from molsepnorm.model import PropertyModel
from molsepnorm.molecules.featurize.descriptors import DESCRIPTORS
from molsepnorm.molecules.featurize.smiles import canonical_smiles
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.optional import require_package
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.training.config import PretrainingConfig, TrainConfig
from molsepnorm.training.distributed import DistributedContext
from molsepnorm.training.inputs import structure_features
from molsepnorm.training.objectives.objective import Examples, Objective, refuse_metric
from molsepnorm.training.scoring import drawn

_LOSSES = "teacher", "descriptors"  # the settings that hold their weights
_LIMIT = 6.0  # of standardised values, so that rare extreme ones do not dominate
_SAMPLE = 50_000  # training molecules from which the scaling is estimated
_TAILS = (0.1, 99.9)  # percentiles to which values are limited


class Regression(nn.Module):
    """The squared error of RDKit's 2D descriptors or of another model's embeddings (distillation).

    Values are standardised by `clipped_scaling` and limited to ±6; NaN is left out. Training uses a
    random share of each molecule's descriptors (`objective.descriptor_share`), and all embeddings.

    Source: the CheMeleon model (arXiv 2506.15792) regresses Mordred descriptors, limited to ±6, on
    a random share of them. RDKit's descriptors and a share of 70 % are ours.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, examples: Examples, name: str, share: float) -> None:
        super().__init__()
        self.examples, self.name, self.share = examples, name, share
        mean, scale = examples.arrays[f"{name}_scaling"]
        self.register_buffer("mean", mean.clone(), persistent=False)
        self.register_buffer("scale", scale.clone(), persistent=False)
        self.head = nn.Linear(width, len(mean))

    def forward(self, read: Tensor, graphs: Tensor) -> Tensor:
        """Return the mean loss of molecules `graphs`, int64 [B], from their embeddings (B, R)."""
        values = self.examples.arrays[self.name][graphs].float()  # (B, D)
        used = ~values.isnan()
        if self.training and self.share < 1:
            used &= torch.rand_like(values) < self.share
        targets = ((values - self.mean) / self.scale).clamp(-_LIMIT, _LIMIT).nan_to_num()
        errors = (self.head(read).float() - targets).square()
        return (errors * used).sum() / used.sum().clamp(min=1)


def clipped_scaling(values: np.ndarray, train: np.ndarray) -> np.ndarray:  # (2, D)
    """Return mean and standard deviation (1 if it is 0) of each column, limited to its 0.1st and
    99.9th percentile."""
    chosen = values[np.sort(drawn(train, _SAMPLE))].astype(np.float64)
    empty = np.isnan(chosen).all(axis=0)
    chosen[:, empty] = 0.0
    low, high = np.nanpercentile(chosen, _TAILS, axis=0)
    chosen = np.clip(chosen, low, high)
    scale = np.nanstd(chosen, axis=0)
    constant = scale <= 1e-6 * np.maximum(np.nanmax(np.abs(chosen), axis=0), 1)
    return np.stack([np.nanmean(chosen, axis=0), np.where(constant, 1.0, scale)]).astype(np.float32)


class Pretraining(Objective):
    """The weighted sum of the losses whose weight is not 0, over one forward pass of the body."""

    def __init__(self, model: PropertyModel, examples: Examples, config: TrainConfig) -> None:
        super().__init__(model, examples, config)
        settings, self.weights = _weights(config)
        width = self.network.embedding_width
        shares = {"descriptors": settings.descriptor_share}
        self.losses = nn.ModuleDict(
            {name: Regression(width, examples, name, shares.get(name, 1)) for name in self.weights}
        )

    @staticmethod
    def prepare(
        config: TrainConfig, dataset: Dataset, progress: Callable[[int, int], None]
    ) -> Dataset:
        settings, weights = _weights(config)
        arrays, warnings = {**dataset.arrays}, dataset.warnings
        if settings.teacher_vectors is not None:
            arrays["teacher"], more = teacher_vectors(settings.teacher_vectors, dataset)
            warnings += more
        if "descriptors" in weights:
            if dataset.smiles is None:
                raise ConfigError(f"{dataset.name} has no SMILES for descriptors: use a table")
            smiles = dataset.smiles_of(slice(None))
            arrays |= structure_features(smiles, ExtraInputs(descriptors=DESCRIPTORS), progress)
        for name in weights:
            arrays[f"{name}_scaling"] = clipped_scaling(arrays[name], dataset.splits["train"])
        return replace(dataset, arrays=arrays, warnings=warnings)

    @staticmethod
    def fit_task(config: TrainConfig, dataset: Dataset) -> tuple[Task, Dataset]:
        refuse_metric(config)
        return Task((), "loss"), dataset

    def forward(self, batch: GraphBatch, graphs: Tensor) -> tuple[Tensor, Tensor]:
        losses = zip(self.weights.values(), self._means(batch, graphs), strict=True)
        loss = torch.stack([weight * mean for weight, mean in losses]).sum()
        return loss * len(graphs), loss.new_full((), len(graphs))

    def _means(self, batch: GraphBatch, graphs: Tensor) -> list[Tensor]:
        read = self.network.embed(batch)  # (B, R)
        return [self.losses[name](read, graphs) for name in self.weights]

    def validate(
        self, graphs: np.ndarray, world: DistributedContext
    ) -> tuple[float, dict[str, float]]:
        """Return the loss, and each loss without its weight."""

        def sums(batch: GraphBatch, indices: Tensor) -> Tensor:
            means = torch.stack(self._means(batch, indices))
            return len(indices) * torch.cat([means, means.new_ones(1)])

        *totals, count = self.totals(sums, len(self.weights) + 1, graphs, world)
        scores = {name: total / count for name, total in zip(self.weights, totals, strict=True)}
        return sum(self.weights[name] * score for name, score in scores.items()), scores


def _weights(config: TrainConfig) -> tuple[PretrainingConfig, dict[str, float]]:
    settings = config.objective
    assert isinstance(settings, PretrainingConfig)
    weights = {name: getattr(settings, name) for name in _LOSSES}
    if not any(weights.values()):
        raise ConfigError(
            "all weights of the objective pretraining are 0: set objective.teacher or "
            "objective.descriptors above 0"
        )
    return settings, {name: weight for name, weight in weights.items() if weight}


_ROWS = 1024  # vectors that are read at a time


def teacher_vectors(path: Path, dataset: Dataset) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the vectors of a data set's G molecules, float16 [G, D], NaN if missing; and warnings.

    Molecules are matched by their canonical SMILES; the first vector of a molecule counts. `path`
    is a Parquet file that `molsepnorm embed` wrote, or a folder of them.
    """
    if dataset.smiles is None:
        raise ConfigError(f"{dataset.name} has no SMILES to find a teacher's vectors by")
    rows = defaultdict[str, list[int]](list)
    for row, text in enumerate(dataset.smiles_of(slice(None))):
        rows[_canonical(text)].append(row)
    count = len(dataset.store)
    vectors = np.full((count, 0), np.nan, np.float16)
    for texts, more in _read(path):
        width = more.shape[1]
        if not vectors.shape[1]:
            vectors = np.full((count, width), np.nan, np.float16)
        if width != vectors.shape[1]:
            raise DataError(f"{path} has vectors of {width} and {vectors.shape[1]} numbers")
        for text, vector in zip(texts, more, strict=True):
            places = rows.get(_canonical(text))
            if places and np.isnan(vectors[places[0], 0]):
                vectors[places] = vector
    missing = int(np.isnan(vectors).all(axis=1).sum())
    if missing == count:
        raise DataError(
            f"{path} has no vector of a molecule of {dataset.name}: use vectors of the same SMILES"
        )
    message = f"{path} has vectors of {count - missing:,} of {count:,} molecules"
    return vectors, (f"{message}; the others are left out of this loss",) if missing else ()


def _canonical(text: str) -> str:
    try:
        return canonical_smiles(text)
    except InvalidMolecule:
        return ""


def _read(path: Path) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield SMILES, and their vectors, float16 [n, D]."""
    arrow: Any = require_package("pyarrow", "parquet", f"reading {path}")
    parquet: Any = require_package("pyarrow.dataset", "parquet", f"reading {path}")
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise DataError(f"there is no Parquet file of a teacher's vectors at {path}")
    try:
        table = parquet.dataset([*map(str, files)], format="parquet")
        for batch in table.to_batches(columns=["smiles", "embedding"], batch_size=_ROWS):
            known = batch.filter(batch.column("embedding").is_valid())
            if not len(known):
                continue
            vectors = np.stack(known.column("embedding").to_numpy(zero_copy_only=False))
            limit = np.finfo(np.float16).max
            if not (np.abs(vectors) <= limit).all():
                raise DataError(f"{path} has a vector with a number beyond ±{limit:,.0f}")
            yield known.column("smiles").to_pylist(), vectors.astype(np.float16)
    except (arrow.ArrowException, OSError, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        expected = "smiles and embedding (lists of equally many numbers)"
        raise DataError(f"{path} should have the columns {expected}: {error}") from None
