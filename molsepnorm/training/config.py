"""The configuration of a training run, one to one with the YAML files in `configs/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from molsepnorm.data.datasets.config import MOST_SEED, DataConfig
from molsepnorm.errors import ConfigError, did_you_mean
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.predict.inference import Precision
from molsepnorm.training.budget import seconds_of
from molsepnorm.training.settings import parse_yaml, shown

__all__ = ["OptimConfig", "RunConfig", "TrainConfig", "config_folder", "load_config"]

_LONGEST = 4096  # characters of a path
_LARGEST_FILE = 4_000_000  # bytes
_FROM_DATA = ("atom_sizes", "bond_sizes", "outputs")  # of the model; the data set decides them


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class OptimConfig(_Section):
    """AdamW with warm-up and decay."""

    lr: float = Field(5e-4, gt=0, le=1000)
    """Learning rate at its peak."""
    warmup: float = Field(0.05, ge=0, lt=1)
    """Share of all steps during which the rate rises linearly from 0."""
    decay: Literal["linear", "cosine", "constant"] = "cosine"
    """How the rate falls to `final_lr` after that."""
    final_lr: float = Field(0.0, ge=0, le=1000)
    weight_decay: float = Field(0.01, ge=0, le=1000)
    clip_norm: float | None = Field(5.0, gt=0, le=1e9)
    """Largest norm of the gradient of all parameters together; None for no clipping."""
    regression_loss: Literal["l1", "mse"] = "l1"
    """l1, the absolute error, goes with MAE; mse, the squared error, with RMSE. Of labels in units
    of their standard deviation."""
    class_weight: Literal["balanced"] | None = None
    """balanced: labels of yes/no and multi-class targets count in the inverse proportion of their
    class's share, so that a rare class weighs as much as a common one."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay of an exponential moving average of the weights, which then is what is validated and
    saved; None for none."""


def _checked_time(text: str) -> str:
    seconds_of(text)
    return text


class RunConfig(_Section):
    """How long, in which batches, where."""

    epochs: int = Field(50, ge=1, le=1_000_000)
    budget: Annotated[str, AfterValidator(_checked_time)] | None = None
    """How long the run may take, such as 640s, 11m or 1.5h: the speed is measured, and in place of
    `epochs` as many are trained as fit."""
    batch_size: int = Field(64, ge=2, le=1 << 20)
    """Molecules per step, over all processes together."""
    blocks: int = Field(4, ge=1, le=1 << 20)
    """Rectangles of like-sized molecules that a batch is padded in (see `nn.batch`)."""
    max_pairs: int = Field(1 << 20, ge=4, le=1 << 40)
    """Most slot pairs of a batch, padding included: one that holds very large molecules is split,
    which bounds memory (some 2 kB a pair for 12 layers of 32 heads)."""
    metric: str | None = None
    """What the best model is chosen by, on validation; by default the usual one of the targets."""
    patience: int | None = Field(None, ge=1, le=1_000_000)
    """Stop after so many epochs without a better one; None to train to the last."""
    seed: int = Field(0, ge=0, le=MOST_SEED)
    """Of the initial weights, the order of molecules and dropout."""
    device: str = "auto"
    """auto (a GPU where there is one), cpu, cuda, cuda:1, …"""
    threads: int | None = Field(None, ge=1, le=1024)
    """Number of CPU threads. By default the faster of one thread and more is chosen while the run
    trains, unless OMP_NUM_THREADS is set. Only a fixed number repeats results to the bit."""
    precision: Precision = "fp32"
    """Of matrix products in training: fp32, tf32 (on a GPU), or bf16. Validation is fp32 always."""
    step: Literal["auto", "eager", "captured", "compiled"] = "auto"
    """eager: operation by operation. captured: each step as one CUDA graph, in a few fixed shapes.
    compiled: the network through torch.compile, and captured too on a GPU. auto: captured on a GPU,
    eager on a CPU and by several processes."""
    validate_every: int = Field(1, ge=1, le=1_000_000)
    """Epochs from one validation, and checkpoint, to the next."""


class TrainConfig(_Section):
    """Everything that decides a training run."""

    data: DataConfig
    model: GraphormerConfig = GraphormerConfig()
    optim: OptimConfig = OptimConfig()
    run: RunConfig = RunConfig()

    def resolved(self) -> TrainConfig:
        """The same with full paths, so that a run resumes from any folder."""
        from molsepnorm.data.tables import is_stream

        paths = {
            name: path.absolute() if is_stream(path) else path.resolve()
            for name in ("table", "data_dir", "splits_file")
            if (path := getattr(self.data, name)) is not None
        }
        return self.model_copy(update={"data": self.data.model_copy(update=paths)})

    def changed(self, settings: Mapping[str, Any]) -> TrainConfig:
        """The same with other settings, by their dotted names.

        Raises:
            ConfigError: an unknown setting, or a value that does not fit.
        """
        content = self._content()
        for name, value in settings.items():
            _set(content, name, value)
        return _validate(content, "the configuration")

    def _content(self) -> dict[str, Any]:
        """Plain values, without what follows from the data."""
        content = self.model_dump(mode="json")
        for name in _FROM_DATA:
            del content["model"][name]
        return content

    def save(self, path: Path) -> None:
        """Write as YAML; `load_config(path)` reads it back."""
        content = self.resolved()._content()
        with replacing(path) as scratch:
            scratch.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def load_config(
    source: str | Path | None = None,
    *,
    config: Path | str | None = None,
    preset: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> TrainConfig:
    """Put a configuration together; what comes later wins.

    Args:
        source: a data set's name, or a file. Without `config`, its default recipe is taken:
            `configs/<name>.yaml`, `configs/ogbg.yaml` for OGB's, `configs/table.yaml` for a file.
        config: a YAML file.
        preset: replaces the architecture by that of `configs/<preset>.yaml`: mini, slim or base.
        overrides: single settings by their dotted names.

    >>> recipe = load_config("zinc", overrides={"model.layers": 6, "optim.lr": 1e-3})
    >>> recipe.data.dataset, recipe.model.layers, recipe.optim.lr
    ('zinc', 6, 0.001)

    Raises:
        ConfigError: an unknown setting (the message names the nearest), or a value that does not
            fit.
    """
    for given, name in ((source, "source"), (config, "config"), (preset, "preset")):
        if given is not None and not isinstance(given, str | Path):
            raise ConfigError(
                f"{name} must be a name or a path; got {type(given).__module__}."
                f"{type(given).__qualname__}"
                + ". A table in memory is saved to a file first, as by DataFrame.to_csv"
                * (name == "source")
            )
        if given is not None and len(str(given)) > _LONGEST:
            raise ConfigError(
                f"{name} must be a name or a path; got {len(str(given)):,} characters, which begin "
                f"with {shown(str(given)[:50])}"
            )
        if given is not None and ("\0" in str(given) or not str(given).strip()):
            raise ConfigError(f"{name} must be a name or a path; got {shown(str(given))}")
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ConfigError(
            "overrides must be a dictionary of settings, such as {'model.layers': 6}; got "
            f"{shown(overrides)}"
        )
    content: dict[str, Any] = {}
    if config is not None:
        content = _read_yaml(Path(config))
    elif source is not None:
        content = _read_yaml(config_folder() / f"{_recipe(source)}.yaml")
    if source is not None:
        data = {**content.get("data", {}), "dataset": None, "table": None}
        content["data"] = data | {"table" if _is_file(source) else "dataset": str(source)}
    if preset is not None:
        known = [path.stem for path in config_folder().glob("*.yaml") if path.stem in _PRESETS]
        if preset not in known:
            raise ConfigError(f"unknown preset '{preset}'. {did_you_mean(preset, known)}")
        content["model"] = _read_yaml(config_folder() / f"{preset}.yaml")["model"]
    for name, value in (overrides or {}).items():
        _set(content, name, value)
    made = _validate(content, config or "the configuration")
    made.data.require_effect([str(name) for name in overrides or ()])
    return made


_PRESETS = ("mini", "slim", "base")


def _recipe(source: str | Path) -> str:
    """The name of the source's default recipe."""
    if _is_file(source):
        return "table"
    if str(source).startswith("ogbg-"):
        return "ogbg"
    return str(source) if (config_folder() / f"{source}.yaml").is_file() else "table"


