"""Training a run for longer than it was configured."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file

from molsepnorm.errors import ModelError
from molsepnorm.training import load_config, train
from molsepnorm.training.run_folder.folder import RunFolder
from molsepnorm.training.step import learning_rate
from runs import outcome, rows_of, stop_at
from support import Recorder

CONSTANT = {"optim.warmup": 0, "optim.decay": "constant"}


@pytest.mark.parametrize("stop", [None, 2, 4])
def test_a_longer_run_equals_an_uninterrupted_one_if_the_rates_do(
    configure, trained, tmp_path, stop
):
    """To the last bit, finished or stopped before; three steps are an epoch. The earlier scores
    are in metrics.json."""
    settings = {**CONSTANT, "run.epochs": 1 if stop is None else 2}
    callback = None if stop is None else stop_at(stop)
    first = train(configure(settings), tmp_path / "run", callback=callback)
    seen = Recorder()
    result = train(folder=tmp_path / "run", resume=True, epochs=3, callback=seen)
    whole = trained({**CONSTANT, "run.epochs": 3}).folder
    assert seen.warnings == []
    ours = outcome(tmp_path / "run")
    earlier = ours["metrics"].pop("earlier", None)
    assert ours == outcome(whole)
    assert result.metrics == json.loads((tmp_path / "run" / "metrics.json").read_text())
    if stop is None:
        scores = {name: first.metrics[name] for name in ("best_epoch", "val", "test")}
        assert earlier == {"1": scores}
    else:
        assert earlier is None
    configs = [load_config(config=each / "config.yaml") for each in (tmp_path / "run", whole)]
    assert configs[0].content() | {"data": 0} == configs[1].content() | {"data": 0}


def test_a_schedule_that_depends_on_the_length_is_stretched_with_a_warning(configure, tmp_path):
    """The rates after the old end are those of the longer schedule."""
    config = configure({"run.epochs": 1})
    train(config, tmp_path / "run")
    seen = Recorder()
    train(folder=tmp_path / "run", resume=True, epochs=2, callback=seen)
    (said,) = seen.warnings
    old, new = learning_rate(2, 3, config.optim), learning_rate(3, 6, config.optim)
    assert f"it was {old:.3g}, and continues with {new:.3g}" in said
    rates = [float(row["lr"]) for row in rows_of(tmp_path / "run" / "history.csv")]
    assert rates == [old, learning_rate(5, 6, config.optim)]


def test_each_length_keeps_its_scores(configure, tmp_path):
    """Also if the longer run is stopped, when it has no scores, and continued without a number."""
    config = configure({**CONSTANT, "run.epochs": 1})
    one = train(config, tmp_path / "run").metrics
    two = train(folder=tmp_path / "run", resume=True, epochs=2).metrics
    stopped = train(folder=tmp_path / "run", resume=True, epochs=3, callback=stop_at(1))
    assert not stopped.finished
    assert not (tmp_path / "run" / "metrics.json").exists()
    three = train(folder=tmp_path / "run", resume=True).metrics
    assert list(three["earlier"]) == ["1", "2"]
    assert three["earlier"]["1"]["test"] == one["test"]
    assert three["earlier"]["2"]["test"] == two["test"]
    assert three["epochs"] == 3


def test_early_stopping_stays(configure, tmp_path, tree, scripted):
    """Patience has ended, so a higher number changes nothing."""
    scripted("rmse", [1.0, 2.0, 3.0])
    train(configure({"run.patience": 1}), tmp_path / "run")
    before, seen = tree(tmp_path / "run"), Recorder()
    train(folder=tmp_path / "run", resume=True, epochs=9, callback=seen)
    assert "run ended after 2 epochs by early stopping (run.patience: 1)" in seen.warnings[0]
    assert tree(tmp_path / "run") == before


@pytest.mark.parametrize("killed", ["after the scores", "after the configuration"])
def test_a_run_killed_while_it_is_lengthened_goes_on(configure, tmp_path, monkeypatch, killed):
    config = configure({**CONSTANT, "run.epochs": 1})
    first = train(config, tmp_path / "run").metrics

    def kill(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if killed == "after the scores":
            patch.setattr("molsepnorm.training.config.TrainConfig.save", kill)
        else:
            patch.setattr("molsepnorm.training.loop.Trainer.save", kill)
        with pytest.raises(KeyboardInterrupt):
            train(folder=tmp_path / "run", resume=True, epochs=2)
    if killed == "after the scores":
        again = train(folder=tmp_path / "run", resume=True).metrics
        assert {**again, "seconds": 0} == {**first, "seconds": 0}
    else:
        message = "is of a run of 1 epochs, and run.epochs is 2: resume it with --epochs 2"
        with pytest.raises(ModelError, match=message):
            train(folder=tmp_path / "run", resume=True)
    longer = train(folder=tmp_path / "run", resume=True, epochs=2).metrics
    assert longer["earlier"]["1"]["test"] == first["test"]


def test_a_blend_is_made_again_from_the_networks(configure, tmp_path, baselines, monkeypatch):
    """Even if no later epoch is better, when the best model is the earlier blend."""
    still = {"optim.lr": 1e-30, "optim.weight_decay": 0.0, "run.blend": "forest", "optim.ema": None}
    first = train(configure({**still, "run.epochs": 1}), tmp_path / "run").metrics
    assert first["blend"]["forest_share"] > 0
    with monkeypatch.context() as patch:
        for name in ("better", "close"):
            patch.setattr(f"molsepnorm.tasks.metrics.Metric.{name}", lambda *_: False)
        longer = train(folder=tmp_path / "run", resume=True, epochs=2).metrics
    assert longer["best_epoch"] == 1
    for name in ("blend", "val", "test"):
        assert longer[name] == first[name]


def test_an_ensemble_is_lengthened_member_by_member(configure, trained, tmp_path):
    """Also if it is stopped on the way, and continued without a number."""
    settings = {**CONSTANT, "run.ensemble": 2}
    first = train(configure({**settings, "run.epochs": 1}), tmp_path / "run").metrics
    stopped = train(folder=tmp_path / "run", resume=True, epochs=2, callback=stop_at(2))
    assert not stopped.finished
    result = train(folder=tmp_path / "run", resume=True)
    whole = trained({**settings, "run.epochs": 2})
    assert result.metrics["earlier"]["1"]["test"] == first["test"]
    assert result.metrics["test"] == whole.metrics["test"]
    states = [load_file(each.folder / "model" / "model.safetensors") for each in (result, whole)]
    assert all(each.equal(states[1][name]) for name, each in states[0].items())
    assert RunFolder(tmp_path / "run" / "members" / "2").finished_metrics().epochs == 2
