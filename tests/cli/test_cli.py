"""The command line as a user sees it: output, files and exit status."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file

from molsepnorm.cli import main
from molsepnorm.model import SCHEMA
from molsepnorm.tasks.metrics import significant

ENDS = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}
TINY = [
    *("--epochs", "3", "--layers", "1", "--batch-size", "16"),
    *("--set", "model.width=16", "--set", "model.ffn_width=16", "--set", "model.heads=2"),
    *("--set", "model.max_path_length=3", "--set", "data.featurizer=zinc"),
    *("--set", "model.dropout=0.1", "--set", "optim.ema=0.9"),
]


def _table(path, header="smiles,y,name", rows=60):
    """Write sixty molecules with a number and a name."""
    lines = [header]
    for length in range(1, 11):
        for end, value in ENDS.items():
            lines.append(f"{'C' * length}{end},{0.5 * length + value:.2f},m{len(lines)}")
    path.write_text("\n".join(lines[: rows + 1]) + "\n")
    return path


def _run(*args, stdin: str | bytes | None = None):
    return CliRunner().invoke(main, [str(arg) for arg in args], input=stdin)


def _ok(*args, **options) -> str:
    result = _run(*args, **options)
    assert result.exit_code == 0, result.output
    return result.stdout


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _clean(result) -> None:
    """Check that a command failed with one paragraph and no traceback."""
    assert isinstance(result.exception, SystemExit), result.exc_info
    assert "Traceback" not in result.output
    assert result.stderr.count("Error: ") == 1
    message = result.stderr.partition("Error: ")[2].strip()
    assert message
    assert "\n\n" not in message
    assert len(message) < 800


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A folder with data.csv and a run trained on it."""
    folder = tmp_path_factory.mktemp("cli")
    table = _table(folder / "data.csv")
    printed = _ok("train", "--data", table, "--targets", "y", *TINY, "-o", folder / "run")
    (folder / "printed.txt").write_text(printed)
    return folder


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "train",
        "pretrain",
        "evaluate",
        "predict",
        "screen",
        "explain",
        "embed",
        "models",
        "benchmark",
        "ablate",
        "convert",
        "export",
    ],
)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help_with_examples(command, flag):
    text = _ok(command, flag)
    assert text.startswith(f"Usage: main {command}")
    assert text.count(f"molsepnorm {command} ") >= 2
    assert "-h, --help" in text


def test_the_main_help_lists_every_command():
    text = " ".join(_ok("--help").split())
    for line in (
        "train Train a model on a data set",
        "pretrain Train a model on structures",
        "evaluate Score a trained",
        "predict Predict the prop",
        "screen Predict libraries of any size",
        "explain Show which atoms",
        "embed Write embeddings",
        "models List the models that come",
        "data Check a table, list the na",
        "benchmark Train with several seeds",
        "ablate Compare variants of one",
        "convert Import the weights",
        "export Write a model as ONNX",
    ):
        assert line in text
    assert _ok("--version").startswith("molsepnorm, version ")


def test_an_unknown_command_or_option_is_a_usage_error():
    assert _run("trian").exit_code == 2
    result = _run("predict", "--modle", "x")
    assert result.exit_code == 2
    assert "--model" in result.stderr


def test_the_main_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom molsepnorm.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'pandas', 'rdkit', 'numpy', 'ogb', 'pydantic', 'sklearn', 'rich'}\n"
        "sys.exit(f'imported: {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Commands:" in done.stdout


# --- the round trip -------------------------------------------------------------------------------


def test_training_prints_data_progress_and_scores(workspace):
    """Data, target, splits, network, epochs, scores, and what to do next."""
    text = (workspace / "printed.txt").read_text()
    for part in ("data.csv", "Target: y (a number)", "train", "48", "epoch 3/3", "mae", "rmse"):
        assert part in text
    assert f"molsepnorm predict --model {workspace / 'run'} --smiles" in text
    assert "\x1b" not in text


def test_printed_scores_equal_metrics_json(workspace):
    metrics = json.loads((workspace / "run" / "metrics.json").read_text())
    text = (workspace / "printed.txt").read_text()
    assert significant(metrics["test"]["mae"]) in text
    assert significant(metrics["val"]["rmse"]) in text


