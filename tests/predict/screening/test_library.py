"""Tasks hold every row of every file once, in any format."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest

from molsepnorm.data.tables import read_table
from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.predict.screening.library import find_files, open_library


def library_of(*paths, columns=None, features=()):
    files = find_files([str(path) for path in paths])
    return open_library(files, ReadOptions(), columns, features)


def rows_of(library, rows: int) -> pd.DataFrame:
    """The rows of all tasks."""
    tasks = list(library.tasks(rows))
    assert [task.name for task in tasks] == sorted({task.name for task in tasks})
    assert all(len(task.table) <= rows for task in tasks)
    return pd.concat([task.table for task in tasks])


def write(table: pd.DataFrame, path, group: int = 10):
    if path.suffix == ".parquet":
        table.to_parquet(path, row_group_size=group, index=False)
    elif ".smi" in path.name:
        text = "".join(f"{row.smiles} {row.zinc_id}\n" for row in table.itertuples())
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "wt") as file:
            file.write(f"# a comment\n{text}")
    else:
        table.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


@pytest.mark.parametrize("rows", [7, 1000])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv.bz2", "a.smi.gz", "a.parquet"])
def test_tasks_hold_every_row_once(molecules, tmp_path, name, rows):
    path = write(molecules(64), tmp_path / name)
    library = library_of(path, columns=["name" if ".smi" in name else "zinc_id"])
    expected = read_table(path)[library.columns]
    pd.testing.assert_frame_equal(
        rows_of(library, rows), expected, check_index_type=False, check_column_type=False
    )


def test_smiles_columns_may_have_other_names_in_some_files(molecules, tmp_path):
    one = write(molecules(5), tmp_path / "a.csv")
    two = write(molecules(5).rename(columns={"smiles": "SMILES"}), tmp_path / "b.parquet")
    three = write(molecules(5).rename(columns={"smiles": "Canonical SMILES"}), tmp_path / "c.csv")
    with pytest.warns(UserWarning, match="is read as the column of SMILES"):
        found = rows_of(library_of(one, two, three), 2)
    assert found["smiles"].tolist() == molecules(5)["smiles"].tolist() * 3
    assert found["zinc_id"].tolist() == molecules(5)["zinc_id"].tolist() * 3


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("ID", True), ("Catalog ID", True), ("idnumber", True), ("compound.name", True)),
        *(("filename", False), ("acid", False), ("id_of_plate_reader", False)),
    ],
)
def test_the_first_column_that_is_called_like_an_identifier_is_carried(
    molecules, tmp_path, name, is_one
):
    path = write(molecules(3).rename(columns={"zinc_id": name}), tmp_path / "a.csv")
    assert library_of(path).carried == (("smiles", name) if is_one else ("smiles",))


def test_patterns_name_files_in_order_and_each_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.csv", "a.csv", "c.smi", "deep/d.csv", "[x].csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    (tmp_path / "folder.csv").mkdir()
    assert find_files(["*.csv"]) == ["[x].csv", "a.csv", "b.csv"]
    assert find_files(["c.smi", "./a.csv", "[ab].csv"]) == ["c.smi", "./a.csv", "b.csv"]
    assert find_files(["[x].csv"]) == ["[x].csv"]
    assert find_files(["**/*.csv"]) == ["[x].csv", "a.csv", "b.csv", "deep/d.csv"]
