"""train, evaluate and predict with targets of every kind."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil

import pytest
from support import set_zinc_sizes

from molsepnorm.model import PropertyModel
from molsepnorm.tasks.metrics import significant
from molsepnorm.training.results.card import composition
from molsepnorm.training.results.conclusion import conclusion

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]
COLOURS = ["red", "light blue", "green", "red", "", "light blue", "red"]
PARTS = ["train"] * 5 + ["", "valid", "TEST", "training", "test"]


def _metrics(folder) -> dict:
    return json.loads((folder / "metrics.json").read_text())


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, ok, tiny, write_table):
    """A folder with data.csv and a run on its three targets of three kinds."""
    folder = tmp_path_factory.mktemp("kinds")
    write_table(folder / "data.csv", y=NUMBERS, a=YES_NO, c=COLOURS, n=[1, 2, 3])
    printed = ok(
        *("train", "--data", folder / "data.csv", "--targets", "y,a,c", *tiny),
        *("--split", "0.4,0.3,0.3", "-o", folder / "run"),
    )
    (folder / "printed.txt").write_text(printed)
    return folder


def test_training_prints_the_kinds_and_distributions_of_labels(workspace):
    text = (workspace / "printed.txt").read_text()
    for part in (
        *("Target: y (a number)", "Target: a (yes / no)", "Target: c (green, light blue, red)"),
        *(" yes (", "light blue ", "by validation loss", "95 % interval"),
    ):
        assert part in text


def test_the_last_lines_name_parts_report_and_next_command(workspace):
    run = workspace / "run"
    parts = composition(PropertyModel.from_pretrained(run), 2)
    assert (workspace / "printed.txt").read_text().splitlines()[-3:] == [
        f"Model: {parts}.",
        f"Report: {run / 'report.html'}",
        f"Predict: molsepnorm predict --model {run} --smiles CCO",
    ]


def test_printed_commands_quote_a_folder_with_spaces(workspace, ok, refused, tiny, tmp_path):
    run = shutil.copytree(workspace / "run", tmp_path / "my run")
    quoted = shlex.quote(str(run))
    text = ok("train", "--resume", run)
    assert f"Predict: molsepnorm predict --model {quoted} --smiles CCO\n" in text
    options = ("--data", workspace / "data.csv", "--targets", "y", *tiny)
    assert f"--resume {quoted}" in refused("train", *options, "-o", run)
    (run / "metrics.json").unlink()
    assert f"molsepnorm train --resume {quoted}" in refused("report", run, code=1)


def test_an_ensemble_is_printed_once(ok, tiny, write_table, tmp_path):
    """With --quiet its scores alone, and when a finished one is resumed."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS)
    options = ("--targets", "y", *tiny, "--ensemble", 2, "-o", tmp_path / "run")
    text = ok("train", "--data", table, "--quiet", *options)
    assert text.count("Scores\n") == 1 and "Member" not in text and "Model" not in text
    again = ok("train", "--resume", tmp_path / "run")
    assert again.count("Scores\n") == 1 and "Member" not in again
    assert f"Predict: molsepnorm predict --model {tmp_path / 'run'} --smiles CCO\n" in again


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
    sentences = conclusion(metrics)
    assert ["trivial baseline" in sentences[0], "a random forest" in sentences[1]] == [True, True]
    assert "Conclusion:\n" + "".join(f"- {text}\n" for text in sentences) in printed
    assert _rows((tmp_path / "run" / "predictions_test.csv").read_text())[0]["y_forest"]


@pytest.mark.parametrize("split", ["val", "test"])
def test_evaluation_repeats_the_scores_of_metrics_json(workspace, ok, split):
    scores = json.loads(
        ok(
            *("evaluate", "--model", workspace / "run", "--data", workspace / "data.csv"),
            *("--split", split, "--json"),
        )
    )
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
        [float(row["y_pred"]) for row in _rows(ok("predict", *run, "--smiles", "CCO", *more))]
        for more in ((), asked)
    )
    assert near == pytest.approx(exact, abs=0.2)
    assert near != exact
    assert "no device 'cuda:7' here" in refused(
        "evaluate", *run, "--data", table, "--device", "cuda:7"
    )


def test_a_class_that_the_model_lacks_gives_a_clear_error(workspace, refused, tmp_path):
    (tmp_path / "new.csv").write_text("smiles,y,a,c\nCCO,1,1,red\nCCN,1,0,mauve\n")
    message = refused(
        *("evaluate", "--model", workspace / "run", "--data", tmp_path / "new.csv"), code=1
    )
    assert (
        "line 3, column 'c': 'mauve' is not one of its classes: green, light blue, red" in message
    )


