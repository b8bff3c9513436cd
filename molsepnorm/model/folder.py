"""Write a model to a folder, and read it back.

`config.json` has the parts with their weights and settings, the task, the featuriser, versions, and
the SHA-256 digests of all files, its own included. `model.safetensors` has the tensors: names of
the first part begin with `1.`, those of the second with `2.`, and so on. The training molecules
have a file unless they are left out. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from molsepnorm._version import __version__
from molsepnorm.errors import ConfigError, ModelError, StorageError, counted, did_you_mean
from molsepnorm.files.digests import KEY, has_digest, json_digest
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.model.checks import (
    require_calibration,
    require_featurizer,
    require_fitting,
    require_shares,
)
from molsepnorm.model.parts import PARTS, NetworkPart, Part, networks_of
from molsepnorm.model.training_molecules import TRAINING_FILE, TrainingFile
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.pretrained import read_exclusions, resolve, shipped_models
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration
from molsepnorm.tasks.domain import Domain

if TYPE_CHECKING:
    from molsepnorm.model.model import PropertyModel

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
README = "README.md"
"""Name of the model card for people, which loading ignores; `training.results.card` writes it."""
_OWN_FILES = {CONFIG, WEIGHTS, TRAINING_FILE, README, "conversion.json"}  # the last of `convert`

SCHEMA = 3
"""Version of the folder's format; it is increased whenever the meaning of an entry changes."""

SUPERVISED = "supervised"
"""Name of the objective that trains the head of the network."""


@dataclass
class PartDescription:
    """An entry of `parts` in `config.json`."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    kind: str
    weight: float
    reads: ExtraInputs
    settings: dict[str, Any]
    """See `Part.state`."""


@dataclass
class Description:
    """The types of `config.json`."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - also finds a damaged name of `KEY`

    schema: int
    molsepnorm: str
    featurizer: str
    task: Task
    parts: list[PartDescription]
    featurizer_version: str = "1"
    objective: str = SUPERVISED
    excludes: dict[str, str] = field(default_factory=dict)
    standardize: Level = "none"
    calibration: list[Calibration] = field(default_factory=list)
    domain: Domain | None = None


def read_config(path: Path) -> dict[str, Any]:
    """Read `config.json` and compare it with its digest.

    Raises:
        ModelError: the file is damaged, or was written by a newer molsepnorm.
        StorageError: it cannot be read.
    """
    about = read_json(path)
    schema = about.get("schema") if isinstance(about, dict) else None
    if type(schema) is not int:
        raise ModelError(f"{path} is damaged: its schema is {schema!r:.80}, not a number")
    if schema > SCHEMA:
        raise ModelError(
            f"{path} was written by molsepnorm {about.get('molsepnorm')!s:.80} (schema {schema}), "
            f"and this is {__version__} (schema {SCHEMA}): upgrade molsepnorm to use this model"
        )
    if schema < SCHEMA:
        raise ModelError(
            f"{path} was written by an earlier version of molsepnorm (schema {schema}), and this "
            f"one reads schema {SCHEMA}: train the model again"
        )
    digests = about.get(KEY)
    expected = digests.pop(CONFIG, None) if isinstance(digests, dict) else None
    if not has_digest(about, expected):
        raise ModelError(
            f"{path} is damaged or was changed: its content does not match its digest. Copy the "
            "folder from its source again"
        )
    return about


def brief(reason: object) -> str:
    """Return the first line of an error, which may list every tensor or quote the file."""
    return next(iter(str(reason).splitlines()), "")[:400]


_WRONG_ENTRY = (RuntimeError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)


def pack_weights(parts: Sequence[Part]) -> bytes:
    """Return the content of the file of tensors.

    Raises:
        ModelError: a number is not finite.
    """
    tensors = {
        _prefix(number) + name: tensor
        for number, part in enumerate(parts)
        for name, tensor in part.state()[1].items()
    }
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ModelError(
                f"the model cannot be saved: {name} has a number that is not finite, as after a "
                "training that diverged. Train again with a lower learning rate"
            )
    return save({name: tensor.contiguous() for name, tensor in tensors.items()})


