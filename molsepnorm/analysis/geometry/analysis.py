"""Statistics of the embeddings of trained models, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molsepnorm.analysis.geometry.measures import (
    alignment,
    correlate,
    effective_rank,
    mean_cosine,
    outlier_share,
    singular_values,
    uniformity,
)
from molsepnorm.analysis.observe import embedding_sites, layer_embeddings
from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.store import GraphStore
from molsepnorm.devices import pick_device
from molsepnorm.errors import ConfigError, ModelError, prefixed, require_several
from molsepnorm.model import ExtraArrays, Inputs, PropertyModel
from molsepnorm.model.parts import infer
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.dropout import draws_at_random, dropout_alone
from molsepnorm.pretrained import resolve
from molsepnorm.tasks import Task
from molsepnorm.tasks.metrics import mean_and_sd
from molsepnorm.training.evaluation import select
from molsepnorm.training.recipes import load_config
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.scoring import drawn

TOKEN, ATOMS = "graph token", "mean of atoms"  # as in `analysis.observe.layer_embeddings`

MEASURES = {
    "effective_rank": "effective rank",
    "uniformity": "uniformity",
    "alignment": "alignment",
    "mean_cosine": "mean cosine",
    "outlier_share": "outliers",
}
"""Fields of `EmbeddingStatistics`, and their names in the table and the figure."""

_MAX_TARGETS = 3  # correlated with the embeddings by default


@dataclass(frozen=True)
class ModelOnMolecules:
    """A trained model and the molecules to embed."""

    name: str
    group: str
    """Runs of a group, which differ only in their seed, are summarised together."""
    model: PropertyModel
    store: GraphStore
    """Molecules encoded for this model."""
    graphs: np.ndarray
    """int64 [n], indices of the molecules, which are the same for all models."""
    labels: np.ndarray
    """float32 [n, T]; NaN for missing labels and bounds."""
    smiles: tuple[str, ...] | None = None
    """SMILES of the molecules, if the source has them."""
    extra: ExtraArrays | None = None
    """The inputs of the model beside the graphs."""


@dataclass(frozen=True)
class EmbeddingStatistics:
    """Statistics of n embeddings at one site of a network; see `geometry.measures`."""

    site: str
    """One of `analysis.observe.embedding_sites`."""
    of: str
    """`TOKEN` or `ATOMS`."""
    effective_rank: float
    uniformity: float
    mean_cosine: float
    outlier_share: float
    """Share of the variance that the 5 % furthest molecules have."""
    alignment: float | None
    """Alignment of two views with different dropout; None for networks without dropout."""
    correlations: dict[str, float | None]
    """See `correlate`: with the size in atoms and with the learned values of targets. A target
    called "size" or like one of `MEASURES` is named "target size" here."""
    singular_values: tuple[float, ...]
    """Divided by √n: standard deviations along the principal axes."""

    def value(self, name: str) -> float | None:
        """Return one of `MEASURES`, or the linear correlation with a number."""
        return getattr(self, name) if name in MEASURES else self.correlations[name]


@dataclass(frozen=True)
class AnalysedRun:
    name: str
    group: str
    statistics: tuple[EmbeddingStatistics, ...]
    """At each site, of the graph token and, where it is computed, of the mean of atoms."""

    def at(self, of: str = TOKEN, site: str | None = None) -> EmbeddingStatistics | None:
        """Return the statistics at a site, by default the last one."""
        found = [each for each in self.statistics if each.of == of and site in (None, each.site)]
        return found[-1] if found else None


@dataclass(frozen=True)
class Analysis:
    runs: tuple[AnalysedRun, ...]
    molecules: int

    @property
    def titles(self) -> dict[str, str]:
        """Titles of all statistics by name, see `EmbeddingStatistics.value`."""
        numbers = self.runs[0].statistics[0].correlations
        return MEASURES | {name: f"r, {name}" for name in numbers}

    @property
    def groups(self) -> dict[str, list[AnalysedRun]]:
        groups: dict[str, list[AnalysedRun]] = {}
        for run in self.runs:
            groups.setdefault(run.group, []).append(run)
        return groups

    def summary(self, of: str = TOKEN) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return group -> statistic -> mean and unbiased standard deviation, at the last site."""
        summary = {}
        for group, runs in self.groups.items():
            last = [found for run in runs if (found := run.at(of)) is not None]
            summary[group] = {
                name: mean_and_sd([each.value(name) for each in last]) for name in self.titles
            }
        return summary

    def table(self) -> list[list[str]]:
        """Return a row of groups, and a row for each statistic of the graph token: mean ± sd."""

        def cell(mean: float | None, sd: float | None) -> str:
            if mean is None:
                return "—"
            return f"{mean:.3g}" if sd is None else f"{mean:.3g} ± {sd:.2g}"

        columns = self.summary().values()
        rows = [["", *self.groups], ["runs", *(str(len(runs)) for runs in self.groups.values())]]
        for name, title in self.titles.items():
            rows.append([title, *(cell(**column[name]) for column in columns)])
        return rows

    def to_json(self) -> dict[str, Any]:
        summary = {of: self.summary(of) for of in (TOKEN, ATOMS)}
        return {"molecules": self.molecules, "summary": summary, "runs": [*map(asdict, self.runs)]}