def test_predictions_of_classes_have_names_and_probabilities(workspace, ok):
    """All columns of the table are kept; predictions of test rows equal those of training."""
    rows = _rows(ok("predict", "--model", workspace / "run", "-i", workspace / "data.csv"))
    probabilities = ["c_prob_green", "c_prob_light blue", "c_prob_red"]
    assert list(rows[0]) == [
        *("smiles", "y", "a", "c", "n", "y_pred", "a_pred", "c_pred", *probabilities, "error"),
    ]
    for row in rows:
        assert sum(float(row[name]) for name in probabilities) == pytest.approx(1, abs=1e-5)
    for written in _rows((workspace / "run" / "predictions_test.csv").read_text()):
        row = rows[int(written["line"]) - 2]
        assert row["c_pred"] == written["c_pred"]
        for name in ("y_pred", "a_pred", *probabilities):
            assert float(row[name]) == pytest.approx(float(written[name]), rel=1e-4, abs=1e-5)
    again = ("predict", "--model", workspace / "run", "--smiles", "CCO", "--smiles", "C1CC")
    good, bad = _rows(ok(*again))
    assert good["c_pred"] in ("green", "light blue", "red")
    assert {bad[name] for name in ("y_pred", "c_pred", *probabilities)} == {""}
    assert "unclosed ring" in bad["error"]


def test_an_existing_prediction_column_is_refused(workspace, refused, tmp_path):
    (tmp_path / "new.csv").write_text("smiles,c_prob_red\nCCO,1\n")
    args = ("predict", "--model", workspace / "run", "-i", tmp_path / "new.csv")
    assert "has a column 'c_prob_red' already" in refused(*args)


