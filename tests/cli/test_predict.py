"""`molsepnorm predict` in several processes, from streams, and stopped half way."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from molsepnorm.cli import predict as module
from molsepnorm.model import PropertyModel
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Target, Task

_MAIN = "from molsepnorm.cli import main; main()"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with random weights, and a table of 900 rows, two of which cannot be read."""
    folder = tmp_path_factory.mktemp("predict")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GraphormerConfig(layers=1, width=16, ffn_width=16, heads=2, max_path_length=3)
        task = Task((Target("y", "regression"),), "mae")
        PropertyModel(Graphormer(config), "zinc", task).save_pretrained(folder / "model")
    smiles = [f"{'C' * length}{end}" for length in range(1, 31) for end in ("O", "N", "=O")] * 10
    smiles[7], smiles[800] = "C1CC", ""
    lines = (f'{row},{text},"a, {row}"' for row, text in enumerate(smiles))
    (folder / "in.csv").write_text("id,smiles,note\n" + "\n".join(lines) + "\n")
    return folder


def _command(place: Path, *args: object) -> list[str]:
    start = [sys.executable, "-c", _MAIN, "predict", "--model", place / "model", *args]
    return [str(each) for each in start]


@pytest.mark.parametrize("processes", ["2", "3", None])
def test_the_number_of_processes_changes_nothing(run, ok, place, tmp_path, processes):
    """Rows, cells, order, failures; values but for rounding. By default there is one per core."""
    given = ("--model", place / "model", "-i", place / "in.csv")
    alone = list(csv.DictReader(io.StringIO(ok("predict", *given, "--processes", "1"))))
    more = ("--processes", processes) if processes else ()
    result = run("predict", *given, *more, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0
    assert "900 rows to " in result.stderr
    assert "; 2 could not be predicted" in result.stderr
    with open(tmp_path / "out.csv", newline="") as file:
        together = list(csv.DictReader(file))
    for one, other in zip(alone, together, strict=True):
        assert {**one, "y_pred": ""} == {**other, "y_pred": ""}
        assert bool(one["y_pred"]) == bool(other["y_pred"])
        if one["y_pred"]:
            assert float(one["y_pred"]) == pytest.approx(float(other["y_pred"]), rel=1e-4, abs=1e-5)


def test_no_process_at_all_is_refused(run, place):
    result = run("predict", "--model", place / "model", "--smiles", "C", "--processes", "0")
    assert result.exit_code == 2
    assert "0 is not in the range 1<=x<=1024" in result.stderr


def test_smiles_given_one_by_one_need_no_tables(place):
    """Nor the library that reads them, which takes a fifth of a second to load."""
    code = "import sys; sys.argv[0] = 'x'\ntry: {}\nfinally: print('pandas' in sys.modules)"
    command = _command(place, "--smiles", "CCO", "--smiles", "C1CC")
    command[2] = code.format(_MAIN)
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "smiles,y_pred,error"
    assert lines[1].startswith("CCO,")
    assert lines[-1] == "False"


def test_the_place_of_a_smiles_is_told_as_it_was_given(run, place):
    given = ("predict", "--model", place / "model", "--on-invalid", "fail")
    result = run(*given, "--smiles", "C", "--smiles", "C1CC")
    assert "Error: --smiles, line 2: RDKit cannot read 'C1CC': unclosed ring" in result.stderr


# --- streams --------------------------------------------------------------------------------------


def test_standard_input_is_read_as_it_comes():
    """A first piece is there while the sender has not ended."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as stream, open(writer, "w", encoding="utf-8") as sender:
        sender.write("CCO\n" * 2 * module._LINES)
        sender.flush()
        first = next(module._chunks(stream, "standard input", "smiles"))
    assert first == {"smiles": ["CCO"] * module._LINES}


def test_bytes_that_are_no_text_are_told(place):
    done = subprocess.run(
        _command(place),
        input=b"CCO\n\xff\xfe\n",
        capture_output=True,
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8:strict"},
    )
    assert done.returncode == 1
    assert b"Error: standard input cannot be read as SMILES: " in done.stderr
    assert b"Save it as UTF-8" in done.stderr


@pytest.mark.parametrize("stdin", ["", "\n\n", " \n"])
def test_blank_lines_alone_are_nothing_to_predict(place, stdin):
    done = subprocess.run(_command(place), input=stdin, capture_output=True, text=True)
    assert done.returncode == 2
    assert "nothing to predict: standard input holds no SMILES" in done.stderr


def test_blank_lines_before_the_first_smiles_are_rows(place):
    done = subprocess.run(_command(place), input="\n\nCCO\n", capture_output=True, text=True)
    assert done.returncode == 0
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["smiles", "", "", "CCO"]


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


def _two_workers(process: subprocess.Popen) -> list[int]:
    """Both of its processes, once they are there."""
    children: list[int] = []
    until = time.monotonic() + 60
    while len(children) < 2 and time.monotonic() < until:
        children = _children(process.pid)
        time.sleep(0.01)
    assert len(children) == 2
    return children


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_stopped_prediction_leaves_nothing_behind(place, tmp_path, number, code):
    """No process, no traceback, and but for SIGKILL no half-written file. The signal goes to all
    processes, as a terminal's Ctrl-C does."""
    process = subprocess.Popen(
        _command(place, "-o", tmp_path / "out.csv", "--processes", "2"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    process.stdin.write("CCO\n" * 50_000)  # and more may come
    process.stdin.flush()
    children = _two_workers(process)
    until = time.monotonic() + 60
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


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_worker_that_is_killed_is_an_error(place, tmp_path):
    """As the system does where memory runs out."""
    process = subprocess.Popen(
        _command(place, "-o", tmp_path / "out.csv", "--processes", "2"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write("CCO\n" * 50_000)
    process.stdin.flush()
    children = _two_workers(process)
    os.kill(children[0], signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "Error: one of 2 worker processes was ended by SIGKILL" in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
    assert not any(map(_running, children))


def test_a_reader_that_leaves_early_is_no_error_with_several_processes_either(place):
    process = subprocess.Popen(
        _command(place, "-i", place / "in.csv", "--processes", "2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()


def test_on_a_terminal_no_cell_is_obeyed(monkeypatch):
    """Into a file or a pipe, cells go as they are."""
    opened = sys.modules["molsepnorm.cli.predict"]._opened  # the name is the command's, too
    for terminal, written in ((True, r"a\x1b[2J"), (False, "a\x1b[2J")):
        out = io.StringIO()
        out.isatty = lambda: terminal  # type: ignore[method-assign]  # noqa: B023
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", out)
            with opened(None) as file:
                file.write("a\x1b[2J\n")
        assert out.getvalue() == f"{written}\n"
