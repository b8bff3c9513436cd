"""TensorBoard, MLflow and Weights & Biases receive what `history.csv` and `metrics.json` hold."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

import molsepnorm
from molsepnorm.errors import ConfigError
from molsepnorm.interop.tracking import MLflow, TensorBoard, WandB
from molsepnorm.training import Callback

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


def _fit(callback: Callback, folder: Path | None = None) -> molsepnorm.training.TrainingResult:
    splits = {"train": range(20), "val": range(20, 26), "test": range(26, 32)}
    return molsepnorm.fit(
        *(SMILES, LABELS), splits=splits, overrides=SMALL, folder=folder, callback=callback
    )


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


def test_tensorboard_without_any_folder_is_refused():
    pytest.importorskip("tensorboard")
    with pytest.raises(ConfigError, match="no folder for the event files"):
        _fit(TensorBoard())


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


@pytest.mark.parametrize(
    ("make", "package"), [(TensorBoard, "tensorboard"), (MLflow, "mlflow"), (WandB, "wandb")]
)
def test_a_missing_package_is_named(monkeypatch, make, package):
    for module in ("torch.utils.tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        ConfigError, match=rf"^{package} is missing: pip install molsepnorm\[{package}\]$"
    ):
        make()


def test_settings_are_written_as_the_run_has_them(tmp_path):
    """Under the names that `--set` and the YAML files use."""
    from molsepnorm.interop.tracking import _settings

    config = molsepnorm.load_config("zinc", overrides={"run.epochs": 3})
    settings = _settings(config)
    assert settings["run.epochs"] == 3 and "model.layers" in settings
    json.dumps(settings)