def test_training_prints_the_guessed_targets_and_kinds(workspace, ok, tiny, write_table, tmp_path):
    """Without --targets, all columns of numbers are targets here. --quiet prints none of this."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS, few=[1, 2, 3], id=range(30), c=COLOURS)
    given = ("--data", table, "--ignore-columns", "c")
    text = ok("train", *given, *tiny, "-o", tmp_path / "run")
    assert "The targets are all columns of numbers; name others with --targets." in text
    assert "Not used as targets: id" in text
    assert "few: few whole numbers, treated as quantities." in text
    assert "--task-type few=multiclass" in text
    text = ok(
        *("train", "--data", table, *tiny[2:], "--epochs", 1, "-o", tmp_path / "classes"),
        *("--targets", "few,c", "--task-type", "few=multiclass", "--metric", "mcc"),
    )
    assert "Target: few (1, 2, 3)" in text
    assert "Target: c (green, light blue, red)" in text
    assert "by validation mcc" in text
    text = ok("train", *given, *tiny, "-q", "-o", tmp_path / "quiet")
    assert "guess" not in text
    assert "few whole numbers" not in text


def test_a_validation_split_of_one_class_gives_a_warning(ok, tiny, write_table, tmp_path):
    """The best epoch is then chosen by the loss."""
    labels = [0, 1, 0, 1, 0, 0, 1, 1, 0, 1]
    table = write_table(tmp_path / "data.csv", a=labels, part=PARTS)
    text = ok(
        *("train", "--data", table, *tiny, "--splits-column", "part", "-o", tmp_path / "run"),
    )
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


def test_weights_patience_and_class_weight_work_together(ok, tiny, write_table, tmp_path, run):
    """A run that early stopping has ended is not trained further."""
    columns = {"a": YES_NO, "w": [1, 0, 2.5]}
    table = write_table(tmp_path / "data.csv", **columns)
    text = ok(
        *("train", "--data", table, "--targets", "a", "--weight-column", "w", *tiny[2:]),
        *("--class-weight", "balanced", "--patience", 1, "--epochs", 50, "--lr", 1e-30),
        *("--split", "0.4,0.3,0.3", "--metric", "accuracy", "-o", tmp_path / "run"),
    )
    metrics = _metrics(tmp_path / "run")
    assert metrics["epochs"] == metrics["best_epoch"] + 1 < 50
    assert f"Best epoch: {metrics['best_epoch']} of {metrics['epochs']}" in text
    before = (tmp_path / "run" / "history.csv").read_bytes()
    assert "accuracy" in ok("train", "--resume", tmp_path / "run", "-q")
    assert (tmp_path / "run" / "history.csv").read_bytes() == before
    model = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert len(model["task"]["targets"][0]["class_weights"]) == 2


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--targets", "y", "--metric", "roc_auc"), 2, "the metric 'roc_auc' is for binary targ"),
        (("--targets", "y", "--metric", "rsme"), 2, "Did you mean 'rmse'?"),
        (("--targets", "y", "--task-type", "a=binary"), 2, "data.task_type names 'a', which is no"),
        (("--targets", "y", "--task-type", "binary"), 1, "is neither 0 nor 1, neither yes nor no"),
        (("--targets", "y", "--weight-column", "y"), 2, "'y' cannot be a target and something e"),
        (("--targets", "y", "--weight-column", "c"), 1, "column 'c': 'red' is not a number"),
        (("--targets", "a", "--weight-column", "y"), 1, "the weight -1.5 is negative"),
        (("--targets", "y", "--splits-column", "c"), 1, "column 'c': 'red' names no split"),
        (("--targets", "y", "--splits-file", "none.json"), 1, "no such file"),
    ],
)
def test_options_that_do_not_fit_the_table_are_refused(
    workspace, refused, tiny, tmp_path, monkeypatch, args, code, message
):
    """No folder is made."""
    monkeypatch.chdir(tmp_path)
    args = ("train", "--data", workspace / "data.csv", *tiny, *args, "-o", tmp_path / "run")
    assert message in refused(*args, code=code)
    assert not list(tmp_path.iterdir())


def test_names_in_brackets_are_printed_as_they_are(ok, tiny, write_table, tmp_path):
    """Brackets in class names are not interpreted as markup."""
    table = write_table(tmp_path / "data.csv", c=["[red]", "[/bold]x", "[green]y"])
    text = ok(
        *("train", "--data", table, "--targets", "c", *tiny[2:], "--epochs", 1),
        *("-o", tmp_path / "run"),
    )
    assert "Target: c ([/bold]x, [green]y, [red])" in text
    assert re.search(r"\[red\]\s+\d", text)


def test_many_targets_are_summarised(ok, tiny, write_table, tmp_path):
    """The output has the first targets and the mean scores; metrics.json has all."""
    columns = {f"t{i:02}": YES_NO[i % 5 :] + YES_NO[: i % 5] for i in range(40)}
    table = write_table(tmp_path / "data.csv", **columns)
    text = ok(
        *("train", "--data", table, *tiny[2:], "--epochs", 1, "--split", "0.4,0.3,0.3"),
        *("-o", tmp_path / "run"),
    )
    assert "Target: t11 (yes / no)" in text
    assert "Target: t12" not in text
    assert "12 of 40 targets are listed. All are in " in text
    assert (tmp_path / "run" / "targets.csv").read_text().count("\n") == 1 + 40 * 3
    assert "roc_auc/t39" not in text
    assert "roc_auc" in text
    assert "roc_auc/t39" in _metrics(tmp_path / "run")["test"]


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


def test_a_named_data_set_is_trained_with_its_splits_shown(tmp_path, monkeypatch):
    """It has no classes, unlike a table."""
    import gzip

    from click.testing import CliRunner

    from molsepnorm.cli import main

    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    set_zinc_sizes(monkeypatch, (8, 8, 8))
    for split in ("train", "val", "test"):
        with gzip.open(tmp_path / f"{split}.csv.gz", "wt") as file:
            file.write("smiles,y\n" + "".join(f"{'C' * n}O,{n}\n" for n in range(1, 9)))
    small = ["--epochs", "1", "--layers", "1", "--set", "model.width=8", "--device", "cpu"]
    command = ["train", "--dataset", "zinc-full", "--data-dir", str(tmp_path), *small]
    result = CliRunner().invoke(main, [*command, "-o", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "distribution" in result.output and "Scores" in result.output


def test_an_open_choice_of_targets_ends_with_commands(run, write_table, tmp_path):
    """Nothing is written. The commands have the words of the one that was given, quoted."""
    table = write_table(tmp_path / "my data.csv", MW=NUMBERS, a=NUMBERS, b=YES_NO)
    result = run("train", "--data", table, "--epochs", 1, "-o", tmp_path / "run")
    assert result.exit_code == 2
    assert "MW: named like properties that are computed from the structure. Run one of:" in (
        result.stderr
    )
    start = f"  molsepnorm train --data '{table}' --epochs 1 -o {tmp_path / 'run'} --targets"
    lines = result.stderr.splitlines()
    assert lines[-3:] == [f"{start} a", f"{start} b", f"{start} a,b"]
    assert not (tmp_path / "run").exists()
