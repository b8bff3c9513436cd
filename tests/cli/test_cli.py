"""The command line as its user meets it: what it prints, where it writes, how it leaves."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file

from molsepnorm.cli import main
from molsepnorm.model import SCHEMA

ENDS = {"O": -1.0, "N": -1.2, "Cl": 0.9, "F": 0.4, "C(=O)O": -1.5, "c1ccccc1": 2.0}
TINY = [
    *("--layers", "1", "--epochs", "3", "--batch-size", "16"),
    *("--set", "model.width=16", "--set", "model.ffn_width=16", "--set", "model.heads=2"),
    *("--set", "model.max_path_length=3", "--set", "data.featurizer=zinc"),
    *("--set", "model.dropout=0.1", "--set", "optim.ema=0.9"),
]


def _table(path, header="smiles,y,name", rows=60):
    """Sixty molecules: a number, and a name that is a text."""
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
    """An error for a person: one paragraph, and no traceback."""
    assert isinstance(result.exception, SystemExit), result.exc_info
    assert "Traceback" not in result.output
    assert result.stderr.count("Error: ") == 1
    message = result.stderr.partition("Error: ")[2].strip()
    assert message
    assert "\n\n" not in message
    assert len(message) < 800


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data.csv and a run on it."""
    folder = tmp_path_factory.mktemp("cli")
    table = _table(folder / "data.csv")
    printed = _ok("train", "--data", table, "--targets", "y", *TINY, "-o", folder / "run")
    (folder / "printed.txt").write_text(printed)
    return folder


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["train", "evaluate", "predict", "benchmark", "ablate", "convert"]
)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help_with_examples(command, flag):
    text = _ok(command, flag)
    assert text.startswith(f"Usage: main {command}")
    assert text.count(f"molsepnorm {command} ") >= 2
    assert "Options:" in text


def test_the_help_of_the_whole_names_every_command():
    text = " ".join(_ok("--help").split())
    for line in (
        "train Train a model on a data set",
        "evaluate Score a trained",
        "predict Predict from SM",
        "data Check a table, list the na",
        "benchmark Train with several seeds",
        "ablate Compare variants of one",
        "convert Import the weights",
    ):
        assert line in text
    assert _ok("--version").startswith("molsepnorm, version ")


def test_an_unknown_command_or_option_is_a_usage_error():
    assert _run("trian").exit_code == 2
    result = _run("predict", "--modle", "x")
    assert result.exit_code == 2
    assert "--model" in result.stderr


def test_help_is_quick_since_nothing_heavy_is_imported():
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


def test_training_tells_what_it_does(place):
    """Data, target, splits, network, epochs, scores, and what to do next."""
    text = (place / "printed.txt").read_text()
    for part in ("data.csv", "Target: y (a number)", "train", "48", "epoch 3/3", "mae", "rmse"):
        assert part in text
    assert f"molsepnorm predict --model {place / 'run'} --smiles" in text
    assert "\x1b" not in text


def test_the_printed_scores_are_those_of_metrics_json(place):
    metrics = json.loads((place / "run" / "metrics.json").read_text())
    text = (place / "printed.txt").read_text()
    assert f"{metrics['test']['mae']:.4f}" in text
    assert f"{metrics['val']['rmse']:.4f}" in text


def test_evaluating_the_test_split_gives_the_scores_of_the_run(place):
    """As a table, and as JSON."""
    args = ("evaluate", "--model", place / "run", "--data", place / "data.csv")
    test = json.loads((place / "run" / "metrics.json").read_text())["test"]
    told = json.loads(_ok(*args, "--json"))
    assert (told["data"], told["split"]) == ("data.csv", "test")
    assert told["mae"] == pytest.approx(test["mae"])
    text = _ok(*args)
    assert f"{test['mae']:.4f}" in text
    assert "\x1b" not in text
    assert json.loads(_ok(*args, "--json", "--split", "all"))["mae"] != told["mae"]


def test_evaluating_the_test_split_never_scores_molecules_that_were_trained_on(place, tmp_path):
    """Also where the run was split in another way than tables are by default."""
    run, table = tmp_path / "run", place / "data.csv"
    train = ("train", "--data", table, "--targets", "y", *TINY, "--set", "data.split_seed=5")
    _ok(*train, "-o", run)
    test = json.loads((run / "metrics.json").read_text())["test"]
    result = _run("evaluate", "--model", run, "--data", table, "--json")
    if result.exit_code == 0:
        assert json.loads(result.stdout)["mae"] == pytest.approx(test["mae"])
    else:
        _clean(result)


