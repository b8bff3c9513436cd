"""The log: one line of JSON for each run, appended when the run ends and never changed."""

from __future__ import annotations

import csv
import fcntl
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from environment import changed, commit, machine

from molsepnorm.files.digests import short_digest
from molsepnorm.nn.config import FROM_DATA
from molsepnorm.training import TrainConfig, load_config
from molsepnorm.training.finetuning import NO_START
from molsepnorm.training.run_folder.folder import RunFolder

__all__ = ["LOG", "Curve", "Logged", "append", "from_folder", "read", "short"]

LOG = Path(__file__).with_name("log.jsonl")

_POINTS = 300  # of a curve, at most: some 10 kB
_TEXT = 2000  # characters of an error, at most


@dataclass(frozen=True)
class Curve:
    """The validations of a run; of a long run, an even sample with the best and the last."""

    epoch: list[int]
    """Finished epochs."""
    seconds: list[float]
    """Training time so far; older lines of the log include validations and loading the data."""
    train_loss: list[float | None]
    """Mean since the previous validation, in units of the loss; None if it is not finite."""
    val: list[float | None]
    """The metric on the validation split."""

    def thinned(self, best: int | None, max_points: int = _POINTS) -> Curve:
        """Return at most `max_points` points, the one of the epoch `best` among them."""
        count = len(self.epoch)
        every = math.ceil(count / max(max_points - 2, 1)) or 1
        chosen = [
            i for i in range(count) if i % every == 0 or i == count - 1 or self.epoch[i] == best
        ]
        return Curve(**{name: [values[i] for i in chosen] for name, values in asdict(self).items()})


@dataclass(frozen=True)
class Logged:
    """A run that ended, successfully or not."""

    name: str
    """Name of the variant; runs of one name differ only in their seed."""
    seed: int
    why: str
    """Question that the run answers."""
    date: str
    """When it began, in UTC."""
    commit: str
    changed_tree: bool
    """True if the package or the recipes differed from that commit."""
    code: str
    """Hash of the package's source: two runs of one hash ran the same code."""
    machine: str
    threads: int
    torch: str
    dataset: str
    changed: dict[str, Any]
    """Settings that differ from the recipe of the data set, by dotted name, without the seed."""
    config: dict[str, Any]
    """The whole configuration."""
    parameters: int | None
    """None if the run failed, as are the figures below that it did not reach."""
    metric: str | None
    """Metric that chooses the best epoch; `val` and `test` are in its units."""
    planned: int | None
    """Number of epochs of the schedule."""
    epochs: int
    """Number of finished epochs."""
    graphs_per_second: float | None
    """Training speed without validations."""
    seconds: float
    """Duration of the run, from loading the data to the score on the test split."""
    curve: Curve
    val: float | None
    """The best validation score."""
    best_epoch: int | None
    test: float | None
    """Test score of the best epoch's model, computed once, by a run that finished."""
    test_interval_95: list[float | None] | None
    """Bootstrap over the test molecules."""
    error: str | None
    """Why the run did not finish; None if it did."""


