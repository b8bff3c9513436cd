"""The geometry of what trained networks make of molecules, layer by layer, run beside run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from molsepnorm.errors import ConfigError, prefixed, require_several
from molsepnorm.model import PropertyModel
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.dropout import draws_at_random, dropout_alone
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.observe import embedding_sites, layer_embeddings
from molsepnorm.predict.inference import infer, pick_device
from molsepnorm.tasks import Target
from molsepnorm.tasks.metrics.spread import mean_and_sd

__all__ = ["ATOMS", "MEASURES", "TOKEN", "Analysis", "Cloud", "Run", "Subject", "analyze"]

TOKEN, ATOMS = "graph token", "mean of atoms"
"""What is looked at of a molecule."""

MEASURES = {
    "effective_rank": "effective rank",
    "uniformity": "uniformity",
    "alignment": "alignment",
    "mean_cosine": "mean cosine",
    "outlier_share": "outliers",
}
"""Of a `Cloud`, in the order of a summary, by how a person calls them."""

_ROWS = (TOKEN, ATOMS)  # of what `nn.observe.layer_embeddings` gives of a molecule
_SEED = 0  # of the dropout views
_MOST_TARGETS = 3  # that are correlated with embeddings: of hundreds nobody reads a table


@dataclass(frozen=True)
class Subject:
    """A trained model and the molecules that it is shown."""

    name: str
    group: str
    """Runs of the same group differ by their seed alone, say, and are told of together."""
    model: PropertyModel
    store: GraphStore
    """Of molecules encoded for this model."""
    graphs: np.ndarray
    """int64 [n]: which; the same molecules for all subjects."""
    labels: np.ndarray
    """float32 [n, T]: their labels."""
    smiles: tuple[str, ...] | None = None
    """Of each, where the source has them."""


@dataclass(frozen=True)
class Cloud:
    """n molecules' embeddings at one place of a network, in numbers; `geometry.measures` defines
    them."""

    site: str
    """Of `nn.observe.embedding_sites`."""
    of: str
    """`TOKEN` or `ATOMS`."""
    effective_rank: float
    uniformity: float
    mean_cosine: float
    outlier_share: float
    """Of the 5 % of the molecules that are furthest away."""
    alignment: float | None
    """Of two views that differ by dropout; None where the network has none."""
    correlations: dict[str, Correlation | None]
    """By `Analysis.numbers`."""
    singular_values: tuple[float, ...]
    """Divided by √n: standard deviations along the principal axes."""


@dataclass(frozen=True)
class Run:
    """What was found of a subject."""

    name: str
    group: str
    clouds: tuple[Cloud, ...]
    """Layer by layer, the graph token's and, where there is one, the atoms'."""
    read: str
    """`TOKEN` or, where the network does not read that, `ATOMS`: whose map this is."""
    places: np.ndarray
    """float64 (n, 2): its embeddings, at the end, along their two longest axes."""
    shares: tuple[float, float]
    """Of the variance, along these."""

    def cloud(self, of: str = TOKEN, site: str | None = None) -> Cloud | None:
        """The one at a site, by default the last; None where there is none."""
        mine = [each for each in self.clouds if each.of == of and site in (None, each.site)]
        return mine[-1] if mine else None


@dataclass(frozen=True)
class Analysis:
    """What was found of all subjects."""

    runs: tuple[Run, ...]
    sizes: np.ndarray
    """int64 [n]: atoms of each molecule."""
    labels: np.ndarray
    """float32 [n, T]."""
    targets: tuple[str, ...]
    smiles: tuple[str, ...] | None
    """Of each molecule, where the source has them."""
    numbers: tuple[str, ...]
    """What embeddings are correlated with: size, in atoms, and targets."""
    colour: str
    """The target that colours a map."""
    classes: tuple[str, ...] = ()
    """Of that target, where it has several."""

    @property
    def groups(self) -> tuple[str, ...]:
        """In the order in which they were given."""
        return tuple(dict.fromkeys(run.group for run in self.runs))

    def of_group(self, group: str) -> tuple[Run, ...]:
        """Its runs."""
        return tuple(run for run in self.runs if run.group == group)

    def summary(self, of: str = TOKEN) -> dict[str, dict[str, dict[str, float | None]]]:
        """Group -> measure -> mean and unbiased standard deviation over its runs, at the end.

        The measures are those of `Cloud`, and each of `numbers` with the linear correlation.
        """
        return {
            group: {name: mean_and_sd(values) for name, values in self._ends(group, of)}
            for group in self.groups
        }

    def to_json(self) -> dict[str, Any]:
        """Everything but the molecules' places."""
        return {
            "molecules": len(self.sizes),
            "summary": {of: self.summary(of) for of in (TOKEN, ATOMS)},
            "runs": [
                {
                    "name": run.name,
                    "group": run.group,
                    "read": run.read,
                    "clouds": [_json(cloud) for cloud in run.clouds],
                }
                for run in self.runs
            ],
        }

    def _ends(self, group: str, of: str) -> Iterator[tuple[str, list[float | None]]]:
        clouds = [cloud for run in self.of_group(group) if (cloud := run.cloud(of)) is not None]
        for name in MEASURES:
            yield name, [getattr(cloud, name) for cloud in clouds]
        for name in self.numbers:
            found = [cloud.correlations[name] for cloud in clouds]
            yield name, [None if each is None else each.linear for each in found]