def test_evaluating_the_test_split_repeats_the_run_s_scores(workspace):
    """As a table, and as JSON."""
    args = ("evaluate", "--model", workspace / "run", "--data", workspace / "data.csv")
    test = json.loads((workspace / "run" / "metrics.json").read_text())["test"]
    told = json.loads(_ok(*args, "--json"))
    assert (told["data"], told["split"]) == ("data.csv", "test")
    assert told["mae"] == pytest.approx(test["mae"])
    text = _ok(*args)
    assert significant(test["mae"]) in text
    assert "\x1b" not in text
    assert json.loads(_ok(*args, "--json", "--split", "all"))["mae"] != told["mae"]


def test_evaluating_the_test_split_never_scores_training_molecules(workspace, tmp_path):
    """This also holds for a run with another split than the default."""
    run, table = tmp_path / "run", workspace / "data.csv"
    train = ("train", "--data", table, "--targets", "y", *TINY, "--set", "data.split_seed=5")
    _ok(*train, "-o", run)
    test = json.loads((run / "metrics.json").read_text())["test"]
    result = _run("evaluate", "--model", run, "--data", table, "--json")
    if result.exit_code == 0:
        assert json.loads(result.stdout)["mae"] == pytest.approx(test["mae"])
    else:
        _clean(result)


def test_predict_reads_and_writes_a_file(workspace, tmp_path):
    """All columns and rows are kept, and predictions equal those that training wrote."""
    out = tmp_path / "deep" / "out.csv"
    result = _run("predict", "--model", workspace / "run", "-i", workspace / "data.csv", "-o", out)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"60 rows to {out}" in result.stderr
    rows, source = _rows(out.read_text()), _rows((workspace / "data.csv").read_text())
    assert [(r["smiles"], r["y"], r["name"]) for r in rows] == [tuple(r.values()) for r in source]
    with open(workspace / "run" / "predictions_test.csv", newline="") as file:
        for row in csv.DictReader(file):
            predicted = float(rows[int(row["line"]) - 2]["y_pred"])
            assert predicted == pytest.approx(float(row["y_pred"]), rel=1e-4, abs=1e-5)


def test_predict_accepts_smiles_as_options(workspace):
    result = _run("predict", "--model", workspace / "run", "--smiles", "OCC", "--smiles", "C1CC")
    assert result.exit_code == 0
    good, bad = _rows(result.stdout)
    assert (good["smiles"], good["error"]) == ("OCC", "")
    assert float(good["y_pred"])
    assert (bad["smiles"], bad["y_pred"]) == ("C1CC", "")
    assert "unclosed ring" in bad["error"]
    assert "2 rows; 1 could not be predicted, see the column error" in result.stderr


@pytest.mark.parametrize(
    ("stdin", "columns"),
    [
        ("CCO\nCCN\n", ["smiles"]),
        ("CCO\r\nCCN\r\n", ["smiles"]),
        ("CCO\nCCN", ["smiles"]),
        ("smiles\nCCO\nCCN\n", ["smiles"]),
        ("id,smiles\n1,CCO\n2,CCN\n", ["id", "smiles"]),
        ('"id","smiles"\n1,CCO\n2,CCN\n', ["id", "smiles"]),
        ("\ufeffsmiles,id\nCCO,1\nCCN,2\n", ["smiles", "id"]),
        ('smiles,note\nCCO,"two\nlines"\nCCN,\n', ["smiles", "note"]),
    ],
    ids=["lines", "crlf", "no end", "one column", "csv", "quoted header", "bom", "line break"],
)
def test_predict_reads_standard_input(workspace, stdin, columns):
    """Standard input has one SMILES per line, or is a CSV."""
    rows = _rows(_ok("predict", "--model", workspace / "run", stdin=stdin.encode()))
    assert [row["smiles"] for row in rows] == ["CCO", "CCN"]
    assert list(rows[0]) == [*columns, "y_pred", "error"]
    assert all(row["y_pred"] and not row["error"] for row in rows)


