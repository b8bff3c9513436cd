"""The column of SMILES under another name, and text in Latin-1."""

from __future__ import annotations

import codecs

import pytest

from molsepnorm.data.tables import names_in_file, read_chunks, read_table, require_column
from molsepnorm.errors import ConfigError, DataWarning


@pytest.mark.parametrize("name", ["SMILES", "canonical_smiles", "Canonical SMILES"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_another_name_of_the_column_is_announced(tmp_path, name, separator):
    (tmp_path / "x.csv").write_text(f"id{separator}{name}{separator}a\n1{separator}CCO\n")
    with pytest.warns(DataWarning, match=rf"the column '{name}' is read as the column of SMILES"):
        table = read_table(tmp_path / "x.csv")
    assert list(table.columns) == ["id", "smiles", "a"]
    assert table["smiles"].tolist() == ["CCO"]
    assert names_in_file(table) == ["id", name, "a"]


def test_two_such_columns_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("SMILES,Canonical SMILES\nC,C\n")
    message = "no column 'smiles', and 'SMILES' and 'Canonical SMILES' may be meant: choose one"
    with pytest.raises(ConfigError, match=message):
        read_table(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("smiles,SMILES", "smiles"), ("SMILES,a", "b"), ("my smiles,a", "smiles")],
)
def test_other_columns_keep_their_names(tmp_path, header, wanted):
    (tmp_path / "x.csv").write_text(f"{header}\nC,1\n")
    (chunk,) = read_chunks(tmp_path / "x.csv", smiles_column=wanted)
    assert list(chunk.columns) == names_in_file(chunk) == header.split(",")


@pytest.mark.parametrize(
    ("wanted", "other", "differs"),
    [
        ("IC50 (nM)", "IC50 (uM)", True),
        ("IC50 (nM)", "EC50 (nM)", False),
        ("IC50", "IC50 (nM)", False),
    ],
)
def test_a_name_with_another_unit_is_not_only_suggested(wanted, other, differs):
    with pytest.raises(ConfigError, match="Did you mean") as caught:
        require_column(["smiles", other], wanted, "x.csv")
    advice = f" If '{other}' is in another unit, convert its numbers first."
    assert str(caught.value).endswith(advice) == differs


def test_latin_1_is_read_and_announced_once(tmp_path):
    """Names and cells, in several pieces, and for each of the files that are read together."""
    text = "smiles,Aktivität µM\n" + "C,größer €\n" * 30
    names = [f"{number}.csv" for number in range(3)]
    for name in names:
        (tmp_path / name).write_bytes(text.encode("cp1252"))
    with pytest.warns(DataWarning) as warned:
        readers = [read_chunks(tmp_path / name, rows=10) for name in names]
        pieces = [piece for each in zip(*readers, strict=True) for piece in each]
    assert {cell for piece in pieces for cell in piece["Aktivität µM"]} == {"größer €"}
    messages = [str(each.message) for each in warned if each.category is DataWarning]
    for name in names:
        assert sum(f"{name} is not UTF-8" in message for message in messages) == 1


def test_read_files_do_not_leave_a_handler_of_codecs_each(tmp_path, monkeypatch):
    register, handlers = codecs.register_error, set()

    def counted(name, handler):
        handlers.add(name)
        register(name, handler)

    monkeypatch.setattr(codecs, "register_error", counted)
    for number in range(20):
        (tmp_path / f"{number}.csv").write_text("smiles\nC\n")
        list(read_chunks(tmp_path / f"{number}.csv"))
    assert 0 < len(handlers) < 5