def analyze(
    subjects: Sequence[Subject],
    device: str = "auto",
    told: Callable[[str], None] = lambda name: None,
    targets: Sequence[str] | None = None,
) -> Analysis:
    """Measure the graph token's embeddings, and the mean of the atoms', layer by layer.

    >>> analysis = analyze([Subject("run", "run", model, store, graphs)])     # doctest: +SKIP
    >>> analysis.runs[0].cloud().effective_rank                               # doctest: +SKIP
    21.3

    Args:
        subjects: one or more, all with the same molecules and targets.
        device: where to run the networks, and where they stay: auto, cpu, cuda, …
        told: is told the name of each subject when its turn comes.
        targets: with which the embeddings are correlated, those of several classes left out, and
            of which the first one colours the maps; by default the first three.

    Raises:
        ConfigError: no such device or target, no subject, fewer than two molecules, or the
            subjects' targets or molecules are not the same.
        DataError: a network makes infinite embeddings, or NaN.
    """
    _require_same_molecules(subjects)
    place = pick_device(device)
    first = subjects[0]
    sizes = first.store.sizes[first.graphs]
    labels = np.asarray(first.labels)
    chosen = _chosen_targets(first.model.task.targets, targets)
    numbers = {"size": sizes.astype(float)}
    for target in chosen:
        if target.kind != "multiclass":
            column = first.model.task.names.index(target.name)
            numbers[target.name] = labels[:, column].astype(float)
    runs = []
    for subject in subjects:
        told(subject.name)
        with prefixed(subject.name):
            runs.append(_run(subject, numbers, place))
    return Analysis(
        tuple(runs),
        sizes,
        labels,
        first.model.task.names,
        first.smiles,
        numbers=tuple(numbers),
        colour=chosen[0].name,
        classes=chosen[0].classes,
    )


def _chosen_targets(every: Sequence[Target], names: Sequence[str] | None) -> list[Target]:
    """Those with these names; by default the first ones that are no classes, or else the first.

    Raises:
        ConfigError: there is no such target.
    """
    if names is None:
        numbers = [target for target in every if target.kind != "multiclass"]
        return (numbers or list(every[:1]))[:_MOST_TARGETS]
    require_several(names, "targets")
    known = {target.name: target for target in every}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"the model predicts {', '.join(known)}, and not {', '.join(unknown)}")
    return [known[name] for name in names]


def _run(subject: Subject, numbers: dict[str, np.ndarray], place: torch.device) -> Run:
    network = subject.model.network.to(place)
    tensors = GraphTensors.of(subject.store, place)
    embedded = partial(_embedded, network, tensors, subject.graphs)
    points = embedded(partial(layer_embeddings, network))  # (n, 2, sites, C)
    views: list[Tensor] = []
    if draws_at_random(network):
        with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
            torch.manual_seed(_SEED)
            views = [embedded(partial(_with_dropout, network)) for _ in range(2)]
    clouds = []
    for index, site in enumerate(embedding_sites(network)):
        for row, of in enumerate(_ROWS):
            here = points[:, row, index]
            if not here.isnan().any():
                pair = [view[:, row, index] for view in views]
                clouds.append(_cloud(site, of, here, pair, numbers))
    read = TOKEN if network.config.readout.startswith("token") else ATOMS
    places, shares = principal_map(points[:, _ROWS.index(read), -1])
    return Run(
        subject.name,
        subject.group,
        clouds=tuple(clouds),
        read=read,
        places=places.numpy(),
        shares=tuple(shares.tolist()),
    )


def _embedded(
    network: Graphormer,
    tensors: GraphTensors,
    graphs: np.ndarray,
    call: Callable[[GraphBatch], Tensor],
) -> Tensor:  # (n, 2, sites, C)
    return infer(network, tensors, graphs, call=call)


def _with_dropout(network: Graphormer, batch: GraphBatch) -> Tensor:  # (B, 2, sites, C)
    with dropout_alone(network):
        return layer_embeddings(network, batch)


def _cloud(
    site: str, of: str, points: Tensor, views: list[Tensor], numbers: dict[str, np.ndarray]
) -> Cloud:
    places, _ = principal_map(points)
    axis = places[:, 0].numpy()
    return Cloud(
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


def _require_same_molecules(subjects: Sequence[Subject]) -> None:
    if not subjects:
        raise ConfigError("there is no model to analyze")
    first, *others = subjects
    if len(first.graphs) < 2:
        raise ConfigError(f"a geometry needs two molecules or more; got {len(first.graphs)}")
    for other in others:
        if other.model.task.names != first.model.task.names:
            raise ConfigError(
                f"{first.name} predicts {', '.join(first.model.task.names)}, and {other.name} "
                f"{', '.join(other.model.task.names)}: runs of the same targets can be compared"
            )
        if not _same_molecules(first, other):
            raise ConfigError(
                f"{first.name} and {other.name} are shown different molecules, as runs are whose "
                "splits differ: choose the same for all, such as --split all"
            )


def _same_molecules(one: Subject, other: Subject) -> bool:
    """By sizes and labels, and by SMILES where both have them."""
    if one.smiles is not None and other.smiles is not None and one.smiles != other.smiles:
        return False
    sizes = [each.store.sizes[each.graphs] for each in (one, other)]
    return np.array_equal(*sizes) and np.array_equal(one.labels, other.labels, equal_nan=True)


def _json(cloud: Cloud) -> dict[str, Any]:
    correlations = {
        name: None if found is None else vars(found) for name, found in cloud.correlations.items()
    }
    return {**vars(cloud), "correlations": correlations}