def short(value: float | None, digits: int = 5) -> float | None:
    """Round to significant digits; None for what is not finite.

    >>> short(0.123456789), short(1234.56, 3), short(float("nan"))
    (0.12346, 1230.0, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def append(run: Logged, path: Path = LOG) -> None:
    """Add a line; several processes may do so at once."""
    content = asdict(run)
    content["curve"] = asdict(run.curve.thinned(run.best_epoch))
    if run.error is not None and len(run.error) > _TEXT:
        content["error"] = f"{run.error[: _TEXT // 2]} … {run.error[-_TEXT // 2 :]}"
    line = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
        end = file.seek(0, os.SEEK_END)
        if end:  # end a line that a full disk cut off
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path = LOG) -> list[Logged]:
    """Return all runs in the order in which they ended; none if there is no log.

    Raises:
        ValueError: a line is damaged.
    """
    if not path.exists():
        return []
    runs = []
    with open(path, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # no half-written line
        for number, line in enumerate(file, start=1):
            try:
                content = json.loads(line)
                runs.append(Logged(**{**content, "curve": Curve(**content["curve"])}))
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{path}, line {number} is no run of this log ({error}): fix or remove it"
                ) from None
    return runs


def from_folder(
    folder: Path, name: str, seed: int, why: str = "", error: str | None = None
) -> Logged:
    """Return the line of a run that ended in this checkout; see `Logged` for the arguments."""
    run = RunFolder(folder)
    config = load_config(config=run.config)
    metrics = _json(run.metrics) if error is None else {}
    environment = _json(run.environment)
    epochs: list[dict[str, str]] = []
    if run.history.exists():
        with open(run.history, newline="") as file:
            epochs = list(csv.DictReader(file))
    scores = [column for column in (epochs or [{}])[0] if column.startswith("val_")]
    chosen_by = config.run.metric or next((s[4:] for s in scores if s != "val_loss"), None)
    metric = metrics.get("chosen_by", chosen_by)
    values = [short(float(epoch[f"val_{metric}"])) for epoch in epochs]
    best = [i for i, epoch in enumerate(epochs) if epoch["best"] == "1"]
    trained = [float(epoch["seconds"]) for epoch in epochs]
    graphs = sum(
        float(epoch["graphs_per_second"]) * seconds
        for epoch, seconds in zip(epochs, trained, strict=True)
    )
    both = metrics.get("test_interval_95", {}).get(metric)
    begun = datetime.fromtimestamp(run.config.stat().st_mtime, timezone.utc)
    top = LOG.parents[2]
    return Logged(
        name=name,
        seed=seed,
        why=why,
        date=begun.isoformat(" ", "minutes").removesuffix("+00:00"),
        commit=commit().split()[0],
        changed_tree=changed("molsepnorm", "configs"),
        code=short_digest(*sorted((top / "molsepnorm").rglob("*.py")))[:8],
        machine=machine(),
        threads=environment["threads"],
        torch=environment["packages"]["torch"],
        **described(config),
        parameters=metrics.get("parameters"),
        metric=metric,
        planned=metrics.get("epochs", config.run.epochs),
        epochs=int(epochs[-1]["epoch"]) if epochs else 0,
        graphs_per_second=short(graphs / sum(trained)) if trained else None,
        seconds=metrics.get("seconds", sum(trained)),
        curve=Curve(
            epoch=[int(epoch["epoch"]) for epoch in epochs],
            seconds=[round(sum(trained[: i + 1]), 3) for i in range(len(trained))],
            train_loss=[short(float(epoch["train_loss"])) for epoch in epochs],
            val=values,
        ),
        val=values[best[-1]] if best else None,
        best_epoch=int(epochs[best[-1]]["epoch"]) if best else None,
        test=short(metrics.get("test", {}).get(metric)),
        test_interval_95=[short(end) for end in both] if both else None,
        error=error,
    )


def described(config: TrainConfig) -> dict[str, Any]:
    """Return the fields of a line that describe the configuration."""
    settings = _settings(config)
    start = {"finetune.start": config.finetune.start or NO_START} if config.data.table else {}
    recipe = _settings(load_config(config.data.dataset or config.data.table, overrides=start))
    sections: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, {})[key] = value
    changed = {key: value for key, value in settings.items() if recipe.get(key) != value}
    return {"dataset": config.data.label, "changed": changed, "config": sections}


def _settings(config: TrainConfig) -> dict[str, Any]:
    """Return every setting by dotted name, without those that follow from the data, the seed and
    the data folder; the path of a table is shortened to its name."""
    derived = (*(f"model.{name}" for name in FROM_DATA), "run.seed", "data.data_dir")
    settings = {
        name: value
        for section, content in config.model_dump(mode="json").items()
        for key, value in content.items()
        if (name := f"{section}.{key}") not in derived
    }
    if config.data.table is not None:
        settings["data.table"] = config.data.table.name
    return settings


def _json(path: Path) -> Mapping[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
