"""The number of epochs of a run that does not name one."""

from __future__ import annotations

import pytest

from molsepnorm.training import Callback, load_config, start, train


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(start, "_EPOCHS", 3)
    monkeypatch.setattr(start, "_EPOCHS_OF_CLASSES", 2)


@pytest.mark.parametrize(("targets", "epochs"), [(["y"], 3), (["active"], 2), (["y", "active"], 2)])
def test_a_table_of_classes_has_fewer_epochs(configure, tmp_path, targets, epochs):
    """The number is written to config.yaml, so a resumed run has the same."""

    class Stop(Callback):
        def on_epoch(self, record, epochs):
            return True

    config = configure({"run.epochs": None, "data.targets": targets})
    train(config, tmp_path / "run", callback=Stop())
    assert load_config(config=tmp_path / "run" / "config.yaml").run.epochs == epochs
    assert train(folder=tmp_path / "run", resume=True).metrics["epochs"] == epochs


def test_members_of_an_ensemble_have_one_number_of_epochs(configure, tmp_path):
    train(configure({"run.epochs": None, "run.ensemble": 2}), tmp_path / "run")
    for folder in ("run", "run/members/1", "run/members/2"):
        assert load_config(config=tmp_path / folder / "config.yaml").run.epochs == 3