def load_models(
    folders: Sequence[Path | str],
    data: DataConfig | None = None,
    split: str | None = None,
    max_molecules: int = 2000,
) -> list[ModelOnMolecules]:
    """Load models, and the same molecules for all.

    Args:
        folders: folders of runs or models. An ablation or a benchmark stands for all its finished
            runs; those that differ only in their seed are one group.
        data: the molecules; labels are not needed. By default the data of the first run.
        split: train, val, test, or all. By default val, or all for a table that the run was not
            trained on.
        max_molecules: from a larger split, the same random molecules are selected each time.
    """
    require_several(folders, "folders")
    runs = [run for folder in folders for run in _runs_in(resolve(folder).resolve())]
    paths = [path for path, _ in runs]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise ConfigError(f"{twice[0]} is given twice")
    names, groups = _names(paths), _names(dict.fromkeys(group for _, group in runs))
    data = data or _own_data(paths[0])
    models = []
    for run, group in runs:
        with prefixed(run):
            model, dataset, extra, _, graphs, _ = select(run, data, split, labelled=False)
        graphs = drawn(graphs, max_molecules)
        if dataset.targets and not model.task.targets:  # pre-trained without labels
            task = Task.fit(dataset.targets, dataset.labels, "loss", strict=False)
            model = replace(model, task=task, weights=np.ones(1))
        smiles = dataset.source_smiles
        if smiles is not None:
            smiles = tuple(smiles[row] for row in dataset.store.rows[graphs])
        molecules = dataset.store, graphs, dataset.exact_labels[graphs], smiles, extra
        models.append(ModelOnMolecules(names[run], groups[group], model, *molecules))
    return models


def _runs_in(folder: Path) -> list[tuple[Path, Path]]:
    """Return the model in a folder, or all finished runs below it, each with its group's folder."""

    def holds_model(path: Path) -> bool:
        return (path / "config.json").is_file() or (path / "model" / "config.json").is_file()

    if holds_model(folder):
        return [(folder, folder)]
    runs: list[Path] = []
    for pattern in ("*", "*/*", "*/*/*"):  # ABLATION/VARIANT/SEED
        for path in sorted(folder.glob(pattern)):
            is_run = (path / "metrics.json").is_file() and holds_model(path)
            if is_run and not any(outer in path.parents for outer in runs):
                runs.append(path)
    if not runs:
        raise ModelError(f"{folder} holds neither a model nor finished runs")
    return [(run, run.parent) for run in sorted(runs)]


def _names(folders: Iterable[Path]) -> dict[Path, str]:
    """Return the shortest ends of paths that distinguish the folders.

    >>> list(_names([Path("runs/a/seed-0"), Path("runs/b/seed-0")]).values())
    ['a/seed-0', 'b/seed-0']
    """
    folders, count = list(folders), 1
    while len(set(names := ["/".join(each.parts[-count:]) for each in folders])) < len(names):
        count += 1
    return dict(zip(folders, names, strict=True))


def _own_data(folder: Path) -> DataConfig:
    run = RunFolder.of_model(folder)
    if run is None:
        raise ConfigError(
            f"{folder} is a model without a run, so its data are unknown: give "
            "--dataset NAME or --data FILE.csv"
        )
    return load_config(config=run.config).data.model_copy(update={"targets": None})


