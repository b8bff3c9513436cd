"""Runs on small tables, with a tiny network, each of a second."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from molsepnorm.training import TrainConfig, TrainingResult, train
from molsepnorm.training.completing import baseline
from runs import LABELS, configured, on_columns, write_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """data.csv, see `write_table`."""
    return write_table(tmp_path / "data.csv")


@pytest.fixture
def configure(table: Path) -> Callable[..., TrainConfig]:
    """`configure({"run.epochs": 1})`: a tiny run on `table`, target y where none is named."""
    return lambda settings=None: configured(table, settings)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TrainingResult]:
    """`trained({"run.epochs": 1})`: the finished run of `configure` with these settings.

    It is trained once, without a baseline, and only read: `copied` is for tests that change it."""
    place = tmp_path_factory.mktemp("trained")
    table = write_table(place / "data.csv")
    found: dict[str, TrainingResult] = {}

    def make(settings: dict[str, Any] | None = None) -> TrainingResult:
        name = repr(sorted((settings or {}).items()))
        if name not in found:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(baseline, "fit_baseline", lambda *_: None)
                found[name] = train(configured(table, settings), place / f"run-{len(found)}")
        return found[name]

    return make


@pytest.fixture
def copied(trained: Callable[..., TrainingResult], tmp_path: Path) -> Callable[..., Path]:
    """`copied(settings)`: a copy of the folder of `trained(settings)`."""
    return lambda settings=None: Path(
        shutil.copytree(trained(settings).folder, tmp_path / "copied")
    )


@pytest.fixture
def with_columns(tmp_path: Path) -> Callable[..., TrainConfig]:
    """`with_columns({"a": cells, "b": cells}, settings)`: a tiny run on columns.csv, whose first
    column is 30 SMILES; of each column as many cells as are wanted, from the first on again."""
    return lambda columns, settings=None: on_columns(tmp_path, columns, settings)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`scripted("mae", [0.5, 0.4])`: the scores of the validations, epoch by epoch."""
    from molsepnorm.training.loop import Trainer

    def make(metric: str, scores: Sequence[float]) -> None:
        monkeypatch.setattr(
            Trainer, "validate", lambda self: (1.0, {metric: scores[self.progress.epoch - 1]})
        )

    return make


@pytest.fixture(scope="session")
def other_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a model of another target, `active`, which a run can start from."""
    folder = tmp_path_factory.mktemp("start")
    start = {"data.targets": ["active"], "run.epochs": 1, "model.norm": "sep-ln"}
    return train(on_columns(folder, LABELS, start), folder / "start").folder
