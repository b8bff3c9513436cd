"""The settings of fine-tuning, which is training from the weights of a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.model import PropertyModel, weights_digest
from molsepnorm.nn.config import FROM_DATA, GraphormerConfig
from molsepnorm.pretrained import recorded_path

NO_START = "none"
"""As `finetune.start`: train from random weights, also where the recipe has a start."""

_HEAD = "head"  # name of the head in a Graphormer
_FREE = {"dropout", "attention_dropout", "activation_dropout", "init"}
"""Settings of a network that decide how it is trained, not what its weights mean."""
_OF_TABLE = {*FROM_DATA} - {"atom_sizes", "bond_sizes"}
"""Settings of a network that may differ from those of the model that it starts from."""


def _start_or_none(value: Any) -> Any:
    return None if str(value) == NO_START else value


class FinetuneConfig(BaseModel):
    """Fine-tuning: where the initial weights come from, and how far they may change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    start: Annotated[Path | None, BeforeValidator(_start_or_none), "--from", "Fine-tuning"] = None
    """Model to start from: the folder of a run or a model, or a name that `molsepnorm models`
    lists; none for random weights. By default a table starts from molsepnorm-small.

    The section `model` and data.featurizer are taken from the model; only dropout rates and
    model.init may be set to other values. So is data.standardize, unless it is set.
    Targets with the same name, kind, classes and transform keep their output weights if their
    labels fit them, other targets get new ones. Labels in another unit do not fit."""
    weights_sha256: str | None = None
    """SHA-256 digest of the weights file of the start, which is recorded automatically. Training
    refuses a start with other weights."""
    probe: bool = True
    """Fit the head to the embeddings of the start before the first epoch.

    Training then begins with the output weights of a linear regression. A kernel regression is
    validated as epoch 0. It compares the embeddings, the feature columns and the molecule features
    of the network, fingerprint counts where they reduce the leave-one-out error, and descriptors if
    the model may have a random forest, which reads them, too. The counts are those of Morgan
    environments, and beside a forest also those of atom pairs. From epoch 1 on the model is the
    mean of this regression and the trained network (see `molsepnorm.training.probe`); in the end
    the validation molecules choose the share of the network."""
    freeze_epochs: Annotated[int, "--freeze-epochs", "Fine-tuning"] = Field(0, ge=0, le=1_000_000)
    """Number of epochs at the beginning that train only the output weights.

    The frozen body computes as in evaluation: without dropout, and with the batch-norm statistics
    of the start. If no epoch is left, a linear probe is trained."""
    body_lr: float = Field(1.0, gt=0, le=1)
    """Learning rate of the body as a fraction of optim.lr, which the head is trained at."""

    allow_leak: Annotated[bool, "--allow-leak", "Fine-tuning"] = False
    """Train and score the model on a data set that its card excludes; metrics.json then says so."""

    @property
    def label(self) -> str:
        """Name of the start in messages."""
        return "a model in memory" if self.start is None else str(self.start)

    def origin(self) -> dict[str, dict[str, str | None]]:
        """Return where the weights came from, for the files of a run; empty without a start."""
        if self.start is None:
            return {}
        model = str(recorded_path(self.start))
        return {"start": {"model": model, "weights_sha256": self.weights_sha256}}


def is_architecture(name: str) -> bool:
    """Return whether a setting, such as model.layers, is fixed by a model to start from."""
    section, _, key = name.partition(".")
    return name == "data.featurizer" or (section == "model" and key not in _FREE)