def analyze(
    models: Sequence[ModelOnMolecules],
    device: str = "auto",
    progress: Callable[[str], None] = lambda name: None,
    targets: Sequence[str] | None = None,
) -> Analysis:
    """Compute statistics of the graph token and of the mean of atoms, layer by layer.

    Args:
        models: one or more models, all with the same two or more molecules and the same targets.
        device: the device for the networks, which they stay on.
        progress: called with the name of each model before it is analysed.
        targets: regression or binary targets to correlate with the embeddings; by default the
            first three.

    Raises:
        DataError: an embedding is not finite.
    """
    _require_same_molecules(models)
    on, numbers, runs = pick_device(device), _numbers(models[0], targets), []
    for each in models:
        progress(each.name)
        with prefixed(each.name):
            runs.append(AnalysedRun(each.name, each.group, tuple(_statistics(each, numbers, on))))
    return Analysis(tuple(runs), len(models[0].graphs))


def _numbers(one: ModelOnMolecules, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    task = one.model.task
    known = {target.name: target for target in task.targets if target.kind != "multiclass"}
    if names is None:
        names = [*known][:_MAX_TARGETS]
    require_several(names, "targets")
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"the numbers that the model predicts are {', '.join(known) or 'none'}, and not "
            f"{', '.join(unknown)}"
        )
    numbers = {"size": one.store.sizes[one.graphs].astype(float)}
    for target in names:
        name = known[target].learned_name
        while name in numbers or name in MEASURES:
            name = f"target {name}"
        numbers[name] = one.labels[:, task.names.index(target)].astype(float)
    return numbers


def _statistics(
    one: ModelOnMolecules, numbers: dict[str, np.ndarray], device: torch.device
) -> Iterator[EmbeddingStatistics]:
    network = one.model.network.to(device)
    tensors = one.model.graphs(Inputs.of(one.store, one.extra, device))

    def with_dropout(batch: GraphBatch) -> Tensor:
        with dropout_alone(network):
            return layer_embeddings(network, batch)

    call = partial(layer_embeddings, network)
    embeddings = infer(network, tensors, one.graphs, call=call)  # (n, 2, sites, C)
    views: list[Tensor] = []
    if draws_at_random(network):
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(0)
            views = [infer(network, tensors, one.graphs, call=with_dropout) for _ in range(2)]
    for index, site in enumerate(embedding_sites(network)):
        for row, of in enumerate((TOKEN, ATOMS)):
            x = embeddings[:, row, index]
            if of == ATOMS and x.isnan().all():  # the layer computes the graph token only
                continue
            yield EmbeddingStatistics(
                site=site,
                of=of,
                effective_rank=effective_rank(x),
                uniformity=float(uniformity(x)),
                mean_cosine=mean_cosine(x),
                outlier_share=outlier_share(x),
                alignment=float(alignment(*(v[:, row, index] for v in views))) if views else None,
                correlations={name: correlate(x, values) for name, values in numbers.items()},
                singular_values=tuple((singular_values(x) / len(x) ** 0.5).tolist()),
            )


def _require_same_molecules(models: Sequence[ModelOnMolecules]) -> None:
    if not models:
        raise ConfigError("there is no model to analyze")
    first, *others = models
    if len(first.graphs) < 2:
        raise ConfigError(f"an analysis needs two molecules or more; got {len(first.graphs)}")
    for other in others:
        mine, theirs = (
            [target.learned_name for target in one.model.task.targets] for one in (first, other)
        )
        if mine != theirs:
            raise ConfigError(
                f"{first.name} predicts {', '.join(mine) or 'nothing'}, and {other.name} "
                f"{', '.join(theirs) or 'nothing'}: only models of the same targets can be compared"
            )
        if (
            first.smiles != other.smiles
            or not np.array_equal(*(one.store.sizes[one.graphs] for one in (first, other)))
            or not np.array_equal(first.labels, other.labels, equal_nan=True)
        ):
            raise ConfigError(
                f"{first.name} and {other.name} have different molecules, because their splits "
                "differ: choose the same molecules for all, for example by --split all"
            )
