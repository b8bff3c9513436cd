"""`molsepnorm predict` with several processes, from streams, and interrupted."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from molsepnorm.cli import sources as module
from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.tasks.inputs import ExtraInputs, FeatureColumn
from support import SMALL, far_from_initial, tiny_model, write_card

_MAIN = "from molsepnorm.cli import main; main()"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights, and a table of 900 rows with two invalid SMILES."""
    folder = tmp_path_factory.mktemp("predict")
    tiny_model().save_pretrained(folder / "model")
    smiles = [f"{'C' * length}{end}" for length in range(1, 31) for end in ("O", "N", "=O")] * 10
    smiles[7], smiles[800] = "C1CC", ""
    lines = (f'{row},{text},"a, {row}"' for row, text in enumerate(smiles))
    (folder / "in.csv").write_text("id,smiles,note\n" + "\n".join(lines) + "\n")
    return folder


def _command(workspace: Path, *args: object) -> list[str]:
    start = [sys.executable, "-c", _MAIN, "predict", "--model", workspace / "model", *args]
    return [str(each) for each in start]


@pytest.fixture(scope="module")
def model(workspace: Path) -> Callable[..., Path]:
    """`model(name, seed, target)`: the folder of a small model with random weights."""

    def make(name: str, seed: int, target: Target) -> Path:
        tiny_model(target, seed=seed).save_pretrained(workspace / name)
        return workspace / name

    return make


def _values(text: str) -> np.ndarray:
    """The columns of numbers of a prediction."""
    rows = csv.DictReader(io.StringIO(text))
    return np.array([[float(row[name]) for name in row if name.startswith("y_")] for row in rows])


@pytest.mark.parametrize("command", ["predict", "embed", "explain"])
def test_the_table_that_is_read_is_never_replaced(refused, workspace, tmp_path, command):
    """A workbook would lose its other sheets, an SDF its coordinates."""
    path = tmp_path / ("in.json" if command == "explain" else "in.csv")
    path.write_text("smiles\nCCO\n")
    message = refused(command, "--model", workspace / "model", "-i", path, "-o", path)
    assert "is the table that is read: choose another output file" in message
    assert path.read_text() == "smiles\nCCO\n"


def test_a_joined_model_replaces_another_one_only_if_told_to(ok, refused, model, tmp_path):
    paths = [model(f"part {seed}", seed, Target("y", "regression")) for seed in (1, 2)]
    before = (paths[0] / "model.safetensors").read_bytes()
    assert "replace it with --force" in refused("models", "join", *paths, "--output", paths[0])
    twice = refused("models", "join", *paths, paths[0], "--output", tmp_path / "joined")
    assert f"{paths[0]} was given twice: name each model once" in twice
    assert (paths[0] / "model.safetensors").read_bytes() == before
    join = ("models", "join", *paths, "--output", tmp_path / "joined")
    ok(*join)
    assert "replace it with --force" in refused(*join)
    ok(*join, "--force")


def test_several_models_are_averaged(run, ok, workspace, model):
    """The spread is the standard deviation of their predictions. Labels were standardised in other
    ways."""
    folders = [
        model(f"{seed}", seed, Target("y", "regression", mean=seed, scale=1 + seed))
        for seed in (1, 2, 3)
    ]
    smiles = ("--smiles", "CCO", "--smiles", "c1ccccc1", "--processes", "1")
    alone = [_values(ok("predict", "--model", each, *smiles))[:, 0] for each in folders]
    given = [part for each in folders for part in ("--model", each)]
    result = run("predict", *given, *smiles)
    assert result.stdout.startswith("smiles,y_pred,y_spread,error")
    expected = np.transpose([np.mean(alone, axis=0), np.std(alone, axis=0)])
    np.testing.assert_allclose(_values(result.stdout), expected, rtol=1e-4)
    assert "Mean of 3 models: " in result.stderr


