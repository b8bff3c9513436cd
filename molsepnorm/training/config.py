"""The configuration of a training run: the sections of the YAML files in `configs/`.

A string such as "--lr" in the annotation of a setting makes it a command-line option; a further
string is its heading in `--help`. The docstring is its help text up to the first blank line, and
its entry in `docs/settings.md` as a whole; `make settings` writes both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from molsepnorm.data.datasets.config import MAX_SEED, DataConfig, parse_pairs
from molsepnorm.devices import Precision
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.files.writing import replacing
from molsepnorm.model import PropertyModel, weights_digest
from molsepnorm.nn.config import FROM_DATA, GraphormerConfig
from molsepnorm.pretrained import recorded_path

NO_START = "none"  # as `finetune.start`: train from random weights, whatever the recipe has
FREE = {"dropout", "attention_dropout", "activation_dropout", "init"}
"""Settings of a network that decide how it is trained, not what its weights mean."""

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_SHOWN = 200  # characters of a value in a message


def shown(value: object) -> str:
    """Return the value as Python prints it, shortened."""
    try:
        written = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return f"a very large {type(value).__name__}"
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]} …"


def seconds_of(text: str) -> float:
    """Return a time such as 640s, 11m or 1.5h in seconds."""
    try:
        seconds = float(text[:-1]) * _UNITS[text[-1:]]
    except (ValueError, KeyError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"a time looks like 640s, 11m or 1.5h; got '{text}'")
    return seconds


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class OptimConfig(_Section):
    """AdamW and its learning-rate schedule."""

    lr: Annotated[float, "--lr"] = Field(5e-4, gt=0, le=1000)
    """Peak learning rate."""
    warmup: float = Field(0.05, ge=0, lt=1)
    """Fraction of all steps during which the learning rate rises linearly from 0 to its peak."""
    decay: Literal["linear", "cosine", "constant"] = "cosine"
    """Learning-rate schedule after the warm-up, down to `final_lr`."""
    final_lr: float = Field(0.0, ge=0, le=1000)
    """Learning rate that the decay approaches at the end of training."""
    weight_decay: float = Field(0.01, ge=0, le=1000)
    """AdamW's weight decay."""
    clip_norm: float | None = Field(5.0, gt=0, le=1e9)
    """Maximum norm of the gradient of all parameters; null turns clipping off."""
    regression_loss: Literal["l1", "mse"] = "l1"
    """Loss of standardised regression targets: absolute (l1) or squared error (mse)."""
    class_weight: Annotated[Literal["balanced"] | None, "--class-weight"] = None
    """balanced weights each class by the inverse of its frequency."""
    task_weights: Annotated[
        dict[str, Annotated[float, Field(ge=0)]], BeforeValidator(parse_pairs), "--task-weights"
    ] = {}
    """Weights of targets in the loss of the network, such as pEC50=1,log2fc=0.2; others have 1.
    Kernel regression and random forest treat targets separately."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay of a moving average of the weights, which is validated and saved; null for none."""


class ObjectiveConfig(_Section):
    """The training objective and its settings."""

    name: str = "supervised"
    """supervised: the labels. pretraining: structures without labels."""


class PretrainingConfig(ObjectiveConfig):
    """Pre-training on structures: the weights of its losses."""

    name: str = "pretraining"
    teacher: float = Field(0.0, ge=0, le=1000)
    """Weight of the regression of another model's embeddings, `teacher_vectors`."""
    teacher_vectors: Path | None = None
    """Parquet file, or folder of them, with the columns smiles and embedding."""
    descriptors: float = Field(1.0, ge=0, le=1000)
    """Weight of the regression of RDKit's 2D descriptors."""
    descriptor_share: float = Field(0.7, gt=0, le=1)
    """Share of the descriptors of each molecule that count in a training step."""

    @model_validator(mode="after")
    def _check(self) -> PretrainingConfig:
        if bool(self.teacher) != (self.teacher_vectors is not None):
            raise ValueError(
                "set both teacher and teacher_vectors (--teacher FILE.parquet), or none"
            )
        return self


OBJECTIVE_SETTINGS: dict[str, type[ObjectiveConfig]] = {
    "supervised": ObjectiveConfig,
    "pretraining": PretrainingConfig,
}
"""The settings of each objective, by its name."""