def test_predict_from_a_file_to_a_file(place, tmp_path):
    """All columns and rows are there, and predictions are those that training wrote."""
    out = tmp_path / "deep" / "out.csv"
    result = _run("predict", "--model", place / "run", "-i", place / "data.csv", "-o", out)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"60 rows to {out}" in result.stderr
    rows, source = _rows(out.read_text()), _rows((place / "data.csv").read_text())
    assert [(r["smiles"], r["y"], r["name"]) for r in rows] == [tuple(r.values()) for r in source]
    with open(place / "run" / "predictions_test.csv", newline="") as file:
        for row in csv.DictReader(file):
            predicted = float(rows[int(row["row"])]["y_pred"])
            assert predicted == pytest.approx(float(row["y_pred"]), rel=1e-4, abs=1e-5)


def test_predict_smiles_given_one_by_one(place):
    result = _run("predict", "--model", place / "run", "--smiles", "OCC", "--smiles", "C1CC")
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
def test_predict_from_standard_input(place, stdin, columns):
    """SMILES line by line, or a CSV as a file would have it."""
    rows = _rows(_ok("predict", "--model", place / "run", stdin=stdin.encode()))
    assert [row["smiles"] for row in rows] == ["CCO", "CCN"]
    assert list(rows[0]) == [*columns, "y_pred", "error"]
    assert all(row["y_pred"] and not row["error"] for row in rows)


def test_blank_lines_on_standard_input_keep_their_place(place):
    """So that predictions can be pasted beside what was sent."""
    rows = _rows(_ok("predict", "--model", place / "run", stdin="CCO\n\nCCN\n"))
    assert [(row["smiles"], bool(row["error"])) for row in rows] == [
        ("CCO", False),
        ("", True),
        ("CCN", False),
    ]


def test_nothing_on_standard_input_is_an_error(place):
    """In words that fit: who pipes SMILES has no header in mind."""
    result = _run("predict", "--model", place / "run", stdin="")
    assert result.exit_code in (1, 2)
    _clean(result)
    assert "header but no rows" not in result.stderr


def test_another_name_of_the_smiles_column(place, tmp_path):
    (tmp_path / "x.csv").write_text("structure\nCCO\n")
    args = ("predict", "--model", place / "run", "-i", tmp_path / "x.csv")
    assert _run(*args).exit_code == 2
    assert "structure,y_pred,error\nCCO," in _ok(*args, "--smiles-column", "structure")


def test_quiet_prints_the_scores_alone(place, tmp_path):
    text = _ok("train", "--data", place / "data.csv", *TINY, "-q", "-o", tmp_path / "run")
    assert "mae" in text
    assert "epoch 1/3" not in text
    assert "Splits" not in text


def test_settings_win_over_presets_and_recipes(place, tmp_path):
    import yaml

    _ok(
        *("train", "--data", place / "data.csv", "--preset", "slim", "--set", "model.layers=2"),
        *("--epochs", 1, "--lr", "2e-3", "--seed", 7, "--norm", "shared", "-o", tmp_path / "run"),
        *("--set", "model.width=16", "--set", "model.heads=2", "--set", "optim.ema=null"),
    )
    saved = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    model, optim, run = saved["model"], saved["optim"], saved["run"]
    assert (model["layers"], model["width"], model["norm"]) == (2, 16, "shared")
    assert model["dropout"] == 0.1  # slim's
    assert (optim["lr"], optim["ema"], run["seed"], run["epochs"]) == (2e-3, None, 7, 1)


