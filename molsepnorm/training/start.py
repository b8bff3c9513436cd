"""The model that training starts from, the scored molecules that it knows, and its weights.

The body is loaded as it is, which needs the same featuriser and architecture. The head, which
computes the outputs, is loaded target by target: one of the same name, kind, classes and transform
keeps its outputs if its labels fit them (`unfit_targets`), other targets start with new weights.
The head of a pre-trained model is not loaded. A head reads new inputs with weights of 0 at first.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig, Dataset
from molsepnorm.errors import ConfigError, ModelError, MolsepnormError, counted
from molsepnorm.model import SUPERVISED, ExtraArrays, Inputs, PropertyModel, weights_digest
from molsepnorm.model.folder import find_folder
from molsepnorm.model.parts import NetworkPart
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.molecules.featurize.standardize import LEVELS, Level, molecule_key
from molsepnorm.nn.config import FROM_DATA
from molsepnorm.nn.parts import BIAS, INTERACTIONS, WEIGHT, in_head
from molsepnorm.pretrained import resolve
from molsepnorm.tasks import Target
from molsepnorm.tasks.inputs import names_text
from molsepnorm.training.config import FREE, FinetuneConfig, TrainConfig, other_architecture
from molsepnorm.training.recipes import architecture, load_config
from molsepnorm.training.run_folder.folder import LoadedWeights, RunFolder

_LIMIT = 2.0  # see `unfit_targets`; even a start that was hardly trained has an RMSE of √2
_OF_TABLE = {*FROM_DATA} - {"atom_sizes", "bond_sizes"}  # settings that may differ from the start's
_MAX_MOLECULES = 1000  # whose labels are compared with the predictions of the start
_MAX_KNOWN = 0.05  # share of the validation and test molecules that a start may know
_EPOCHS, _EPOCHS_OF_CLASSES = 15, 5  # of a table; see benchmarks/pretraining/README.md
_key = lru_cache(maxsize=100_000)(molecule_key)


def starting_model(config: TrainConfig) -> PropertyModel | None:
    """Return the model to start from, if any."""
    start, name = _open_start(config.finetune), config.finetune.start
    if start is None:
        return None
    start.leak(config.data.dataset, config.finetune.allow_leak)
    featurizer = datasets.featurizer_of(config.data)
    if start.featurizer != featurizer:
        raise ConfigError(
            f"{name} was trained with the featuriser '{start.featurizer}', and the data have "
            f"'{featurizer}': start from a model with the features of the data"
        )
    wanted = asdict(architecture(config))
    wrong = [
        f"model.{key} is {value}, not {wanted[key]}"
        for key, value in asdict(start.network.config).items()
        if key not in FREE and key not in _OF_TABLE and value != wanted[key]
    ]
    if wrong:
        raise other_architecture(name, wrong)
    # the network of a kernel regression has no outputs, so its head is not loaded
    part = start.network_part or NetworkPart(start.network)
    auxiliary = start.auxiliary if part.reads.predicted else ()
    return replace(start, parts=(part,), weights=np.ones(1), calibration=(), auxiliary=auxiliary)


def _open_start(config: FinetuneConfig) -> PropertyModel | None:
    """Read the model that a run starts from; None for random weights."""
    if config.start is None:
        for name, field in FinetuneConfig.model_fields.items():
            if getattr(config, name) != field.default:
                raise ConfigError(
                    f"finetune.{name} has no effect without a model to start from (--from)"
                )
        return None
    model = PropertyModel.from_pretrained(config.start)
    digest = weights_digest(config.start)
    if config.weights_sha256 not in (None, digest):
        raise ModelError(
            f"the weights of {config.start} have the digest {digest[:12]}…, and "
            f"finetune.weights_sha256 is {str(config.weights_sha256)[:12]}…: put that model back, "
            "or name this one as finetune.start again"
        )
    return model


def with_epochs(config: TrainConfig, dataset: Dataset) -> TrainConfig:
    """Return the settings with a number of epochs that suits the targets, if they have none."""
    if config.run.epochs is not None:
        return config
    numbers = all(target.kind == "regression" for target in dataset.targets)
    return config.changed({"run.epochs": _EPOCHS if numbers else _EPOCHS_OF_CLASSES})


def with_unseen_start(config: TrainConfig, dataset: Dataset) -> tuple[TrainConfig, Dataset]:
    """Return the settings with `finetune.otherwise` as the start, and the data with a warning about
    it, if `finetune.start` was trained on more than 5 % of the validation and test molecules."""
    start, other = config.finetune.start, config.finetune.otherwise
    if start is None or other is None:
        return config, dataset
    known = trained_on_before(dataset, start, config.data.standardize)
    scored = len(dataset.splits["val"]) + len(dataset.splits["test"])
    if len(known) <= _MAX_KNOWN * scored:
        return config, dataset
    warning = (
        f"{start} was trained on measurements of {counted(len(known), 'molecule')} of the "
        f"validation and test splits, so training starts from {other}."
    )
    return with_other_start(config), replace(dataset, warnings=(*dataset.warnings, warning))


def with_other_start(config: TrainConfig) -> TrainConfig:
    kept = {f"model.{name}": getattr(config.model, name) for name in FREE}
    return config.changed({**kept, "finetune.start": str(config.finetune.otherwise)})


def about_overlap(dataset: Dataset, config: TrainConfig) -> tuple[int, str]:
    """Return the number of scored molecules that the start was trained on, and a warning."""
    start = config.finetune.start
    assert start is not None
    try:
        known = trained_on_before(dataset, start, config.data.standardize)
    except MolsepnormError as error:
        return 0, f"The molecules that {start} was trained on cannot be compared: {error}"
    if not known:
        return 0, ""
    return len(known), (
        f"{start} was trained on {counted(len(known), 'molecule')} of the validation and test "
        f"splits, such as {known[0]}, so the scores may be too optimistic. Give such rows to the "
        "training split (--splits-column), or remove them."
    )


def trained_on_before(dataset: Dataset, start: Path, level: Level) -> list[str]:
    """Return the SMILES of validation and test molecules that the start was trained on.

    The start knows the molecules in its model folder and, if it is the model of a run, those of the
    models that this run started from in turn. Molecules of pre-training and of named data sets are
    not compared. Each is compared as its model reads it, with the scored molecules at the higher
    level of standardisation of that model and `level`, the new one, and without their salts.

    Raises:
        ModelError: a model has no training molecules, or its folder is damaged.
    """
    if dataset.smiles is None:
        return []
    scored = (dataset.store.rows[dataset.splits[split]] for split in ("val", "test"))
    texts = {_key(text, level): text for text in map(dataset.smiles.__getitem__, chain(*scored))}
    seen: set[str] = set()
    visited: set[Path] = set()
    folder: Path | None = start
    while folder is not None and (folder == start or resolve(folder).exists()):
        run, path = RunFolder.of_model(resolve(folder)), find_folder(folder).resolve()
        if path in visited:
            break
        visited.add(path)
        config = None if run is None else load_config(config=run.config)
        if (path / TRAINING_FILE).is_file():
            model = PropertyModel.from_pretrained(path)
            own, known = model.standardize, model.training_molecules()
            highest = max(own, level, key=LEVELS.index)
            pairs = [
                (_key(text, each), text)
                for text in texts.values()
                for each in {highest, "salts" if "." in text else highest}
            ]
            held = known.holds([form for form, _ in pairs], own)
            seen |= {text for (_, text), is_held in zip(pairs, held, strict=True) if is_held}
        elif config and config.objective.name == SUPERVISED and not config.data.dataset:
            raise ModelError(f"{path} does not hold them (--no-training-structures)")
        folder = None if config is None else config.finetune.start
    return [text for text in texts.values() if text in seen]


def require_same_meaning(
    start: PropertyModel, targets: Sequence[Target], data: DataConfig, name: str
) -> None:
    """Refuse another transform, kind or classes than the start's, unless the settings name them."""
    known = {target.name: target for target in start.task.targets}
    for target in targets:
        old = known.get(target.name)
        if old is not None and (option := _missing_option(old, target, data)) is not None:
            raise ConfigError(
                f"{name} has the target '{target.name}' with other settings: add {option} to "
                "continue with it, or name other settings for this run in the same way"
            )