def _objective_settings(value: Any) -> Any:
    """Validate the section by the settings of the objective that it names."""
    if not isinstance(value, dict):
        return value
    name = str(value.get("name", "supervised"))
    if name not in OBJECTIVE_SETTINGS:
        raise ValueError(
            f"no objective is called '{name}'. {did_you_mean(name, OBJECTIVE_SETTINGS)}"
        )
    known = OBJECTIVE_SETTINGS[name].model_fields.keys()
    for other, settings in OBJECTIVE_SETTINGS.items():
        for key in value.keys() & settings.model_fields.keys() - known:
            raise ValueError(
                f"'{key}' is for the objective {other}: set objective.name, or remove it"
            )
    return OBJECTIVE_SETTINGS[name].model_validate(value)


def _start_or_none(value: Any) -> Any:
    return None if str(value) == NO_START else value


class FinetuneConfig(_Section):
    """Fine-tuning: where the initial weights come from, and how far they may change."""

    start: Annotated[Path | None, BeforeValidator(_start_or_none), "--from", "Fine-tuning"] = None
    """Model to start from: the folder of a run or a model, or a name that `molsepnorm models`
    lists; none for random weights. By default a table starts from molsepnorm-assays.

    The section `model`, except dropout rates and model.init, and data.featurizer are those of the
    model, as is data.standardize unless it is set. Targets with the same name, kind, classes,
    transform and unit keep their output weights; other targets get new ones."""
    otherwise: Path | None = None
    """Model to start from instead if `start` was trained on more than 5 % of the validation and
    test molecules, whose scores would be too optimistic. Both have the same architecture. By
    default it is molsepnorm-taught, and none with --from."""
    weights_sha256: str | None = None
    """SHA-256 digest of the weights of the start, recorded automatically and checked on loading."""
    probe: bool = True
    """Fit the head to the embeddings of the start before the first epoch.

    Training begins with the output weights of a linear regression. A kernel regression is fitted as
    well, and becomes a part of the model. See docs/pretraining.md."""
    body_lr: float = Field(1.0, gt=0, le=1)
    """Learning rate of the body as a fraction of optim.lr, the rate of the head."""

    allow_leak: Annotated[bool, "--allow-leak", "Fine-tuning"] = False
    """Train and score the model on a data set that its card excludes; metrics.json then says so."""


def _checked_time(text: str) -> str:
    seconds_of(text)
    return text