def test_without_output_runs_are_numbered(place, tmp_path, monkeypatch):
    """Under runs/, by the name of the data."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        _ok("train", "--data", place / "data.csv", *TINY, "--epochs", 1, "-q")
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["data-1", "data-2"]


def test_rejected_rows_are_told(place, tmp_path):
    table = _table(tmp_path / "data.csv")
    table.write_text(table.read_text().replace("\nCCO,", "\nC1CC,"))
    text = _ok("train", "--data", table, *TINY, "--epochs", 1, "-o", tmp_path / "run")
    assert "Left out: 1 row(s) that cannot be read" in text
    assert "unclosed ring" in text
    assert "rejected.csv" in text


@pytest.mark.parametrize("name", ["logS [mol/L]", "k [/h]", "[bold]y[/bold]", "y [red]"])
def test_units_in_brackets_are_printed_as_they_are(tmp_path, name):
    """They are no markup."""
    table = _table(tmp_path / "data [v2].csv", f"smiles,{name},name")
    text = _ok("train", "--data", table, *TINY, "--epochs", 1, "-o", tmp_path / "run [a]")
    assert f"Target: {name}" in text
    assert "data [v2].csv" in text
    text = _ok("evaluate", "--model", tmp_path / "run [a]", "--data", table)
    assert "data [v2].csv" in text


def test_json_is_json_also_where_a_score_is_undefined(tmp_path):
    """ROC-AUC of one class is null, not NaN."""
    rows = [f"{'C' * i},{i % 2}" for i in range(1, 61)]
    (tmp_path / "b.csv").write_text("\n".join(["smiles,y", *rows]))
    _ok("train", "--data", tmp_path / "b.csv", *TINY, "--epochs", 1, "-o", tmp_path / "run")
    (tmp_path / "one.csv").write_text("\n".join(["smiles,y", *rows[::2]]))
    text = _ok(
        *("evaluate", "--model", tmp_path / "run", "--data", tmp_path / "one.csv"),
        *("--split", "all", "--json"),
    )

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(text, parse_constant=refuse)["roc_auc"] is None


def test_numbers_for_a_yes_no_model_are_refused_without_a_traceback(tmp_path):
    rows = [f"{'C' * i},{i % 2}" for i in range(1, 41)]
    (tmp_path / "b.csv").write_text("\n".join(["smiles,y", *rows]))
    _ok("train", "--data", tmp_path / "b.csv", *TINY, "--epochs", 1, "-o", tmp_path / "run")
    rows = [f"{'C' * i},{i % 3}" for i in range(1, 41)]
    (tmp_path / "n.csv").write_text("\n".join(["smiles,y", *rows]))
    _clean(_run("evaluate", "--model", tmp_path / "run", "--data", tmp_path / "n.csv"))


# --- what goes wrong ------------------------------------------------------------------------------


def _text(path, text: str):
    path.write_text(text)
    return path


def _model_with(place, folder, **changes):
    """The run's model, with changes to its config.json."""
    import shutil

    shutil.copytree(place / "run" / "model", folder)
    about = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**about, **changes}))
    return folder


def _without_weights(place, folder):
    _model_with(place, folder)
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
        lambda p, t: ("train", "--data", p / "data.csv", "--epochs", 0),
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
        "takes no other option than --quiet; got --epochs",
        lambda p, t: ("train", "--resume", p / "run", "--epochs", 5),
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
def test_what_goes_wrong_is_told_in_one_paragraph(place, tmp_path, tree, monkeypatch, case):
    """2 where the request was wrong, 1 where carrying it out failed; nothing half done remains."""
    code, words, make = BAD[case]
    monkeypatch.chdir(tmp_path)
    args = make(place, tmp_path)
    before, theirs = tree(tmp_path), tree(place)
    result = _run(*args)
    _clean(result)
    assert words in result.stderr
    assert result.exit_code == code
    assert tree(tmp_path) == before
    assert tree(place) == theirs


def test_a_failing_prediction_keeps_the_good_file(place, tmp_path, tree):
    """That an earlier one wrote."""
    (tmp_path / "out.csv").write_text("good\n")
    (tmp_path / "in.csv").write_text("smiles\nCCO\nC1CC\n")
    before = tree(tmp_path)
    args = ("predict", "--model", place / "run", "-i", tmp_path / "in.csv")
    result = _run(*args, "-o", tmp_path / "out.csv", "--on-invalid", "fail")
    assert result.exit_code == 1
    assert tree(tmp_path) == before


def test_a_full_disk_keeps_the_good_file(place, tmp_path, small_disk, tree):
    """The real thing."""
    (small_disk / "out.csv").write_text("good\n")
    note = "x" * 3000
    (tmp_path / "in.csv").write_text("smiles,note\n" + f"CCO,{note}\n" * 50)
    before = tree(small_disk)
    result = _run(
        *("predict", "--model", place / "run", "-i", tmp_path / "in.csv"),
        *("-o", small_disk / "out.csv"),
    )
    _clean(result)
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr
    assert tree(small_disk) == before


