"""Write a model to a folder, and read it back.

`config.json` has the settings of the networks, the parts with their weights, the task, the
featuriser, versions, and the SHA-256 digests of all files, itself included. `model.safetensors` has
the tensors: names of the first network begin with `1.`, those of the first part with `part.1.`, and
so on; the parts of auxiliary models follow. Names of the columns of further molecules begin with
`molecules.`. A network that several parts read is stored once, and loaded as one. The training
molecules have a file unless they are left out. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from molsepnorm._version import __version__
from molsepnorm.errors import ConfigError, ModelError, counted, did_you_mean
from molsepnorm.files.digests import KEY, has_digest, json_digest
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.files.writing import clear_errors, replacing, require_empty
from molsepnorm.model.molecule_columns import MoleculeColumns
from molsepnorm.model.parts import PARTS, NetworkPart, Part, are_equal, encoding_of, networks_of
from molsepnorm.model.parts.network import restored_network
from molsepnorm.model.training_molecules import TRAINING_FILE, TrainingFile
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.pretrained import resolve, shipped_models
from molsepnorm.pretrained.card import CARD, read_card
from molsepnorm.tasks import ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration
from molsepnorm.tasks.domain import Domain

if TYPE_CHECKING:
    from molsepnorm.model.model import PropertyModel

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
README = "README.md"
"""Model card for people, which `training.results.card` writes and loading ignores."""
_OWN_FILES = {CONFIG, WEIGHTS, TRAINING_FILE, README}

SCHEMA = 7
"""Version of the format, which increases when the meaning of an entry changes."""

SUPERVISED = "supervised"
"""Name of the objective that trains the head of the network."""


@dataclass
class PartDescription:
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    kind: str
    weights: list[float]
    """Weight of the part in the prediction of each target."""
    reads: ExtraInputs
    network: int | None
    """Number of the network that it reads, counted from 1."""


@dataclass
class AuxiliaryDescription:
    """A model of one part whose predictions are inputs."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    task: Task
    part: PartDescription


@dataclass
class Description:
    """The types of `config.json`."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - also finds a damaged name of `KEY`

    schema: int
    molsepnorm: str
    featurizer: str
    task: Task
    networks: list[dict[str, Any]]
    """Settings of their `GraphormerConfig`."""
    parts: list[PartDescription]
    featurizer_version: str = "1"
    objective: str = SUPERVISED
    excludes: dict[str, str] = field(default_factory=dict)
    standardize: Level = "none"
    calibration: tuple[Calibration, ...] = ()
    domain: Domain | None = None
    auxiliary: list[AuxiliaryDescription] = field(default_factory=list)
    molecules: int | None = None
    """Number of the network that embeds the columns of further molecules."""


_OF_MODEL = ("featurizer", "task", "objective", "excludes", "standardize", "calibration", "domain")
"""Entries that are also fields of `PropertyModel`."""


def read_config(path: Path) -> dict[str, Any]:
    """Read `config.json` and compare it with its digest. Raise a `ModelError` if it is damaged or
    was written by another version of the format."""
    about = read_json(path)
    schema = about.get("schema") if isinstance(about, dict) else None
    if type(schema) is not int:
        raise ModelError(f"{path} is damaged: its schema is {schema!r:.80}, not a number")
    if schema != SCHEMA:
        remedy = "upgrade molsepnorm to use this model" if schema > SCHEMA else "train it again"
        raise ModelError(
            f"{path} was written by molsepnorm {about.get('molsepnorm')!s:.80} (schema {schema}), "
            f"and this is {__version__} (schema {SCHEMA}): {remedy}"
        )
    digests = about.get(KEY)
    expected = digests.pop(CONFIG, None) if isinstance(digests, dict) else None
    if not has_digest(about, expected):
        raise ModelError(
            f"{path} is damaged or was changed: its content does not match its digest. Copy the "
            "folder from its source again"
        )
    return about


def _brief(reason: object) -> str:
    """Return the first line of an error, which may list every tensor or quote the file."""
    return next(iter(str(reason).splitlines()), "")[:400]


_WRONG_ENTRY = (RuntimeError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)


def read_weights(path: Path, about: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read tensors, and compare the file with its digest in `config.json`. Raise a `ModelError` if
    it is damaged or holds a number that is not finite."""
    with clear_errors(path, "read"):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != about[KEY].get(WEIGHTS):
        raise _other_weights(path, f"it does not match its digest in {CONFIG}")
    try:
        weights = load(content)
    except (SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise _other_weights(path, error) from error
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise _other_weights(path, f"{name} has a number that is not finite")
    return weights


def _restored(
    described: Description, weights: Mapping[str, Tensor], folder: Path
) -> tuple[list[Part], MoleculeColumns | None]:
    """Return the parts of the model and its auxiliary models, and the columns of molecules."""
    descriptions = [*described.parts, *(each.part for each in described.auxiliary)]
    for part in descriptions:
        if part.kind not in PARTS:
            raise ModelError(
                f"{folder / CONFIG}: the model has a part '{part.kind!s:.80}', which is not known "
                "here: import the package that registers it "
                "(molsepnorm.model.parts.register_part)"
            )
    try:
        networks: dict[int | None, Graphormer | None] = {
            number: restored_network(settings, _under(f"{number}.", weights))
            for number, settings in enumerate(described.networks, start=1)
        }
        networks[None] = None
        parts = [
            PARTS[part.kind].from_state(
                _under(f"part.{number}.", weights), part.reads, networks[part.network]
            )
            for number, part in enumerate(descriptions, start=1)
        ]
        if not (own := _under("molecules.", weights)):
            return parts, None
        known = deepcopy(networks[described.molecules]), described.featurizer
        return parts, MoleculeColumns.from_state(own, *known, described.standardize)
    except (ModelError, ConfigError) as error:
        raise _no_model(folder, error) from error
    except _WRONG_ENTRY as error:
        raise _other_weights(folder / WEIGHTS, error) from error


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): each for n, each in tensors.items() if n.startswith(prefix)}