class RunConfig(_Section):
    """Training length, batches and hardware."""

    epochs: Annotated[int | None, "--epochs"] = Field(50, ge=0, le=1_000_000)
    """Number of epochs; 0 fits the probe of fine-tuning only. null, as in the recipe for tables, is
    15, or 5 if a target has classes, because networks soon know those by heart."""
    budget: Annotated[Annotated[str, AfterValidator(_checked_time)] | None, "--budget"] = None
    """Training time, such as 640s, 11m or 1.5h, of each member of an ensemble. Replaces --epochs by
    the number of epochs that fit, by the speed of a few steps."""
    batch_size: Annotated[int, "--batch-size"] = Field(64, ge=2, le=1 << 20)
    """Molecules per step, summed over all processes."""
    max_groups: int = Field(4, ge=1, le=1 << 20)
    """Maximum number of groups of similar-sized molecules in a batch, each padded separately."""
    max_pairs: int = Field(1 << 20, ge=4, le=1 << 40)
    """Maximum number of slot pairs in a batch, padding included. A batch with very large molecules
    is split, which bounds memory (about 2 kB per pair for 12 layers of 32 heads)."""
    metric: Annotated[str | None, "--metric"] = None
    """Validation metric of early stopping and tune: mae, rmse, roc_auc, … By default the usual
    metric of the targets, or the loss for targets of several kinds and for several numbers."""
    patience: Annotated[int | None, "--patience"] = Field(None, ge=1, le=1_000_000)
    """Early stopping: stop after this many epochs without improvement, and keep the best epoch. By
    default the last epoch is kept, at which the learning rate has fallen to its end."""
    baseline: Annotated[bool, "--no-baseline"] = True
    """By default a run on a table also fits a random forest to the same rows and compares it with
    the network; --no-baseline turns this off."""
    blend: Annotated[Literal["auto", "forest", "none"], "--blend"] = "auto"
    """forest averages the networks with the random forest of the baseline; none does not. auto
    does on tables of SMILES with up to 100,000 training labels.

    The validation split chooses the weight of the forest: near 1/2 for few molecules, 0 if several
    hundred show no gain. Prediction is faster without a forest."""
    refit: Annotated[bool, "--no-refit"] = True
    """By default a run on a table ends with a second fit, to the training and validation molecules,
    of the fine-tuned network (unless --budget is set), its kernel regression (up to 10,000
    molecules) and the random forest. --no-refit saves up to two fifths of the time.

    Validation scores, intervals and calibrated probabilities are those of the first fit."""
    ensemble: Annotated[int, "--ensemble", "Ensemble"] = Field(1, ge=1, le=1000)
    """Number of models that are trained, with different seeds, and averaged. Their runs are in the
    folder `members`."""
    own_networks: Annotated[bool | None, "--own-networks/--no-own-networks"] = None
    """In a table with several targets, train a further network for each one with 200 training
    labels or more, on these labels alone. By default on for 2 to 8 such targets, and off with
    --budget. Each takes as long as the common network would with as many molecules.

    The validation molecules choose its share in the mean with the common network."""
    training_structures: Annotated[bool, "--no-training-structures"] = True
    """By default the model folder holds the SMILES, fingerprints and labels of the training
    molecules, which `predict --domain` needs; --no-training-structures leaves this file out.

    The weights still hold embeddings of the training molecules, see docs/sharing.md."""
    license: str | None = None
    """Licence of the trained model for its card, such as mit or cc-by-4.0."""
    seed: Annotated[int, "--seed"] = Field(0, ge=0, le=MAX_SEED)
    """Random seed for initialisation, shuffling and dropout."""
    device: Annotated[str, "--device", "Hardware"] = "auto"
    """Device: auto (a GPU if there is one), cpu, cuda, cuda:1, …"""
    threads: Annotated[int | None, "--threads", "Hardware"] = Field(None, ge=1, le=1024)
    """Number of CPU threads, by default $OMP_NUM_THREADS or the number of cores, at most 4. Results
    repeat bit for bit with the same number."""
    precision: Annotated[Precision, "--precision", "Hardware"] = "fp32"
    """Precision of matrix products; tf32 needs a GPU.

    Validation always runs in fp32."""
    compile: bool = False
    """Run training steps through torch.compile, which takes minutes to start."""
    validate_every: int = Field(1, ge=1, le=1_000_000)
    """Number of epochs between validations; checkpoints are written at each validation."""

    @property
    def length(self) -> int:
        """The number of epochs, once the data are known."""
        assert self.epochs is not None
        return self.epochs

    def network_alone(self, **changes: Any) -> RunConfig:
        """Return a copy for a run of one network, without a forest and a second fit."""
        alone = {"ensemble": 1, "refit": False, "baseline": False, "blend": "none"}
        return self.model_copy(update=alone | changes)


class TrainConfig(_Section):
    """Everything that determines a training run."""

    data: DataConfig
    model: GraphormerConfig = GraphormerConfig()
    objective: Annotated[SerializeAsAny[ObjectiveConfig], BeforeValidator(_objective_settings)] = (
        ObjectiveConfig()
    )
    optim: OptimConfig = OptimConfig()
    finetune: FinetuneConfig = FinetuneConfig()
    run: RunConfig = RunConfig()

    def resolved(self) -> TrainConfig:
        """Return a copy with absolute paths, so that a run can be resumed from any folder."""

        def absolute(value: Any) -> Any:
            if isinstance(value, Path):
                return value.resolve()
            if isinstance(value, dict):
                return {absolute(key): each for key, each in value.items()}
            return [*map(absolute, value)] if isinstance(value, list) else value

        finetune = self.finetune
        models = {"start": finetune.start, "otherwise": finetune.otherwise}
        paths = {name: recorded_path(path) for name, path in models.items() if path is not None}
        finetune = finetune.model_copy(update=paths)
        sections = {"data": self.data, "objective": self.objective}
        changed = {
            name: section.model_copy(update={key: absolute(value) for key, value in section})
            for name, section in sections.items()
        }
        return self.model_copy(update=changed | {"finetune": finetune})

    def changed(self, settings: Mapping[str, Any]) -> TrainConfig:
        """Return a copy with other values of settings, given by their dotted names."""
        content = with_settings(with_start(self.content(), settings), settings)
        return validated(content, "the configuration")

    def content(self) -> dict[str, Any]:
        """Return the sections as plain values, without those that follow from the data."""
        return self.model_dump(mode="json", exclude={"model": {*FROM_DATA}})

    def save(self, path: Path) -> None:
        content = self.resolved().content()
        with replacing(path) as scratch:
            scratch.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def is_architecture(name: str) -> bool:
    """Return whether a setting, such as model.layers, is fixed by a model to start from."""
    section, _, key = name.partition(".")
    return name == "data.featurizer" or (section == "model" and key not in FREE)


