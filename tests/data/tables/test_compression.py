"""Compressed files give the same table; damaged files give a clear error."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile

import pytest

from molsepnorm.data.tables import locate, read_table
from molsepnorm.errors import DataError, MolsepnormError, StorageError

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


@pytest.mark.filterwarnings("ignore::molsepnorm.errors.DataWarning")
@packed
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


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.zip", "x.sdf"])
def test_a_missing_file_and_a_folder(tmp_path, name):
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
    "content",
    [
        *(gzip.compress(TEXT.encode()), bz2.compress(TEXT.encode()), lzma.compress(b"C")),
        *(_zip(TEXT.encode()), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", TEXT.encode("utf-16-le")),
    ],
)
@pytest.mark.parametrize("name", ["x.csv", "x.sdf", "x.smi"])
def test_bytes_under_a_name_of_a_text(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} cannot be decoded: .*utf-16-le.*csv.gz"):
        read_table(tmp_path / name)