def with_start(
    content: Mapping[str, Any], overrides: Mapping[str, Any], preset: str | None = None
) -> dict[str, Any]:
    """Return settings whose architecture and featuriser are those of the model to start from.

    Args:
        content: plain values of a configuration, by section.
        overrides: settings that were named one by one; they must not contradict the model.
        preset: name of the chosen preset, which cannot be combined with a start.

    Raises:
        ConfigError: a named setting contradicts the model.
        ModelError: the folder holds no model, or a damaged one.
    """
    finetune = dict(content.get("finetune", {}))
    if "finetune.start" in overrides:
        finetune = {**finetune, "start": overrides["finetune.start"], "weights_sha256": None}
    start = finetune.get("start")
    if start is not None and str(start) == NO_START:
        return {key: section for key, section in content.items() if key != "finetune"}
    content = {**content, "finetune": finetune} if finetune else {**content}
    if not isinstance(start, str | Path):
        return content
    if preset is not None:
        raise ConfigError(
            f"preset {preset} and finetune.start both choose an architecture: leave the preset out"
        )
    data = content.get("data", {})
    is_table = overrides.get("data.dataset", data.get("dataset")) is None
    if finetune.get("weights_sha256") is None:
        model = PropertyModel.from_pretrained(start)
        finetune["weights_sha256"] = weights_digest(start)
        content["model"] = _architecture(model)
        if is_table:
            data = content["data"] = {
                **_standardization(model),
                **data,
                "featurizer": model.featurizer,
            }
    expected = {f"model.{k}": v for k, v in content.get("model", {}).items() if k not in _FREE}
    if is_table:
        expected["data.featurizer"] = data.get("featurizer")
    wrong = [
        f"{name} is {expected[name]}, not {value}"
        for name, value in overrides.items()
        if name in expected and value != expected[name]
    ]
    if wrong:
        raise _other_architecture(start, wrong)
    return content


def _architecture(model: PropertyModel) -> dict[str, Any]:
    """Return the section `model` of a run that starts from a model."""
    settings = asdict(_trained(model.network.config))
    return {name: value for name, value in settings.items() if name not in FROM_DATA}


def _standardization(model: PropertyModel) -> dict[str, Any]:
    """Return the setting `standardize` of a model; nothing if it reads structures as they are."""
    return {} if model.standardize == "none" else {"standardize": model.standardize}


def _trained(config: GraphormerConfig) -> GraphormerConfig:
    """Return the architecture that is trained from a model: a kernel head is replaced, and the
    fingerprint counts and descriptors that it compares are not read."""
    return config.with_linear_head() if config.head == "kernel" else config


def open_start(config: FinetuneConfig) -> PropertyModel | None:
    """Read the model that a run starts from; None if it starts from random weights.

    Raises:
        ConfigError: there is none, and a setting of fine-tuning has no effect.
        ModelError: the folder holds no model, a damaged one, or other weights than those named.
    """
    if config.start is None:
        for name, field in FinetuneConfig.model_fields.items():
            if getattr(config, name) != field.default:
                raise ConfigError(
                    f"finetune.{name} has no effect without a model to start from: name one by "
                    "finetune.start (--from), or leave it out"
                )
        return None
    model = PropertyModel.from_pretrained(config.start)
    if config.weights_sha256 not in (None, found := weights_digest(config.start)):
        raise ModelError(
            f"the weights of {config.start} have the digest {found[:12]}…, and "
            f"finetune.weights_sha256 names {str(config.weights_sha256)[:12]}…: put that model "
            "back, or name this one as finetune.start again"
        )
    return model


def require_fit(
    start: PropertyModel, architecture: GraphormerConfig, featurizer: str, name: str
) -> None:
    """Raise a `ConfigError` unless a model has this featuriser and this architecture."""
    if start.featurizer != featurizer:
        raise ConfigError(
            f"{name} was trained with the featuriser '{start.featurizer}', and the data have "
            f"'{featurizer}': start from a model with the features of the data"
        )
    own, other = asdict(_trained(start.network.config)), asdict(architecture)
    wrong = [
        f"model.{key} is {value}, not {other[key]}"
        for key, value in own.items()
        if key not in _FREE and key not in _OF_TABLE and value != other[key]
    ]
    if wrong:
        raise _other_architecture(name, wrong)


def _other_architecture(start: object, wrong: list[str]) -> ConfigError:
    return ConfigError(
        f"{start} has another architecture or other features: {'; '.join(wrong)}. Leave these "
        "settings out, and they are taken from the model"
    )


def in_head(name: str) -> bool:
    """Return whether a parameter of a network belongs to its head."""
    return name.partition(".")[0] == _HEAD
