"""Statistics of the embeddings of trained models, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molsepnorm.analysis.geometry.correlation import Correlation, correlate
from molsepnorm.analysis.geometry.measures import (
    alignment,
    effective_rank,
    mean_cosine,
    outlier_share,
    principal_map,
    singular_values,
    uniformity,
)
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.data.store import GraphStore
from molsepnorm.devices import pick_device
from molsepnorm.errors import ConfigError, prefixed, require_several
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.dropout import draws_at_random, dropout_alone
from molsepnorm.nn.observe import embedding_sites, layer_embeddings
from molsepnorm.predict.inference import infer
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.metrics import mean_and_sd

__all__ = [
    "ATOMS",
    "MEASURES",
    "TOKEN",
    "AnalysedRun",
    "Analysis",
    "EmbeddingStatistics",
    "ModelOnMolecules",
    "analyze",
    "require_same_targets",
]

TOKEN, ATOMS = "graph token", "mean of atoms"
"""The two embeddings of a molecule."""

MEASURES = {
    "effective_rank": "effective rank",
    "uniformity": "uniformity",
    "alignment": "alignment",
    "mean_cosine": "mean cosine",
    "outlier_share": "outliers",
}
"""Fields of `EmbeddingStatistics` and their names in a summary."""

_ROWS = (TOKEN, ATOMS)  # in the order of `nn.observe.layer_embeddings`
_MAX_TARGETS = 3  # correlated with the embeddings by default


@dataclass(frozen=True)
class ModelOnMolecules:
    """A trained model and the molecules to embed."""

    name: str
    group: str
    """Runs of a group, such as those that differ only in their seed, are summarised together."""
    model: PropertyModel
    store: GraphStore
    """Molecules encoded for this model."""
    graphs: np.ndarray
    """int64 [n], indices of the molecules; they are the same molecules for all models."""
    labels: np.ndarray
    """float32 [n, T]: labels of the molecules."""
    smiles: tuple[str, ...] | None = None
    """SMILES of the molecules, if the source has them."""
    bounds: np.ndarray | None = None
    """int8 [n, T]: which labels are bounds, see `Dataset.bounds`; None if there are none."""


@dataclass(frozen=True)
class EmbeddingStatistics:
    """Statistics of n embeddings at one site of a network; see `geometry.measures`."""

    site: str
    """One of `nn.observe.embedding_sites`."""
    of: str
    """`TOKEN` or `ATOMS`."""
    effective_rank: float
    uniformity: float
    mean_cosine: float
    outlier_share: float
    """Share of the variance that the 5 % furthest molecules have."""
    alignment: float | None
    """Alignment of two views with different dropout; None for networks without dropout."""
    correlations: dict[str, Correlation | None]
    """Correlations with each of `Analysis.numbers`."""
    singular_values: tuple[float, ...]
    """Divided by √n: standard deviations along the principal axes."""


@dataclass(frozen=True)
class AnalysedRun:
    """The statistics of one model."""

    name: str
    group: str
    statistics: tuple[EmbeddingStatistics, ...]
    """Statistics at each site, of the graph token and, where it exists, of the mean of atoms."""
    read: str
    """The embedding that the network's readout uses: `TOKEN`, or else `ATOMS`."""
    coordinates: np.ndarray
    """float64 (n, 2): this embedding at the last site, along its two longest axes."""
    shares: tuple[float, float]
    """Shares of the variance along these axes."""

    def at(self, of: str = TOKEN, site: str | None = None) -> EmbeddingStatistics | None:
        """Return the statistics at a site, by default the last one; None if there are none."""
        found = [each for each in self.statistics if each.of == of and site in (None, each.site)]
        return found[-1] if found else None


