"""A file's name says what it holds, and what a place in it is called."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from molsepnorm.data.tables import locate
from molsepnorm.data.tables.formats import format_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("my.csv", ("csv", None)),
        ("MY.CSV.GZ", ("csv", "gzip")),
        ("v1.2.tsv.bz2", ("tsv", "bzip2")),
        ("my.txt.zst", ("tsv", "zstandard")),
        ("my.parquet", ("parquet", None)),
        ("my.sd.zip", ("sdf", "zip")),
        ("a.folder/my.smi.gz", ("smi", "gzip")),
        ("my.dat", ("csv", None)),
        ("standard input", ("csv", None)),
    ],
)
def test_the_suffix_decides(name, expected):
    assert format_of(name) == format_of(Path(name)) == expected


def test_of_a_plain_archive_the_file_within_decides(tmp_path):
    """A Mac's own additions do not."""
    with zipfile.ZipFile(tmp_path / "my.zip", "w") as archive:
        archive.writestr("__MACOSX/._my.csv", "")
        archive.writestr("folder/", "")
        archive.writestr("folder/my.sdf", "")
    assert format_of(tmp_path / "my.zip") == ("sdf", "zip")
    assert locate(tmp_path / "my.zip", 1).endswith("my.zip, record 1")
    assert format_of(tmp_path / "there is none.zip") == ("csv", "zip")