def test_an_unfinished_run_names_the_epoch_of_its_model(run, workspace, model, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(workspace / "model", folder / "model")
    (folder / "config.yaml").write_text("")
    (folder / "splits.json").write_text("")
    (folder / "history.csv").write_text("epoch,kept\n1,1\n2,1\n3,0\n")
    for name in (folder, folder / "model"):
        told = run("predict", "--model", name, "--smiles", "CCO").stderr
        assert f"{folder} is not finished" in told
        assert "epoch 2" in told
    (folder / "metrics.json").write_text("")
    assert not run("predict", "--model", folder, "--smiles", "CCO").stderr


def test_percentiles_and_alerts_are_columns(run, refused, workspace, model):
    folder = model("with card", 1, Target("y", "regression"))
    given = ("predict", "--model", folder, "--smiles", "Oc1ccccc1O", "--smiles", "CCO")
    assert "no card with percentiles" in refused(*given, "--reference")
    write_card(folder, "y", reference=(-9.0, 9.0))
    result = run(*given, "--reference", "--alerts", "--processes", "1")
    assert "three alkanes" in result.stderr
    one, other = csv.DictReader(io.StringIO(result.stdout))
    assert [*one] == ["smiles", "y_pred", "y_percentile", "alerts", "error"]
    for row in (one, other):
        share = (float(row["y_pred"]) + 9) / 18
        assert float(row["y_percentile"]) == pytest.approx(100 * share, abs=1e-3)
    assert one["alerts"].startswith("PAINS: catechol_A(92); ") and other["alerts"] == ""


@pytest.mark.parametrize("command", ["predict", "embed"])
def test_a_table_in_which_all_rows_fail_is_an_error(refused, workspace, tmp_path, command):
    """The column of SMILES is probably another one. The reasons are written."""
    table, written = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text("smiles,structure\nCompound 1,CCO\nCompound 2,CCN\n")
    given = (command, "--model", workspace / "model", "--input", table, "--output", written)
    done = "predicted" if command == "predict" else "embedded"
    message = f"2 rows to {written}, and none could be {done}: see the column error"
    assert refused(*given, code=1) == message
    assert written.read_text().count("whitespace inside 'Compound") == 2
    screen = ("screen", *given[1:5], "--output", tmp_path / "screen")
    assert "none could be predicted" in refused(*screen, code=1)


# --- streams --------------------------------------------------------------------------------------


def test_standard_input_is_read_in_chunks():
    """The first chunk is available before the sender has finished."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as stream, open(writer, "w", encoding="utf-8") as sender:
        sender.write("CCO\n" * 2 * module._CHUNK_LINES)
        sender.flush()
        first = next(module._chunks(stream, "standard input", ReadOptions(), ()))
    assert first["smiles"].tolist() == ["CCO"] * module._CHUNK_LINES


@pytest.fixture(scope="module")
def heated(workspace: Path) -> Path:
    """A model that reads a column of temperatures."""
    inputs = ExtraInputs((FeatureColumn("t"),))
    config = GraphormerConfig(**SMALL | {"outputs": 1, "molecule_features": inputs.width})
    task = Task((Target("y", "regression"),), "mae")
    model = PropertyModel.of(far_from_initial(config), "zinc", task, inputs=inputs)
    model.save_pretrained(workspace / "heated")
    return workspace / "heated"


@pytest.mark.parametrize("command", ["predict", "embed", "explain"])
def test_decimal_commas_on_standard_input_are_those_of_a_file(run, heated, tmp_path, command):
    path = tmp_path / "in.csv"
    out = tmp_path / ("out.json" if command == "explain" else "out.csv")
    start = (command, "--model", heated, "--processes", "1", "-o", out)
    for table, options, part in (
        ("smiles;t\nCCO;1,234\nCCN;12,5\n", ("--decimal", ","), ""),
        ("smiles;t\nCCO;1.234\nCCN;950\n", (), "column 't': '1.234' may be 1.234 or 1234"),
        ("smiles\tt\r\nCCO\t1\r\nCCN\t2\r\n", (), ""),
    ):
        path.write_bytes(table.encode())
        found = []
        for source in ((), ("-i", path)):
            out.unlink(missing_ok=True)
            done = run(*start, *options, *source, stdin=table.encode())
            errors = done.stderr.replace(str(path), "standard input")
            found.append((out.read_text() if out.exists() else None, errors))
            assert part in errors
            assert done.exit_code == int("may be" in part)
        assert found[0] == found[1]


def test_windows_line_ends_are_no_part_of_a_smiles(workspace):
    """On Linux, Python does not replace them. All blank lines are rows."""
    given = b"\r\nCCO\r\n\r\nCCN\r\n"
    done = subprocess.run(_command(workspace), input=given, capture_output=True)
    assert done.returncode == 0
    lines = done.stdout.decode().split("\n")
    assert [line.split(",")[0] for line in lines] == ["smiles", "", "CCO", "", "CCN", ""]
    assert b"\r" not in done.stdout


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="needs /dev/stdout")
def test_the_output_may_be_a_link_to_a_pipe(workspace):
    """/dev/stdout, and >(...) of a shell, lead to a pipe without a path."""
    command = _command(workspace, "--smiles", "CCO", "-o", "/dev/stdout")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["smiles", "CCO"]


def test_binary_input_gives_a_clear_error(workspace):
    done = subprocess.run(
        _command(workspace),
        input=b"CCO\n\xff\xfe\n",
        capture_output=True,
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:strict"},
    )
    assert done.returncode == 1
    assert b"Error: standard input cannot be read as SMILES: " in done.stderr
    assert b"Save it as UTF-8" in done.stderr


def test_only_blank_lines_are_refused(run, workspace):
    done = run("predict", "--model", workspace / "model", stdin="\n \n")
    assert done.exit_code == 2
    assert "no molecules: standard input holds no SMILES" in done.stderr


# --- stopping -------------------------------------------------------------------------------------


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def _running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_prediction_leaves_nothing_behind(workspace, tmp_path, number, code):
    """No process and no traceback, and except after SIGKILL no incomplete file. The signal goes to
    all processes, as with Ctrl-C on a terminal."""
    process = subprocess.Popen(
        _command(workspace, "-o", tmp_path / "out.csv", "--processes", "2"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    process.stdin.write("CCO\n" * 50_000)  # and more may come
    process.stdin.flush()
    children, until = [], time.monotonic() + 60
    while len(children) < 2 and time.monotonic() < until:
        children = _children(process.pid)
        time.sleep(0.01)
    assert len(children) == 2
    time.sleep(0.2)
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)
    _, errors = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in errors
    while any(map(_running, children)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(_running, children))
    if number != signal.SIGKILL:
        assert "Stopped at once." in errors
        assert list(tmp_path.iterdir()) == []


def test_a_closed_output_pipe_is_not_an_error(workspace):
    """As with `| head`: there is no traceback and no message."""
    process = subprocess.Popen(
        _command(workspace, "-i", workspace / "in.csv", "--processes", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()


def test_cells_are_escaped_on_a_terminal(monkeypatch):
    """In a file or a pipe, cells are unchanged."""
    opened = import_module("molsepnorm.cli.predict")._opened
    for terminal, written in ((True, r"a\x1b[2J"), (False, "a\x1b[2J")):
        out = io.StringIO()
        out.isatty = lambda: terminal  # type: ignore[method-assign]  # noqa: B023
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", out)
            with opened(None) as file:
                file.write("a\x1b[2J\n")
        assert out.getvalue() == f"{written}\n"
