"""Callbacks that send the course of a run to TensorBoard, MLflow or Weights & Biases.

Each writes the settings, the losses, scores and learning rate after every validation, and the test
scores at the end. Every member of an ensemble is a run of its own, and the joined model another. In
training on several processes, pass the callback in one of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
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


class _Tracker(Callback):
    """A callback whose run of the tracker, `_run`, is opened when training starts."""

    _run: Any = None

    def on_start(
        self, config: TrainConfig, dataset: Dataset, model: PropertyModel, folder: Path | None
    ) -> None:
        sections: Mapping[str, Mapping[str, Any]] = config.model_dump(mode="json")
        self._open(
            folder,
            {
                f"{name}.{key}": value
                for name, own in sections.items()
                for key, value in own.items()
            },
        )

    def on_epoch(self, record: EpochRecord, epochs: int) -> None:
        values = {"train/loss": record.train_loss, "val/loss": record.val_loss, "lr": record.lr}
        values |= {f"val/{name}": value for name, value in record.scores.items()}
        self._log({n: value for n, value in values.items() if math.isfinite(value)}, record.epoch)

    def on_end(self, result: TrainingResult) -> None:
        if self._run is None:  # a joined model
            self._open(result.folder, {})
        if result.metrics:  # the run is finished and has a test split
            scores = result.metrics["test"].items()
            found = {f"test/{name}": value for name, value in scores if value is not None}
            self._log(found, result.metrics["best_epoch"])
        self._end("FINISHED" if result.finished else "KILLED")

    def on_failure(self, error: BaseException) -> None:
        self._end("FAILED")

    def _end(self, status: str) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._close(run, status)

    def _open(self, folder: Path | None, settings: Mapping[str, Any]) -> None:
        """Open a run, given the folder of the training run and its settings."""
        raise NotImplementedError

    def _log(self, values: Mapping[str, float], epoch: int | None) -> None:
        raise NotImplementedError

    def _close(self, run: Any, status: str) -> None:
        raise NotImplementedError


class TensorBoard(_Tracker):
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
        self._folder = folder

    def _open(self, folder: Path | None, settings: Mapping[str, Any]) -> None:
        if self._folder is None and folder is None:
            raise ConfigError("the run has no folder for the event files: TensorBoard(folder=...)")
        events = str(self._folder or f"{folder}/tensorboard")
        if self._folder and folder is not None and RunFolder(folder).ensemble is not None:
            events = f"{events}/{folder.name}"
        self._run = import_module("torch.utils.tensorboard").SummaryWriter(events)
        if settings:
            rows = "".join(f"| {name} | {value} |\n" for name, value in settings.items())
            self._run.add_text("settings", "| setting | value |\n|---|---|\n" + rows)

    def _log(self, values: Mapping[str, float], epoch: int | None) -> None:
        for name, value in values.items():
            self._run.add_scalar(name, value, epoch)

    def _close(self, run: Any, status: str) -> None:
        run.close()


class MLflow(_Tracker):
    """Logs a run of MLflow, under the current tracking URI and experiment.

    The score of one of several targets is named `val/mae.logS`. Characters of the target that
    MLflow refuses are replaced: `val/mae.IC50 _nM_`.

    If training fails, its MLflow run gets the status FAILED. A resumed run is logged as another
    MLflow run. The option `run_id` continues an earlier one, whose settings are kept.

    Args:
        options: arguments of `mlflow.start_run`, such as `run_name`.

    Raises:
        ConfigError: mlflow is not installed.
    """

    def __init__(self, **options: Any) -> None:
        self._mlflow, self._options = require_package("mlflow", "mlflow", "MLflow"), options

    def _open(self, folder: Path | None, settings: Mapping[str, Any]) -> None:
        self._run = self._mlflow.start_run(**self._options)
        logged = self._run.data.params  # MLflow refuses to change them
        self._mlflow.log_params({n: value for n, value in settings.items() if n not in logged})

    def _log(self, values: Mapping[str, float], epoch: int | None) -> None:
        named: dict[str, float] = {}
        for name, value in values.items():
            accepted = _accepted(name)
            while accepted in named:  # of a target that differs in refused characters only
                accepted += "_"
            named[accepted] = value
        self._mlflow.log_metrics(named, step=epoch)

    def _close(self, run: Any, status: str) -> None:
        active = self._mlflow.active_run()
        if active is not None and active.info.run_id == run.info.run_id:  # not ended by the caller
            self._mlflow.end_run(status)


def _accepted(name: str) -> str:
    """Return a name of a metric that MLflow accepts.

    A file store has a file for each metric, so val/mae cannot be the folder of val/mae/logS, too.

    >>> _accepted("val/mae"), _accepted("val/mae/IC50 (nM)")
    ('val/mae', 'val/mae.IC50 _nM_')
    """
    split, *rest = name.split("/", 2)  # lr, val/mae or val/mae/logS
    if len(rest) < 2:
        return name
    target = re.sub(r"[^\w.\- ]", "_", rest[1])[:_LONGEST]
    return f"{split}/{rest[0]}.{target}"


class WandB(_Tracker):
    """Logs a run of Weights & Biases.

    Args:
        config: entries of the configuration beside the settings of the run.
        options: arguments of `wandb.init`, such as `project` and `mode`.

    Raises:
        ConfigError: wandb is not installed.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._config = dict(config or {})
        self._wandb, self._options = require_package("wandb", "wandb", "WandB"), options

    def _open(self, folder: Path | None, settings: Mapping[str, Any]) -> None:
        self._run = self._wandb.init(config=self._config | dict(settings), **self._options)

    def _log(self, values: Mapping[str, float], epoch: int | None) -> None:
        self._run.log({"epoch": epoch, **values})

    def _close(self, run: Any, status: str) -> None:
        run.finish(int(status == "FAILED"))
