"""SMILES files: what is a SMILES, what a name, what a header."""

from __future__ import annotations

import pytest

from molsepnorm.data.tables import read_chunks, read_table
from molsepnorm.data.tables.formats import ReadOptions, locate


def _read(tmp_path, text: str, **options) -> list[dict[str, str]]:
    (tmp_path / "x.smi").write_bytes(text.encode())
    return read_table(tmp_path / "x.smi", ReadOptions(**options)).to_dict("records")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("start", "suffix"), [("", ".smi"), ("\ufeff", ".ISM")])
def test_a_smiles_and_what_it_is_called(tmp_path, start, end, suffix):
    lines = ["CCO ethanol", "  CC\tethane, a gas ", "C", "c1ccccc1 \t benzene (ä)"]
    (tmp_path / f"x{suffix}").write_bytes((start + end.join([*lines, ""])).encode())
    assert read_table(tmp_path / f"x{suffix}").to_dict("records") == [
        {"smiles": "CCO", "name": "ethanol"},
        {"smiles": "CC", "name": "ethane, a gas"},
        {"smiles": "C", "name": ""},
        {"smiles": "c1ccccc1", "name": "benzene (ä)"},
    ]


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_comments_are_no_rows_and_blank_lines_are(tmp_path, rows):
    """All of them are lines."""
    (tmp_path / "x.smi").write_text("# from\n#here\nCCO a\n\n# more\nCC b\n")
    pieces = list(read_chunks(tmp_path / "x.smi", rows=rows))
    found = [(locate("x.smi", i), row.smiles) for piece in pieces for i, row in piece.iterrows()]
    assert found == [("x.smi, line 3", "CCO"), ("x.smi, line 4", ""), ("x.smi, line 6", "CC")]


@pytest.mark.parametrize("word", ["smiles", "CXSMILES"])
def test_a_header_with_tabs_names_columns_that_tabs_separate(tmp_path, word):
    """With spaces, the rest of a line is the last column."""
    rows = _read(tmp_path, f"{word}\tlong name\ty\nCCO\tgrain alcohol\t1\nCC\t\t2\nC\n")
    assert rows == [
        {"smiles": "CCO", "long name": "grain alcohol", "y": "1"},
        {"smiles": "CC", "long name": "", "y": "2"},
        {"smiles": "C", "long name": "", "y": ""},
    ]
    rows = _read(tmp_path, f"{word} id  name\nCCO 7 grain alcohol \nCC\t8\n")
    assert [row["name"] for row in rows] == ["grain alcohol", ""]


@pytest.mark.parametrize("header", ["", "smiles name\n"])
def test_a_name_without_a_smiles_is_not_read_as_one(tmp_path, header):
    rows = _read(tmp_path, f"{header}CCO\tethanol\n\tCN\n\tC N\nC\n")
    assert [row["smiles"] for row in rows] == ["CCO", "", "", "C"]
    assert [row["name"] for row in rows] == ["ethanol", "CN", "C N", ""]


def test_the_column_asked_for_is_the_headers_or_else_the_first(tmp_path):
    text = "smiles\tparent\nCCO.Cl\tCCO\n"
    assert _read(tmp_path, text, smiles_column="parent")[0]["parent"] == "CCO"
    assert _read(tmp_path, text, smiles_column="s")[0] == {"s": "CCO.Cl", "parent": "CCO"}
    text = "structure id\nCCO 1\n"
    assert _read(tmp_path, text, smiles_column="structure") == [{"structure": "CCO", "id": "1"}]


@pytest.mark.parametrize("first", ["CCO", "COS", "[Si]", "", "Smile"])
def test_what_is_no_header_is_a_row(tmp_path, first):
    assert _read(tmp_path, f"{first}\nC\n")[0] == {"smiles": first, "name": ""}


@pytest.mark.filterwarnings("ignore::molsepnorm.errors.DataWarning")
@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("C[C@H](O)F |&1:1| racemate", ("C[C@H](O)F |&1:1|", "racemate")),
        ("C[C@H](O)F\t|o1:1,r|\ta name", ("C[C@H](O)F |o1:1,r|", "a name")),
        ("CCO |what|odd| x", ("CCO", "|what|odd| x")),
        ("C1CC |what| x", ("C1CC |what|", "x")),
    ],
)
def test_an_extension_of_the_smiles_is_no_part_of_the_name(tmp_path, line, row):
    assert _read(tmp_path, f"C\n{line}\n")[1] == dict(zip(("smiles", "name"), row, strict=True))
