"""The compared networks, and trainers for all variants of a step, on ZINC's subset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import numpy as np
import torch

from gpu.packed import load
from molsepnorm.devices.context import Precision
from molsepnorm.model import PropertyModel
from molsepnorm.nn import Graphormer
from molsepnorm.nn.kernels.fused_attention import DEVICES
from molsepnorm.tasks import Task
from molsepnorm.training import load_config
from molsepnorm.training.architecture import architecture
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.loop import Trainer
from molsepnorm.training.run_folder.folder import RunFolder

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RECIPE = Path(__file__).parents[2] / "configs" / "zinc-slim-paper.yaml"
NO_DROPOUT = {"model.dropout": 0.0, "model.attention_dropout": 0.0}
"""Settings without randomness, so that two devices are comparable."""


@dataclass(frozen=True)
class Scale:
    """Sizes and durations of the measurements."""

    batch: int = 256
    molecules: int = 9984
    """Training molecules of ZINC's subset, a multiple of the batch."""
    steps: int = 100
    """Training steps whose losses are compared."""
    rounds: int = 5
    """Rounds of `molecules // batch` steps that are timed."""
    compiled: bool = True
    """Try torch.compile, which takes a CPU most of a minute each time."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Changes of the recipe."""


FULL = Scale()
_SMALL = Scale(16, 64, 6, 1, False, {"model.layers": 2})


def scale() -> Scale:
    """Return a small scale if SMALL=1 is set, to try everything out on a CPU."""
    return _SMALL if os.environ.get("SMALL", "0") not in ("", "0") else FULL


def out() -> Path:
    """Return the folder of the results, $OUT."""
    folder = Path(os.environ.get("OUT") or ".gpu/out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def scratch() -> Path:
    """Return the folder of temporary files."""
    folder = Path(os.environ.get("MOLSEPNORM_SCRATCH") or "/tmp/molsepnorm-gpu")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True)
class Network:
    """SLIM with other settings."""

    name: str = ""
    """Empty for SLIM."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the recipe's."""

    @property
    def steps(self) -> int:
        """Number of steps whose losses are compared."""
        return min(16, scale().steps) if self.name else scale().steps

    def settings(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings that differ from the recipe's.

        Weights from Xavier's initialisation, for which the outputs depend on every part, need small
        steps: larger ones amplify rounding errors."""
        if not self.name:
            return dict(others)
        size = min(32, scale().batch)
        warmup = self.steps * size / (10 * scale().molecules)  # of a schedule of ten epochs
        model = {f"model.{name}": value for name, value in self.model.items()}
        steps = {"run.batch_size": size, "optim.lr": 2e-5, "optim.warmup": min(0.9, warmup)}
        return {**steps, "model.init": "xavier", **model, **others}

    def label(self, what: str) -> str:
        """Append the name of the network."""
        return f"{what}, {self.name}" if self.name else what


SLIM = Network()
LOCAL = Network(
    "with every cheap ingredient but resistances",
    {
        "local": "gine",
        "node_walks": 20,
        "pair_walks": 20,
        "urpe": True,
        "norm": "sep-bn",
        "readout": "token+sum",
        "head": "mlp",
    },
)
"""Can be captured even where the inverse matrices of resistances cannot."""
WALKS = Network("with every cheap ingredient", {**LOCAL.model, "resistance_kernels": 8})


@dataclass(frozen=True)
class Variant:
    """A way to take the same steps."""

    step: str = "captured"
    precision: Precision = "fp32"
    max_groups: int = 4
    fused: bool = True

    def __str__(self) -> str:
        attention = "fused" if self.fused else "plain"
        return f"{self.step}/{self.precision}/{self.max_groups}/{attention}"

    @staticmethod
    def of(name: str) -> Variant:
        """Parse a name.

        >>> Variant.of("captured/bf16/2/plain")
        Variant(step='captured', precision='bf16', max_groups=2, fused=False)
        """
        step, precision, max_groups, attention = name.split("/")
        return Variant(step, cast(Precision, precision), int(max_groups), attention == "fused")


class Warnings(Callback):
    """Collects the warnings of a trainer, such as that it cannot capture steps."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def on_warning(self, message: str) -> None:
        self.all.append(message)
        print(message, flush=True)


def make_trainer(
    variant: Variant, device: str = DEVICE, settings: Mapping[str, Any] | None = None
) -> Trainer:
    """Make a trainer of SLIM by the published recipe; the weights are the same on every device."""
    (DEVICES.add if variant.fused else DEVICES.discard)("cuda")
    steps = scale().molecules // scale().batch
    overrides = {
        "run.device": device,
        "run.batch_size": scale().batch,
        "run.epochs": 10,
        "run.step": variant.step,
        "run.precision": variant.precision,
        "run.max_groups": variant.max_groups,
        # the learning rate is at its maximum after the compared steps, so that they reduce the loss
        "optim.warmup": min(0.9, scale().steps / (10 * steps)),
        **scale().settings,
        **(settings or {}),
    }
    return trainer_of(load_config(config=RECIPE, overrides=overrides), scale().molecules)


def trainer_of(config: TrainConfig, molecules: int | None = None) -> Trainer:
    """Make the trainer of a run with the first `molecules` training molecules."""
    whole = load(config)
    splits = {**whole.splits, "train": whole.splits["train"][:molecules]}
    dataset = replace(whole, splits=splits)
    labels = dataset.labels[splits["train"]]
    task = Task.fit(dataset.targets, dataset.kinds, labels, config.run.metric)
    torch.manual_seed(config.run.seed)
    network = Graphormer(replace(architecture(config), outputs=task.outputs))
    model = PropertyModel(network, dataset.store.featurizer, task)
    folder = Path(mkdtemp(prefix="trainer-", dir=scratch()))
    return Trainer(config, dataset, model, RunFolder(folder / "run"), Warnings())


def first_batches(trainer: Trainer, wanted: int) -> list[np.ndarray]:
    """Return the batches of the first `wanted` steps."""
    batches: list[np.ndarray] = []
    for epoch in count():
        batches += trainer.schedule.batches(epoch)
        if len(batches) >= wanted:
            break
    return batches[:wanted]


def take_losses(trainer: Trainer, batches: list[np.ndarray]) -> torch.Tensor:  # float64 (steps,)
    """Train on these batches; return the loss of each step."""
    losses = []
    for batch in batches:
        trainer.step.totals.zero_()
        trainer.take_steps([batch])
        losses.append(trainer.step.totals[0] / trainer.step.totals[1])
    return torch.stack(losses).cpu()


def warnings_of(trainer: Trainer) -> list[str]:
    """Return the warnings since the trainer was made."""
    assert isinstance(trainer.callback, Warnings)
    return trainer.callback.all


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