def with_start(
    content: Mapping[str, Any], overrides: Mapping[str, Any], preset: str | None = None
) -> dict[str, Any]:
    """Take architecture and featuriser from the model to start from; refuse other overrides."""
    finetune = dict(content.get("finetune", {}))
    if "finetune.start" in overrides:
        finetune = {**finetune, "otherwise": None, "weights_sha256": None}
        finetune["start"] = overrides["finetune.start"]
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
        network = asdict(model.network.config)
        content["model"] = {name: network[name] for name in network if name not in FROM_DATA}
        if is_table:
            data = content["data"] = {**data, "featurizer": model.featurizer}
            if model.standardize != "none":  # others read structures as they are
                data.setdefault("standardize", model.standardize)
    expected = {f"model.{k}": v for k, v in content.get("model", {}).items() if k not in FREE}
    if is_table:
        expected["data.featurizer"] = data.get("featurizer")
    wrong = [
        f"{name} is {expected[name]}, not {value}"
        for name, value in overrides.items()
        if name in expected and value != expected[name]
    ]
    if wrong:
        raise other_architecture(start, wrong)
    return content


def other_architecture(start: object, wrong: list[str]) -> ConfigError:
    return ConfigError(
        f"{start} has another architecture or other features: {'; '.join(wrong)}. Leave these "
        "settings out: the model has them"
    )


def with_settings(content: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return sections with other values of settings, given by their dotted names."""
    content = dict(content)
    for name, value in settings.items():
        section, _, key = str(name).partition(".")
        if not key or section not in TrainConfig.model_fields:
            raise ConfigError(
                f"unknown setting '{name}': settings are named section.name, such as model.layers. "
                f"{did_you_mean(section, TrainConfig.model_fields)}"
            )
        content[section] = {**content.get(section, {}), key: value}
    return content


def validated(content: dict[str, Any], where: Path | str) -> TrainConfig:
    """Return the configuration with these sections; `where` names their source in errors."""
    for name in FROM_DATA:
        if name in content.get("model", {}):
            raise ConfigError(f"{where}: model.{name} follows from the data and cannot be set")
    try:
        config = TrainConfig.model_validate(content)
    except ValidationError as invalid:
        messages = dict.fromkeys(_explain(error, where) for error in invalid.errors())
        raise ConfigError(*messages) from None
    except ValueError as error:  # an integer with too many digits for a text
        raise ConfigError(f"{where}: {error}") from None
    for section, settings in content.items():
        for name, value in settings.items():
            read = getattr(getattr(config, section), name)
            if isinstance(value, bool) and type(read) in (int, float):  # pydantic reads true as 1
                raise ConfigError(f"{where}: {section}.{name} is a number; got {shown(value)}")
    return config


def _explain(error: Any, where: Path | str) -> str:
    # for a union, pydantic's path also names the type that it tried, such as literal['a','b']
    path = [str(part) for part in error["loc"] if "[" not in str(part)]
    name = ".".join(path)
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{where}: unknown setting '{name}'. {did_you_mean(path[-1], _known(path[:-1]))}"
    message = error["msg"].removeprefix("Value error, ")
    message = message if len(message) <= 600 else f"{message[:600]} …"  # it may quote a long value
    got = "" if isinstance(error["input"], dict) else f"; got {shown(error['input'])}"
    if error["type"] == "list_type" and isinstance(error["input"], str):
        got += f", write [{shown(error['input'])}]"
    return f"{where}: {name}: {message}{got}" if name else f"{where}: {message}"


def _known(path: list[str]) -> list[str]:
    if not path:
        return list(TrainConfig.model_fields)
    if path[0] == "objective":
        return [*{name for each in OBJECTIVE_SETTINGS.values() for name in each.model_fields}]
    section: Any = TrainConfig.model_fields[path[0]].annotation
    names = getattr(section, "model_fields", None) or section.__dataclass_fields__
    return [name for name in names if name not in FROM_DATA]
