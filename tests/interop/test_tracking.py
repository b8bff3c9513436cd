"""TensorBoard, MLflow and Weights & Biases receive what `history.csv` and `metrics.json` hold."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import molsepnorm
from molsepnorm.interop.tracking import MLflow, TensorBoard, WandB
from molsepnorm.training import Callback
from molsepnorm.training.callback import Callbacks

SMILES = ["C" * n + end for n in range(1, 9) for end in ("O", "N", "Cl", "F")]
LABELS = [0.4 * len(text) - 1 for text in SMILES]
SMALL = {
    "run.epochs": 2,
    "run.threads": 1,
    "run.baseline": False,
    "finetune.start": "none",
    "model.layers": 1,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
}


SPLITS = {"train": range(20), "val": range(20, 26), "test": range(26, 32)}


def _fit(
    callback: Callback,
    folder: Path | None = None,
    resume: bool = False,
    **overrides: int,
) -> molsepnorm.training.TrainingResult:
    return molsepnorm.fit(
        *(SMILES, LABELS),
        splits=SPLITS,
        overrides={**SMALL, **overrides},
        folder=folder,
        resume=resume,
        callback=callback,
    )


def _ensemble(callback: Callback, folder: Path) -> molsepnorm.training.TrainingResult:
    rows = zip(SMILES, LABELS, strict=True)
    table = folder / "table.csv"
    table.write_text("smiles,y\n" + "".join(f"{text},{y}\n" for text, y in rows))
    overrides = {**SMALL, "data.targets": ["y"], "run.ensemble": 2, "run.blend": "none"}
    config = molsepnorm.load_config(table, overrides=overrides)
    return molsepnorm.train(config, folder / "ensemble", callback=callback)


def _history(folder: Path) -> list[dict[str, str]]:
    with open(folder / "history.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_tensorboard_has_the_curves(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = _fit(TensorBoard(), tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    for name, column in (("train/loss", "train_loss"), ("val/mae", "val_mae"), ("lr", "lr")):
        points = {each.step: each.value for each in events.Scalars(name)}
        rows = {int(row["epoch"]): float(row[column]) for row in _history(tmp_path / "run")}
        assert points == pytest.approx(rows, rel=1e-3)
    (end,) = events.Scalars("test/mae")
    assert end.value == pytest.approx(result.metrics["test"]["mae"], rel=1e-5)
    (text,) = events.Tensors("settings/text_summary")
    assert b"| run.epochs | 2 |" in text.tensor_proto.string_val[0]


def test_tensorboard_has_a_folder_for_each_member(tmp_path):
    """The folder itself has the scores of the joined model. A single run has no subfolder."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = _ensemble(TensorBoard(tmp_path / "events"), tmp_path)
    members = result.metrics["members"]
    found = sorted(each.name for each in (tmp_path / "events").iterdir() if each.is_dir())
    assert found == ["1", "2"]
    for name, member in zip(found, members, strict=True):
        events = EventAccumulator(str(tmp_path / "events" / name)).Reload()
        assert [each.step for each in events.Scalars("val/mae")] == [1, 2]
        (end,) = events.Scalars("test/mae")
        assert end.value == pytest.approx(member["test"]["mae"], rel=1e-5)
        assert events.Tensors("settings/text_summary")
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    (end,) = events.Scalars("test/mae")
    assert end.value == pytest.approx(result.metrics["test"]["mae"], rel=1e-5)
    assert "val/mae" not in events.Tags()["scalars"]
    _fit(TensorBoard(tmp_path / "single"), tmp_path / "members" / "1")
    assert not any(each.is_dir() for each in (tmp_path / "single").iterdir())


def test_the_joined_model_has_a_run_of_its_own(tmp_path, strict_mlflow, monkeypatch):
    """In MLflow and Weights & Biases, where each member has one, too."""
    runs = []

    def init(config):
        ends = []
        run = SimpleNamespace(config=config, summary={}, ends=ends, finish=ends.append)
        run.log = run.summary.update
        runs.append(run)
        return run

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    result = _ensemble(Callbacks([MLflow(), WandB({"note": "x"})]), tmp_path)
    scores = [each["test"]["mae"] for each in (*result.metrics["members"], result.metrics)]
    assert [run.data.metrics["test/mae"] for run in strict_mlflow.runs] == scores
    assert [run.info.status for run in strict_mlflow.runs] == ["FINISHED"] * 3
    assert [run.summary["test/mae"] for run in runs] == scores
    assert [run.ends for run in runs] == [[0]] * 3
    assert [run.config["note"] for run in runs] == ["x"] * 3


