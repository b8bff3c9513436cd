"""Files are replaced as a whole, and errors say what to do."""

from __future__ import annotations

import csv
import io
import os
import platform
import re
import signal
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molsepnorm.errors import StorageError
from molsepnorm.files import writing as files
from molsepnorm.files.writing import (
    csv_writer,
    replacing,
    scratch_folder,
    write_json,
)


def test_a_new_file_appears_as_a_whole(tmp_path, tree):
    target = tmp_path / "deep" / "down" / "file.txt"
    with replacing(target) as scratch:
        scratch.write_text("new")
        assert scratch.parent == target.parent  # the same file system: the renaming is atomic
        assert not target.exists()
    assert tree(tmp_path) == {"deep": None, "deep/down": None, "deep/down/file.txt": b"new"}


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt(), OSError(5, "broken")])
@pytest.mark.parametrize("folder", [False, True])
def test_a_failure_keeps_the_old_content(tmp_path, tree, failure, folder):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("old")
    before = tree(tmp_path)
    target = tmp_path / "kept" if folder else tmp_path / "kept" / "file"

    def fail():
        with replacing(target, folder=folder) as scratch:
            if folder:
                scratch = scratch / "file"
            scratch.write_text("half")
            raise failure

    with pytest.raises((type(failure), StorageError)):
        fail()
    assert tree(tmp_path) == before


def test_a_full_disk_keeps_the_old_file(small_disk, tree):
    """The partly written file is removed."""
    (small_disk / "file").write_bytes(b"old")
    message = "cannot write .*file: the disk is full: free some space"
    with pytest.raises(StorageError, match=message), replacing(small_disk / "file") as scratch:
        scratch.write_bytes(b"x" * 200_000)
    assert tree(small_disk) == {"file": b"old"}


def test_a_file_in_place_of_a_folder_is_refused(tmp_path, tree):
    """And a folder in place of a file."""
    (tmp_path / "file").write_text("a file")
    (tmp_path / "folder").mkdir()
    for target, message in (
        ("file/below", "a part of the path is a file|a file of that name"),
        ("folder", "a folder of that"),
    ):
        with pytest.raises(StorageError, match=message), replacing(tmp_path / target) as scratch:
            scratch.write_text("new")
    assert tree(tmp_path) == {"file": b"a file", "folder": None}


KILLED = """
import os, signal, sys
from pathlib import Path
from molsepnorm.files import writing as files
target, kind = Path(sys.argv[1]), sys.argv[2]
def end():
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "spool":
    with files.scratch_folder(target) as scratch:
        (scratch / "part").write_text("x" * 1000)
        end()
rename, calls = os.replace, []
def replace(source, to):
    calls.append(to)
    if kind == "renaming" and len(calls) == 2:
        end()
    rename(source, to)
os.replace = replace
files._exchange = lambda *_: False  # a system that cannot exchange folders
with files.replacing(target, folder=kind != "file") as scratch:
    (scratch / "part" if kind != "file" else scratch).write_text("half")
    if kind in ("file", "folder"):
        end()
"""

WAITING = """
import sys
from pathlib import Path
from molsepnorm.files import writing as files
with files.replacing(Path(sys.argv[1])) as scratch, files.scratch_folder(Path(sys.argv[1])):
    scratch.write_text("whole")
    print("ready", flush=True)
    sys.stdin.readline()
"""


def _killed(target, kind) -> None:
    """Run a writer that is killed before it is done."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), kind])
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["file", "folder", "spool"])
def test_the_next_writer_removes_leftovers_of_a_killed_one(tmp_path, tree, kind):
    """For files and folders; other files, hidden or not, are kept."""
    others = {".x.partial": b"1", "a.0123456789abcd.partial": b"2", ".b.spool": b"3"}
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    _killed(tmp_path / "target", kind)
    left = set(tree(tmp_path)) - set(others)
    assert left
    assert all(re.match(r"\.target\.[0-9a-f]{14}\.(partial|spool)(/part)?$", name) for name in left)
    write_json(tmp_path / "other.json", 1)
    assert tree(tmp_path) == {**others, "other.json": b"1\n"}


def test_a_folder_is_restored_after_a_kill_between_two_renamings(tmp_path, tree):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "old").write_text("old")
    before = tree(tmp_path)
    _killed(tmp_path / "target", "renaming")
    assert not (tmp_path / "target").exists()
    with pytest.raises(KeyError), replacing(tmp_path / "other"):
        raise KeyError
    assert tree(tmp_path) == before


def test_an_old_folder_with_a_replacement_is_removed(tmp_path, tree):
    """Its writer was killed, and another one created a new folder."""
    (tmp_path / "target").mkdir()
    _killed(tmp_path / "target", "renaming")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "new").write_text("new")
    with pytest.raises(KeyError), replacing(tmp_path / "other"):
        raise KeyError
    assert tree(tmp_path) == {"target": None, "target/new": b"new"}


def test_files_of_a_running_writer_are_kept(tmp_path, tree):
    """It replaces the target when it is done, even if others write in the meantime."""
    command = [sys.executable, "-c", WAITING, str(tmp_path / "target")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        before = tree(tmp_path)
        write_json(tmp_path / "target", 1)
        with scratch_folder(tmp_path / "target"):
            pass
        assert tree(tmp_path) == {**before, "target": b"1\n"}
        process.communicate(b"\n")
    assert tree(tmp_path) == {"target": b"whole"}


def test_files_of_other_machines_are_kept(tmp_path, tree, monkeypatch):
    """Their locks may not be visible on this machine."""
    with monkeypatch.context() as patch:
        patch.setattr(platform, "node", lambda: "elsewhere")
        _, lock = files._new_scratch(tmp_path / "target", "partial", folder=False)
        assert lock is not None
        os.close(lock)  # like a disk that does not share locks
    before = tree(tmp_path)
    write_json(tmp_path / "other", 1)
    assert tree(tmp_path) == {**before, "other": b"1\n"}


CELLS = ["\r", "\n", "\r\n", "a\rb", '"', '""', "'", ",", " x ", "\t", "", "a\0b", "NA", "é"]


@given(st.lists(st.lists(st.sampled_from(CELLS), min_size=2, max_size=2)))
@example([[cell, other] for cell in CELLS for other in CELLS])
def test_rows_of_a_csv_are_read_back_unchanged(rows):
    """By Python and by pandas, with any characters."""
    rows = [["a\rb", "c"], *rows]
    for end in ("\n", "\r\n"):
        file = io.StringIO(newline="")
        csv_writer(file, end).writerows(rows)
        text = file.getvalue()
        assert text.startswith('"a\rb",c' + end)
        assert list(csv.reader(io.StringIO(text, newline=""))) == rows
        options = {"dtype": object, "na_filter": False, "header": None}
        table = pd.read_csv(io.StringIO(text, newline=""), **options)
        assert table.to_numpy().tolist() == rows


@pytest.mark.parametrize("exchange", [True, False])
def test_a_replaced_folder_is_never_missing(tmp_path, monkeypatch, exchange):
    """Elsewhere than on Linux, a folder is moved aside first."""
    model, plain, missing = tmp_path / "model", os.replace, []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    if not exchange:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    elif not files._exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system cannot exchange folders")

    def replace(old, new):
        plain(old, new)
        missing.append(not model.exists())

    monkeypatch.setattr(os, "replace", replace)
    for content in ("first", "second"):
        with replacing(model, folder=True) as scratch:
            (scratch / "file").write_text(content)
    assert (model / "file").read_text() == "second"
    assert missing == [False] or not exchange
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "model"]
