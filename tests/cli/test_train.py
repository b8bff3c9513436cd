"""train, evaluate and predict with targets of every kind."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

from molsepnorm.tasks.metrics import significant

from .conftest import read_rows

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]
COLOURS = ["red", "light blue", "green", "red", "", "light blue", "red"]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, ok, tiny, write_table):
    """A folder with data.csv and a run on its three targets of three kinds."""
    folder = tmp_path_factory.mktemp("kinds")
    write_table(folder / "data.csv", y=NUMBERS, a=YES_NO, c=COLOURS, n=[1, 2, 3])
    ok(
        *("train", "--data", folder / "data.csv", "--targets", "y,a,c", *tiny),
        *("--split", "0.4,0.3,0.3", "-o", folder / "run"),
    )
    return folder


def test_printed_commands_quote_a_folder_with_spaces(workspace, ok, refused, tiny, tmp_path):
    run = shutil.copytree(workspace / "run", tmp_path / "my run")
    quoted = shlex.quote(str(run))
    text = ok("train", "--resume", run)
    assert f"Predict: molsepnorm predict --model {quoted} --smiles CCO\n" in text
    options = ("--data", workspace / "data.csv", "--targets", "y", *tiny)
    assert f"--resume {quoted}" in refused("train", *options, "-o", run)
    (run / "metrics.json").unlink()
    assert f"molsepnorm train --resume {quoted}" in refused("models", "report", run, code=1)


def test_evaluation_gives_the_scores_of_the_run(workspace, ok):
    """Without naming data, printed and as JSON."""
    args = ("evaluate", "--model", workspace / "run", "--split", "val")
    written = json.loads((workspace / "run" / "metrics.json").read_text())["val"]
    scores = json.loads(ok(*args, "--json"))
    assert {name: scores[name] for name in written} == pytest.approx(written)
    assert significant(written["mae"]) in ok(*args)


def test_evaluate_and_predict_have_precision_and_device_options(workspace, ok, refused, tmp_path):
    """Scores and predictions in bf16 are close to those in fp32, but not equal."""
    run, table = ("--model", workspace / "run"), workspace / "data.csv"
    asked = ("--precision", "bf16", "--device", "cpu")
    exact, near = (
        json.loads(ok("evaluate", *run, "--data", table, "--split", "val", "--json", *more))["mae"]
        for more in ((), asked)
    )
    assert near == pytest.approx(exact, rel=0.1)
    assert near != exact
    exact, near = (
        [float(row["y_pred"]) for row in read_rows(ok("predict", *run, "--smiles", "CCO", *more))]
        for more in ((), asked)
    )
    assert near == pytest.approx(exact, abs=0.2)
    assert near != exact
    assert "no device 'cuda:7' here" in refused(
        "evaluate", *run, "--data", table, "--device", "cuda:7"
    )


def test_an_open_choice_of_targets_lists_them(run, write_table, tmp_path):
    """Nothing is written."""
    table = write_table(tmp_path / "my data.csv", MW=NUMBERS, a=NUMBERS)
    result = run("train", "--data", table, "--epochs", 1, "-o", tmp_path / "run")
    assert result.exit_code == 2
    lines = [line.strip().partition(":")[0] for line in result.stderr.splitlines()]
    assert lines[-2:] == ["MW", "a"]
    assert not (tmp_path / "run").exists()