@dataclass(frozen=True)
class Analysis:
    """The statistics of all models."""

    runs: tuple[AnalysedRun, ...]
    sizes: np.ndarray
    """int64 [n]: number of atoms of each molecule."""
    labels: np.ndarray
    """float32 [n, T]."""
    exact_labels: np.ndarray
    """float32 [n, T]: the labels, with NaN in place of bounds."""
    bounds: np.ndarray
    """int8 [n, T]: see `Dataset.bounds`."""
    targets: tuple[Target, ...]
    smiles: tuple[str, ...] | None
    """SMILES of the molecules, if the source has them."""
    numbers: tuple[str, ...]
    """Names of the numbers correlated with the embeddings: size, in atoms, and the learned values
    of targets. A target called "size" or like one of `MEASURES` is named "target size" here."""
    colour: Target | None
    """The target that colours the maps; None if there are no targets."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, in the order of the models."""
        return tuple(dict.fromkeys(run.group for run in self.runs))

    def of_group(self, group: str) -> tuple[AnalysedRun, ...]:
        """Return the runs of a group."""
        return tuple(run for run in self.runs if run.group == group)

    def summary(self, of: str = TOKEN) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return group -> measure -> mean and unbiased standard deviation over its runs.

        The values are those at the last site, for each of `MEASURES`, and for each of `numbers` the
        linear correlation.
        """
        summary = {}
        for group in self.groups:
            last = [found for run in self.of_group(group) if (found := run.at(of)) is not None]
            values = {name: [getattr(each, name) for each in last] for name in MEASURES}
            for name in self.numbers:
                linear = [each.correlations[name] for each in last]
                values[name] = [None if each is None else each.linear for each in linear]
            summary[group] = {name: mean_and_sd(each) for name, each in values.items()}
        return summary

    def to_json(self) -> dict[str, Any]:
        """Return everything but the molecules' coordinates as plain JSON values."""
        return {
            "molecules": len(self.sizes),
            "summary": {of: self.summary(of) for of in (TOKEN, ATOMS)},
            "runs": [
                {
                    **{name: getattr(run, name) for name in ("name", "group", "read")},
                    "statistics": [asdict(each) for each in run.statistics],
                }
                for run in self.runs
            ],
        }


def analyze(
    models: Sequence[ModelOnMolecules],
    device: str = "auto",
    progress: Callable[[str], None] = lambda name: None,
    targets: Sequence[str] | None = None,
) -> Analysis:
    """Compute statistics of the graph token and of the mean of atoms, layer by layer.

    >>> analysis = analyze([ModelOnMolecules("run", "run", model, store, graphs)])  # doctest: +SKIP
    >>> analysis.runs[0].at().effective_rank                                  # doctest: +SKIP
    21.3

    Args:
        models: one or more models, all with the same molecules and targets.
        device: the device for the networks, which they stay on: auto, cpu, cuda, …
        progress: called with the name of each model before it is analysed.
        targets: the targets to correlate with the embeddings, except multi-class ones. The first
            one colours the maps. By default they are the first three. Labels that are bounds are
            left out.

    Raises:
        ConfigError: there is no such device or target, no model, fewer than two molecules, or the
            models differ in their targets or molecules.
        DataError: an embedding is not finite.
    """
    _require_same_molecules(models)
    on = pick_device(device)
    first = models[0]
    sizes = first.store.sizes[first.graphs]
    labels = np.asarray(first.labels)
    bounds = np.zeros(labels.shape, np.int8) if first.bounds is None else first.bounds
    exact_labels = np.where(bounds, np.nan, labels)
    chosen = _chosen_targets(first.model.task.targets, targets)
    numbers = {"size": sizes.astype(float)}
    for target in chosen:
        if target.kind != "multiclass":
            column = first.model.task.names.index(target.name)
            name = target.learned_name
            while name in numbers or name in MEASURES:
                name = f"target {name}"
            numbers[name] = exact_labels[:, column].astype(float)
    runs = []
    for each in models:
        progress(each.name)
        with prefixed(each.name):
            runs.append(_run(each, numbers, on))
    return Analysis(
        tuple(runs),
        sizes,
        labels,
        exact_labels,
        bounds,
        first.model.task.targets,
        first.smiles,
        numbers=tuple(numbers),
        colour=chosen[0] if chosen else None,
    )


