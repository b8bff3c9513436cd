"""Cells are texts as they stand in the file, row by row."""

from __future__ import annotations

import io

import pytest

from molsepnorm.errors import ConfigError, DataError, StorageError
from molsepnorm.tables import read_csv, read_csv_chunks, require_column


def _read(text: str, **options):
    return [
        chunk.to_dict("records") for chunk in read_csv_chunks(io.StringIO(text), "x", **options)
    ]


def test_cells_are_texts_as_they_stand():
    """No number is rounded, no zero dropped, no NA turned into something else."""
    ((row,),) = _read("a,b,c,d,e,f\n007,1e5,NA, x ,,3.10\n")
    assert row == {"a": "007", "b": "1e5", "c": "NA", "d": " x ", "e": "", "f": "3.10"}


def test_quotes_hold_commas_quotes_and_line_breaks():
    ((row,),) = _read('a,"b,c"\n"x ""y""","1\n2"\n')
    assert row == {"a": 'x "y"', "b,c": "1\n2"}


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_pieces_together_are_the_whole(rows):
    text = "a,b\n" + "".join(f"{i},{-i}\n" for i in range(7))
    pieces = _read(text, rows=rows)
    assert [len(piece) for piece in pieces] == [rows] * (7 // rows) + [7 % rows] * bool(7 % rows)
    assert [row["a"] for piece in pieces for row in piece] == [str(i) for i in range(7)]


def test_pieces_are_read_when_they_are_asked_for():
    """Memory does not grow with the file."""

    class Counting(io.StringIO):
        taken = 0

        def read(self, size=-1):
            text = super().read(size)
            Counting.taken += len(text)
            return text

        def readline(self, *size):
            text = super().readline(*size)
            Counting.taken += len(text)
            return text

        def __next__(self):
            text = super().__next__()
            Counting.taken += len(text)
            return text

    text = "a,b\n" + "x,y\n" * 1_000_000
    chunks = read_csv_chunks(Counting(text), rows=10)
    next(chunks)
    assert 0 < Counting.taken < len(text) / 2


def test_a_row_that_is_blank_is_a_row(tmp_path):
    """Of a table with one column a blank cell is an empty line; it must not vanish, or predictions
    would no longer stand beside their molecules."""
    (tmp_path / "one.csv").write_text("smiles\nCCO\n\nCC\n")
    assert read_csv(tmp_path / "one.csv")["smiles"].tolist() == ["CCO", "", "CC"]


def test_short_rows_are_filled_with_blanks():
    """As texts: a NaN among them would be no text."""
    rows = _read("a,b,c\n1\n2,3\n4,5,6\n")[0]
    assert rows[0] == {"a": "1", "b": "", "c": ""}
    assert rows[1] == {"a": "2", "b": "3", "c": ""}


@pytest.mark.parametrize("text", ["a,b\n1,2,\n3,4,\n", "a,b\n1,2,9\n3,4,9\n"])
def test_rows_longer_than_the_header_never_shift_columns(text):
    """Refused, or the surplus left out; the first cell stays in the first column."""
    try:
        rows = _read(text)[0]
    except DataError as error:
        assert "x cannot be read as CSV" in str(error)
    else:
        assert [row["a"] for row in rows] == ["1", "3"]


def test_one_row_that_is_too_long_is_placed():
    with pytest.raises(DataError, match="x cannot be read as CSV: .*line 3"):
        _read("a,b\n1,2\n3,4,5\n")


@pytest.mark.parametrize("start", ["\ufeff", ""])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_excel_writes(tmp_path, start, end):
    """A byte-order mark and Windows' line ends leave the names and the cells clean."""
    path = tmp_path / "x.csv"
    path.write_bytes((start + end.join(['"smiles",y', "CCO,1", "CC,2", ""])).encode())
    table = read_csv(path)
    assert list(table.columns) == ["smiles", "y"]
    assert table["y"].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x is empty: a header line and a row per molecule are expected"),
        ("a,b\n", "x has a header but no rows: a row per molecule is expected"),
        ('a,b\n"1,2\n', "x cannot be read as CSV"),
    ],
)
def test_what_is_no_table(text, message):
    with pytest.raises(DataError, match=message):
        _read(text)


def test_other_bytes_than_utf_8(tmp_path):
    (tmp_path / "x.csv").write_bytes("naïve\n1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"x\.csv cannot be read as CSV: .*utf-8"):
        read_csv(tmp_path / "x.csv")


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(StorageError, match="cannot read .*x.csv: there is no such file"):
        read_csv(tmp_path / "x.csv")
    with pytest.raises(
        StorageError, match=f"cannot read {tmp_path}: there is a folder of that nam"
    ):
        read_csv(tmp_path)


def test_a_column_that_is_not_there():
    require_column(["a", "b"], "a", "x.csv")
    with pytest.raises(ConfigError, match=r"x.csv has no column 'logs'. Did you mean 'logS'\? Kn"):
        require_column(["smiles", "logS"], "logs", "x.csv")
    with pytest.raises(ConfigError, match="x.csv has no column 'y'. Known: smiles"):
        require_column(iter(["smiles"]), "y", "x.csv")
