"""What checks and measurements share: ZINC's subset, and trainers of SLIM on it in all variants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import numpy as np
import torch

from gpu.packed import unpack
from gpu.scale import scale, scratch
from molsepnorm.data import datasets
from molsepnorm.data.datasets import Dataset
from molsepnorm.model import PropertyModel, encoding_of
from molsepnorm.nn import Graphormer
from molsepnorm.nn.kernels.fused_attention import DEVICES
from molsepnorm.predict.inference import Precision
from molsepnorm.tasks import Task
from molsepnorm.training import load_config
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.folder import RunFolder
from molsepnorm.training.loop import Trainer
from molsepnorm.training.run import architecture

__all__ = [
    "DEVICE",
    "RECIPE",
    "STILL",
    "Variant",
    "first_batches",
    "load",
    "make_trainer",
    "notes",
    "synchronize",
    "take_losses",
    "trainer_of",
]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RECIPE = Path(__file__).parents[2] / "configs" / "zinc-slim-paper.yaml"
MOLECULES = Path(__file__).parents[2] / ".gpu" / "molecules"
STILL = {"model.dropout": 0.0, "model.attention_dropout": 0.0}
"""Without chance, so that two devices can be compared."""


class Notes(Callback):
    """Keeps what a trainer notes: that it does not take steps in the way that it was asked to."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def on_warning(self, remark: str) -> None:
        self.all.append(remark)
        print(remark, flush=True)


@dataclass(frozen=True)
class Variant:
    """A way of taking the same steps."""

    step: str = "captured"
    precision: Precision = "fp32"
    blocks: int = 4
    fused: bool = True

    def __str__(self) -> str:
        attention = "fused" if self.fused else "plain"
        return f"{self.step}/{self.precision}/{self.blocks}/{attention}"

    @staticmethod
    def of(name: str) -> Variant:
        """From its name.

        >>> Variant.of("captured/bf16/2/plain")
        Variant(step='captured', precision='bf16', blocks=2, fused=False)
        """
        step, precision, blocks, attention = name.split("/")
        return Variant(step, cast(Precision, precision), int(blocks), attention == "fused")

    @property
    def settings(self) -> dict[str, Any]:
        """Of the run."""
        return {
            "run.step": self.step,
            "run.precision": self.precision,
            "run.blocks": self.blocks,
        }


def load(config: TrainConfig) -> Dataset:
    """A run's data, encoded from the packed molecules where they are carried along."""
    encoding = encoding_of(architecture(config))
    name = config.data.dataset
    if name and (packed := MOLECULES / f"{name}.npz").is_file():
        unpack(packed, f"{name}-downloaded", encoding)
    return datasets.load(config.data, encoding)


def make_trainer(
    variant: Variant, device: str = DEVICE, settings: dict[str, Any] | None = None
) -> Trainer:
    """SLIM by the published recipe with these settings; the same weights on every device."""
    (DEVICES.add if variant.fused else DEVICES.discard)("cuda")
    steps = scale().molecules // scale().batch
    overrides = {
        "run.device": device,
        "run.batch_size": scale().batch,
        "run.epochs": 10,
        # the schedule's top after the first hundred steps, so that they learn something
        "optim.warmup": min(0.9, scale().steps / (10 * steps)),
        **variant.settings,
        **scale().settings,
        **(settings or {}),
    }
    return trainer_of(load_config(config=RECIPE, overrides=overrides), scale().molecules)


def trainer_of(config: TrainConfig, molecules: int | None = None) -> Trainer:
    """A run's trainer, of the first so many of its training molecules."""
    whole = load(config)
    splits = {**whole.splits, "train": whole.splits["train"][:molecules]}
    dataset = replace(whole, splits=splits)
    labels = dataset.labels[splits["train"]]
    task = Task.fit(dataset.targets, dataset.kinds, labels, config.run.metric)
    torch.manual_seed(config.run.seed)
    network = Graphormer(replace(architecture(config), outputs=task.outputs))
    model = PropertyModel(network, dataset.store.featurizer, task)
    return Trainer(config, dataset, model, _new_folder(), Notes())


def _new_folder() -> RunFolder:
    among = scratch() / "trainers"
    among.mkdir(exist_ok=True)
    return RunFolder(Path(mkdtemp(dir=among)) / "run")


def first_batches(trainer: Trainer, wanted: int) -> list[np.ndarray]:
    """The batches of the first so many steps."""
    batches: list[np.ndarray] = []
    for epoch in count():
        batches += trainer.schedule.batches(epoch)
        if len(batches) >= wanted:
            return batches[:wanted]
    raise AssertionError


def take_losses(trainer: Trainer, batches: list[np.ndarray]) -> torch.Tensor:  # float64 (steps,)
    """Train on these batches; the loss of each step."""
    losses = []
    for batch in batches:
        trainer.step.totals.zero_()
        trainer.take_steps([batch])
        losses.append(trainer.step.totals[0] / trainer.step.totals[1])
    return torch.stack(losses).cpu()


def notes(trainer: Trainer) -> list[str]:
    """What it noted since it was made."""
    assert isinstance(trainer.callback, Notes)
    return trainer.callback.all


def synchronize(device: str = DEVICE) -> None:
    """Wait until the device has done all that it was asked to."""
    if device != "cpu":
        torch.cuda.synchronize()
