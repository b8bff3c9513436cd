"""CSV and TSV: cells are text exactly as in the file."""

from __future__ import annotations

import io

import pytest

from molsepnorm.data.tables import locate, read_chunks, read_table
from molsepnorm.errors import DataError


def _read(text: str, **options):
    return [chunk.to_dict("records") for chunk in read_chunks(io.StringIO(text), "x", **options)]


def test_cells_are_read_as_text_without_changes():
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


def test_pieces_are_read_lazily():
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
    chunks = read_chunks(Counting(text), rows=10)
    next(chunks)
    assert 0 < Counting.taken < len(text) / 2


def test_a_row_that_is_blank_is_a_row(tmp_path):
    """In a table with one column, a blank cell is an empty line. It must not be skipped, otherwise
    predictions would be written beside other molecules."""
    (tmp_path / "one.csv").write_text("smiles\nCCO\n\nCC\n")
    assert read_table(tmp_path / "one.csv")["smiles"].tolist() == ["CCO", "", "CC"]


def test_short_rows_are_filled_with_blanks():
    """As texts: a NaN among them would be no text."""
    rows = _read("a,b,c\n1\n2,3\n4,5,6\n")[0]
    assert rows[0] == {"a": "1", "b": "", "c": ""}
    assert rows[1] == {"a": "2", "b": "3", "c": ""}


@pytest.mark.parametrize("start", ["\ufeff", ""])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_of_excel_are_read(tmp_path, start, end):
    """A byte-order mark and Windows' line ends leave the names and the cells clean."""
    path = tmp_path / "x.csv"
    path.write_bytes((start + end.join(['"smiles",y', "CCO,1", "CC,2", ""])).encode())
    table = read_table(path)
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
def test_files_that_are_not_tables_are_refused(text, message):
    with pytest.raises(DataError, match=message):
        _read(text)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"na\x81ve\n1\n")
    with pytest.raises(DataError, match=r"x\.csv cannot be read as CSV: .*utf-8.*Save it as UTF-8"):
        read_table(tmp_path / "x.csv")


SEPARATED = "smiles,logS,what\nCCO,-0.77,x\n"


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.tab", "x.txt", "x.dat"])
def test_the_header_determines_the_separator(tmp_path, name, separator):
    (tmp_path / name).write_text(SEPARATED.replace(",", separator))
    assert read_table(tmp_path / name).to_dict("records") == [
        {"smiles": "CCO", "logS": "-0.77", "what": "x"}
    ]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("smiles;IC50 (nM, 24 h);x\nC;1,5;\n", ["smiles", "IC50 (nM, 24 h)", "x"]),
        ('"smiles"\t"a, b"\n"C"\t1\n', ["smiles", "a, b"]),
        ("smiles,a;b\nC,1\n", ["smiles", "a;b"]),
        ("smiles\nC\n", ["smiles"]),
        ("structure;y\nC;1\n", ["structure", "y"]),
        ("structure,a;b\nC,1\n", ["structure", "a;b"]),
        ("\ufeffsmiles;y, z\nC;1\n", ["smiles", "y, z"]),
    ],
)
def test_the_separator_is_the_one_beside_the_smiles_column(text, columns):
    """The name of another column may contain a different separator."""
    (chunk,) = read_chunks(io.StringIO(text))
    assert list(chunk.columns) == columns
    assert chunk.iloc[0, 0] == "C"


def test_column_names_of_a_tsv_may_contain_commas(tmp_path):
    (tmp_path / "x.tsv").write_text("structure, dry\tdose, mg\nC\t1\n")
    assert list(read_table(tmp_path / "x.tsv").columns) == ["structure, dry", "dose, mg"]
    (tmp_path / "x.csv").write_text("structure, dry\tdose, mg\nC\t1,2\n")
    assert list(read_table(tmp_path / "x.csv").columns) == ["structure", " dry\tdose", " mg"]


