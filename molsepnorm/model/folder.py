"""Write a model to a folder, and read it back.

A model folder holds `config.json` (featuriser, task, network, versions, digests of all files),
`model.safetensors` and, unless they are left out, the training molecules. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molsepnorm.errors import ConfigError, ModelError, StorageError, counted, did_you_mean
from molsepnorm.files.digests import KEY, json_digest
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.model.checks import (
    require_calibration,
    require_enough_weights,
    require_fitting,
    require_forest_share,
    require_forests,
    require_shares,
)
from molsepnorm.model.description import (
    CONFIG,
    brief,
    describe,
    read_config,
    read_entries,
)
from molsepnorm.model.encoding import require_featurizer
from molsepnorm.model.training_molecules import TRAINING_FILE, TrainingFile
from molsepnorm.model.weights import (
    WEIGHTS,
    other_weights,
    pack_weights,
    read_weights,
    take_forests,
    take_networks,
)
from molsepnorm.pretrained import read_exclusions, resolve, shipped_models

if TYPE_CHECKING:
    from molsepnorm.model.model import PropertyModel

README = "README.md"
"""Name of the model card for people, which loading ignores; `training.results.card` writes it."""
_OWN_FILES = {CONFIG, WEIGHTS, TRAINING_FILE, README, "conversion.json"}  # the last of `convert`

_WRONG_ENTRY = (RecursionError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)


def write_folder(model: PropertyModel, folder: Path | str) -> None:
    """Write the model folder; an existing model folder is replaced.

    Raises:
        ModelError: a number of the model is not finite.
        StorageError: the folder holds other files, or it cannot be written.
    """
    require_replaceable(folder)
    about, files = packed(model)
    about[KEY][CONFIG] = json_digest(about)
    with replacing(folder, folder=True) as scratch:
        (scratch / CONFIG).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        for name, content in files.items():
            (scratch / name).write_bytes(content)


def packed(model: PropertyModel) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the entries of `config.json` without its own digest, and the other files by name.

    Raises:
        ModelError: a number of the model is not finite.
    """
    files = {WEIGHTS: pack_weights(model.networks, model.forests)}
    if model.structures:
        files[TRAINING_FILE] = model.training_molecules().to_bytes()
    about = describe(model)
    about[KEY] = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return about, files


def read_folder(folder: Path | str) -> dict[str, Any]:
    """Read a model folder, or the model folder of a run, and return the fields of `PropertyModel`.

    Args:
        folder: the folder, or the name of a model that comes with the package.

    Raises:
        ModelError: the folder is missing, incomplete or damaged, was written by a newer molsepnorm,
            or holds a number that is not finite.
    """
    folder = find_folder(folder)
    config_file, weights_file = folder / CONFIG, folder / WEIGHTS
    about = read_config(config_file)
    weights = read_weights(weights_file, about)
    described = read_entries(config_file, about)
    task, inputs = described.task, described.inputs
    configs = [described.network, *described.partners]
    try:
        require_shares(described.weights, len(configs))
        require_calibration(described.calibration, task)
        for config in configs:
            require_fitting(config, configs[0], task)
            require_featurizer(config_file, about, config, inputs)
            require_enough_weights(config, weights)
    except ValueError as error:
        raise ModelError(f"{config_file} does not describe a model: {brief(error)}") from error
    try:
        forests = take_forests(weights)
        network, *partners = take_networks(configs, weights)
        excludes = described.excludes | read_exclusions(folder)
        structures = training_files(folder / TRAINING_FILE, about)
        require_forest_share(described.forest_share, len(forests))
        require_forests(forests, task, inputs)
    except (RuntimeError, *_WRONG_ENTRY) as error:
        raise other_weights(weights_file, error) from error
    return {
        "network": network,
        "featurizer": described.featurizer,
        "task": task,
        "objective": described.objective,
        "excludes": excludes,
        "inputs": inputs,
        "partners": tuple(partners),
        "weights": tuple(described.weights),
        "standardize": described.standardize,
        "forests": forests,
        "forest_share": described.forest_share,
        "calibration": tuple(described.calibration),
        "domain": described.domain,
        "structures": structures,
    }


def training_files(path: Path, about: Mapping[str, Any]) -> tuple[TrainingFile, ...]:
    """Return the file of the training molecules, if it is there."""
    return (TrainingFile(path.absolute(), about[KEY].get(TRAINING_FILE)),) if path.is_file() else ()


def find_folder(folder: Path | str) -> Path:
    """Return the model folder of a path.

    Args:
        folder: a model folder, the folder of a run, or the name of a model that comes with the
            package.

    Raises:
        ModelError: the folder is missing, or one of its files is.
        StorageError: the path cannot be read.
    """
    folder = resolve(folder)
    with clear_errors(folder, "read"):  # such as a name that is too long
        is_folder = folder.is_dir()
    if not is_folder:
        message = f"there is no folder {folder}: give a run's folder or its model/ folder"
        if folder.name == str(folder):
            message += ", or the name of a model that comes with molsepnorm. "
            message += did_you_mean(folder.name, shipped_models())
        raise ModelError(message)
    with clear_errors(folder, "read"):
        if not (folder / CONFIG).exists() and (folder / "model").is_dir():
            folder = folder / "model"
        missing = [name for name in (CONFIG, WEIGHTS) if not (folder / name).exists()]
        subfolders = folder.iterdir() if missing else ()
        runs = [each for each in subfolders if (each / "model" / CONFIG).exists()]
    if runs:
        raise ModelError(
            f"{folder} is not a model folder, but holds {counted(len(runs), 'run')}: give one of "
            f"them, such as {min(runs)}"
        )
    if missing:
        raise ModelError(
            f"{folder} is not a complete model folder: {' and '.join(missing)} missing. A model "
            f"folder holds {CONFIG} and {WEIGHTS}; a training run writes one to RUN/model once "
            "its first epoch ends"
        )
    return folder


def require_replaceable(folder: Path | str) -> None:
    """Raise a `StorageError` if the folder holds anything but a model of molsepnorm."""
    folder = Path(folder)
    with clear_errors(folder, "write"):
        if not folder.is_dir():
            return
        others = sorted({path.name for path in folder.iterdir()} - _OWN_FILES)
        try:
            if "molsepnorm" not in json.loads((folder / CONFIG).read_text(encoding="utf-8")):
                others.append(CONFIG)  # a model of another library
        except (FileNotFoundError, ValueError, TypeError, RecursionError):
            pass  # a missing or damaged configuration
    if others:
        raise StorageError(
            f"cannot write {folder}: it holds {others[0]}, which a model folder would replace: "
            "choose another folder"
        )


def require_new_model(folder: Path | str, force: bool) -> None:
    """Refuse a folder that holds a model, unless it may be replaced.

    Raises:
        ConfigError: it holds one, and `force` is False.
        StorageError: as `require_replaceable`.
    """
    require_replaceable(folder)
    if not force and (Path(folder) / WEIGHTS).exists():
        raise ConfigError(
            f"{folder} holds a model: choose another folder, or replace it with --force"
        )


def weights_digest(folder: Path | str) -> str:
    """Return the SHA-256 digest of the weights file in the folder of a model or a run."""
    path = find_folder(folder) / WEIGHTS
    with clear_errors(path, "read"):
        return hashlib.sha256(path.read_bytes()).hexdigest()
