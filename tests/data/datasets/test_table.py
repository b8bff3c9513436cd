"""A table of one's own: molecules with labels and weights in its order, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from molsepnorm.data.datasets import SPLITS, DataConfig, load
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.molecules.encodings import EncodingSpec
from support import of_targets

ZINC = EncodingSpec(bond_sizes=(3,), max_path_length=3)
OGB = EncodingSpec(bond_sizes=(5, 6, 2), max_path_length=3)
ALKANES = ["C" * length for length in range(1, 21)]


@pytest.fixture
def write(tmp_path):
    """`write(text)` makes my.csv of it."""

    def make(text: str):
        path = tmp_path / "my.csv"
        path.write_text(text)
        return path

    return make


def _csv(rows, header="smiles,y") -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def _load(path, **settings):
    return load(DataConfig(table=path, featurizer="zinc", **settings), ZINC)


def _twenty(*columns):
    """Twenty alkanes, and columns made by functions of the row's number."""
    return [(text, *(column(i) for column in columns)) for i, text in enumerate(ALKANES)]


def _known(array: np.ndarray) -> list:
    """None for NaN, which equals nothing."""
    return [[None if np.isnan(x) else x for x in row] for row in array.tolist()]


def _left_out(dataset) -> list[list[str]]:
    """The content of rejected.csv."""
    table = dataset.left_out
    return [list(table.columns), *([str(cell) for cell in row] for row in table.to_numpy())]


def test_rows_that_are_left_out_keep_their_cells_and_the_lines_of_the_file(write):
    """A cell with line breaks moves the lines after it. Columns may have our names, or the same."""
    lines = ["id,smiles,y,line,id", *(f"m{i},{text},{i},a,b" for i, text in enumerate(ALKANES))]
    lines[3] = '"m\nof three\nlines",CCC,2,a,b'
    lines += ["bad,C1CC,9,a,b", "blank,,9,a,b", "again,CCCC,5,a,b", "odd,C[Si](C)(C)C,9,a,b"]
    dataset = _load(write("\n".join(lines) + "\n"), targets=["y"], duplicates="mean")
    assert [(entry.row, entry.smiles) for entry in dataset.rejected] == [
        (20, "C1CC"),
        (21, ""),
        (23, "C[Si](C)(C)C"),
    ]
    header, *rows = _left_out(dataset)
    assert header == ["line_", "id", "smiles", "y", "line", "id", "reason"]
    assert [row[:-1] for row in rows] == [
        ["24", "bad", "C1CC", "9", "a", "b"],
        ["25", "blank", "", "9", "a", "b"],
        ["26", "again", "CCCC", "5", "a", "b"],
        ["27", "odd", "C[Si](C)(C)C", "9", "a", "b"],
    ]
    reasons = [row[-1] for row in rows]
    assert reasons[0].startswith("RDKit cannot read 'C1CC'")
    assert reasons[1] == "empty SMILES"
    assert "my.csv, line 7, which has the merged labels" in reasons[2]
    word, numbers = dataset.position(np.array([0, 2, 3]))
    assert (word, numbers.tolist()) == ("line", [2, 4, 7])


def test_targets_that_a_table_lacks_are_blank_where_labels_are_not_needed(write):
    kinds = {"y": "regression", "self": "binary", "colour": "multiclass"}
    config = DataConfig(
        table=write(_csv(_twenty(lambda i: i % 2), "smiles,self")),
        featurizer="zinc",
        targets=list(kinds),
        task_type=kinds,
        classes={"colour": ["red", "green"]},
        split=None,
    )
    dataset = load(config, ZINC, labelled=False)
    assert _known(dataset.labels) == [[None, i % 2, None] for i in range(20)]
    assert of_targets(dataset, "kind") == tuple(kinds.values())
    with pytest.raises(ConfigError, match="no column 'y'"):
        load(config, ZINC)


CHAINS = ["C" * length + "O" for length in range(1, 9)]


@pytest.fixture
def files(tmp_path):
    """A CSV, a .smi with names, and a Parquet file, each with eight molecules."""
    pd.DataFrame({"id": range(8), "smiles": CHAINS}).to_csv(tmp_path / "a.csv", index=False)
    names = [f"{text.replace('O', 'N')} name-{row}\n" for row, text in enumerate(CHAINS)]
    (tmp_path / "b.smi").write_text("".join(names))
    fluorides = pd.DataFrame({"smiles": [text.replace("O", "F") for text in CHAINS]})
    fluorides.to_parquet(tmp_path / "c.parquet")
    return [tmp_path / name for name in ("a.csv", "b.smi", "c.parquet")]


def _structures(files, **settings):
    return load(DataConfig(structures=files, **settings), OGB)


def test_several_files_of_several_formats_are_one_set(files):
    dataset = _structures(files)
    ends = [text[:-1] + end for end in "ONF" for text in CHAINS]
    assert dataset.smiles == ends
    assert dataset.store.rows.tolist() == list(range(24))
    assert dataset.store.sizes.tolist() == [len(text) for text in ends]
    assert dataset.name == "a.csv + b.smi + c.parquet"
    assert (dataset.labels.shape, dataset.targets, dataset.rejected) == ((24, 0), (), ())
    everything = np.concatenate([*dataset.splits.values()])
    assert sorted(everything.tolist()) == list(range(24))
    assert [len(dataset.splits[name]) for name in SPLITS] == [19, 3, 2]


def test_invalid_smiles_are_listed_with_their_file_and_line_or_an_error(files, tmp_path):
    second = tmp_path / "bad.smi"
    second.write_text("CC\nC1CC\nCCC\nCCCC\n")
    dataset = _structures([files[0], second])
    assert dataset.store.rows.tolist() == [*range(8), 8, 10, 11]
    (entry,) = dataset.rejected
    assert entry[:2] == (9, "C1CC")
    assert entry.reason.startswith("RDKit cannot read 'C1CC'")
    assert dataset.position(9) == ("file", f"{second}, line 2")
    assert _left_out(dataset)[1] == [f"{second}, line 2", "C1CC", entry.reason]
    with pytest.raises(DataError, match=r"\.smi, line 2: RDKit cannot read 'C1CC'.*Fix the"):
        _structures([files[0], second], on_invalid="fail")


@pytest.mark.parametrize("role", ["targets", "feature_columns", "weight_column", "error_column"])
def test_points_between_semicolons_need_an_option(write, role):
    """1.234 may be 1234, whatever the column is for."""
    rows = [f"{'C' * n}O;{100 * n};{n}.234" for n in range(1, 25)]
    path = write("\n".join(["smiles;y;x", *rows]) + "\n")
    settings = {"targets": ["y"], role: "x" if role.endswith("_column") else ["x"]}
    with pytest.raises(DataError, match="line 2, column 'x': '1.234' may be 1.234 or 1234"):
        _load(path, **settings)
    assert len(_load(path, **settings, decimal=".").store) == 24