def test_a_disk_that_fills_up_in_training(place, small_disk):
    """The model or the checkpoint does not fit."""
    result = _run("train", "--data", place / "data.csv", *TINY, "-o", small_disk / "run")
    _clean(result)
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr
    assert not list(small_disk.rglob("*.partial"))


def test_standard_output_on_a_full_disk(place):
    """/dev/full takes nothing."""
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, "predict", "--model", place / "run", "--smiles", "C"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr


def test_a_link_and_a_pipe_as_output_stay_what_they_are(place, tmp_path):
    """As root a device such as /dev/null would otherwise be replaced by a file."""
    (tmp_path / "real.csv").write_text("old\n")
    (tmp_path / "link.csv").symlink_to("real.csv")
    args = ("predict", "--model", place / "run", "--smiles", "CCO", "-o")
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
from molsepnorm.training.step import TrainStep
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
    """What a run leaves but for its times."""
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
def test_a_run_that_is_stopped_goes_on_by_resume(place, tmp_path, number, code):
    """In the middle of the second epoch. Asked to stop it says how to go on; killed it says
    nothing; in any case the run ends as if nothing had happened."""
    train = ["train", "--data", place / "data.csv", "--targets", "y", *TINY]
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
        assert f"Go on: molsepnorm train --resume {run}" in done.stderr
    assert not (run / "metrics.json").exists()
    assert "mae" in _ok("train", "--resume", run)
    assert _state(run) == _state(place / "run")


def test_a_second_interrupt_stops_at_once(place, tmp_path, monkeypatch):
    """Without a traceback, and without waiting for the step."""
    from molsepnorm.training.step import TrainStep

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
        result = _run("train", "--data", place / "data.csv", *TINY, "-o", tmp_path / "run")
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 130)
    assert "mae" in _ok("train", "--resume", tmp_path / "run")


def test_an_interrupt_while_data_are_read_is_not_kept_waiting(place, tmp_path, monkeypatch):
    """Of a large table that may take minutes; there is nothing to save yet."""
    from molsepnorm.molecules.featurize.zinc import ZincFeaturizer

    plain, calls = ZincFeaturizer.many, []

    def featurise(self, smiles):
        calls.append(smiles)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, smiles)

    monkeypatch.setattr(ZincFeaturizer, "many", featurise)
    monkeypatch.setattr("molsepnorm.molecules.featurize.smiles.CHUNK", 2)
    table = _table(tmp_path / "new.csv")
    table.write_text(table.read_text().replace("m1\n", "first\n"))  # in no cache yet
    result = _run("train", "--data", table, *TINY, "-o", tmp_path / "run")
    assert result.exit_code in (1, 130)
    assert len(calls) < 10


def test_signals_are_handled_as_before_afterwards(place, tmp_path):
    """The command puts the handlers back."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    _ok("train", "--data", place / "data.csv", *TINY, "--epochs", 1, "-o", tmp_path / "run")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_resuming_a_finished_run_prints_its_scores_again(place):
    metrics = json.loads((place / "run" / "metrics.json").read_text())
    assert f"{metrics['test']['mae']:.4f}" in _ok("train", "--resume", place / "run", "--quiet")


def test_a_reader_that_leaves_early_is_no_error_to_see(place, tmp_path):
    """`molsepnorm predict … | head -1`."""
    (tmp_path / "in.csv").write_text("smiles,note\n" + f"CCO,{'x' * 3000}\n" * 300)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _MAIN,
            "predict",
            "--model",
            place / "run",
            "-i",
            tmp_path / "in.csv",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait()
    process.stderr.close()


def test_predicting_nothing_on_a_terminal_says_what_to_give(place):
    """Instead of waiting for lines that nobody knows to type."""
    master, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, "predict", "--model", place / "run"],
            stdin=terminal,
            capture_output=True,
            text=True,
        )
    finally:
        os.close(master)
        os.close(terminal)
    assert done.returncode == 2
    assert "nothing to predict: give --smiles, --input, or SMILES on stdin" in done.stderr


def test_a_reader_that_leaves_early_is_no_error(place, tmp_path):
    """As `head` does: no traceback and no message."""
    (tmp_path / "many.csv").write_text("smiles\n" + "CCO\n" * 5000)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        done = subprocess.run(
            [
                *(sys.executable, "-c", _MAIN, "predict", "--model", place / "run"),
                *("--input", tmp_path / "many.csv"),
            ],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