def _chosen_targets(targets: Sequence[Target], names: Sequence[str] | None) -> list[Target]:
    """Return the named targets; by default the first ones that are not multi-class."""
    if names is None:
        numbers = [target for target in targets if target.kind != "multiclass"]
        return (numbers or list(targets[:1]))[:_MAX_TARGETS]
    require_several(names, "targets")
    known = {target.name: target for target in targets}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"the model predicts {', '.join(known)}, and not {', '.join(unknown)}")
    return [known[name] for name in names]


def _run(
    one: ModelOnMolecules, numbers: dict[str, np.ndarray], device: torch.device
) -> AnalysedRun:
    network = one.model.network.to(device)
    tensors = GraphTensors.of(one.store, device)

    def with_dropout(batch: GraphBatch) -> Tensor:
        with dropout_alone(network):
            return layer_embeddings(network, batch)

    call = partial(layer_embeddings, network)
    points = infer(network, tensors, one.graphs, call=call)  # (n, 2, sites, C)
    views: list[Tensor] = []
    if draws_at_random(network):
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            views = [infer(network, tensors, one.graphs, call=with_dropout) for _ in range(2)]
    statistics = []
    for index, site in enumerate(embedding_sites(network)):
        for row, of in enumerate(_ROWS):
            here = points[:, row, index]
            if not here.isnan().any():
                pair = [view[:, row, index] for view in views]
                statistics.append(_statistics(site, of, here, pair, numbers))
    read = TOKEN if network.config.readout.startswith("token") else ATOMS
    coordinates, shares = principal_map(points[:, _ROWS.index(read), -1])
    first, second = shares.tolist()
    return AnalysedRun(
        one.name, one.group, tuple(statistics), read, coordinates.numpy(), (first, second)
    )


def _statistics(
    site: str, of: str, points: Tensor, views: list[Tensor], numbers: dict[str, np.ndarray]
) -> EmbeddingStatistics:
    axis = principal_map(points)[0][:, 0].numpy()
    return EmbeddingStatistics(
        site=site,
        of=of,
        effective_rank=effective_rank(points),
        uniformity=float(uniformity(points)),
        mean_cosine=mean_cosine(points),
        outlier_share=outlier_share(points),
        alignment=float(alignment(*views)) if views else None,
        correlations={
            name: correlate(points.numpy(), axis, values) for name, values in numbers.items()
        },
        singular_values=tuple((singular_values(points) / len(points) ** 0.5).tolist()),
    )


def require_same_targets(models: Sequence[tuple[str, Task]]) -> None:
    """Raise a `ConfigError` if models, given with their names, predict different targets; those
    without any can be compared with all."""
    learned = [
        (name, ", ".join(target.learned_name for target in task.targets))
        for name, task in models
        if task.targets
    ]
    for name, its in learned:
        first, mine = learned[0]
        if its != mine:
            raise ConfigError(
                f"{first} predicts {mine}, and {name} {its}: only models of the same targets can "
                "be compared"
            )


def _require_same_molecules(models: Sequence[ModelOnMolecules]) -> None:
    if not models:
        raise ConfigError("there is no model to analyze")
    first, *others = models
    if len(first.graphs) < 2:
        raise ConfigError(f"an analysis needs two molecules or more; got {len(first.graphs)}")
    require_same_targets([(each.name, each.model.task) for each in models])
    for other in others:
        if not _same_molecules(first, other):
            raise ConfigError(
                f"{first.name} and {other.name} have different molecules, because their splits "
                "differ: choose the same molecules for all, for example by --split all"
            )


def _same_molecules(one: ModelOnMolecules, other: ModelOnMolecules) -> bool:
    """Compare sizes and labels, and SMILES if both have them."""
    if one.smiles is not None and other.smiles is not None and one.smiles != other.smiles:
        return False
    sizes = [each.store.sizes[each.graphs] for each in (one, other)]
    return np.array_equal(*sizes) and np.array_equal(one.labels, other.labels, equal_nan=True)