def config_folder() -> Path:
    """Where the recipes are: within the installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def _is_file(source: str | Path) -> bool:
    return isinstance(source, Path) or "." in source or "/" in source


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        with clear_errors(path, "read"):
            size = path.stat().st_size
            if size > _LARGEST_FILE:
                raise ConfigError(f"{path} has {size:,} bytes, which is no file of settings")
            content = parse_yaml(path.read_text(encoding="utf-8"))
    except ConfigError:
        raise
    except ValueError as error:  # UnicodeDecodeError, too
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if content is None:
        return {}
    sections = content.items() if isinstance(content, dict) else [(None, None)]
    if not all(isinstance(name, str) and isinstance(each, dict) for name, each in sections):
        raise ConfigError(
            f"{path} must have sections with settings, such as 'optim:' and below it 'lr: 0.001'. "
            f"Sections: {', '.join(TrainConfig.model_fields)}"
        )
    return content


def _set(content: dict[str, Any], name: str, value: Any) -> None:
    section, _, key = str(name).partition(".")
    if not key or section not in TrainConfig.model_fields:
        raise ConfigError(
            f"unknown setting '{name}': settings are named section.name, such as model.layers. "
            f"{did_you_mean(section, TrainConfig.model_fields)}"
        )
    content[section] = {**content.get(section, {}), key: value}


def _validate(content: dict[str, Any], where: Path | str) -> TrainConfig:
    for name in _FROM_DATA:
        if name in content.get("model", {}):
            raise ConfigError(f"{where}: model.{name} follows from the data and cannot be set")
    try:
        return TrainConfig.model_validate(content)
    except ValidationError as invalid:
        told = dict.fromkeys(_explain(error, where) for error in invalid.errors())
        raise ConfigError(*told) from None


def _cut(text: str) -> str:
    """The text, which may quote a very long value, as far as a message has room for it."""
    return text if len(text) <= 600 else f"{text[:600]} …"


def _explain(error: Any, where: Path | str) -> str:
    # pydantic also names the way it tried, such as literal['a','b'], where a value may be of two
    path = [str(part) for part in error["loc"] if "[" not in str(part)]
    name = ".".join(path)
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{where}: unknown setting '{name}'. {did_you_mean(path[-1], _known(path[:-1]))}"
    if error["type"] == "missing" and name == "data":
        return "no data: name a data set (--dataset zinc) or a table (--data FILE.csv)"
    message = _cut(error["msg"].removeprefix("Value error, "))
    got = "" if isinstance(error["input"], dict) else f"; got {shown(error['input'])}"
    if error["type"] == "list_type" and isinstance(error["input"], str):
        got += f", write [{shown(error['input'])}]"
    return f"{where}: {name}: {message}{got}" if name else f"{where}: {message}"


def _known(path: list[str]) -> list[str]:
    """The settings of a section."""
    if not path:
        return list(TrainConfig.model_fields)
    section = TrainConfig.model_fields[path[0]].annotation
    if is_dataclass(section):
        return [field.name for field in fields(section) if field.name not in _FROM_DATA]
    assert isinstance(section, type) and issubclass(section, BaseModel)
    return list(section.model_fields)
