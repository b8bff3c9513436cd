"""`molsepnorm ablate` as a user sees it."""

from __future__ import annotations

import json
import os
import signal

import pytest

from molsepnorm.training.step import TrainStep

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]


@pytest.fixture
def ablate(tmp_path, tiny, write_table):
    """Arguments of a comparison of two norms on data.csv, into the test's folder norms."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    return (
        *("ablate", "--data", table, "--targets", "y", *tiny, "-o", tmp_path / "norms"),
        *("--epochs", 1, "--vary", "norm=shared,sep"),
    )


def test_ablate_prints_each_run_and_the_differences(ablate, ok, tmp_path):
    text = ok(*ablate, "--seeds", "0-1")
    printed = json.loads((tmp_path / "norms" / "ablation.json").read_text())
    for name in ("shared seed-0", "sep seed-0", "shared seed-1", "sep seed-1"):
        assert text.count(f"{name}: val rmse ") == 1
    assert "RMSE: mean ± sd of 2 run(s)" in text
    for variant in ("shared", "sep"):
        spread = printed["variants"][variant]["test"]["rmse"]
        assert f"{spread['mean']:.4f} ± {spread['sd']:.4f}" in text
    difference = printed["differences"]["sep"]["test"]
    assert f"{difference['mean']:+.4f}" in text
    assert f"{difference['p']:.2g}" in text
    assert str(tmp_path / "norms" / "ablation.json") in text


def test_json_output_equals_the_file(ablate, ok, tmp_path):
    printed = json.loads(ok(*ablate, "--seeds", "0", "--json"))
    assert printed == json.loads((tmp_path / "norms" / "ablation.json").read_text())
    assert printed["differences"]["sep"]["val"]["interval"] is None


def test_the_same_command_continues_a_stopped_ablation(ablate, ok, run, tmp_path, monkeypatch):
    plain = TrainStep.__call__

    def step(self, *planned):
        if self.config.run.seed == 1 and self.config.model.norm == "sep":
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(self, *planned)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", step)
        result = run(*ablate, "--seeds", "0-1")
    assert result.exit_code == 128 + signal.SIGTERM
    assert "Stopped and saved. Run the same command again to continue." in result.stderr
    text = ok(*ablate, "--seeds", "0-1")
    assert "sep seed-1: " in text
    assert "seed-0: " not in text


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ("norm", "'norm' should look like model.layers=4,8,12"),
        ("model.layers=", "'model.layers=' should look like"),
        ("model.layers={", "should look like"),
        ("norm=sep,pre", "unknown norm 'pre'"),
        ("modle.layers=1,2", "unknown setting 'modle.layers'"),
    ],
)
def test_invalid_variations_are_refused(ablate, refused, vary, message):
    assert message in refused(*ablate[:-1], vary)
