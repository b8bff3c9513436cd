"""`evaluate`: scores of a trained model on data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig, Dataset
from molsepnorm.devices import Precision, pick_device
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.model import ExtraArrays, Inputs, PropertyModel
from molsepnorm.pretrained import resolve
from molsepnorm.tasks import check_labels
from molsepnorm.tasks.transforms import NO_TRANSFORM
from molsepnorm.training.inputs import with_inputs
from molsepnorm.training.recipes import load_config
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.scoring import dataset_scores, scored_together

_READ = (
    *("smiles_column", "decimal", "encoding", "sheet", "header_row"),
    *("missing_values", "relation_column", "unit_column", "limits"),
)
"""Settings that say how a table is read."""


class Evaluation(NamedTuple):
    """The result of `evaluate`."""

    dataset: Dataset
    split: str
    molecules: int
    """Number of scored molecules."""
    not_finite: int
    """Number of molecules with a prediction that is not finite; its target has no scores."""
    leak: str | None
    """Why the scores are too optimistic, if they are."""
    labels: dict[str, dict[str, Any]]
    """Scale and number of bounds of a target's labels, see `Dataset.about_labels`."""
    intervals: dict[str, tuple[float, float]]
    """95 % intervals of the scores, see `molsepnorm.tasks.Task.intervals`."""
    scores: dict[str, float]
    """Scores by metric, see `molsepnorm.tasks.Task.scores`."""


class Selection(NamedTuple):
    """A model, and molecules encoded for it: `graphs`, int64 [n], are indices into the store."""

    model: PropertyModel
    dataset: Dataset
    extra: ExtraArrays
    split: str
    graphs: np.ndarray
    leak: str | None  # why scores on them are too optimistic


def evaluate(
    model: PropertyModel | Path | str,
    data: DataConfig,
    split: str | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    allow_leak: bool = False,
) -> Evaluation:
    """Score a model on a split of a data set, or on all its molecules.

    Args:
        model: a model, its folder, or the name of a shipped one. With a run folder and the table
            of that run, the split is the same as in training.
        data: the data set. A table may lack the columns of some targets of the model, which then
            have no scores.
        split: train, val, test or all. The default is test; for a table it is all, unless `model`
            is the folder of a run that was trained on it.
        device: auto (a GPU if there is one), cpu, cuda, cuda:1, …; the model stays there.
        precision: precision of matrix products: fp32, tf32 on a GPU, or bf16.
        allow_leak: score the model even on a data set that it must not be evaluated on.

    Raises:
        ConfigError: unknown split or device, the data set has other targets than the model, or the
            model must not be evaluated on it.
        DataError: the data cannot be loaded or used, or changed since the run began.
        ModelError: the folder does not hold a complete model.
    """
    chosen = pick_device(device)
    model, dataset, extra, split, graphs, leak = select(model, data, split, allow_leak=allow_leak)
    labels = dataset.exact_labels[graphs]
    check_labels(model.task.targets, labels)
    model.to(chosen)
    inputs = Inputs.of(dataset.store, extra, chosen)
    predictions = model.predict(inputs, graphs, precision).values
    scores = dataset_scores(dataset, model.task, predictions, labels)
    units = dataset.molecule_ids if split == "all" else scored_together(dataset)
    ends = model.task.intervals(predictions, labels, molecules=units[graphs])
    intervals = {name: ends[name] for name in ends if np.isfinite(scores[name])}
    not_finite = int((~np.isfinite(predictions).all(axis=1)).sum())
    about = dataset.about_labels({split: graphs})
    return Evaluation(dataset, split, len(graphs), not_finite, leak, about, intervals, scores)


def select(
    model: PropertyModel | Path | str,
    data: DataConfig,
    split: str | None = None,
    labelled: bool = True,
    allow_leak: bool = False,
) -> Selection:
    """Load a model and the molecules of a split, `labelled` if they are scored; see `evaluate`.
    Molecules that are not scored are by default those of val."""
    names = (*datasets.SPLITS, "all")
    if split is not None and split not in names:
        raise ConfigError(f"unknown split '{split}': choose one of {', '.join(names)}")
    folder = None
    if not isinstance(model, PropertyModel):
        folder, model = resolve(model), PropertyModel.from_pretrained(model)
    if data.targets is not None and sorted(data.targets) == sorted(model.task.names):
        data = data.model_copy(update={"targets": [*model.task.names]})
    run = _run_on(data, folder, model)
    if run is not None:
        data = load_config(config=run.config).data
        if data.splits_file is not None:  # the original may have changed
            data = data.model_copy(update={"splits_file": run.splits, "fold": 0})
    elif data.table is not None:
        if folder is not None and split not in (None, "all"):
            raise ConfigError(
                f"{data.table} has no split '{split}': the model has not seen it (--split all)"
            )
        split = split or "all"
    split = split or ("test" if labelled else "val")
    if labelled:
        model.require_targets()
    leak = model.leak(data.dataset, allow=allow_leak or not labelled)
    dataset, extra = _load(data, model, split, labelled)
    if run is not None and split != "all":
        run.require_same_data(dataset)
    graphs = dataset.splits[split]
    if model.inputs.columns and not len(graphs):
        raise DataError(f"{dataset.name} has no row to score: {dataset.warnings[-1]}")
    if labelled and len(model.task.names) > 1:
        dataset = _with_labels(dataset, graphs)
    if run is not None:
        leak = _seen(run, split)
    elif labelled and leak is None:
        leak = _trained_on(model, dataset, graphs)
    return Selection(model, dataset, extra, split, graphs, leak)


