"""The number of epochs of a run that does not name one."""

from __future__ import annotations

import pytest

from molsepnorm.training import Callback, load_config, run, train


@pytest.mark.parametrize(
    ("targets", "examples", "epochs"),
    [
        (["y"], 24 * 9, 4),
        (["y"], 24 * 3, 3),
        (["y"], 24, 2),
        (["active"], 24 * 9, 2),
        (["y", "active"], 24 * 9, 2),
    ],
)
def test_the_number_of_epochs_depends_on_the_targets_and_the_number_of_molecules(
    configure, tmp_path, monkeypatch, targets, examples, epochs
):
    """There are 24. The number is written to config.yaml, so that a resumed run has the same."""

    class Stop(Callback):
        def on_epoch(self, record, epochs):
            return True

    monkeypatch.setattr(run, "_EXAMPLES", examples)
    monkeypatch.setattr(run, "_EPOCHS", 2)
    monkeypatch.setattr(run, "_EPOCHS_OF_NUMBERS", 4)
    config = configure({"run.epochs": None, "data.targets": targets})
    train(config, tmp_path / "run", callback=Stop())
    assert load_config(config=tmp_path / "run" / "config.yaml").run.epochs == epochs
    assert train(folder=tmp_path / "run", resume=True).metrics["epochs"] == epochs


def test_members_of_an_ensemble_have_one_number_of_epochs(configure, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_EPOCHS", 2)
    monkeypatch.setattr(run, "_EPOCHS_OF_NUMBERS", 2)
    result = train(configure({"run.epochs": None, "run.ensemble": 2}), tmp_path / "run")
    assert result.metrics["epochs"] == 2
    for folder in ("run", "run/members/1", "run/members/2"):
        assert load_config(config=tmp_path / folder / "config.yaml").run.epochs == 2
