"""A trained model as a folder: the network, and everything that is needed to use it.

A model folder holds `config.json` (featuriser, task, network, versions, digests of all files),
`model.safetensors` and, unless they are left out, the training molecules. Nothing is pickled. A
model may average the predictions of several networks.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from molsepnorm._version import __version__
from molsepnorm.errors import ConfigError, ModelError, StorageError, counted, did_you_mean
from molsepnorm.files.digests import KEY, has_digest, json_digest
from molsepnorm.files.reading import check_types, read_json
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.forest.forest import Forest
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.standardize import Level
from molsepnorm.molecules.training_molecules import (
    TRAINING_FILE,
    TrainingFile,
    TrainingMolecules,
)
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead
from molsepnorm.pretrained import read_card, read_exclusions, resolve, shipped_models
from molsepnorm.pretrained.card import CARD
from molsepnorm.tasks import NO_INPUTS, ExtraInputs, Task
from molsepnorm.tasks.calibration import Calibration, calibration_from_json, kind_fits
from molsepnorm.tasks.domain import Domain

__all__ = [
    "README",
    "SCHEMA",
    "SUPERVISED",
    "PropertyModel",
    "check_files",
    "encoding_of",
    "require_replaceable",
    "weights_digest",
]

SCHEMA = 2
"""Version of the folder's format; it is increased whenever the meaning of an entry changes. A model
of one network, without forests and standardisation, is written as version 1."""

SUPERVISED = "supervised"
"""Name of the objective that trains the head of the network."""

_FOREST = "forest-{}."  # prefix of a forest's tensors, counted from 1
_PARTNER = "partner-{}."  # prefix of a partner's tensors, counted from 1
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
README = "README.md"
"""Name of the model card for people, which loading ignores; `training.card` writes it."""
_OWN_FILES = {_CONFIG, _WEIGHTS, TRAINING_FILE, README, "conversion.json"}  # the last of `convert`

_WRONG_ENTRY = (RecursionError, LookupError, TypeError, AttributeError, ValueError, ArithmeticError)


@dataclass
class PropertyModel:
    """A network, the featuriser of its molecules, and the task of its outputs.

    It may have partners: further networks of the same inputs and outputs. The prediction is then a
    weighted mean over all networks. Embeddings, analyses and fine-tuning use `network` alone.

    >>> import tempfile
    >>> from molsepnorm.nn import Graphormer, GraphormerConfig
    >>> from molsepnorm.tasks import Target, Task
    >>> task = Task((Target("logS", "regression", mean=-3.1, scale=2.0),), metric="mae")
    >>> model = PropertyModel(Graphormer(GraphormerConfig(layers=1)), "zinc", task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save_pretrained(folder)
    ...     PropertyModel.from_pretrained(folder).task.names
    ('logS',)
    """

    network: Graphormer
    featurizer: str
    """Name of the featuriser in `molsepnorm.molecules.featurize`."""
    task: Task
    objective: str = SUPERVISED
    """Name of the training objective. Other objectives than supervised learning leave the head
    untrained."""
    excludes: dict[str, str] = field(default_factory=dict)
    """Data sets that the model must not be evaluated on, by name, each with the reason. They are
    those of its card and of the models that it was fine-tuned from."""
    inputs: ExtraInputs = NO_INPUTS
    """Inputs beside the features of the featuriser, such as columns of the table. A network may
    read the first of them only."""
    partners: tuple[Graphormer, ...] = ()
    """Networks whose predictions are averaged with those of `network`."""
    weights: tuple[float, ...] = (1.0,)
    """Weight of each of the `networks` in the mean; they sum to 1."""
    standardize: Level = "none"
    """How far structures are standardised before the networks read them; see
    `molsepnorm.molecules.featurize.standardize.standard_smiles`."""
    forests: tuple[Forest, ...] = ()
    """Random forests of all `inputs`, whose mean is blended with that of the networks."""
    forest_share: float = 0.0
    """Weight of the forests in the prediction; 0 without forests."""
    calibration: tuple[Calibration, ...] = ()
    """Size of the errors of each target; empty if the model was not calibrated."""
    domain: Domain | None = None
    """Similarity above which predictions can be trusted; None if it was not fitted."""
    structures: tuple[TrainingMolecules | TrainingFile, ...] = ()
    """The training molecules, whose union counts; empty if they are not known."""

    def __post_init__(self) -> None:
        _require_shares(self.weights, len(self.networks))
        if not 0 <= self.forest_share <= 1 or (self.forest_share > 0) != bool(self.forests):
            raise ConfigError(
                f"forest_share must be 0 without forests, and otherwise in 0 < s ≤ 1; got "
                f"{self.forest_share!s:.40} for "
                f"{counted(len(self.forests), 'forest')}"
            )

    @property
    def compares(self) -> bool:
        """True if a network compares molecules with training molecules."""
        return any(isinstance(network.head, KernelHead) for network in self.networks)

    @property
    def _is_plain(self) -> bool:
        """True for one network and nothing else, which earlier versions read."""
        return not (self.partners or self.forests or self.standardize != "none")

    @property
    def networks(self) -> tuple[Graphormer, ...]:
        """All networks that predict: `network`, then its partners."""
        return (self.network, *self.partners)

    def to(self, device: torch.device | str) -> PropertyModel:
        """Move all networks to a device, and return the model."""
        for network in self.networks:
            network.to(device)
        return self

    def mean(self, predictions: Sequence[Any]) -> Any:
        """Return the weighted mean of one array or tensor of predictions per network."""
        if len(predictions) == 1:
            return predictions[0]
        return sum(w * each for w, each in zip(self.weights, predictions, strict=True))

    def blended(self, predictions: np.ndarray, features: np.ndarray | None) -> np.ndarray:
        """Return predictions of the networks (G, O), blended with those of the forests.

        Args:
            predictions: the mean of the networks.
            features: float32 (G, F), the molecule-level features; the last ones are `inputs`.
        """
        if not self.forests:
            return predictions
        assert features is not None
        inputs = features[:, features.shape[1] - self.inputs.width :]
        forests = np.mean([forest.predict(inputs) for forest in self.forests], axis=0)
        return (1 - self.forest_share) * predictions + self.forest_share * forests

    @property
    def encoding(self) -> EncodingSpec:
        """The encoding of molecules by the featuriser, without the extra inputs."""
        own = len(featurize.SIZES[self.featurizer].molecule)
        return replace(encoding_of(self.network.config), molecule_features=own)

    def require_targets(self) -> None:
        """Raise a `ConfigError` if the model was pre-trained without targets."""
        if not self.task.targets:
            raise ConfigError(
                "this model was pre-trained without targets, so it predicts nothing: fine-tune it "
                "on your table (molsepnorm train --from MODEL), or use its embeddings (molsepnorm "
                "embed)"
            )

    def training_molecules(self) -> TrainingMolecules:
        """Return the molecules that the model was trained on.

        Raises:
            ConfigError: the model does not have them.
            ModelError: their file is damaged.
        """
        if not self.structures:
            why = (
                "they were left out when it was trained (--no-training-structures) or shared"
                if self.domain is not None
                else "it was trained on data without SMILES, joined, converted or written by an "
                "earlier version, or its run is not finished"
            )
            raise ConfigError(
                f"this model does not have its training molecules, so similarities to them are "
                f"unknown: {why}. Train it again, or leave the domain out"
            )
        found = TrainingMolecules.joined([each.read() for each in self.structures])
        if found.labels.shape[1] != len(self.task.targets):
            raise ModelError(
                f"{TRAINING_FILE} belongs to another model: it has labels of "
                f"{counted(found.labels.shape[1], 'target')}, and the model has "
                f"{len(self.task.targets)}. Copy the folder from its source again"
            )
        return found

    def leak(self, dataset: str | None, allow: bool) -> str | None:
        """Return why scores on a named data set would be too optimistic; None if they would not.

        Args:
            dataset: name of the data set; None for a table, which is not recognised.
            allow: return the reason instead of raising an error.

        Raises:
            ConfigError: the model must not be evaluated on the data set.
        """
        reason = None if dataset is None else self.excludes.get(dataset)
        if reason is None or allow:
            return reason
        raise ConfigError(
            f"this model, or one that it was fine-tuned from, must not be evaluated on {dataset}: "
            f"{reason}. Choose another model or data set. With --allow-leak it is used "
            "nevertheless, and the results say so"
        )

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the model folder; an existing model folder is replaced.

        Raises:
            ModelError: a number of the model is not finite.
            StorageError: the folder holds other files, or it cannot be written.
        """
        require_replaceable(folder)
        tensors = dict(self.network.state_dict())
        for number, partner in enumerate(self.partners, start=1):
            state = partner.state_dict().items()
            tensors |= {_PARTNER.format(number) + name: each for name, each in state}
        for number, forest in enumerate(self.forests, start=1):
            content = forest.tensors().items()
            tensors |= {_FOREST.format(number) + name: each for name, each in content}
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise ModelError(
                    f"the model cannot be saved in {folder}: {name} has a number that is not "
                    "finite, as after a training that diverged. Train again with a lower learning "
                    "rate"
                )
        weights = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        about: dict[str, Any] = {
            "schema": 1 if self._is_plain else SCHEMA,
            "molsepnorm": __version__,
            "featurizer": self.featurizer,
            "featurizer_version": featurize.SIZES[self.featurizer].version,
            "task": self.task.to_json(),
            "network": asdict(self.network.config),
            KEY: {_WEIGHTS: hashlib.sha256(weights).hexdigest()},
        }
        if self.objective != SUPERVISED:
            about["objective"] = self.objective
        if self.excludes:
            about["excludes"] = self.excludes
        if self.forests:
            about["forest_share"] = self.forest_share
        if self.partners:
            about["partners"] = [asdict(partner.config) for partner in self.partners]
            about["weights"] = list(self.weights)
        if self.standardize != "none":
            about["standardize"] = self.standardize
        if self.inputs.width:
            about["inputs"] = asdict(self.inputs)
        if self.calibration:
            about["calibration"] = [asdict(each) for each in self.calibration]
        if self.domain is not None:
            about["domain"] = asdict(self.domain)
        structures = self.training_molecules().to_bytes() if self.structures else None
        if structures is not None:
            about[KEY][TRAINING_FILE] = hashlib.sha256(structures).hexdigest()
        about[KEY][_CONFIG] = json_digest(about)
        with replacing(folder, folder=True) as scratch:
            (scratch / _CONFIG).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
            (scratch / _WEIGHTS).write_bytes(weights)
            if structures is not None:
                (scratch / TRAINING_FILE).write_bytes(structures)

    @staticmethod
    def from_pretrained(folder: Path | str) -> PropertyModel:
        """Read a model folder, or the model folder of a run. The network is in evaluation mode.

        Both files are compared with the digests in `config.json`, if there are any. The file of
        the training molecules is read when they are needed.

        Args:
            folder: the folder, or the name of a model that comes with the package.

        Raises:
            ModelError: the folder is missing, incomplete or damaged, was written by a newer
                molsepnorm, or holds a number that is not finite.
        """
        folder = _find(folder)
        about = _read_config(folder / _CONFIG)
        weights = _read_weights(folder / _WEIGHTS, about)
        try:
            described = [about["network"], *about.get("partners", [])]
            configs = [GraphormerConfig(**each) for each in described]
            task = Task.from_json(about["task"])
            featurizer = about["featurizer"]
            excludes = dict(about.get("excludes", {}))
            inputs = ExtraInputs.from_json(about["inputs"]) if "inputs" in about else NO_INPUTS
            shares = tuple(about.get("weights", (1.0,)))
            _require_shares(shares, len(configs))
            standardize = about.get("standardize", "none")
            if standardize not in get_args(Level):
                raise ConfigError(f"standardize is '{standardize!s:.80}'")
            calibration = _calibration(about.get("calibration", []), task)
            domain = Domain(**about["domain"]) if "domain" in about else None
            for config in configs:
                _require_fitting(config, configs[0], task)
                _require_featurizer(folder / _CONFIG, about, config, inputs)
                _require_enough_weights(config, weights)
        except _WRONG_ENTRY as error:
            _check_entries(folder / _CONFIG, about)  # names the entry
            raise ModelError(
                f"{folder / _CONFIG} does not describe a model: {_brief(error)}"
            ) from error
        try:
            forests = _forests(weights)
            network, *partners = _networks(configs, weights)
            excludes |= read_exclusions(folder)
            objective = about.get("objective", SUPERVISED)
            return PropertyModel(
                *(network, featurizer, task, objective, excludes),
                *(inputs, tuple(partners), shares, standardize),
                *(forests, about.get("forest_share", 0.0), calibration, domain),
                _structures(folder / TRAINING_FILE, about),
            )
        except (RuntimeError, *_WRONG_ENTRY) as error:
            _check_entries(folder / _CONFIG, about)
            raise _other_weights(folder / _WEIGHTS, error) from error


def _networks(configs: Sequence[GraphormerConfig], weights: dict[str, Tensor]) -> list[Graphormer]:
    """Return the networks in evaluation mode, with their weights; the first has no prefix."""
    networks = []
    for number, config in reversed([*enumerate(configs)]):
        with torch.random.fork_rng():  # the initial weights are replaced
            network = Graphormer(config)
        prefix = _PARTNER.format(number) if number else ""
        own = [name for name in weights if name.startswith(prefix)]
        network.load_state_dict({name.removeprefix(prefix): weights.pop(name) for name in own})
        networks.append(network.eval())
    return networks[::-1]


def _forests(weights: dict[str, Tensor]) -> tuple[Forest, ...]:
    """Remove the tensors of the forests from the weights, and return the forests."""
    forests: list[Forest] = []
    while True:
        prefix = _FOREST.format(len(forests) + 1)
        own = [name for name in weights if name.startswith(prefix)]
        if not own:
            return tuple(forests)
        found = {name.removeprefix(prefix): weights.pop(name) for name in own}
        forests.append(Forest.from_tensors(found))


def _structures(path: Path, about: Mapping[str, Any]) -> tuple[TrainingFile, ...]:
    """Return the file of the training molecules, if it is there."""
    digest = about[KEY].get(TRAINING_FILE, "") if KEY in about else None
    return (TrainingFile(path.absolute(), digest),) if path.is_file() else ()


def _calibration(content: Sequence[Mapping[str, Any]], task: Task) -> tuple[Calibration, ...]:
    """Return the calibration of each target, after checking that it fits."""
    found = tuple(calibration_from_json(each) for each in content)
    fitting = all(kind_fits(*pair) for pair in zip(task.targets, found, strict=False))
    if found and (len(found) != len(task.targets) or not fitting):
        raise ConfigError("the calibration does not fit the targets")
    return found


def _require_shares(weights: Sequence[float], count: int) -> None:
    """Check the weights of the networks' predictions."""
    finite = all(math.isfinite(weight) and weight >= 0 for weight in weights)
    if len(weights) != count or not finite or abs(sum(weights) - 1) > 1e-6:
        raise ConfigError(
            f"the mean over {counted(count, 'network')} needs as many weights, which sum to 1; got "
            f"{weights!r:.80}"
        )


def _require_fitting(config: GraphormerConfig, first: GraphormerConfig, task: Task) -> None:
    """Check that a network has the task's outputs, and reads the molecules of the first one."""
    if task.outputs != config.outputs:
        raise ConfigError(f"targets of {task.outputs} outputs and {config.outputs} outputs")
    one, other = (replace(encoding_of(each), molecule_features=0) for each in (config, first))
    if (config.atom_sizes, one) != (first.atom_sizes, other):
        raise ConfigError("the networks read different features or encodings of molecules")


def require_replaceable(folder: Path | str) -> None:
    """Raise a `StorageError` if the folder holds anything but a model of molsepnorm."""
    folder = Path(folder)
    if not folder.is_dir():
        return
    with clear_errors(folder, "write"):
        others = sorted({path.name for path in folder.iterdir()} - _OWN_FILES)
        try:
            if "molsepnorm" not in json.loads((folder / _CONFIG).read_text(encoding="utf-8")):
                others.append(_CONFIG)  # a model of another library
        except (FileNotFoundError, ValueError, TypeError, RecursionError):
            pass  # a missing or damaged configuration
    if others:
        raise StorageError(
            f"cannot write {folder}: it holds {others[0]}, which a model folder would replace: "
            "choose another folder"
        )


def encoding_of(config: GraphormerConfig) -> EncodingSpec:
    """Return the encoding of molecules that a network of this architecture needs."""
    return EncodingSpec(
        bond_sizes=config.bond_sizes,
        max_degree=config.max_degree,
        max_distance=config.max_distance,
        max_path_length=config.max_path_length,
        molecule_features=config.molecule_features,
    )


def check_files(folder: Path | str) -> dict[Path, str | None]:
    """Compare every file of a model folder with its digest, and load the model.

    Returns:
        The problem of each file: a message if it is damaged or missing, an empty text if it matches
        its digest, None if there is no digest of it.

    Raises:
        ModelError: the folder is missing or incomplete.
        StorageError: a file cannot be read.
    """
    folder = _find(folder)
    found: dict[Path, str | None] = dict.fromkeys(sorted(folder.iterdir()))
    config, weights, structures = (folder / n for n in (_CONFIG, _WEIGHTS, TRAINING_FILE))
    try:
        about = _read_config(config)
        found[config] = "" if KEY in about else None
    except ModelError as error:
        found[config] = str(error)
        return found  # the digests of the other files are in this one
    try:
        _read_weights(weights, about)
        found[weights] = found[config]
    except ModelError as error:
        found[weights] = str(error)
    if TRAINING_FILE in about.get(KEY, ()) and not structures.exists():
        found[structures] = f"{structures} is missing: copy the folder from its source again"
    for file in _structures(structures, about):
        try:
            file.read()
            found[structures] = found[config]
        except ModelError as error:
            found[structures] = str(error)
    if (card := folder / CARD) in found:
        try:
            if read_card(folder).weights_sha256 != weights_digest(folder):
                found[card] = (
                    f"{card} is damaged or belongs to another model: its digest of {_WEIGHTS} does "
                    "not match. Copy the folder from its source again"
                )
        except ModelError as error:
            found[card] = str(error)
    if not any(found.values()):
        try:
            PropertyModel.from_pretrained(folder)
        except ModelError as error:
            found[config] = str(error)
    return found


def weights_digest(folder: Path | str) -> str:
    """Return the SHA-256 digest of the weights file in the folder of a model or a run."""
    path = _find(folder) / _WEIGHTS
    with clear_errors(path, "read"):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _find(folder: Path | str) -> Path:
    folder = resolve(folder)
    with clear_errors(folder, "read"):  # such as a name that is too long
        is_folder = folder.is_dir()
    if not is_folder:
        message = f"there is no folder {folder}: give a run's folder or its model/ folder"
        if folder.name == str(folder):
            message += ", or the name of a model that comes with molsepnorm. "
            message += did_you_mean(folder.name, shipped_models())
        raise ModelError(message)
    if not (folder / _CONFIG).exists() and (folder / "model").is_dir():
        folder = folder / "model"
    missing = [name for name in (_CONFIG, _WEIGHTS) if not (folder / name).exists()]
    if missing:
        raise ModelError(
            f"{folder} is not a complete model folder: {' and '.join(missing)} missing. A model "
            f"folder holds {_CONFIG} and {_WEIGHTS}; a training run writes one to RUN/model once "
            "its first epoch ends"
        )
    return folder


@dataclass
class _Description:
    """The types of `config.json`."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - also finds a damaged name of `KEY`

    schema: int
    molsepnorm: str
    featurizer: str
    task: Task
    network: GraphormerConfig
    featurizer_version: str = "1"
    objective: str = SUPERVISED
    excludes: dict[str, str] = field(default_factory=dict)
    partners: list[GraphormerConfig] = field(default_factory=list)
    weights: list[float] = field(default_factory=lambda: [1.0])
    standardize: Level = "none"
    inputs: ExtraInputs = NO_INPUTS
    forest_share: float = 0.0
    calibration: list[Calibration] = field(default_factory=list)
    domain: Domain | None = None


def _read_config(path: Path) -> dict[str, Any]:
    """Read `config.json` and compare it with its digest; without a digest, check all types."""
    about = read_json(path)
    schema = about.get("schema") if isinstance(about, dict) else None
    if type(schema) is not int:
        raise ModelError(f"{path} is damaged: its schema is {schema!r:.80}, not a number")
    if schema > SCHEMA:
        raise ModelError(
            f"{path} was written by molsepnorm {about.get('molsepnorm')!s:.80} (schema {schema}), "
            f"and this is {__version__} (schema {SCHEMA}): upgrade molsepnorm to use this model"
        )
    if KEY not in about:
        _check_entries(path, about)
        return about
    digests = about[KEY]
    expected = digests.pop(_CONFIG, None) if isinstance(digests, dict) else None
    if not has_digest(about, expected):
        raise ModelError(
            f"{path} is damaged or was changed: its content does not match its digest. Copy the "
            "folder from its source again or, if you meant to change it, remove its entry "
            f"'{KEY}'"
        )
    return about


def _read_weights(path: Path, about: dict[str, Any]) -> dict[str, Tensor]:
    """Read the tensors and compare them with their digest."""
    with clear_errors(path, "read"):
        content = path.read_bytes()
    if KEY in about and hashlib.sha256(content).hexdigest() != about[KEY].get(_WEIGHTS):
        raise _other_weights(path, f"it does not match its digest in {_CONFIG}")
    try:
        weights = load(content)
    except (SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise _other_weights(path, error) from error
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise _other_weights(path, f"{name} has a number that is not finite")
    return weights


def _check_entries(path: Path, about: dict[str, Any]) -> None:
    """Check the type of each entry. This imports pydantic, which takes longer than the rest."""
    entries = {name: entry for name, entry in about.items() if name != KEY}
    check_types(_Description, entries, f"{path} does not describe a model")


def _require_featurizer(
    path: Path, about: dict[str, Any], config: GraphormerConfig, inputs: ExtraInputs
) -> None:
    """Check that the featuriser is registered, with the version and features of the model."""
    name, version = about["featurizer"], about.get("featurizer_version", "1")
    if name not in featurize.SIZES:
        raise ModelError(
            f"{path}: the model needs the featuriser '{name!s:.80}' (version {version!s:.80}), "
            "which is not registered here: install the package that provides it, or call "
            "molsepnorm.featurize.register with its class before loading the model. "
            f"{did_you_mean(name, featurize.SIZES)}"
        )
    sizes = featurize.SIZES[name]
    if sizes.version != version:
        raise ModelError(
            f"{path}: the model was trained with version {version!s:.80} of the "
            f"featuriser '{name}', and version {sizes.version} is installed: install the former, "
            "or train again"
        )
    own, read = len(sizes.molecule), config.molecule_features
    fits = (config.atom_sizes, config.bond_sizes) == (sizes.atoms, sizes.bonds)
    if not fits or not own <= read <= own + inputs.width:
        raise ConfigError(f"atom_sizes, bond_sizes and molecule_features are not those of '{name}'")


def _require_enough_weights(config: GraphormerConfig, weights: dict[str, Tensor]) -> None:
    """Check the sizes against the number of weights, before memory is allocated for them."""
    available = sum(tensor.numel() for tensor in weights.values())
    for name, value in vars(config).items():
        sizes = value if type(value) is tuple else (value,)
        if any(type(size) is int and size > available for size in sizes):
            raise ConfigError(
                f"network.{name} is {value!s:.40}, more than all weights in {_WEIGHTS}"
            )
    if config.layers * config.width * max(config.width, config.ffn_width) > available:
        raise ConfigError(f"network.layers and network.width need more weights than {_WEIGHTS} has")


def _other_weights(path: Path, reason: object) -> ModelError:
    return ModelError(
        f"{path} is damaged or belongs to another model ({_brief(reason)}): copy the folder from "
        "its source again"
    )


def _brief(reason: object) -> str:
    """Return the first line of an error, which may list every tensor or quote the file."""
    return next(iter(str(reason).splitlines()), "")[:400]