def _run_on(data: DataConfig, folder: Path | None, model: PropertyModel) -> RunFolder | None:
    """Return the run in a model's folder if it was trained on this table and these columns."""
    if folder is None or data.table is None or (run := RunFolder.of_model(folder)) is None:
        return None
    trained = load_config(config=run.config).data
    if trained.table != data.table.resolve():
        return None
    for name in (*_READ, "targets"):
        value = getattr(data, name)
        expected = [*model.task.names] if name == "targets" else getattr(trained, name)
        if value not in (expected, DataConfig.model_fields[name].default):
            raise ConfigError(
                f"{run.path} was trained on this table with data.{name} {expected}, and its split "
                f"is scored with the same; got {value}: leave it out, or use a copy of the table"
            )
    return run


def _load(
    data: DataConfig, model: PropertyModel, split: str, labelled: bool
) -> tuple[Dataset, ExtraArrays]:
    if split != "all" and data.split is None and not data.in_memory:
        raise ConfigError(
            f"data.split: null means no split '{split}': set data.split, or choose the split all"
        )
    data = _fit_to_model(data, model)
    if split == "all":
        data = data.model_copy(update={"split": None})
    several = len(model.task.names) > 1  # then some may have no column
    dataset = datasets.load(data, model.encoding, labelled and not several, for_training=False)
    _require_same_targets(data, dataset, model, labelled)
    if split == "all":
        dataset = replace(dataset, splits={"all": dataset.molecules})
    if split == "test" and not dataset.has_test:
        raise ConfigError(
            f"{dataset.name} has no test split: score another table or split (--split val)"
        )
    reads, molecules = replace(model.inputs, predicted=()), model.molecules
    dataset, extra = with_inputs(dataset, reads, molecules=molecules)
    if model.auxiliary:
        device = model.auxiliary[0].network.embedding.graph_token.device
        extra = model.completed(Inputs.of(dataset.store, extra, device)).extra
    return dataset, extra


def _fit_to_model(data: DataConfig, model: PropertyModel) -> DataConfig:
    changes: dict[str, Any] = {"featurizer": model.featurizer, "standardize": model.standardize}
    if data.table is None:
        featurizer = datasets.featurizer_of(data)
        for holds, problem in (
            (model.inputs.columns, f"feature columns ({', '.join(model.inputs.names)})"),
            (featurizer != model.featurizer, f"{model.featurizer} features, not {featurizer}"),
            (model.standardize != "none", f"standardised structures ({model.standardize})"),
        ):
            if holds:
                raise ConfigError(
                    f"the model reads {problem}, which {data.dataset} does not have: use a table"
                )
        return data
    names = data.targets or list(model.task.names)
    if not names:  # of a model from pre-training: the SMILES are enough
        return data.model_copy(update={"table": None, "structures": [data.table], **changes})
    known = [target for target in model.task.targets if target.name in names]
    changes |= {
        "feature_columns": model.inputs.declared,
        "targets": names,
        "task_type": {target.name: target.kind for target in known},
        "classes": {t.name: list(t.classes) for t in known if t.classes},
        "transform": {t.name: t.transform for t in known if t.transform != NO_TRANSFORM},
    }
    return data.model_copy(update=changes)


def _require_same_targets(
    data: DataConfig, dataset: Dataset, model: PropertyModel, labelled: bool
) -> None:
    targets = model.task.targets
    if targets and dataset.target_names != model.task.names:
        advice = "" if data.table is None else ": leave data.targets out"
        raise ConfigError(
            f"the model predicts {', '.join(model.task.names)}, and the data have "
            f"{', '.join(dataset.target_names)}{advice}"
        )
    for target, other in zip(targets, dataset.targets, strict=False) if labelled else ():
        if target.kind == other.kind and target.classes != other.classes:
            raise ConfigError(
                f"the model predicts the probability of {target.positive_class} of "
                f"'{target.name}', and {dataset.name} has the classes "
                f"{', '.join(other.classes) or '0, 1'}: write the labels as in the training table"
            )
        if target.transform not in (NO_TRANSFORM, other.transform):
            raise ConfigError(
                f"the model predicts transformed values ({target.transform}), and the labels of "
                f"{dataset.name} are not transformed: use a table"
            )


def _with_labels(dataset: Dataset, graphs: np.ndarray) -> Dataset:
    """Warn of targets without a label among the molecules (n,); no label at all is an error."""
    has_label = np.isfinite(dataset.labels[graphs]).any(axis=0)
    names = ", ".join(np.array(dataset.target_names)[~has_label])
    if not has_label.any():
        raise DataError(
            f"{dataset.name} has no label of {names}, the targets of the model: use another table"
        )
    warnings = [f"Not scored: {names}, since no row has a label."] * (not has_label.all())
    return replace(dataset, warnings=(*dataset.warnings, *warnings))


def _seen(run: RunFolder, split: str) -> str | None:
    """Return why the scores of a run's model on a split are too optimistic, if they are."""
    if split not in ("val", "test"):
        some = "some of " if split == "all" else ""
        return f"the model is trained on {some}these molecules"
    if (metrics := run.written_metrics()) is None:
        return None
    reasons = metrics.leaks
    if split == "val" and metrics.refit:
        reasons.append(
            f"the model is fitted to these molecules, too ({', '.join(metrics.refit)}). "
            "metrics.json has the scores of the model before that"
        )
    return "; ".join(reasons) or None


def _trained_on(model: PropertyModel, dataset: Dataset, graphs: np.ndarray) -> str | None:
    """Return how many of these molecules (n,) the model was trained on, if any."""
    if not model.structures or dataset.smiles is None:
        return None
    smiles = dataset.smiles_of(graphs)
    count = int(model.training_molecules().holds(smiles, model.standardize).sum())
    return f"the model is trained on {count:,} of these molecules" if count else None
