"""log.txt: what a run prints, in its folder."""

from __future__ import annotations

import json
import re

from molsepnorm.cli.display import RunLog
from molsepnorm.errors import DivergedError
from molsepnorm.tasks.metrics import significant
from molsepnorm.training import load_config, train
from molsepnorm.training.callback import StopWhen
from molsepnorm.training.loop import Trainer

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
HEADER = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d, molsepnorm \S+"
SETTINGS = {
    "data.featurizer": "zinc",
    "model.layers": 1,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
    "run.epochs": 2,
}


def without_times(text: str) -> str:
    return re.sub(r"[\d,]+ graphs/s|\d+:\d\d( left)?", "", text)


def test_the_log_is_what_is_printed(ok, tiny, write_table, tmp_path):
    """After a line with the time and the version."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    printed = ok("train", "--data", table, "--targets", "y", *tiny, "-o", tmp_path / "run")
    header, _, log = (tmp_path / "run" / "log.txt").read_text().partition("\n")
    assert re.fullmatch(HEADER, header)
    assert "epoch 2/2" in log and "Scores" in log
    assert without_times(log) == without_times(printed)


def test_the_log_is_complete_with_quiet(run, tiny, write_table, tmp_path, monkeypatch):
    """It has no colours, even if the terminal has, and its tables are not cut to the terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    table = write_table(tmp_path / "data.csv", **{"a_long_name_of_a_target_" * 3: NUMBERS})
    result = run("train", "--data", table, *tiny, "-q", "-o", tmp_path / "run")
    assert result.exit_code == 0 and "\x1b" in result.stdout
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "epoch 2/2" in log and "Data: data.csv" in log
    assert "\x1b" not in log
    assert "a_long_name_of_a_target_" * 3 in re.search("Splits\n(.*\n)+?Model:", log)[0]


def test_a_resumed_run_continues_its_log(write_table, tmp_path):
    config = load_config(write_table(tmp_path / "data.csv", y=NUMBERS), overrides=SETTINGS)
    steps = iter(range(9))
    stop = StopWhen(lambda: next(steps) == 0)
    folder = tmp_path / "run"
    assert not train(config, folder, callback=[RunLog(folder), stop]).finished
    first = (folder / "log.txt").read_text()
    assert train(folder=folder, resume=True, callback=RunLog(folder)).finished
    both = (folder / "log.txt").read_text()
    assert both.startswith(first)
    one, other = re.findall(f"{HEADER}.*", both)
    assert not one.endswith(", resumed") and other.endswith(", resumed")
    assert "epoch 2/2" not in first and "epoch 2/2" in both


def test_the_log_ends_with_the_error(refused, ok, tiny, write_table, tmp_path, monkeypatch):
    """A run that failed before its first checkpoint may be repeated, with a new log."""

    def fail(self):
        raise DivergedError("the loss is nan")

    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    command = ("train", "--data", table, "--targets", "y", *tiny, "-o", tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "start", fail)
        refused(*command, code=1)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.endswith("\nError: the loss is nan\n")
    ok(*command)
    assert "Error" not in (tmp_path / "run" / "log.txt").read_text()


def test_an_ensemble_has_one_log(ok, tiny, write_table, tmp_path):
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    options = ("--targets", "y", *tiny, "--ensemble", 2, "-o", tmp_path / "run")
    ok("train", "--data", table, *options)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert len(re.findall(HEADER, log)) == 1
    assert log.count("epoch 2/2") == 2 and "Mean of 2 models" in log
    for part in ("Data: ", "Splits\n", "Network: ", "Scores\n", "Conclusion:\n", "Predict: "):
        assert log.count(part) == 1
    for number in (1, 2):
        member = json.loads((tmp_path / f"run/members/{number}/metrics.json").read_text())
        line = f"Member {number}: epoch {member['kept_epoch']} of 2, validation rmse "
        assert f"\n{line}{significant(member['val']['rmse'])}\n" in log
    assert "Folder: " + str(tmp_path / "run") + "\n" in log
    assert not list((tmp_path / "run" / "members").rglob("log.txt"))
