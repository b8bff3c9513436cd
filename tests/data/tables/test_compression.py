"""Compressed files give the same table; damaged files give a clear error."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile

import pytest

from molsepnorm.data.tables import read_table
from molsepnorm.errors import ConfigError, DataError, MolsepnormError, StorageError

TEXT = "smiles,y\n" + "".join(f"{'C' * (i % 40 + 1)},{i}\n" for i in range(2000))


def _zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", data)
    return buffer.getvalue()


def _zst(data: bytes) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.compress(data, "zstd", asbytes=True)


PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zip": _zip, "zst": _zst}
packed = pytest.mark.parametrize("suffix", list(PACK))


@packed
def test_a_compressed_table_equals_the_plain_one_and_a_truncated_one_is_refused(tmp_path, suffix):
    """It is not read as a shorter table."""
    path, data = tmp_path / f"x.csv.{suffix}", PACK[suffix](TEXT.encode())
    path.write_bytes(data)
    assert read_table(path)["y"].tolist() == [str(i) for i in range(2000)]
    path.write_bytes(data[:-200])
    with pytest.raises(DataError, match=rf"x\.csv\.{suffix} (is cut off|cannot be decompressed)"):
        read_table(path)


@packed
def test_a_file_that_is_not_what_its_suffix_says(tmp_path, suffix):
    if suffix == "zst":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"x.csv.{suffix}"
    path.write_bytes(b"<html>404: there is no such page</html>")
    message = rf"x\.csv\.{suffix} cannot be decompressed as \w+: .*It is damaged, or its suffix"
    with pytest.raises(DataError, match=message):
        read_table(path)


@pytest.mark.filterwarnings("ignore::molsepnorm.errors.DataWarning")
@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zip"])
def test_damage_inside_never_goes_unseen(tmp_path, suffix):
    """A changed byte either has no effect or gives a clear error."""
    data = PACK[suffix](TEXT.encode())
    path = tmp_path / f"x.csv.{suffix}"
    told = 0
    for place in range(0, len(data), len(data) // 60):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            assert read_table(path)["y"].tolist() == [str(i) for i in range(2000)]
        except MolsepnormError:
            told += 1
    assert told > 40


def test_an_archive_of_several_files_or_with_a_password(tmp_path):
    """Several members of a gzip are one file, as bgzip makes them."""
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"smiles\nC\n") + gzip.compress(b"CC\n"))
    assert read_table(tmp_path / "x.csv.gz")["smiles"].tolist() == ["C", "CC"]
    for count in (0, 2):
        path = tmp_path / f"{count}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(count):
                archive.writestr(f"{number}.csv", "smiles\nC\n")
        with pytest.raises(DataError, match=rf"{count}\.zip holds {count} files.*: one table is"):
            read_table(path)
    data = bytearray(_zip(b"smiles\nC\n"))
    data[6] |= 1  # the mark of a password, in both headers
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.zip").write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"x\.zip has a password: extract it first"):
        read_table(tmp_path / "x.zip")


@pytest.mark.parametrize("name", ["x.csv.zst", "x.parquet"])
def test_without_pyarrow_it_is_said_what_to_install(tmp_path, monkeypatch, name):
    (tmp_path / name).write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=rf"{name} needs pyarrow.*\[parquet\]"):
        read_table(tmp_path / name)


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.zip", "x.parquet", "x.sdf", "x.csv.zst"])
def test_a_missing_file_and_a_folder(tmp_path, name):
    if name.endswith(("parquet", "zst")):
        pytest.importorskip("pyarrow")
    with pytest.raises(StorageError, match=f"cannot read .*{name}: there is no such file"):
        read_table(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=f"cannot read .*{name}: there is a folder of that na"):
        read_table(tmp_path / name)


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be"])
def test_excels_unicode_text(tmp_path, coding):
    """Is UTF-16, with tabs."""
    (tmp_path / "x.txt").write_bytes("\ufeffsmiles\tname\r\nCCO\tÄthanol\r\n".encode(coding))
    assert read_table(tmp_path / "x.txt").to_numpy().tolist() == [["CCO", "Äthanol"]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        *(
            (f"x{end}", gzip.compress(b"C", mtime=0), "is compressed with gzip")
            for end in (".csv", ".sdf")
        ),
        (
            "x.csv.gz",
            gzip.compress(gzip.compress(b"C", mtime=0), mtime=0),
            "is compressed with gzip",
        ),
        ("x.smi", lzma.compress(b"C"), "is compressed with xz"),
        ("x.csv", TEXT.encode("utf-16-le"), "is UTF-16 without a byte-order mark: --encoding"),
    ],
)
def test_bytes_under_a_name_that_does_not_fit(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} {message}"):
        read_table(tmp_path / name)
