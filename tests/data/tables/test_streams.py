"""Streams as files: read once, under their own name, and gone when they are no longer needed."""

from __future__ import annotations

import gzip
import os
import threading
import zipfile
from pathlib import Path

import pytest

from molsepnorm.data.tables import as_file, hold, is_held, is_stream, read_chunks, read_table
from molsepnorm.errors import DataError

CSV = b"smiles,y\nC,1\nCC,2\n"


@pytest.fixture
def pipe():
    """`pipe(data)` is a path such as a shell's <(…) makes."""
    ends = []

    def make(data: bytes) -> Path:
        read, write = os.pipe()
        ends.append(read)
        os.write(write, data)
        os.close(write)
        return Path(f"/dev/fd/{read}")

    yield make
    for end in ends:
        os.close(end)


def test_a_stream_is_read_once_for_all_within(pipe):
    path = pipe(CSV)
    with hold(path, None), as_file(path) as file, as_file(path) as again:
        assert file == again
        assert file.name == path.name
        assert file.read_bytes() == CSV
        assert is_held(path)
    assert not file.parent.exists()
    assert is_stream(path)
    assert not is_held(path)
    with as_file(path) as file:
        assert file.read_bytes() == b""


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.zip"])
def test_every_format_may_come_from_a_named_pipe(tmp_path, name):
    """Also one that is read from its end."""
    data = gzip.compress(CSV) if name.endswith(".gz") else CSV
    if name == "x.zip":
        with zipfile.ZipFile(tmp_path / "there.zip", "w") as archive:
            archive.writestr("inner.csv", CSV)
        data = (tmp_path / "there.zip").read_bytes()
    os.mkfifo(tmp_path / name)
    threading.Thread(target=(tmp_path / name).write_bytes, args=(data,), daemon=True).start()
    (table,) = read_chunks(tmp_path / name)
    assert table["y"].tolist() == ["1", "2"]


def test_errors_name_the_stream_and_not_its_copy(pipe):
    path = pipe(b"smiles,y\nC,1\nC,1\nC,1,2,3\n")
    with pytest.raises(DataError, match=rf"^{path} cannot be read as CSV: line 4 has 4 cells"):
        read_table(path)