def read_weights(path: Path, about: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read the tensors and compare the file with its digest in `about`, the entries of
    `config.json`.

    Raises:
        ModelError: the file is damaged, or holds a number that is not finite.
        StorageError: it cannot be read.
    """
    with clear_errors(path, "read"):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != about[KEY].get(WEIGHTS):
        raise other_weights(path, f"it does not match its digest in {CONFIG}")
    try:
        weights = load(content)
    except (SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise other_weights(path, error) from error
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise other_weights(path, f"{name} has a number that is not finite")
    return weights


def restored_parts(
    descriptions: Sequence[PartDescription], weights: Mapping[str, Tensor], config: Path, file: Path
) -> list[Part]:
    """Return the parts of a model.

    Args:
        descriptions: the entries of `config.json`.
        weights: the tensors of all parts.
        config, file: the files, for error messages.

    Raises:
        ModelError: a class of parts is not known, or an entry or the tensors are damaged.
    """
    parts = []
    for number, each in enumerate(descriptions):
        if each.kind not in PARTS:
            raise ModelError(
                f"{config}: the model has a part '{each.kind!s:.80}', which is not known here: "
                "import the package that registers it (molsepnorm.model.parts.register_part)"
            )
        own = {
            name.removeprefix(_prefix(number)): tensor
            for name, tensor in weights.items()
            if name.startswith(_prefix(number))
        }
        try:
            parts.append(PARTS[each.kind].from_state(each.settings, own, each.reads))
        except (ModelError, ConfigError) as error:
            raise ModelError(f"{config} does not describe a model: {brief(error)}") from error
        except _WRONG_ENTRY as error:
            raise other_weights(file, error) from error
    return parts


def other_weights(path: Path, reason: object) -> ModelError:
    """Return the error for a file that does not contain the weights of this model."""
    return ModelError(
        f"{path} is damaged or belongs to another model ({brief(reason)}): copy the folder from "
        "its source again"
    )


def _prefix(number: int) -> str:
    """Return the beginning of the names of the tensors of a part."""
    return f"{number + 1}."


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
    files = {WEIGHTS: pack_weights(model.parts)}
    if model.structures:
        files[TRAINING_FILE] = model.training_molecules().to_bytes()
    described = Description(
        schema=SCHEMA,
        molsepnorm=__version__,
        featurizer=model.featurizer,
        featurizer_version=featurize.SIZES[model.featurizer].version,
        task=model.task,
        parts=[
            PartDescription(part.kind, weight, part.reads, part.state()[0])
            for part, weight in zip(model.parts, model.weights, strict=True)
        ],
        objective=model.objective,
        excludes=model.excludes,
        standardize=model.standardize,
        calibration=list(model.calibration),
        domain=model.domain,
    )
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {**asdict(described), KEY: digests}, files


def read_folder(folder: Path | str) -> dict[str, Any]:
    """Read a model folder, or the model folder of a run, and return the fields of `PropertyModel`.

    Raises:
        ModelError: the folder is missing, incomplete or damaged, was written by a newer molsepnorm,
            or holds a number that is not finite.
    """
    folder = find_folder(folder)
    config_file, weights_file = folder / CONFIG, folder / WEIGHTS
    about = read_config(config_file)
    weights = read_weights(weights_file, about)
    entries = {name: entry for name, entry in about.items() if name != KEY}
    described = check_types(Description, entries, f"{config_file} does not describe a model")
    task = described.task
    parts = restored_parts(described.parts, weights, config_file, weights_file)
    try:
        require_shares([each.weight for each in described.parts], len(parts))
        require_calibration(described.calibration, task)
        require_fitting(parts, task)
        for part in parts:
            for network in networks_of([part]):
                reads = part.reads if isinstance(part, NetworkPart) else NO_INPUTS
                require_featurizer(config_file, about, network.config, reads)
        model = {
            "parts": tuple(parts),
            "weights": tuple(each.weight for each in described.parts),
            "featurizer": described.featurizer,
            "task": task,
            "objective": described.objective,
            "excludes": described.excludes | read_exclusions(folder),
            "standardize": described.standardize,
            "calibration": tuple(described.calibration),
            "domain": described.domain,
            "structures": training_files(folder / TRAINING_FILE, about),
        }
        ExtraInputs.joined([part.reads for part in parts])
    except ValueError as error:
        raise ModelError(f"{config_file} does not describe a model: {brief(error)}") from error
    return model


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
