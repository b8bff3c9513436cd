"""Models that must not be evaluated on a data set, and what was fine-tuned from them."""

from __future__ import annotations

import json

import pytest

from molsepnorm.data import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError
from molsepnorm.training import evaluate, load_config, train

SHORT = {"run.epochs": 2, "run.batch_size": 8, "run.device": "cpu"}


@pytest.fixture
def on_zinc(shipped, small_zinc):
    """`on_zinc({...})`: fine-tuning of the tiny model on that data set."""
    settings = {"data.data_dir": small_zinc, "finetune.start": shipped.name, **SHORT}
    return lambda more=None: load_config("zinc-full", overrides={**settings, **(more or {})})


def _no_loading(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("the data set was loaded")

    monkeypatch.setattr(datasets, "load", fail)


def _files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_training_on_an_excluded_data_set_stops_before_any_work(
    shipped, on_zinc, tmp_path, monkeypatch
):
    _no_loading(monkeypatch)
    with pytest.raises(
        ConfigError,
        match=f"must not be evaluated on zinc-full: {shipped.excludes['zinc-full']}. Choose "
        "another model or data set. With --allow-leak it is used nevertheless, and the results say",
    ):
        train(on_zinc(), tmp_path / "run")
    assert all(path.name.startswith(".") for path in _files(tmp_path / "run"))


def test_an_allowed_leak_is_in_the_metrics(shipped, on_zinc, small_zinc, tmp_path):
    result = train(on_zinc({"finetune.allow_leak": True}), tmp_path / "run")
    reason = shipped.excludes["zinc-full"]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["leak"] == reason
    data = DataConfig(dataset="zinc-full", data_dir=small_zinc)
    with pytest.raises(ConfigError, match="must not be evaluated on zinc-full"):
        evaluate(result.folder, data)
    found = evaluate(result.folder, data, allow_leak=True)
    assert found.leak == reason
    assert found.scores == pytest.approx(result.metrics["test"], nan_ok=True)


def test_exclusions_are_inherited_over_generations(shipped, table, on_zinc, tmp_path):
    """From the card to a run, to a run that starts from it, whatever these were trained on."""
    start = shipped.name
    for generation in ("first", "second"):
        config = load_config(
            table, overrides={**SHORT, "data.targets": ["y"], "finetune.start": start}
        )
        result = train(config, tmp_path / generation)
        assert "leak" not in result.metrics
        assert result.model.excludes == shipped.excludes
        start = str(result.folder)
    with pytest.raises(ConfigError, match="or one that it was fine-tuned from, must not be eval"):
        train(on_zinc({"finetune.start": start}), tmp_path / "run")
    other = on_zinc({"finetune.start": start, "finetune.allow_leak": True})
    assert train(other, tmp_path / "run").metrics["leak"] == shipped.excludes["zinc-full"]
