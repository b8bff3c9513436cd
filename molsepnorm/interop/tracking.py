"""Callbacks that send the course of a run to TensorBoard, MLflow or Weights & Biases.

Each writes the settings, the losses, scores and learning rate after every validation, and the
scores of the test split at the end. Every member of an ensemble is a run of its own, and the joined
model another, with its test scores only. In training on several processes, pass the callback in one
of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.optional import require_package
from molsepnorm.training.callback import Callback, EpochRecord, TrainingResult
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.run_folder.folder import RunFolder

__all__ = ["MLflow", "TensorBoard", "WandB"]

_LONGEST = 200
"""Maximum length of a target in the name of a metric; MLflow accepts metrics of 250 characters."""


class TensorBoard(Callback):
    """Writes event files, which `tensorboard --logdir FOLDER` shows.

    >>> import molsepnorm
    >>> molsepnorm.fit(smiles, y, callback=TensorBoard("runs/logS/events"))    # doctest: +SKIP

    Args:
        folder: folder of the event files of one run or ensemble, whose members have subfolders `1`,
            `2`, …; by default `tensorboard` in the folder of each run.

    Raises:
        ConfigError: tensorboard is not installed; or, when a run without a folder starts, `folder`
            is missing.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        require_package("tensorboard", "tensorboard", "TensorBoard")
        self._writers = import_module("torch.utils.tensorboard").SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        if self._folder is None and folder is None:
            raise ConfigError("the run has no folder for the event files: TensorBoard(folder=...)")
        self._open(folder)
        rows = "".join(f"| {name} | {value} |\n" for name, value in _settings(config).items())
        self._writer.add_text("settings", "| setting | value |\n|---|---|\n" + rows)

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        for name, value in _values(record).items():
            self._writer.add_scalar(name, value, record.epoch)

    def on_end(self, result: TrainingResult) -> None:
        if self._writer is None:  # a joined model
            self._open(result.folder)
        for name, value in _test_scores(result).items():
            self._writer.add_scalar(name, value, result.metrics["best_epoch"])
        self._close()

    def on_failure(self, error: BaseException) -> None:
        self._close()

    def _open(self, run: Path | None) -> None:
        """Open the event file of the run in a folder."""
        folder = str(self._folder or f"{run}/tensorboard")
        if self._folder is not None and run is not None and RunFolder(run).ensemble is not None:
            folder = f"{folder}/{run.name}"
        self._writer = self._writers(folder)

    def _close(self) -> None:
        """Write what is in memory, and close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflow(Callback):
    """Logs a run of MLflow, under the current tracking URI and experiment.

    The score of one of several targets is named `val/mae.logS`. Characters of the target that
    MLflow refuses are replaced: `val/mae.IC50 _nM_`. Targets that would have the same name are
    numbered.

    If training fails, its MLflow run gets the status FAILED. A resumed run is logged as another
    MLflow run. The option `run_id` continues an earlier one, whose settings are kept.

    Args:
        options: arguments of `mlflow.start_run`, such as `run_name`.

    Raises:
        ConfigError: mlflow is not installed.
    """

    def __init__(self, **options: Any) -> None:
        self._run: Any = None
        self._targets: dict[str, str] = {}
        self._mlflow, self._options = require_package("mlflow", "mlflow", "MLflow"), options

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        self._start(model)
        logged = self._run.data.params  # MLflow refuses to change them
        settings = _settings(config).items()
        self._mlflow.log_params({name: value for name, value in settings if name not in logged})

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        self._mlflow.log_metrics(self._renamed(_values(record)), step=record.epoch)

    def on_end(self, result: TrainingResult) -> None:
        if self._run is None:  # a joined model
            assert result.model is not None
            self._start(result.model)
        self._mlflow.log_metrics(self._renamed(_test_scores(result)))
        self._end("FINISHED" if result.finished else "KILLED")

    def on_failure(self, error: BaseException) -> None:
        self._end("FAILED")

    def _start(self, model: PropertyModel) -> None:
        self._run = self._mlflow.start_run(**self._options)
        self._targets = _distinct(target.name for target in model.task.targets)

    def _end(self, status: str) -> None:
        """End the run that this object started, unless the caller has ended it."""
        run, self._run = self._run, None
        active = self._mlflow.active_run()
        if run is not None and active is not None and active.info.run_id == run.info.run_id:
            self._mlflow.end_run(status)

    def _renamed(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return values by names that MLflow accepts.

        A file store has a file for each metric, so that val/mae cannot be the folder of
        val/mae/logS, too.
        """
        found = {}
        for name, value in values.items():
            split, *rest = name.split("/", 2)  # lr, val/mae or val/mae/logS
            if len(rest) == 2:
                name = f"{split}/{rest[0]}.{self._targets[rest[1]]}"
            found[name] = value
        return found


class WandB(Callback):
    """Logs a run of Weights & Biases.

    Args:
        config: entries of the configuration beside the settings of the run.
        options: arguments of `wandb.init`, such as `project` and `mode`.

    Raises:
        ConfigError: wandb is not installed.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._run: Any = None
        self._config = dict(config or {})
        self._wandb, self._options = require_package("wandb", "wandb", "WandB"), options

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        self._run = self._wandb.init(config=self._config | _settings(config), **self._options)

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        self._run.log({"epoch": record.epoch, **_values(record)})

    def on_end(self, result: TrainingResult) -> None:
        if self._run is None:  # a joined model
            self._run = self._wandb.init(config=self._config, **self._options)
        self._run.summary.update(_test_scores(result))
        self._finish(0)

    def on_failure(self, error: BaseException) -> None:
        self._finish(1)

    def _finish(self, exit_code: int) -> None:
        if self._run is not None:
            self._run.finish(exit_code)
            self._run = None


def _settings(config: TrainConfig) -> dict[str, Any]:
    """Return all settings under their full names, such as run.epochs."""
    sections: Mapping[str, Mapping[str, Any]] = config.model_dump(mode="json")
    return {
        f"{section}.{name}": value
        for section, values in sections.items()
        for name, value in values.items()
    }


def _distinct(targets: Iterable[str]) -> dict[str, str]:
    """Return a distinct name for each target, of the characters and the length that MLflow accepts.

    >>> _distinct(["logS", "IC50 (nM)", "IC50 [nM]"])
    {'logS': 'logS', 'IC50 (nM)': 'IC50 _nM_', 'IC50 [nM]': 'IC50 _nM_ 2'}
    """
    found: dict[str, str] = {}
    for target in targets:
        name = plain = re.sub(r"[^\w.\- ]", "_", target)[:_LONGEST]
        number = 1
        while name in found.values():
            number += 1
            name = f"{plain} {number}"
        found[target] = name
    return found


def _values(record: EpochRecord) -> dict[str, float]:
    """Return the losses, scores and learning rate of a validation, those that are finite."""
    values = {"train/loss": record.train_loss, "val/loss": record.val_loss, "lr": record.lr}
    values |= {f"val/{name}": value for name, value in record.scores.items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _test_scores(result: TrainingResult) -> dict[str, float]:
    scores = result.metrics.get("test", {})
    return {f"test/{name}": v for name, v in scores.items() if isinstance(v, int | float)}