def _missing_option(old: Target, new: Target, data: DataConfig) -> str | None:
    """Return the option that gives a target the meaning of the start, if one is needed."""
    named = data.task_type is not None
    if isinstance(data.task_type, dict):
        named = new.name in data.task_type
    if old.kind != new.kind and not named:
        return f"--task-type {shlex.quote(f'{old.name}={old.kind}')}"
    if old.transform != new.transform and new.name not in data.transform:
        return f"--transform {shlex.quote(f'{old.name}={old.transform}')}"
    if old.classes != new.classes and new.name not in data.classes:
        return f"--set 'data.classes={{{old.name}: [{', '.join(old.classes or new.classes)}]}}'"
    return None


def unfit_targets(
    model: PropertyModel, start: PropertyModel, dataset: Dataset, extra: ExtraArrays
) -> tuple[str, ...]:
    """Return the regression targets whose training labels do not fit the output weights of the
    start, as with labels in another unit.

    Their standard deviation is more than twice that of the labels of the start, or the start
    predicts them with an RMSE of more than twice their standard deviation. A smaller standard
    deviation fits, since the molecules may be similar to each other.
    """
    loaded = deepcopy(model)
    same = load_weights(loaded, start).same_targets
    scales = {target.name: target.scale for target in start.task.targets}
    targets = [t for t in model.task.targets if t.name in same and t.kind == "regression"]
    if not targets:
        return ()
    train = dataset.splits["train"]
    rows = train[:: -(-len(train) // _MAX_MOLECULES)]
    values = loaded.predict(Inputs.of(dataset.store, extra), rows).values
    unfit = []
    for target in targets:
        number = model.task.names.index(target.name)
        errors = values[:, model.task.columns()[number].start] - dataset.labels[rows, number]
        known = errors[np.isfinite(errors)]
        rmse = (known @ known / max(len(known), 1)) ** 0.5
        if target.scale > _LIMIT * scales[target.name] or rmse > _LIMIT * target.scale:
            unfit.append(target.name)
    return tuple(unfit)


def load_weights(
    model: PropertyModel, start: PropertyModel, unfit: Collection[str] = ()
) -> LoadedWeights:
    """Copy the weights of a trained model into a model of the same architecture.

    The outputs of regression targets are rescaled to the standardisation of the new labels, so that
    the network predicts the same values as the start. `unfit` targets get new output weights.
    """
    network, task, same_inputs = model.network, model.task, model.inputs == start.inputs
    known = {}
    if start.objective == SUPERVISED and start.network.config.outputs:
        targets = zip(start.task.targets, start.task.columns(), strict=True)
        known = {target.meaning: (target, rows) for target, rows in targets}
    ours, theirs = network.state_dict(), start.network.state_dict()
    common = ours[WEIGHT].shape[1] - (0 if same_inputs else model.inputs.width)  # channels
    interact = same_inputs and INTERACTIONS in ours and INTERACTIONS in theirs
    same, outputs = [], 0
    for target, rows in zip(task.targets, task.columns(), strict=True):
        if target.meaning not in known or target.name in unfit:
            continue
        source, source_rows = known[target.meaning]
        ratio, shift = source.rescaling_to(target)
        ours[WEIGHT][rows, :common] = theirs[WEIGHT][source_rows, :common] * ratio
        ours[BIAS][rows] = theirs[BIAS][source_rows] * ratio + shift
        if interact:
            ours[INTERACTIONS][rows] = theirs[INTERACTIONS][source_rows] * ratio
        same.append(target.name)
        outputs += target.width
    for name, value in theirs.items():
        if name.startswith("molecule_features.") and not same_inputs:
            if width := start.encoding.molecule_features:  # of the featuriser, which are the first
                ours[name][:width] = value[:width]
        elif not in_head(name):
            ours[name].copy_(value)
    sizes = {name: parameter.numel() for name, parameter in network.named_parameters()}
    body = sum(size for name, size in sizes.items() if not in_head(name))
    of_output = common + 1 + (ours[INTERACTIONS][0].numel() if interact else 0)
    loaded, parameters = body + outputs * of_output, sum(sizes.values())
    others = tuple(name for name in task.names if name not in same)
    return LoadedWeights(loaded, parameters, tuple(same), others, start.excludes)


def about_start(
    start: PropertyModel,
    model: PropertyModel,
    source: str,
    loaded: LoadedWeights,
    unfit: Collection[str],
) -> Iterator[str]:
    """Yield sentences on the loaded weights, and the differences between model and start."""
    yield f"Training starts from {source}: {loaded}."
    inputs = start.inputs
    if inputs.width and inputs != model.inputs:
        kinds = {"morgan": inputs.morgan, "rdkit": inputs.descriptors}
        features = ",".join(name for name, read in kinds.items() if read)
        columns = shlex.quote(names_text(inputs.declared))
        options = [f"--feature-columns {columns}"] * bool(inputs.names)
        options += [f"--molecule-features {features}"] * bool(features)
        options += ["the --auxiliary tables"] * bool(inputs.predicted)
        yield (
            f"{source} reads other feature columns or molecule features; their output weights are "
            f"not used. To use them, add {' '.join(options)}."
        )
    if start.standardize not in ("none", model.standardize):
        yield (
            f"{source} standardises structures by the level {start.standardize}, and this run by "
            f"{model.standardize}."
        )
    new, old = ({target.name: target for target in m.task.targets} for m in (model, start))
    for name in unfit:
        yield (
            f"The labels of {name} (mean {new[name].mean:.4g}, standard deviation "
            f"{new[name].scale:.4g}) do not fit the output weights of {source} (mean "
            f"{old[name].mean:.4g}, standard deviation {old[name].scale:.4g}), so new ones are "
            "trained. If the unit differs, convert the labels to keep the old ones."
        )