def test_blank_lines_on_standard_input_are_kept_as_rows(workspace):
    """Predictions can then be pasted beside the input."""
    rows = _rows(_ok("predict", "--model", workspace / "run", stdin="CCO\n\nCCN\n"))
    assert [(row["smiles"], bool(row["error"])) for row in rows] == [
        ("CCO", False),
        ("", True),
        ("CCN", False),
    ]


def test_empty_standard_input_is_an_error(workspace):
    """The message does not mention a header, which plain SMILES do not have."""
    result = _run("predict", "--model", workspace / "run", stdin="")
    assert result.exit_code in (1, 2)
    _clean(result)
    assert "header but no rows" not in result.stderr


def test_the_smiles_column_can_have_another_name(workspace, tmp_path):
    (tmp_path / "x.csv").write_text("structure\nCCO\n")
    args = ("predict", "--model", workspace / "run", "-i", tmp_path / "x.csv")
    assert _run(*args).exit_code == 2
    assert "structure,y_pred,error\nCCO," in _ok(*args, "--smiles-column", "structure")


def test_quiet_prints_only_the_scores(workspace, tmp_path):
    text = _ok("train", "--data", workspace / "data.csv", *TINY, "-q", "-o", tmp_path / "run")
    assert "mae" in text
    assert "epoch 1/3" not in text
    assert "Splits" not in text


def test_settings_override_presets_and_recipes(workspace, tmp_path):
    import yaml

    _ok(
        *("train", "--data", workspace / "data.csv", "--preset", "slim", "--set", "model.layers=2"),
        *("--epochs", 1, "--lr", "2e-3", "--seed", 7, "--norm", "shared", "-o", tmp_path / "run"),
        *("--set", "model.width=16", "--set", "model.heads=2", "--set", "optim.ema=null"),
    )
    saved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    model, optim, run = saved["model"], saved["optim"], saved["run"]
    assert (model["layers"], model["width"], model["norm"]) == (2, 16, "shared")
    assert model["dropout"] == 0.1  # slim's
    assert (optim["lr"], optim["ema"], run["seed"], run["epochs"]) == (2e-3, None, 7, 1)


def test_without_output_runs_are_numbered(workspace, tmp_path, monkeypatch):
    """Run folders are runs/<name of the data>-<number>."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        _ok("train", "--data", workspace / "data.csv", *TINY[2:], "--epochs", 1, "-q")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["data-1", "data-2"]


def test_skipped_rows_are_reported(workspace, tmp_path):
    table = _table(tmp_path / "data.csv")
    table.write_text(table.read_text().replace("\nCCO,", "\nC1CC,"))
    text = _ok("train", "--data", table, *TINY[2:], "--epochs", 1, "-o", tmp_path / "run")
    assert re.search(r"Skipped: 1 row that cannot be read, such as line \d+, 'C1CC': ", text)
    assert "unclosed ring" in text
    assert "rejected.csv" in text


@pytest.mark.parametrize("name", ["logS [mol/L]", "k [/h]", "[bold]y[/bold]", "y [red]"])
def test_units_in_brackets_are_printed_as_they_are(tmp_path, name):
    """Brackets are not interpreted as markup."""
    table = _table(tmp_path / "data [v2].csv", f"smiles,{name},name")
    text = _ok("train", "--data", table, *TINY[2:], "--epochs", 1, "-o", tmp_path / "run [a]")
    assert f"Target: {name}" in text
    assert "data [v2].csv" in text
    text = _ok("evaluate", "--model", tmp_path / "run [a]", "--data", table)
    assert "data [v2].csv" in text


def test_json_is_valid_if_a_score_is_undefined(tmp_path):
    """ROC-AUC of one class is null, not NaN."""
    rows = [f"{'C' * i},{i % 2}" for i in range(1, 61)]
    (tmp_path / "b.csv").write_text("\n".join(["smiles,y", *rows]))
    _ok("train", "--data", tmp_path / "b.csv", *TINY[2:], "--epochs", 1, "-o", tmp_path / "run")
    (tmp_path / "one.csv").write_text("\n".join(["smiles,y", *rows[::2]]))
    text = _ok(
        *("evaluate", "--model", tmp_path / "run", "--data", tmp_path / "one.csv"),
        *("--split", "all", "--json"),
    )

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(text, parse_constant=refuse)["roc_auc"] is None


def test_a_binary_model_refuses_numeric_labels(tmp_path):
    rows = [f"{'C' * i},{i % 2}" for i in range(1, 41)]
    (tmp_path / "b.csv").write_text("\n".join(["smiles,y", *rows]))
    _ok("train", "--data", tmp_path / "b.csv", *TINY[2:], "--epochs", 1, "-o", tmp_path / "run")
    rows = [f"{'C' * i},{i % 3}" for i in range(1, 41)]
    (tmp_path / "n.csv").write_text("\n".join(["smiles,y", *rows]))
    _clean(_run("evaluate", "--model", tmp_path / "run", "--data", tmp_path / "n.csv"))


# --- errors ---------------------------------------------------------------------------------------


def _text(path, text: str):
    path.write_text(text)
    return path


def _model_with(workspace, folder, **changes):
    """Copy the run's model with changes to its config.json."""
    import shutil

    shutil.copytree(workspace / "run" / "model", folder)
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**about, **changes}))
    return folder


