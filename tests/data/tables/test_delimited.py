"""CSV and TSV: cells are text exactly as in the file."""

from __future__ import annotations

import io

import pytest

from molsepnorm.data.tables import read_chunks, read_table
from molsepnorm.data.tables.formats import locate
from molsepnorm.errors import DataError


def _read(text: str, **options):
    return [chunk.to_dict("records") for chunk in read_chunks(io.StringIO(text), "x", **options)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # no number is rounded, no zero dropped, no NA turned into something else
        ("a,b,c,d,e,f\n007,1e5,NA, x ,,3.10\n", [["007", "1e5", "NA", " x ", "", "3.10"]]),
        ('a,"b,c"\n"x ""y""","1\n2"\n', [['x "y"', "1\n2"]]),
        ('a,b,c\n1,2,"a, b\nc, d, e"\n', [["1", "2", "a, b\nc, d, e"]]),
        (
            'a,b\n"1 ""x""\n2","3\n\n""4"""\n5" pipe,5\n',
            [['1 "x"\n2', '3\n\n"4"'], ['5" pipe', "5"]],
        ),
        # short rows are filled with blanks, and blank cells beyond the header are left out
        ("a,b,c\n1\n2,3\n4,5,6\n", [["1", "", ""], ["2", "3", ""], ["4", "5", "6"]]),
        ("a;b\n1;2;\n3;4;;\n", [["1", "2"], ["3", "4"]]),
        # a blank row counts, or predictions would be written beside other molecules
        ("smiles\nCCO\n\nCC\n", [["CCO"], [""], ["CC"]]),
    ],
)
def test_cells_are_read_as_text_without_changes(text, rows):
    ((*found,),) = _read(text)
    assert [list(row.values()) for row in found] == rows


@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.dat"])
def test_the_header_determines_the_separator(tmp_path, name, separator):
    (tmp_path / name).write_text("smiles,logS\nCCO,-0.77\n".replace(",", separator))
    assert read_table(tmp_path / name).to_dict("records") == [{"smiles": "CCO", "logS": "-0.77"}]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("smiles;IC50 (nM, 24 h);x\nC;1,5;\n", ["smiles", "IC50 (nM, 24 h)", "x"]),
        ('"smiles"\t"a, b"\n"C"\t1\n', ["smiles", "a, b"]),
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


LINES = [
    ('smiles,"no', None),
    ('te"', None),
    ("C,plain", 3),
    ('CC,"two', 4),
    ('lines"', None),
    ('CCC,"three\r', 6),
    ("", None),
    ('lines"', None),
    ("", 9),
    ('CCCC,"quoted ""here"", no break"', 10),
    ("CCCCC,last", 11),
]


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_locate_gives_the_line_of_each_row(tmp_path, rows, end):
    """Blank lines and cells with line breaks come before, in any piece."""
    text = "".join(line.replace("\r", "") + end for line, _ in LINES)
    (tmp_path / "x.csv").write_bytes(text.encode())
    index = [i for chunk in read_chunks(tmp_path / "x.csv", rows=rows) for i in chunk.index]
    assert [locate("x.csv", i) for i in index] == [f"x.csv, line {n}" for _, n in LINES if n]
    assert read_table(tmp_path / "x.csv").index.tolist() == index


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("smiles;y\nC;1\nCC;2;7\n", "line 3 has 3 cells where 2 are expected"),
        ('smiles,y\nC,1\nC,"1\n' + "C,2\n" * 100_000, "lines 3 to 100003: .*A quotation mark"),
        # a stray mark would make one row of all rows up to the next one
        ('smiles;y\nC;"n3\nC;n4\nC;"n5\n', "lines 2 to 4: .*A quotation mark"),
    ],
)
def test_rows_that_cannot_be_read_are_refused_with_their_line(text, message):
    with pytest.raises(DataError, match=f"x cannot be read as CSV: {message}"):
        _read(text)
