"""Validation and test molecules that the model which training starts from was trained on."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import ModelError, MolsepnormError, counted
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.model.folder import find_folder
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.molecules.featurize.standardize import LEVELS, Level, molecule_key
from molsepnorm.pretrained import resolve
from molsepnorm.training.config import FREE, TrainConfig
from molsepnorm.training.recipes import load_config
from molsepnorm.training.run_folder.folder import RunFolder

_MAX_KNOWN = 0.05
"""Largest share of the validation and test molecules that a start may know."""


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


_key = lru_cache(maxsize=100_000)(molecule_key)