def _without_weights(workspace, folder):
    _model_with(workspace, folder)
    (folder / "model.safetensors").unlink()
    return folder


BAD = {
    "no source": (2, "name a data set", lambda p, t: ("train",)),
    "two sources": (
        2,
        "both sources",
        lambda p, t: ("train", "--dataset", "zinc", "--data", p / "data.csv"),
    ),
    "unknown data set": (
        2,
        "Did you mean 'zinc'",
        lambda p, t: ("train", "--dataset", "zink", "-o", t / "run"),
    ),
    "unknown setting": (
        2,
        "Did you mean 'layers'",
        lambda p, t: ("train", "--data", p / "data.csv", "--set", "model.layer=2"),
    ),
    "no equals sign": (
        2,
        "should look like model.layers=6",
        lambda p, t: ("train", "--data", p / "data.csv", "--set", "model.layers"),
    ),
    "bad value": (
        2,
        "run.epochs",
        lambda p, t: ("train", "--data", p / "data.csv", "--epochs", -1),
    ),
    "not a number": (2, "--epochs", lambda p, t: ("train", "--epochs", "many")),
    "unknown preset": (
        2,
        "Did you mean 'slim'",
        lambda p, t: ("train", "--data", p / "data.csv", "--preset", "slm"),
    ),
    "config not there": (1, "no such file", lambda p, t: ("train", "--config", t / "x.yaml")),
    "config no yaml": (
        2,
        "not valid YAML",
        lambda p, t: ("train", "--config", _text(t / "x.yaml", "a: [")),
    ),
    "table not there": (1, "no such file", lambda p, t: ("train", "--data", t / "x.csv")),
    "table empty": (1, "is empty", lambda p, t: ("train", "--data", _text(t / "x.csv", ""))),
    "header only": (
        1,
        "header but no rows",
        lambda p, t: ("train", "--data", _text(t / "x.csv", "smiles,y\n")),
    ),
    "no smiles column": (
        2,
        "no column 'smiles'",
        lambda p, t: ("train", "--data", _table(t / "x.csv", "a,b,c")),
    ),
    "no such target": (
        2,
        "no column 'z'",
        lambda p, t: ("train", "--data", p / "data.csv", "--targets", "z"),
    ),
    "target not a number": (
        1,
        "line 3, column 'y': 'much' is not a number",
        lambda p, t: (
            *("train", "--targets", "y", "--data"),
            _text(t / "x.csv", "smiles,y\nC,1\nCC,much\n" + "CCC,4\n" * 20),
        ),
    ),
    "target constant": (
        1,
        "is constant",
        lambda p, t: (
            "train",
            "--data",
            _text(t / "x.csv", "smiles,y\n" + "".join(f"{'C' * i},1\n" for i in range(1, 30))),
            *TINY,
            "-o",
            t / "run",
        ),
    ),
    "invalid smiles and fail": (
        1,
        "line 4: RDKit cannot read 'C1CC': unclosed ring",
        lambda p, t: (
            "train",
            "--data",
            _text(t / "x.csv", "smiles,y\nC,1\nCC,2\nC1CC,3\n" + "CCC,4\n" * 20),
            "--on-invalid",
            "fail",
        ),
    ),
    "too few": (
        1,
        "too few",
        lambda p, t: ("train", "--data", _text(t / "x.csv", "smiles,y\nC,1\nCC,2\n")),
    ),
    "folder in use": (
        2,
        "exists and is not empty",
        lambda p, t: ("train", "--data", p / "data.csv", *TINY, "-o", p / "run"),
    ),
    "output below a file": (
        1,
        "cannot write",
        lambda p, t: ("train", "--data", p / "data.csv", *TINY, "-o", p / "data.csv" / "run"),
    ),
    "output a file": (
        1,
        "cannot write",
        lambda p, t: ("train", "--data", p / "data.csv", *TINY, "-o", p / "data.csv"),
    ),
    "output in proc": (
        1,
        "cannot write",
        lambda p, t: ("train", "--data", p / "data.csv", *TINY, "-o", "/proc/run"),
    ),
    "no GPU": (
        2,
        "cuda:99",
        lambda p, t: ("train", "--data", p / "data.csv", *TINY, "--device", "cuda:99"),
    ),
    "no device": (
        2,
        "quantum",
        lambda p, t: ("train", "--data", p / "data.csv", *TINY, "--device", "quantum"),
    ),
    "nothing to resume": (
        1,
        "not a run that can be resumed",
        lambda p, t: ("train", "--resume", t),
    ),
    "resume and more": (
        2,
        "takes no other option than --epochs and --quiet; got --layers",
        lambda p, t: ("train", "--resume", p / "run", "--layers", 5),
    ),
    "resume and fewer epochs": (
        2,
        "has trained for 3 epochs, and --epochs (run.epochs) is 1: choose a higher number",
        lambda p, t: ("train", "--resume", p / "run", "--epochs", 1),
    ),
    "resume and seed 0": (2, "--seed", lambda p, t: ("train", "--resume", p / "run", "--seed", 0)),
    "resume and set": (
        2,
        "got --set\n",
        lambda p, t: ("train", "--resume", p / "run", "--set", "run.epochs=5"),
    ),
    "resume and output": (
        2,
        "got --output",
        lambda p, t: ("train", "--resume", p / "run", "-o", t / "new"),
    ),
    "predict without a model": (2, "--model", lambda p, t: ("predict", "--smiles", "C")),
    "no such model": (
        1,
        "no folder",
        lambda p, t: ("predict", "--model", t / "x", "--smiles", "C"),
    ),
    "incomplete model": (
        1,
        "model.safetensors missing",
        lambda p, t: ("predict", "--model", _without_weights(p, t / "m"), "--smiles", "C"),
    ),
    "newer model": (
        1,
        "upgrade molsepnorm",
        lambda p, t: (
            *("predict", "--smiles", "C", "--model"),
            _model_with(p, t / "m", schema=SCHEMA + 1),
        ),
    ),
    "two inputs": (
        2,
        "both sources",
        lambda p, t: (*("predict", "--model", p / "run", "--smiles", "C", "-i", p / "data.csv"),),
    ),
    "input not there": (
        1,
        "no such file",
        lambda p, t: ("predict", "--model", p / "run", "-i", t / "x.csv"),
    ),
    "input empty": (
        1,
        "is empty",
        lambda p, t: ("predict", "--model", p / "run", "-i", _text(t / "x.csv", "")),
    ),
    "predict invalid and fail": (
        1,
        "unclosed ring",
        lambda p, t: ("predict", "--model", p / "run", "--smiles", "C1CC", "--on-invalid", "fail"),
    ),
    "predicted before": (
        2,
        "has a column 'y_pred' already",
        lambda p, t: (
            *("predict", "--model", p / "run", "-i"),
            _text(t / "x.csv", "smiles,y_pred\nC,1\n"),
        ),
    ),
    "predict below a file": (
        1,
        "cannot write",
        lambda p, t: (
            *("predict", "--model", p / "run", "--smiles", "C", "-o", p / "data.csv" / "out.csv"),
        ),
    ),
    "predict over a folder": (
        1,
        "there is a folder of that name",
        lambda p, t: ("predict", "--model", p / "run", "--smiles", "C", "-o", t),
    ),
    "predict in proc": (
        1,
        "cannot write",
        lambda p, t: ("predict", "--model", p / "run", "--smiles", "C", "-o", "/proc/out.csv"),
    ),
    "predict on no device": (
        2,
        "quantum",
        lambda p, t: ("predict", "--model", p / "run", "--smiles", "C", "--device", "quantum"),
    ),
    "evaluate nothing": (2, "name one source", lambda p, t: ("evaluate", "--model", p / "run")),
    "evaluate an unknown split": (
        2,
        "unknown split 'tset'",
        lambda p, t: (
            *("evaluate", "--model", p / "run", "--data", p / "data.csv", "--split", "tset"),
        ),
    ),
    "evaluate without the target": (
        2,
        "no column 'y'",
        lambda p, t: (
            *("evaluate", "--model", p / "run", "--data"),
            _table(t / "x.csv", "smiles,z,name"),
        ),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_error_is_one_paragraph_without_files(workspace, tmp_path, tree, monkeypatch, case):
    """The exit status is 2 for a wrong request, and 1 if carrying it out failed."""
    code, words, make = BAD[case]
    monkeypatch.chdir(tmp_path)
    args = make(workspace, tmp_path)
    before, theirs = tree(tmp_path), tree(workspace)
    result = _run(*args)
    _clean(result)
    assert words in result.stderr
    assert result.exit_code == code
    assert tree(tmp_path) == before
    assert tree(workspace) == theirs


def test_a_failed_prediction_keeps_the_earlier_file(workspace, tmp_path, tree):
    (tmp_path / "out.csv").write_text("good\n")
    (tmp_path / "in.csv").write_text("smiles\nCCO\nC1CC\n")
    before = tree(tmp_path)
    args = ("predict", "--model", workspace / "run", "-i", tmp_path / "in.csv")
    result = _run(*args, "-o", tmp_path / "out.csv", "--on-invalid", "fail")
    assert result.exit_code == 1
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_full_disk_keeps_the_earlier_file(workspace, tmp_path, small_disk, tree, name):
    (small_disk / name).write_text("good\n")
    rows = [f"CCO,{os.urandom(1500).hex()}\n" for _ in range(50)]  # which cannot be compressed
    (tmp_path / "in.csv").write_text("smiles,note\n" + "".join(rows))
    before = tree(small_disk)
    result = _run(
        *("predict", "--model", workspace / "run", "-i", tmp_path / "in.csv"),
        *("-o", small_disk / name),
    )
    _clean(result)
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr
    assert tree(small_disk) == before


def test_a_disk_that_fills_up_during_training_gives_a_clear_error(workspace, small_disk):
    """The model or the checkpoint does not fit."""
    result = _run("train", "--data", workspace / "data.csv", *TINY, "-o", small_disk / "run")
    _clean(result)
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr
    assert not list(small_disk.rglob("*.partial"))


def test_a_full_disk_behind_standard_output_gives_a_clear_error(workspace):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, "predict", "--model", workspace / "run", "--smiles", "C"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


def test_output_keeps_a_link_and_a_pipe(workspace, tmp_path):
    """Otherwise root could replace a device such as /dev/null by a file."""
    (tmp_path / "real.csv").write_text("old\n")
    (tmp_path / "link.csv").symlink_to("real.csv")
    args = ("predict", "--model", workspace / "run", "--smiles", "CCO", "-o")
    _run(*args, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("smiles,y_pred")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        _run(*args, tmp_path / "pipe")
        assert (tmp_path / "pipe").is_fifo()
    finally:
        os.close(reader)


# --- stopping -------------------------------------------------------------------------------------

_MAIN = "from molsepnorm.cli import main; main()"

_SIGNAL_AT_STEP = """
import os, sys
from molsepnorm.training.steps.step import TrainStep
number, step = int(sys.argv.pop(1)), int(sys.argv.pop(1))
plain, taken = TrainStep.__call__, []
def stepped(self, *planned):
    if len(taken) == step:
        os.kill(os.getpid(), number)
    taken.append(planned)
    return plain(self, *planned)
TrainStep.__call__ = stepped
from molsepnorm.cli import main
main()
"""


def _state(folder) -> dict:
    """The results of a run, without its times."""
    with open(folder / "history.csv", newline="") as file:
        history = [
            {k: v for k, v in row.items() if k not in ("seconds", "graphs_per_second")}
            for row in csv.DictReader(file)
        ]
    weights = load_file(folder / "model" / "model.safetensors")
    return {
        "history": history,
        "predictions": (folder / "predictions_test.csv").read_bytes(),
        "weights": {name: tensor.numpy().tobytes() for name, tensor in weights.items()},
    }


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_a_stopped_run_is_resumed_exactly(workspace, tmp_path, number, code):
    """The run is stopped or killed in the middle of the second epoch. The resumed run gives the
    results of an uninterrupted one."""
    train = ["train", "--data", workspace / "data.csv", "--targets", "y", *TINY]
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", _SIGNAL_AT_STEP, str(number.value), "4", *train, "-o", run],
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout
    if number != signal.SIGKILL:
        assert f"Continue: molsepnorm train --resume {run}" in done.stderr
    assert not (run / "metrics.json").exists()
    assert "mae" in _ok("train", "--resume", run)
    assert _state(run) == _state(workspace / "run")


def test_a_second_interrupt_stops_at_once(workspace, tmp_path, monkeypatch):
    """There is no traceback, and the step is not finished."""
    from molsepnorm.training.steps.step import TrainStep

    plain, taken = TrainStep.__call__, []

    def stepped(self, *planned):
        if len(taken) == 4:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("went on")
        taken.append(planned)
        return plain(self, *planned)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", stepped)
        result = _run("train", "--data", workspace / "data.csv", *TINY, "-o", tmp_path / "run")
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 130)
    assert "mae" in _ok("train", "--resume", tmp_path / "run")


def test_an_interrupt_while_data_are_read_stops_at_once(workspace, tmp_path, monkeypatch):
    """Reading a large table may take minutes, and there is nothing to save yet."""
    from molsepnorm.molecules.featurize.zinc import ZincFeaturizer

    plain, calls = ZincFeaturizer.many, []

    def featurise(self, smiles):
        calls.append(smiles)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, smiles)

    monkeypatch.setattr(ZincFeaturizer, "many", featurise)
    monkeypatch.setattr("molsepnorm.molecules.featurize.featurizer.CHUNK", 2)
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    table = _table(tmp_path / "new.csv")
    result = _run("train", "--data", table, *TINY, "-o", tmp_path / "run")
    assert result.exit_code in (1, 130)
    assert len(calls) < 10


def test_a_command_restores_the_signal_handlers(workspace, tmp_path):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    _ok("train", "--data", workspace / "data.csv", *TINY[2:], "--epochs", 1, "-o", tmp_path / "run")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_resuming_a_finished_run_prints_its_scores_again(workspace):
    metrics = json.loads((workspace / "run" / "metrics.json").read_text())
    assert significant(metrics["test"]["mae"]) in _ok(
        "train", "--resume", workspace / "run", "--quiet"
    )


def test_predict_on_a_terminal_needs_molecules(workspace):
    """The command does not wait for lines to be typed."""
    master, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, "predict", "--model", workspace / "run"],
            stdin=terminal,
            capture_output=True,
            text=True,
        )
    finally:
        os.close(master)
        os.close(terminal)
    assert done.returncode == 2
    assert "no molecules: give --smiles, --input, or SMILES on stdin" in done.stderr


def test_a_closed_output_pipe_is_not_an_error(workspace, tmp_path):
    """As with `| head`: there is no traceback and no message."""
    (tmp_path / "many.csv").write_text("smiles\n" + "CCO\n" * 5000)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        done = subprocess.run(
            [
                *(sys.executable, "-c", _MAIN, "predict", "--model", workspace / "run"),
                *("--input", tmp_path / "many.csv"),
            ],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
