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
        ("my.tab.xz", ("tsv", "xz")),
        ("my.txt.zst", ("tsv", "zstandard")),
        ("my.parquet", ("parquet", None)),
        ("my.sd.zip", ("sdf", "zip")),
        ("my.ism", ("smi", None)),
        ("a.folder/my.smi.gz", ("smi", "gzip")),
        ("my.sdf.csv", ("csv", None)),
        ("my.dat", ("csv", None)),
        ("my.gz", ("csv", "gzip")),
        ("standard input", ("csv", None)),
        ("--smiles", ("csv", None)),
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
    assert locate(tmp_path / "my.zip", 0).endswith("my.zip, record 1")
    assert format_of(tmp_path / "there is none.zip") == ("csv", "zip")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("my.csv", "line 12"),
        ("my.tsv.gz", "line 12"),
        ("my.dat", "line 12"),
        ("standard input", "line 12"),
        ("my.sdf.gz", "record 11"),
        ("my.parquet", "row 11"),
        ("my.smi", "line 11"),
    ],
)
def test_places_are_counted_from_1(name, place):
    """In the way of the file: under a header line, or not."""
    assert locate(name, 10) == f"{name}, {place}"
