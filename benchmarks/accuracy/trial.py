"""`trial`: train once and say what came of it, whatever that is."""

from __future__ import annotations

import subprocess
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from where import commit, machine

from accuracy.log import Curve, Logged, short
from molsepnorm.data.datasets import Dataset
from molsepnorm.errors import MolsepnormError
from molsepnorm.files.writing import fingerprint
from molsepnorm.model import PropertyModel
from molsepnorm.training import Callback, EpochRecord, StopWhen, TrainConfig, load_config, train
from molsepnorm.training.folder import RunFolder

__all__ = ["code", "described", "interval", "settings_of", "source", "trial"]

_TOP = Path(__file__).resolve().parents[2]


def trial(
    config: TrainConfig,
    name: str,
    why: str,
    runs: Path,
    *,
    tell: Callable[[str], None] = print,
    stopped_by: Callable[[], str | None] = lambda: None,
) -> Logged:
    """Train in a new folder `runs`/<name>-<seed>-<number>.

    A run that fails is told of as well, with what it had reached.

    Args:
        config: what to do.
        name: of what is tried.
        why: what it is to show.
        runs: where the run's folder is made.
        tell: is given a line for each validation.
        stopped_by: asked after every step; once it answers, the run ends for that reason.
    """
    begun, date = time.perf_counter(), datetime.now(timezone.utc)
    tree, seed = source(), config.run.seed  # before it changes
    heard, error = _Heard(tell), None
    metrics: dict[str, Any] = {}
    try:
        result = train(
            config,
            RunFolder.numbered(f"{name}-{seed}", runs),
            callback=[heard, StopWhen(lambda: stopped_by() is not None)],
        )
        metrics = result.metrics
        if not result.finished:
            error = f"stopped: {stopped_by()}"
    except MolsepnormError as failure:
        error = f"{type(failure).__name__}: {failure}"
    except Exception as failure:
        place = traceback.extract_tb(failure.__traceback__)[-1]
        at = f"{Path(place.filename).name}:{place.lineno}"
        error = f"{type(failure).__name__} at {at}: {failure}"
    return Logged(
        name=name,
        seed=seed,
        why=why,
        date=date.isoformat(" ", "minutes").removesuffix("+00:00"),
        **tree,
        machine=machine(),
        threads=torch.get_num_threads(),
        torch=version("torch"),
        **described(config),
        parameters=heard.parameters,
        metric=heard.metric,
        planned=heard.planned,
        epochs=heard.curve.epoch[-1] if heard.curve.epoch else 0,
        graphs_per_second=heard.speed(),
        seconds=round(time.perf_counter() - begun, 3),
        curve=heard.curve,
        val=heard.best,
        best_epoch=heard.best_epoch,
        test=short(metrics.get("test", {}).get(heard.metric)),
        test_interval_95=interval(metrics, heard.metric),
        error=error,
    )


class _Heard(Callback):
    """Keeps what training tells."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell, self.begun = tell, time.perf_counter()
        self.parameters: int | None = None
        self.metric: str | None = None
        self.planned: int | None = None
        self.curve = Curve([], [], [], [])
        self.best: float | None = None
        self.best_epoch: int | None = None
        self.graphs = self.training = 0.0

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path
    ) -> None:
        self.parameters = sum(parameter.numel() for parameter in model.network.parameters())
        self.metric, self.planned = model.task.metric, config.run.epochs
        self.tell(f"{folder}: {self.parameters:,} parameters, {self.planned} epochs")

    def on_warning(self, remark: str) -> None:
        self.tell(remark)

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        score = record.val_loss if self.metric == "loss" else record.scores[self.metric or ""]
        seconds, curve = time.perf_counter() - self.begun, self.curve
        curve.epoch.append(record.epoch)
        curve.seconds.append(round(seconds, 3))
        curve.train_loss.append(short(record.train_loss))
        curve.val.append(short(score))
        self.graphs += record.graphs_per_second * record.seconds
        self.training += record.seconds
        if record.best:
            self.best, self.best_epoch = short(score), record.epoch
        self.tell(
            f"epoch {record.epoch}/{epochs}  train {record.train_loss:.4f}  val {score:.4f}  "
            f"best {self.best} at {self.best_epoch}  {seconds:.0f} s"
        )

    def speed(self) -> float | None:
        """Graphs per second in training."""
        return short(self.graphs / self.training) if self.training else None


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """Every setting by its dotted name, but for the seed, the place of the files and what
    follows from the data; of a table its file's name."""
    derived = ("model.atom_sizes", "model.bond_sizes", "model.outputs", "run.seed", "data.data_dir")
    settings = {
        name: value
        for section, content in config.model_dump(mode="json").items()
        for key, value in content.items()
        if (name := f"{section}.{key}") not in derived
    }
    if config.data.table is not None:
        settings["data.table"] = config.data.table.name
    return settings


def described(config: TrainConfig) -> dict[str, Any]:
    """The fields of a line that tell what was asked for."""
    settings, recipe = settings_of(config), settings_of(_recipe(config))
    return {
        "dataset": config.data.label,
        "changed": {key: value for key, value in settings.items() if recipe.get(key) != value},
        "config": _nested(settings),
    }


def source() -> dict[str, Any]:
    """The fields of a line that tell what was run."""
    return {"commit": commit().split()[0], "changed_tree": _changed(), "code": code()}


def code() -> str:
    """A short hash of the package's source as it is now."""
    return fingerprint(*sorted((_TOP / "molsepnorm").rglob("*.py")))[:8]


def _changed() -> bool:
    git = ["git", "-C", str(_TOP), "status", "--porcelain", "--", "molsepnorm", "configs"]
    return bool(subprocess.run(git, capture_output=True, text=True).stdout.strip())


def _recipe(config: TrainConfig) -> TrainConfig:
    return load_config(config.data.dataset or config.data.table)


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """By section."""
    sections: dict[str, Any] = {}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    return sections


def interval(metrics: Mapping[str, Any], metric: str | None) -> list[float | None] | None:
    """The bootstrap interval of the test score."""
    both = metrics.get("test_interval_95", {}).get(metric)
    return [short(end) for end in both] if both else None
