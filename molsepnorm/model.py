"""A trained model as a thing of its own: the network, and all that is needed to use it.

A model folder holds `config.json` (featuriser, task, network, versions) and `model.safetensors`;
nothing in it is ever unpickled.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from molsepnorm import featurize
from molsepnorm._version import __version__
from molsepnorm.encodings.encode import EncodingSpec
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files import clear_errors, replacing
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Task

__all__ = ["SCHEMA", "PropertyModel", "encoding_of"]

SCHEMA = 1
"""Raised whenever the meaning of a model folder changes."""

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"


@dataclass
class PropertyModel:
    """A network with its featuriser and its task.

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
    """The name by which `molsepnorm.featurize.get` finds it."""
    task: Task

    @property
    def encoding(self) -> EncodingSpec:
        """What molecules must be encoded with for this network."""
        return encoding_of(self.network.config)

    def save_pretrained(self, folder: Path | str) -> None:
        """Write the model folder, replacing one that is there.

        Raises:
            StorageError: the place cannot be written.
        """
        about = {
            "schema": SCHEMA,
            "molsepnorm": __version__,
            "featurizer": self.featurizer,
            "task": self.task.to_json(),
            "network": asdict(self.network.config),
        }
        weights = {name: value.contiguous() for name, value in self.network.state_dict().items()}
        with replacing(folder) as scratch:
            scratch.mkdir()
            (scratch / _CONFIG).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
            (scratch / _WEIGHTS).write_bytes(save(weights))

    @staticmethod
    def from_pretrained(folder: Path | str) -> PropertyModel:
        """Read a model folder, or the one within a run's folder; the network is in evaluation mode.

        Raises:
            ModelError: the folder is not there, incomplete, damaged or of a newer molsepnorm.
        """
        folder = _find(Path(folder))
        about = _read_config(folder / _CONFIG)
        try:
            config = GraphormerConfig(**about["network"])
            with torch.random.fork_rng():  # the weights drawn here are replaced below
                network = Graphormer(config)
            task = Task.from_json(about["task"])
            if task.outputs != config.outputs:
                raise ConfigError(f"targets of {task.outputs} outputs and {config.outputs} outputs")
            featurizer = about["featurizer"]
            if featurizer not in featurize.SIZES:
                raise ConfigError(f"unknown featuriser '{featurizer}'")
        except (KeyError, TypeError, AttributeError, ConfigError) as error:
            raise ModelError(f"{folder / _CONFIG} does not describe a model: {error}") from error
        try:
            with clear_errors(folder / _WEIGHTS, "read"):
                network.load_state_dict(load_file(folder / _WEIGHTS))
        except (SafetensorError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise ModelError(
                f"{folder / _WEIGHTS} is damaged or belongs to another model ({reason}): "
                "take the folder from its source again"
            ) from error
        return PropertyModel(network.eval(), featurizer, task)


def encoding_of(config: GraphormerConfig) -> EncodingSpec:
    """What molecules must be encoded with for a network of this architecture."""
    return EncodingSpec(
        bond_sizes=config.bond_sizes,
        max_degree=config.max_degree,
        max_distance=config.max_distance,
        max_path_length=config.max_path_length,
    )


def _find(folder: Path) -> Path:
    if not folder.is_dir():
        raise ModelError(f"there is no folder {folder}: give a run's folder or its model/ folder")
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


def _read_config(path: Path) -> dict:
    try:
        with clear_errors(path, "read"):
            about = json.loads(path.read_text(encoding="utf-8"))
        schema = about["schema"]
        if not isinstance(schema, int):
            raise ValueError(f"its schema is {schema!r}, not a number")
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is damaged: {error}") from error
    if schema > SCHEMA:
        raise ModelError(
            f"{path} was written by molsepnorm {about.get('molsepnorm')} (schema {schema}), and "
            f"this is {__version__} (schema {SCHEMA}): upgrade molsepnorm to use this model"
        )
    return about
