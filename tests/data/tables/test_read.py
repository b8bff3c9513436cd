"""Every kind of table reads the same way: whole or in pieces, in flat memory, or with a reason."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from molsepnorm.data.tables import read_chunks, read_table
from molsepnorm.data.tables.formats import locate
from molsepnorm.errors import DataError

METHANE = "\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n" + (
    "    0.0000    0.0000    0.0000 C   0  0\nM  END\n"
)


def write(path: Path, number: int, width: int = 0) -> Path:
    """`number` molecules of methane with a property y, in the format of the suffix."""
    rows = [f"{i}{'.' * width}" for i in range(number)]
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(
            pa.table({"smiles": ["C" for _ in rows], "y": [f"y{i}" for i in rows]}),
            path,
            compression="none",
            data_page_size=1 << 16,
            write_batch_size=10,
        )
        return path
    text = {
        ".csv": lambda: "smiles,y\n" + "".join(f"C,y{i}\n" for i in rows),
        ".tsv": lambda: "smiles\ty\n" + "".join(f"C\ty{i}\n" for i in rows),
        ".smi": lambda: "smiles\ty\n" + "".join(f"C\ty{i}\n" for i in rows),
        ".sdf": lambda: "".join(f"{METHANE}> <y>\ny{i}\n\n$$$$\n" for i in rows),
    }[path.suffixes[0]]()
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


KINDS = ["csv.gz", "tsv", "smi", "sdf.gz", "parquet"]
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.parametrize("rows", [3, 100])
def test_pieces_together_are_the_whole(tmp_path, kind, rows):
    path = write(tmp_path / f"x.{kind}", 7)
    pieces = list(read_chunks(path, rows=rows))
    assert [len(piece) for piece in pieces] == [rows] * (7 // rows) + [7 % rows] * bool(7 % rows)
    cells = [(i, row.smiles, row.y) for piece in pieces for i, row in piece.iterrows()]
    assert [cell[1:] for cell in cells] == [("C", f"y{i}") for i in range(7)]
    first = {"sdf": "record 1", "par": "row 1"}.get(kind[:3], "line 2")
    assert locate(path, cells[0][0]) == f"{path}, {first}"
    whole = read_table(path)
    assert cells == [(i, row.smiles, row.y) for i, row in whole.iterrows()]
    assert {type(cell) for column in whole for cell in whole[column]} == {str}
    assert [list(piece.columns) for piece in pieces] == [list(whole.columns)] * len(pieces)


@kinds
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    def peak(number: int) -> int:
        path = write(tmp_path / f"{number}.{kind}", number, width=5000)
        next(read_chunks(path, rows=50))  # modules are loaded
        tracemalloc.start()
        try:
            assert sum(len(piece) for piece in read_chunks(path, rows=50)) == number
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(1800) < 1.2 * peak(600)  # files of 3 MB, and of 9


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "", "is empty"),
        ("x.sdf", "\n\n", "has no structures"),
        ("x.smi", "smiles name\n", "has no molecules"),
    ],
)
def test_a_file_without_molecules(tmp_path, name, content, message):
    for path, data in ((tmp_path / name, bytes), (tmp_path / f"{name}.gz", gzip.compress)):
        path.write_bytes(data(content.encode()))
        with pytest.raises(DataError, match=f"{path.name} {message}"):
            read_table(path)


def test_columns_of_one_name_are_all_kept(tmp_path):
    """With their names, in their order; from every kind of table that may have such."""
    names, cells = ["smiles", "y", "y", "y.1", "n\n.2", "n\n.2"], ["C", "1", "2", "3", "4", "5"]
    header = ",".join(f'"{name}"' for name in names)
    (tmp_path / "x.csv").write_text(f"{header}\n{','.join(cells)}\n")
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_arrays([pa.array([cell]) for cell in cells], names=names)
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
    (tmp_path / "x.smi").write_text("smiles\ty\ty\ty.1\nC\t1\t2\t3\n")
    for name, width in (("x.csv", 6), ("x.parquet", 6), ("x.smi", 4)):
        for table in (read_table(tmp_path / name), next(read_chunks(tmp_path / name))):
            assert list(table.columns) == names[:width]
            assert table.to_numpy().tolist() == [cells[:width]]
