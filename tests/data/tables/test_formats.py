"""Compressed files give the same table; damaged files give a clear error."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
import zipfile

import pytest

from molsepnorm.data.tables import read_chunks, read_table
from molsepnorm.data.tables.formats import locate
from molsepnorm.errors import DataError

TEXT = "smiles,y\n" + "".join(f"{'C' * (i % 40 + 1)},{i}\n" for i in range(2000))


def _zip(data: bytes, *names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("table.csv",):
            archive.writestr(name, data)
    return buffer.getvalue()


PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zip": _zip}
packed = pytest.mark.parametrize("suffix", list(PACK))


@packed
def test_a_compressed_table_equals_the_plain_one_and_a_truncated_one_is_refused(tmp_path, suffix):
    """It is not read as a shorter table. Neither is a page that says 404."""
    path, data = tmp_path / f"x.csv.{suffix}", PACK[suffix](TEXT.encode())
    path.write_bytes(data)
    assert read_table(path)["y"].tolist() == [str(i) for i in range(2000)]
    for content in (data[:-200], b"<html>404: there is no such page</html>"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"x\.csv\.{suffix} cannot be decompressed"):
            read_table(path)


def test_archives_of_one_table_and_of_others(tmp_path):
    """Several members of a gzip are one file, as bgzip makes them. The files that macOS adds to a
    zip do not count."""
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"smiles\nC\n") + gzip.compress(b"CC\n"))
    assert read_table(tmp_path / "x.csv.gz")["smiles"].tolist() == ["C", "CC"]
    path = tmp_path / "x.zip"
    path.write_bytes(_zip(b"C methane", "__MACOSX/._my.smi", "folder/", "folder/my.smi"))
    assert read_table(path)["name"].tolist() == ["methane"]
    assert locate(path, 1) == f"{path}, line 1"
    path.write_bytes(_zip(b"smiles\nC\n", "a.csv", "b.csv"))
    with pytest.raises(DataError, match=r"x\.zip holds 2 files, and one table is expected"):
        read_table(path)
    data = bytearray(_zip(b"smiles\nC\n"))
    data[6] |= 1  # the mark of a password, in both headers
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match="password required"):
        read_table(path)


CSV = b"smiles,y\nC,1\nCC,2\n"


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


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be"])
def test_excels_unicode_text(tmp_path, coding):
    """Is UTF-16, with tabs."""
    (tmp_path / "x.txt").write_bytes("\ufeffsmiles\tname\r\nCCO\tÄthanol\r\n".encode(coding))
    assert read_table(tmp_path / "x.txt").to_numpy().tolist() == [["CCO", "Äthanol"]]