LINES = [
    ("smiles,note", None),
    ("C,plain", 2),
    ('CC,"two', 3),
    ('lines"', None),
    ('CCC,"three\r', 5),
    ("", None),
    ('lines"', None),
    ("", 8),
    ('CCCC,"quoted ""here"", no break"', 9),
    ("CCCCC,last", 10),
]


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_locate_gives_the_line_of_each_row(tmp_path, rows, end):
    """Blank lines and cells with line breaks come before, in any piece."""
    text = "".join(line.replace("\r", "") + end for line, _ in LINES)
    (tmp_path / "x.csv").write_bytes(text.encode())
    index = [i for chunk in read_chunks(tmp_path / "x.csv", rows=rows) for i in chunk.index]
    assert [locate("x.csv", i) for i in index] == [f"x.csv, line {n}" for _, n in LINES if n]
    assert read_table(tmp_path / "x.csv").index.tolist() == index


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["sep={}\n", "SEP={}\r\n", '\ufeff"sep={}"\n'])
def test_a_first_line_for_excel_names_the_separator(separator, start):
    text = start.format(separator) + f"my smiles{separator}a|b\nC{separator}1\n\nCC{separator}2\n"
    (chunk,) = read_chunks(io.StringIO(text))
    assert list(chunk.columns) == ["my smiles", "a|b"]
    assert chunk["a|b"].tolist() == ["1", "", "2"]
    assert [locate("x.csv", i) for i in chunk.index] == [f"x.csv, line {n}" for n in (3, 4, 5)]
    with pytest.raises(DataError, match="line 3 has 3 cells where 2 are expected"):
        list(read_chunks(io.StringIO(text.replace(f"C{separator}1", f"C{separator}1{separator}2"))))


def test_line_breaks_within_the_header_count():
    (chunk,) = read_chunks(io.StringIO('smiles,"a\nb"\nC,1\nCC,"x\ny"\nCCC,2\n'))
    assert [locate("x.csv", i) for i in chunk.index] == [f"x.csv, line {n}" for n in (3, 4, 6)]


def test_every_cell_is_a_text():
    """Cells are Python strings, in short rows too."""
    (chunk,) = read_chunks(io.StringIO("smiles,a\nC\nCC,1\n"))
    assert {type(cell) for column in chunk for cell in chunk[column]} == {str}
    assert {dtype.kind for dtype in chunk.dtypes} == {"O"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("smiles\ty\nC\t1\t7\n", "line 2 has 3 cells where 2 are expected. .*tabs must"),
        ("smiles;y\nC;1\nCC;2;7\n", "line 3 has 3 cells where 2 are expected. .*semicolons must"),
        ('smiles,y\nC,"a\nb"\nC,1,2\n', "line 4 has 3 cells where 2 are expected. .*commas must"),
        ("smiles,y,note\nC,1,\nC,1,250,\n", "line 3 has 4 cells where 3 are expected"),
    ],
)
def test_a_row_with_too_many_cells_is_refused_with_its_line(text, message):
    with pytest.raises(DataError, match=f"x cannot be read as CSV: {message}"):
        _read(text)


def test_blank_cells_beyond_the_header_are_left_out():
    """Some programs end every line with a separator. A comma may also group thousands."""
    assert _read("a;b\n1;2;\n3;4;;\n") == [[{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]]


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("row", ['C,2,"', 'C,",2', '",C,2'])
def test_ditto_marks_hide_no_row(separator, row):
    """Two of them enclose the rows between them."""
    text = "\n".join(["smiles,y,note", "C,1,same", "CC,7,same", *[row] * 2, "C,3,x", ""])
    with pytest.raises(DataError, match="row that begins in line 4: a cell between two quotation"):
        _read(text.replace(",", separator))


def test_cells_with_line_breaks_may_begin_with_one_or_hold_separators():
    text = 'smiles,y,note\nC,1,"\nsee, below"\nC,2,"a, b\nc, d, e"\n'
    assert [row["note"] for row in _read(text)[0]] == ["\nsee, below", "a, b\nc, d, e"]


@pytest.mark.parametrize("before", [0, 1, 10_000])
@pytest.mark.parametrize("after", [1, 100_000])
def test_a_quotation_mark_that_is_never_closed_is_refused_with_its_line(before, after):
    text = "smiles,y\n" + "C,1\n" * before + 'C,"1\n' + "C,2\n" * after
    with pytest.raises(
        DataError, match=rf"line {before + 2} a quotation mark opens a cell that ne"
    ):
        _read(text)


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_a_stray_quotation_mark_is_refused_with_both_lines(separator):
    """It would make one row of all rows up to the next mark."""
    rows = [["C" * i, f"n{i}", str(i)] for i in range(1, 31)]
    rows[2][1], rows[17][1] = '"n3', '"n18'
    text = "\n".join(separator.join(row) for row in [["smiles", "name", "y"], *rows])
    message = "begins in line 4: a quotation mark opens a cell that ends in line 19 in front of"
    with pytest.raises(DataError, match=message):
        _read(text)


def test_closed_cells_of_several_lines_and_marks_within_one_line_are_read():
    text = 'a,b\n"1 ""x""\n2","3\n\n""4"""\n"alpha"-pinene,5\n'
    (rows,) = _read(text)
    assert rows == [{"a": '1 "x"\n2', "b": '3\n\n"4"'}, {"a": "alpha-pinene", "b": "5"}]