def test_mlflow_has_the_curves(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    result = _fit(MLflow(run_name="tried"), tmp_path / "run")
    (run,) = mlflow.MlflowClient().search_runs(["0"])
    assert run.info.run_name == "tried" and run.info.status == "FINISHED"
    assert run.data.params["run.epochs"] == "2"
    assert run.data.metrics["test/mae"] == pytest.approx(result.metrics["test"]["mae"])
    points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "val/mae")
    rows = {int(row["epoch"]): float(row["val_mae"]) for row in _history(tmp_path / "run")}
    assert {each.step: each.value for each in points} == pytest.approx(rows, rel=1e-3)


class _StrictMLflow:
    """The checks of MLflow and its file store, for a machine without it."""

    def __init__(self):
        self.runs, self.active = [], []

    def start_run(self, run_id=None):
        assert not self.active, "a run is already active"
        if run_id is None:
            run_id = len(self.runs)
            data = SimpleNamespace(params={}, metrics={})
            info = SimpleNamespace(run_id=run_id, status="RUNNING")
            self.runs.append(SimpleNamespace(info=info, data=data))
        self.active.append(self.runs[run_id])
        return self.runs[run_id]

    def active_run(self):
        return self.active[-1] if self.active else None

    def end_run(self, status="FINISHED"):
        self.active.pop().info.status = status

    def log_params(self, params):
        known = self.active[-1].data.params
        assert all(known.setdefault(name, value) == value for name, value in params.items())

    def log_metrics(self, metrics, step=None):
        known = self.active[-1].data.metrics
        for name, value in metrics.items():
            assert re.fullmatch(r"[/\w.\- ]{1,250}", name), name
            assert not any(name.startswith(f"{each}/") for each in known), "a file is no folder"
            known[name] = value


@pytest.fixture
def strict_mlflow(monkeypatch):
    fake = _StrictMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    return fake


class _Fail(Callback):
    def on_epoch(self, record, epochs):
        raise RuntimeError("the disk is full")


def test_mlflow_accepts_the_name_of_every_target(strict_mlflow):
    """Names may have slashes and 300 characters."""
    targets = ["logS", "IC50 (nM)", "a/b/", "x" * 300]
    labels = [[each * n for n in range(1, 5)] for each in LABELS]
    result = molsepnorm.fit(
        *(SMILES, labels), targets=targets, splits=SPLITS, overrides=SMALL, callback=MLflow()
    )
    (run,) = strict_mlflow.runs
    names = ["logS", "IC50 _nM_", "a_b_", "x" * 200]
    for target, name in zip(targets, names, strict=True):
        assert run.data.metrics[f"test/mae.{name}"] == result.metrics["test"][f"mae/{target}"]
    assert run.data.metrics["test/mae"] == result.metrics["test"]["mae"]


@pytest.mark.parametrize("resume", [True, False])
def test_mlflow_ends_a_failed_run(strict_mlflow, tmp_path, resume):
    callback = MLflow()
    with pytest.raises(RuntimeError, match="the disk is full"):
        _fit(Callbacks([callback, _Fail()]), tmp_path / "run")
    assert [run.info.status for run in strict_mlflow.runs] == ["FAILED"]
    result = _fit(callback, tmp_path / ("run" if resume else "other"), resume=resume)
    assert [run.info.status for run in strict_mlflow.runs] == ["FAILED", "FINISHED"]
    assert strict_mlflow.runs[1].data.metrics["test/mae"] == result.metrics["test"]["mae"]


def test_mlflow_continues_a_run_with_other_settings(strict_mlflow):
    """MLflow refuses to change a setting that is logged."""
    _fit(MLflow())
    _fit(MLflow(run_id=0), **{"run.epochs": 3})
    (run,) = strict_mlflow.runs
    assert run.data.params["run.epochs"] == 2


def test_weights_and_biases_has_the_curves(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")

    kept = {}
    finish = wandb.Run.finish

    def finished(run, *args, **options):
        kept.update(summary=dict(run.summary), settings=dict(run.config))
        return finish(run, *args, **options)

    monkeypatch.setattr(wandb.Run, "finish", finished)
    result = _fit(WandB(mode="offline", dir=str(tmp_path)), tmp_path / "run")
    assert kept["settings"]["run.epochs"] == 2
    assert kept["summary"]["test/mae"] == pytest.approx(result.metrics["test"]["mae"])
    last = _history(tmp_path / "run")[-1]
    assert kept["summary"]["val/mae"] == pytest.approx(float(last["val_mae"]), rel=1e-3)
