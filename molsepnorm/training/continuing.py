"""The molecules that the start of a run was trained on before."""

from __future__ import annotations

from pathlib import Path

from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.files.reading import read_json
from molsepnorm.model import SUPERVISED, PropertyModel
from molsepnorm.model.folder import find_folder
from molsepnorm.model.training_molecules import TRAINING_FILE
from molsepnorm.molecules.featurize.standardize import LEVELS, Level, molecule_key
from molsepnorm.pretrained import resolve
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.recipes import encoding, load_config
from molsepnorm.training.run_folder.folder import RunFolder


def trained_on_before(dataset: Dataset, start: Path, level: Level) -> list[str]:
    """Return the SMILES of validation and test molecules that the start was trained on.

    These are the training molecules of the run in that folder, and of those that it was started
    from in turn. For a model without a run folder, such as a joined one, and for a run on data in
    memory, they are the molecules that the model folder has (`PropertyModel.training_molecules`);
    for a joined model those of all its parts, although training starts from the first one.
    Molecules of pre-training and of named data sets are not compared.

    Args:
        dataset: data set of the new run.
        start: folder of the model to start from.
        level: at which the new run standardises structures. Molecules are compared at the highest
            level of all these runs.

    Raises:
        ConfigError, DataError, ModelError, StorageError: the table of an earlier run is gone or has
            changed, or a file of the run is damaged.
    """
    if dataset.smiles is None:
        return []
    found: list[str] = []
    levels = [level]
    visited: set[Path] = set()
    folder: Path | None = start
    while folder is not None:
        run = RunFolder.of_model(resolve(folder))
        if run is None:
            if folder == start or resolve(folder).exists():
                found += _molecules_of_model(folder, levels)
            break
        if run.path.resolve() in visited:
            break
        visited.add(run.path.resolve())
        config = load_config(config=run.config)
        if config.data.in_memory:
            found += _molecules_of_model(run.path, levels)
        elif config.data.table is not None and config.objective.name == SUPERVISED:
            found += _training_smiles(run, config)
            levels.append(config.data.standardize)
        folder = config.finetune.start
    if not found:
        return []
    highest = max(levels, key=LEVELS.index)
    trained = {molecule_key(text, highest) for text in found}
    scored: dict[str, str] = {}
    for split in ("val", "test"):
        for row in dataset.store.rows[dataset.splits[split]]:
            scored.setdefault(molecule_key(dataset.smiles[row], highest), dataset.smiles[row])
    return [text for canonical, text in scored.items() if canonical in trained]


def _molecules_of_model(folder: Path, levels: list[Level]) -> tuple[str, ...]:
    """Return the SMILES of the training molecules that a model folder has, if any, and add the
    level at which its model standardises them."""
    if not (find_folder(folder) / TRAINING_FILE).is_file():
        return ()
    model = PropertyModel.from_pretrained(folder)
    levels.append(model.standardize)
    return model.training_molecules().smiles


def _training_smiles(run: RunFolder, config: TrainConfig) -> list[str]:
    """Return the SMILES that the network of a run was trained on, for an ensemble that of its first
    member, which is the one that another run starts from."""
    dataset = datasets.load(run.with_own_splits(config.data), encoding(config))
    run.require_same_data(dataset, splits=False)
    assert dataset.smiles is not None
    return [dataset.smiles[row] for row in read_json(run.splits)[0]["train"]]