def _no_model(folder: Path, reason: object) -> ModelError:
    return ModelError(f"{folder / CONFIG} does not describe a model: {_brief(reason)}")


def _other_weights(path: Path, reason: object) -> ModelError:
    return ModelError(
        f"{path} is damaged or belongs to another model ({_brief(reason)}): copy the folder from "
        "its source again"
    )


def write_folder(model: PropertyModel, folder: Path | str) -> None:
    require_replaceable(folder)
    about, files = packed(model)
    about[KEY][CONFIG] = json_digest(about)
    with replacing(folder, folder=True) as scratch:
        (scratch / CONFIG).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        for name, content in files.items():
            (scratch / name).write_bytes(content)


def packed(model: PropertyModel) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the entries of `config.json` without its own digest, and the other files by name."""
    every = [
        pair
        for each in (model, *model.auxiliary)
        for pair in zip(each.parts, each.weights, strict=True)
    ]
    networks = list[Graphormer]()

    def number_of(network: Graphormer | None) -> int | None:
        if network is None:
            return None
        same = (number for number, each in enumerate(networks, 1) if are_equal(network, each))
        if (number := next(same, None)) is None:
            networks.append(network)
        return number or len(networks)

    tensors, parts, molecules = dict[str, Tensor](), list[PartDescription](), None
    for number, (part, weight) in enumerate(every, start=1):
        about = part.kind, weight.tolist(), part.reads
        parts.append(PartDescription(*about, number_of(part.network)))
        tensors |= {f"part.{number}.{name}": each for name, each in part.state().items()}
    if model.molecules is not None:
        molecules = number_of(model.molecules.network)
        tensors |= {f"molecules.{n}": each for n, each in model.molecules.state().items()}
    for number, network in enumerate(networks, start=1):
        tensors |= network.state_dict(prefix=f"{number}.")
    tensors = {name: each.contiguous() for name, each in tensors.items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ModelError(
                f"the model cannot be saved: {name} has a number that is not finite, as after a "
                "training that diverged. Train again with a lower learning rate"
            )
    files = {WEIGHTS: save(tensors)}
    if model.structures:
        files[TRAINING_FILE] = model.training_molecules().to_bytes()
    auxiliary = zip(model.auxiliary, parts[len(model.parts) :], strict=True)
    described = Description(
        schema=SCHEMA,
        molsepnorm=__version__,
        featurizer_version=featurize.SIZES[model.featurizer].version,
        networks=[asdict(network.config) for network in networks],
        parts=parts[: len(model.parts)],
        auxiliary=[AuxiliaryDescription(each.task, part) for each, part in auxiliary],
        molecules=molecules,
        **{name: getattr(model, name) for name in _OF_MODEL},
    )
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {**asdict(described), KEY: digests}, files


def read_folder(folder: Path | str) -> PropertyModel:
    from molsepnorm.model.model import PropertyModel

    folder = find_folder(folder)
    about = read_config(folder / CONFIG)
    weights = read_weights(folder / WEIGHTS, about)
    entries = {name: entry for name, entry in about.items() if name != KEY}
    described = check_types(Description, entries, f"{folder / CONFIG} does not describe a model")
    auxiliary = described.auxiliary
    parts, molecules = _restored(described, weights, folder)
    if (folder / CARD).exists():
        described.excludes |= read_card(folder).excludes
    try:
        own, others = parts[: len(described.parts)], parts[len(described.parts) :]
        _require_fitting(own, described)
        for each, part in zip(auxiliary, others, strict=True):
            _require_fitting([part], replace(described, task=each.task))
        path = (folder / TRAINING_FILE).absolute()
        known = TrainingFile(path, about[KEY].get(TRAINING_FILE))
        same = {"featurizer": described.featurizer, "standardize": described.standardize}
        return PropertyModel(
            parts=tuple(own),
            auxiliary=tuple(
                PropertyModel((part,), task=each.task, **same)
                for each, part in zip(auxiliary, others, strict=True)
            ),
            weights=np.array([each.weights for each in described.parts]),
            molecules=molecules,
            **{name: getattr(described, name) for name in _OF_MODEL},
            structures=(known,) if known.path.is_file() else (),
        )
    except ModelError as error:
        raise ModelError(f"{folder / CONFIG}: {error}") from None
    except ValueError as error:
        raise _no_model(folder, error) from error


def _require_fitting(parts: Sequence[Part], described: Description) -> None:
    """Check that the parts fit the targets and each other, with a known featuriser."""
    task, name = described.task, described.featurizer
    for part in parts:
        if part.outputs != task.outputs:
            raise ConfigError(f"targets of {task.outputs} outputs and {part.outputs} outputs")
    configs = [network.config for network in networks_of(parts)]
    if not configs:
        return
    encodings = {(c.atom_sizes, replace(encoding_of(c), molecule_features=0)) for c in configs}
    if len(encodings) > 1:
        raise ConfigError("the networks read different features or encodings of molecules")
    version = described.featurizer_version
    if name not in featurize.SIZES:
        raise ModelError(
            f"the model needs the featuriser '{name:.80}' (version {version:.80}), which is not "
            "registered here: install its package, or call molsepnorm.featurize.register with its "
            f"class before loading the model. {did_you_mean(name, featurize.SIZES)}"
        )
    sizes = featurize.SIZES[name]
    if sizes.version != version:
        raise ModelError(
            f"the model was trained with version {version:.80} of the featuriser '{name}', and "
            f"version {sizes.version} is installed: install the former, or train again"
        )
    for config in configs:
        if (config.atom_sizes, config.bond_sizes) != (sizes.atoms, sizes.bonds):
            raise ConfigError(f"atom_sizes and bond_sizes are not those of '{name}'")
    for part in parts:
        if isinstance(part, NetworkPart):
            found = part.network.config.molecule_features
            expected = len(sizes.molecule) + part.reads.width
            if found != expected:
                raise ConfigError(
                    f"molecule_features is {found}, and '{name}' and the other inputs have "
                    f"{expected}"
                )


def find_folder(folder: Path | str) -> Path:
    """Return the model folder of a model folder, the folder of a run, or the name of a shipped
    model. Raise a `ModelError` if the folder or a file is missing."""
    folder = resolve(folder)
    with clear_errors(folder, "read"):  # such as a name that is too long
        is_folder = folder.is_dir()
    if not is_folder:
        message = f"there is no folder {folder}: give a run's folder or its model/ folder"
        if folder.name == str(folder):
            known = did_you_mean(folder.name, shipped_models())
            message += f", or the name of a shipped model. {known}"
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
    own, config = _OWN_FILES, Path(folder) / CONFIG
    unreadable = FileNotFoundError, NotADirectoryError, ValueError, TypeError, RecursionError
    with clear_errors(folder, "write"), suppress(*unreadable):  # missing or damaged
        if "molsepnorm" not in json.loads(config.read_text(encoding="utf-8")):
            own = own - {CONFIG}  # a model of another library
    require_empty(folder, "a model folder", own)


def require_new_model(folder: Path | str, force: bool) -> None:
    """Raise an error if the folder holds anything but a model that `force` replaces."""
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
