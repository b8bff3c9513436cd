"""train, evaluate and predict with targets of every kind."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

from molsepnorm.tasks.metrics import significant
from molsepnorm.training.results.metrics import Metrics
from molsepnorm.training.results.summary import conclusion

from .conftest import read_rows

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]
COLOURS = ["red", "light blue", "green", "red", "", "light blue", "red"]
PARTS = ["train"] * 5 + ["", "valid", "TEST", "training", "test"]


def _metrics(folder) -> dict:
    return json.loads((folder / "metrics.json").read_text())


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


def test_the_forest_is_beside_the_network(baselines, ok, tiny, write_table, tmp_path):
    """The table has its test scores, and the conclusion compares both with each other."""
    write_table(tmp_path / "data.csv", y=NUMBERS)
    printed = ok(
        *("train", "--data", tmp_path / "data.csv", "--targets", "y", *tiny),
        *("--split", "0.4,0.3,0.3", "-o", tmp_path / "run"),
    )
    assert "forest" in printed
    metrics = _metrics(tmp_path / "run")
    for name in ("val", "test", "test_constant"):
        assert significant(metrics[name]["rmse"]) in printed
    assert significant(metrics["baseline"]["test"]["rmse"]) in printed
    assert "test, constant" not in printed and "trivial baseline" in printed
    sentences = conclusion(Metrics.from_json(metrics))
    assert "Conclusion:\n" + "".join(f"- {text}\n" for text in sentences) in printed
    assert read_rows((tmp_path / "run" / "predictions_test.csv").read_text())[0]["y_forest"]


def test_evaluation_repeats_the_scores_of_metrics_json(workspace, ok):
    """With its table, or without naming data."""
    args = ("evaluate", "--model", workspace / "run", "--json")
    for split, source in (("val", ()), ("test", ("--data", workspace / "data.csv"))):
        scores = json.loads(ok(*args, *source, "--split", split))
        written = _metrics(workspace / "run")[split]
        assert {name: scores[name] for name in written} == pytest.approx(written)
        assert list(scores) == ["data", "split", "molecules", *written, "interval_95"]
        assert scores["interval_95"].keys() <= written.keys()


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


def test_predictions_of_classes_have_names_and_probabilities(workspace, ok):
    """All columns of the table are kept; predictions of test rows equal those of training."""
    rows = read_rows(ok("predict", "--model", workspace / "run", "-i", workspace / "data.csv"))
    probabilities = ["c_prob_green", "c_prob_light blue", "c_prob_red"]
    assert list(rows[0]) == [
        *("smiles", "y", "a", "c", "n", "y_pred", "a_pred", "c_pred", *probabilities, "error")
    ]
    for row in rows:
        assert sum(float(row[name]) for name in probabilities) == pytest.approx(1, abs=1e-5)
    for written in read_rows((workspace / "run" / "predictions_test.csv").read_text()):
        row = rows[int(written["line"]) - 2]
        assert row["c_pred"] == written["c_pred"]
        for name in ("y_pred", "a_pred", *probabilities):
            assert float(row[name]) == pytest.approx(float(written[name]), rel=1e-4, abs=1e-5)
    again = ("predict", "--model", workspace / "run", "--smiles", "CCO", "--smiles", "C1CC")
    good, bad = read_rows(ok(*again))
    assert good["c_pred"] in ("green", "light blue", "red")
    assert {bad[name] for name in ("y_pred", "c_pred", *probabilities)} == {""}
    assert "unclosed ring" in bad["error"]


def test_a_validation_split_of_one_class_gives_a_warning(ok, tiny, write_table, tmp_path):
    """The best epoch is then chosen by the loss."""
    labels = [0, 1, 0, 1, 0, 0, 1, 1, 0, 1]
    table = write_table(tmp_path / "data.csv", a=labels, part=PARTS)
    text = ok(*("train", "--data", table, *tiny, "--splits-column", "part", "-o", tmp_path / "run"))
    assert "ROC-AUC is undefined on the validation molecules" in text
    assert "undefined" in text.partition("Scores")[2]
    assert "by validation loss" in text
    assert _metrics(tmp_path / "run")["chosen_by"] == "loss"


def test_the_splits_file_of_a_run_repeats_the_run(ok, tiny, write_table, tmp_path):
    """The first run uses a splits column with an empty cell, the second the file that it wrote."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS, part=PARTS)
    train = ("train", "--data", table, "--targets", "y", *tiny)
    ok(*train, "--splits-column", "part", "-o", tmp_path / "one")
    ok(*train, "--splits-file", tmp_path / "one" / "splits.json", "-o", tmp_path / "two")
    for name in ("predictions_test.csv", "splits.json", "model/model.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    test = _metrics(tmp_path / "one")["test"]
    for run in ("one", "two"):
        scores = json.loads(ok("evaluate", "--model", tmp_path / run, "--data", table, "--json"))
        assert {name: scores[name] for name in test} == pytest.approx(test)
        assert scores["split"] == "test"


def test_training_from_a_model_says_what_was_loaded(
    workspace, ok, refused, tiny, write_table, tmp_path
):
    """The table's own recipe has another architecture, which the model's replaces."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS, new=YES_NO)
    args = ("train", "--data", table, "--targets", "y,new", "--epochs", 2)
    start = ("--from", workspace / "run", "--freeze-epochs", 1)
    text = ok(*args, *start, "-o", tmp_path / "run")
    assert f"Training starts from {workspace / 'run'}: " in " ".join(text.split())
    assert "; new output weights for y" in " ".join(text.split())  # y is hardly trained
    message = refused(*args, *start, "--layers", 7)
    assert "another architecture or other features: model.layers is 1, not 7" in message
    assert "there is no folder" in refused(*args, "--from", tmp_path / "none", code=1)


def test_an_open_choice_of_targets_lists_them(run, write_table, tmp_path):
    """Nothing is written."""
    table = write_table(tmp_path / "my data.csv", MW=NUMBERS, a=NUMBERS)
    result = run("train", "--data", table, "--epochs", 1, "-o", tmp_path / "run")
    assert result.exit_code == 2
    lines = [line.strip().partition(":")[0] for line in result.stderr.splitlines()]
    assert lines[-2:] == ["MW", "a"]
    assert not (tmp_path / "run").exists()
