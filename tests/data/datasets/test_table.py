"""A table of one's own: molecules with labels and weights in its order, and what is refused."""

from __future__ import annotations

import csv
import json
import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

from molsepnorm.data.datasets import DataConfig, cached, encoded_rows, load
from molsepnorm.data.datasets import table as tables
from molsepnorm.errors import ConfigError, DataError, StorageError
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize import descriptors, get
from molsepnorm.training import load_config, train

ZINC = EncodingSpec(bond_sizes=(3,), max_path_length=3)
OGB = EncodingSpec(bond_sizes=(5, 6, 2), max_path_length=3)
ALKANES = ["C" * length for length in range(1, 21)]


@pytest.fixture
def write(tmp_path):
    """`write(text)` makes my.csv of it."""

    def make(text: str | bytes, name: str = "my.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
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


# Rows


def _left_out(dataset) -> list[list[str]]:
    """The content of rejected.csv."""
    table = dataset.left_out
    return [list(table.columns), *([str(cell) for cell in row] for row in table.to_numpy())]


def test_rows_that_are_left_out_keep_their_cells_and_the_lines_of_the_file(write):
    """A cell with line breaks moves the lines after it. Columns may have our names, or the same."""
    lines = ["id,smiles,y,line,id", *(f"m{i},{text},{i},a,b" for i, text in enumerate(ALKANES))]
    lines[3] = '"m\nof three\nlines",CCC,2,a,b'
    lines += ["bad,C1CC,9,a,b", "blank,,9,a,b", "again,CCCC,5,a,b"]
    dataset = _load(write("\n".join(lines) + "\n"), targets=["y"], duplicates="mean")
    header, *rows = _left_out(dataset)
    assert header == ["line_", "id", "smiles", "y", "line", "id", "reason"]
    assert [row[:-1] for row in rows] == [
        ["24", "bad", "C1CC", "9", "a", "b"],
        ["25", "blank", "", "9", "a", "b"],
        ["26", "again", "CCCC", "5", "a", "b"],
    ]
    reasons = [row[-1] for row in rows]
    assert reasons[0].startswith("RDKit cannot read 'C1CC'")
    assert reasons[1:2] == ["empty SMILES"]
    assert "my.csv, line 7, which has the merged labels" in reasons[2]
    word, numbers = dataset.position(np.array([0, 2, 3]))
    assert (word, numbers.tolist()) == ("line", [2, 4, 7])


def test_rows_of_other_formats_are_called_as_in_their_programs(tmp_path):
    smiles = [*ALKANES, "C1CC"]
    frame = pd.DataFrame({"smiles": smiles, "y": range(21)})
    frame.to_parquet(tmp_path / "my.parquet")
    assert _left_out(_load(tmp_path / "my.parquet"))[1][:2] == ["21", "C1CC"]

    table = load_config(tmp_path / "my.parquet", overrides={"data.featurizer": "zinc"}).data
    with pytest.raises(DataError, match=r"my.parquet, row 21: RDKit cannot read 'C1CC'"):
        load(table.model_copy(update={"on_invalid": "fail"}), ZINC)


def test_a_table_without_bad_rows_has_an_empty_list_of_them(write):
    assert _left_out(_load(write(_csv(_twenty(float))))) == [["line", "smiles", "y", "reason"]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_the_left_out_rows_of_a_pipe_are_read_from_its_copy(tmp_path):
    pipe = tmp_path / "my.csv"
    os.mkfifo(pipe)
    text = _csv([*_twenty(float), ("C1CC", 1)])
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    rows = _left_out(_load(pipe))
    writer.join()
    assert rows[1][:3] == ["22", "C1CC", "1"]


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
    assert dataset.kinds == tuple(kinds.values())
    with pytest.raises(ConfigError, match="no column 'y'"):
        load(config, ZINC)


def test_a_table_becomes_molecules_with_labels_in_its_order(write):
    dataset = _load(write(_csv(_twenty(lambda i: i / 4))))
    assert dataset.name == "my.csv"
    assert dataset.targets == ("y",)
    assert dataset.kinds == ("regression",)
    assert dataset.classes == ((),)
    assert dataset.store.sizes.tolist() == list(range(1, 21))
    assert dataset.store.rows.tolist() == list(range(20))
    assert dataset.labels[:, 0].tolist() == [i / 4 for i in range(20)]
    assert dataset.store.featurizer == "zinc"
    assert list(dataset.smiles) == ALKANES
    assert dataset.rejected == ()
    assert dataset.weights is None
    assert sorted(np.concatenate(list(dataset.splits.values())).tolist()) == list(range(20))


def test_targets_of_all_kinds(write):
    """The data set has the configured and the inferred kinds, in the order of the targets."""
    odours = ["strong", "", "none", "mild"]
    path = write(
        _csv(
            _twenty(
                lambda i: odours[i % 4],
                lambda i: i / 2 if i % 3 else "",
                lambda i: "active" if i % 2 else "inactive",
                lambda i: [3, 1, 2][i % 3],
                lambda i: f"mol{i}",
            ),
            "smiles,odour,logS,active,grade,name",
        )
    )
    dataset = _load(
        path,
        targets=["grade", "active", "odour", "logS"],
        task_type={"grade": "multiclass"},
        classes={"odour": ["none", "mild", "strong"]},
    )
    assert dataset.targets == ("grade", "active", "odour", "logS")
    assert dataset.kinds == ("multiclass", "binary", "multiclass", "regression")
    assert dataset.classes == (("1", "2", "3"), (), ("none", "mild", "strong"), ())
    assert dataset.warnings == ()
    assert _known(dataset.labels[:4]) == [
        [2, 0, 2, None],
        [0, 1, None, 0.5],
        [1, 0, 0, 1],
        [2, 1, 1, None],
    ]


def test_remarks_say_what_was_guessed(write):
    header = "smiles,id,y,grade,w,split"
    words = ("train", "val", "test")
    columns = (lambda i: i, lambda i: i / 4, lambda i: i % 3, lambda i: i + 1)
    path = write(_csv(_twenty(*columns, lambda i: words[i % 3]), header))
    settings = {"weight_column": "w", "splits_column": "split"}
    dataset = _load(path, **settings)
    assert dataset.targets == ("y", "grade")
    assert len(dataset.warnings) == 3
    assert "all columns of numbers" in dataset.warnings[0]
    assert "Not used as targets: id" in dataset.warnings[1]
    assert "grade: few whole numbers" in dataset.warnings[2]
    dataset = _load(path, ignore_columns=["id", "grade"], **settings)
    assert dataset.targets == ("y",)
    assert len(dataset.warnings) == 1


def _parts(i):
    return ["Train", "test", "valid", ""][i % 4]


@pytest.mark.parametrize(
    ("columns", "settings", "option"),
    [
        ("part", {}, "part"),
        ("my part", {}, "'my part'"),
        ("part", {"splits_column": "part"}, None),
        ("part", {"folds": 2}, None),
        ("part", {"ignore_columns": ["part"]}, None),
        ("part,part", {}, None),
    ],
)
def test_a_column_that_could_name_the_split_is_mentioned(write, columns, settings, option):
    cells = [_parts] * len(columns.split(","))
    path = write(_csv(_twenty(lambda i: i, *cells), f"smiles,y,{columns}"))
    found = [each for each in _load(path, **settings).warnings if "could assign" in each]
    start = (
        f"The split is drawn, although '{columns}' could assign the rows to training, validation"
    )
    assert found == ([f"{start} and test: --splits-column {option}"] if option else [])


@pytest.mark.parametrize("rows", [1, 4096])
@pytest.mark.parametrize("last", ["control", "7"])
def test_a_column_with_other_words_does_not_name_the_split(write, monkeypatch, rows, last):
    monkeypatch.setattr(tables, "_ROWS", rows)
    path = write(_csv(_twenty(lambda i: i, lambda i: last if i == 19 else _parts(i)), "smiles,y,c"))
    assert not any("could assign" in each for each in _load(path, targets=["y"]).warnings)


def test_rows_that_cannot_be_read_are_left_out_with_their_reason(write):
    """The others keep their order, their labels, their weights, their split and their place in the
    file."""
    rows = _twenty(float, lambda i: (i + 1) / 8, lambda i: ("train", "val", "test")[i % 3])
    rows[2] = ("C1CC", *rows[2][1:])
    rows[5] = ("", *rows[5][1:])
    rows[9] = ("C[Si](C)(C)C", *rows[9][1:])
    dataset = _load(write(_csv(rows, "smiles,y,w,split")), weight_column="w", splits_column="split")
    assert [(entry.row, entry.smiles) for entry in dataset.rejected] == [
        (2, "C1CC"),
        (5, ""),
        (9, "C[Si](C)(C)C"),
    ]
    reasons = [entry.reason for entry in dataset.rejected]
    assert "unclosed ring" in reasons[0]
    assert reasons[1] == "empty SMILES"
    assert "'Si' is not among ZINC's" in reasons[2]
    kept = [row for row in range(20) if row not in (2, 5, 9)]
    assert dataset.store.rows.tolist() == kept
    assert dataset.labels[:, 0].tolist() == kept
    assert dataset.weights.tolist() == [(row + 1) / 8 for row in kept]
    assert dataset.weights.dtype == np.float32
    for number, split in enumerate(("train", "val", "test")):
        rows = dataset.store.rows[dataset.splits[split]]
        assert rows.tolist() == [row for row in kept if row % 3 == number]


def test_memory_does_not_hold_all_graphs(write, monkeypatch, tmp_path):
    """Molecules are encoded as they are read, here five at a time."""
    read, encoded = [], []
    plain_store, plain_encode = encoded_rows.cached_store, cached.encode

    def store(key, featurizer, encoding, molecules, *rest):
        def watched():
            for molecule in molecules:
                read.append(molecule)
                yield molecule

        return plain_store(key, featurizer, encoding, watched(), *rest)

    def encode(*given):
        encoded.append(len(read))
        return plain_encode(*given)

    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cached, "_CHUNK", 5)
    monkeypatch.setattr(encoded_rows, "cached_store", store)
    monkeypatch.setattr(cached, "encode", encode)
    _load(write(_csv(_twenty(lambda i: i * 0.75))))
    assert encoded == [5, 10, 15, 20]


# Formats


MIXED = [
    {
        "smiles": "C[Si](C)(C)C" if i == 4 else "C" * (i + 1) + "O",
        "logS": None if i % 5 == 3 else 0.25 * i,
        "active": None if i % 7 == 6 else i % 2 == 0,
        "odour": (None, "mild", "quite strong")[i % 3],
        "w": None if i == 8 else i,
        "split": (None, "train", "Valid", "test", "train")[i % 5],
    }
    for i in range(25)
]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _delimited(separator: str):
    def write(path: Path) -> None:
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerow(MIXED[0])
            writer.writerows([map(_text, row.values()) for row in MIXED])

    return write


def _parquet(path: Path) -> None:
    """Numbers, yes/no and blanks in types of their own."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(MIXED), path)


def _sdf(path: Path) -> None:
    """Labels as properties, which a molecule without label lacks."""
    writer = Chem.SDWriter(str(path))
    for row in MIXED:
        molecule = Chem.MolFromSmiles(row["smiles"])
        for name, value in row.items():
            if value is not None and name != "smiles":
                molecule.SetProp(name, _text(value))
        writer.write(molecule)
    writer.close()


FORMATS = {
    "my.csv": (_delimited(","), "line 6"),
    "my.tsv": (_delimited("\t"), "line 6"),
    "my.smi": (_delimited("\t"), "line 6"),
    "my.parquet": (_parquet, "row 5"),
    "my.sdf": (_sdf, "record 5"),
}


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, (make, _) in FORMATS.items()])
def test_every_format_gives_the_same(tmp_path, name, make):
    make(tmp_path / name)
    columns = {"weight_column": "w", "splits_column": "split"}
    dataset = _load(tmp_path / name, targets=["odour", "logS", "active"], **columns)
    assert dataset.name == name
    assert dataset.kinds == ("binary", "regression", "binary")
    assert dataset.classes == (("mild", "quite strong"), (), ())
    assert list(dataset.smiles) == [row["smiles"] for row in MIXED]
    assert [entry.row for entry in dataset.rejected] == [4]
    kept = [i for i in range(25) if i != 4]
    assert dataset.store.rows.tolist() == kept
    assert _known(dataset.labels) == [
        [(None, 0, 1)[i % 3], MIXED[i]["logS"], MIXED[i]["active"]] if i else [None] * 3
        for i in kept  # the first has the weight 0
    ]
    assert dataset.weights.tolist() == [1 if i == 8 else i for i in kept]
    named = {
        split: dataset.store.rows[indices].tolist() for split, indices in dataset.splits.items()
    }
    assert named == {
        split: [i for i in kept if MIXED[i]["split"] == word]
        for split, word in (("train", "train"), ("val", "Valid"), ("test", "test"))
    }
    guessed = _load(tmp_path / name, **columns, ignore_columns=["odour"])
    assert guessed.targets == ("logS", "active")


@pytest.mark.parametrize(
    ("name", "make", "place"), [(name, *entry) for name, entry in FORMATS.items()]
)
def test_a_row_is_found_where_it_stands(tmp_path, name, make, place):
    make(tmp_path / name)
    with pytest.raises(DataError, match=f"{name}, {place}: .*'Si' is not among ZINC's"):
        _load(tmp_path / name, targets=["logS"], on_invalid="fail")
    with pytest.raises(DataError, match=rf"{name}, \w+ \d, column 'odour': 'mild' is not a number"):
        _load(tmp_path / name, targets=["odour"], task_type="regression")


def test_what_excel_writes(write):
    """A byte-order mark, semicolons, CRLF, quotes and line breaks in cells."""
    rows = [f'"{text}";{i};"a ""note"";\r\nin two lines"' for i, text in enumerate(ALKANES)]
    path = write("\ufeff" + "\r\n".join(['"smiles";y;note', *rows]) + "\r\n")
    dataset = _load(path, targets=["y"])
    assert list(dataset.smiles) == ALKANES
    assert dataset.labels[:, 0].tolist() == list(range(20))
    with pytest.raises(DataError, match="my.csv, line 2, column 'note': 'a \"note\";"):
        _load(path, targets=["note"], task_type="regression")


def test_commas_at_the_ends_of_lines_shift_no_column(write):
    """Some programs write them, and not every pandas reads them; the SMILES must not become the
    rows' names."""
    path = write(_csv([(*row, "") for row in _twenty(float)]))
    assert path.read_text().splitlines()[1] == "C,0.0,"
    try:
        dataset = _load(path)
    except DataError as error:
        assert "cannot be read as CSV" in str(error)
    else:
        assert list(dataset.smiles) == ALKANES
        assert dataset.labels[:, 0].tolist() == list(range(20))


def test_line_numbers_are_those_an_editor_shows(write):
    """Blank lines count, and are rows that cannot be read."""
    text = "smiles,y\n\n\n" + "\n".join(f"{text},{i}" for i, text in enumerate(ALKANES))
    with pytest.raises(DataError, match="line 24, column 'y'"):
        _load(write(text + "\nCCO,x\n"), targets=["y"])
    dataset = _load(write(text))
    assert [entry.row for entry in dataset.rejected] == [0, 1]
    assert dataset.store.rows.tolist() == list(range(2, 22))


# Errors


@pytest.mark.parametrize("cached", [False, True])
def test_on_invalid_fail_stops_at_the_first(write, cached):
    """Also where the table was loaded before, with such rows left out."""
    rows = _twenty(lambda i: i + (1000 if cached else 0))
    rows[3], rows[8] = ("C1CC", 1), ("nonsense", 2)
    path = write(_csv(rows))
    if cached:
        _load(path)
    with pytest.raises(
        DataError,
        match="my.csv, line 5: RDKit cannot read 'C1CC': unclosed ring. Fix the row, or use "
        "--on-invalid skip to leave such rows out",
    ):
        _load(path, on_invalid="fail")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", DataError, "my.csv is empty: a header line and a row per molecule are expected"),
        ("smiles,y\n", DataError, "my.csv has a header but no rows"),
        (_csv(_twenty(int), "smile,y"), ConfigError, r"no column 'smiles'. Did you mean 'smile'\?"),
        (_csv([("C1CC", 1), ("x", 2)]), DataError, "no molecule that can be read: .*unclosed ring"),
        (_csv([("C", 1), ("CC", 2)]), DataError, "2 usable .* too few for a split into 0.8 / 0"),
        (_csv(_twenty(lambda i: "x")), ConfigError, "no column of numbers.*Columns: smiles, y"),
        ("smiles,y\nC,1\nCC,2,3,4\n", DataError, "my.csv cannot be read as CSV: .*line 3"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00", DataError, "my.csv cannot be read as CSV"),
    ],
)
def test_a_file_that_cannot_be_used(write, text, error, message):
    with pytest.raises(error, match=message):
        _load(write(text))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"targets": ["logs"]}, ConfigError, r"no column 'logs'. Did you mean 'logS'\? Known: "),
        ({"weight_column": "W"}, ConfigError, r"no column 'W'. Did you mean 'w'\?"),
        ({"splits_column": "splits"}, ConfigError, r"no column 'splits'. Did you mean 'split'\?"),
        ({"ignore_columns": ["z"]}, ConfigError, "no column 'z'. Known: "),
        ({"weight_column": "logS", "targets": ["logS"]}, ConfigError, "'logS' cannot be a target"),
        ({"weight_column": "w"}, DataError, "line 2, column 'w': the weight -1 is negative"),
        ({"splits_column": "split"}, DataError, "line 2, column 'split': 'first' names no split"),
        (
            {"targets": ["split"], "classes": {"split": ["a", "b"]}},
            DataError,
            "'first' is not one of",
        ),
    ],
)
def test_a_column_that_cannot_be_used(write, settings, error, message):
    rows = _twenty(float, lambda i: i % 7 - 1, lambda i: "last" if i else "first")
    with pytest.raises(error, match=message):
        _load(write(_csv(rows, "smiles,logS,w,split")), **settings)


@pytest.mark.filterwarnings("ignore:.*points are read as decimal points")
def test_numbers_with_two_meanings_are_refused_with_the_roles_of_their_column(write):
    """A column that might be a target may be left out."""
    cells = ["1.100" if i else "900" for i in range(20)]
    rows = [f"{s};{i}.5;{cell}" for i, (s, cell) in enumerate(zip(ALKANES, cells, strict=True))]
    path = write("\n".join(["smiles;y;day", *rows]) + "\n")
    message = "column 'day': '1.100' .*may be 1.100 or 1100, .* and with a decimal point"
    with pytest.raises(DataError, match=f"{message}, or name the targets with --targets$"):
        _load(path)
    assert _load(path, targets=["y"]).targets == ("y",)
    timed = {"split_type": "time", "time_column": "day"}
    with pytest.raises(DataError, match=f"{message}$"):
        _load(path, targets=["y"], **timed)


@pytest.mark.filterwarnings("ignore:.*is read as the column of SMILES")
def test_the_names_in_an_error_are_those_of_the_file(write):
    with pytest.raises(ConfigError, match=r"no column 'z'. Known: Canonical SMILES, y\."):
        _load(write(_csv(_twenty(float), "Canonical SMILES,y")), targets=["z"])


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(StorageError, match="cannot read .*none.csv: there is no such file"):
        _load(tmp_path / "none.csv")


def test_a_table_without_any_molecule_is_refused_also_without_a_split(write):
    """A model can be scored on all molecules only if there is one."""
    with pytest.raises(DataError, match="has no molecule that can be read: .*unclosed ring"):
        _load(write("smiles,y\nC1CC,1\nC1CCC,2\n"), split=None)
    assert _load(write("smiles,y\nC1CC,1\nCC,2\n"), split=None).splits == {}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (lambda i: 3, "target 'y' is constant among the training molecules: all 16 labels are 3"),
        (lambda i: "yes", "target 'y' is constant among the training molecules: all 16 labels"),
        (lambda i: 1 if i == 2 else "", "has 1 usable molecules: too few for a split"),
    ],
)
def test_a_constant_target_cannot_be_trained_on(write, tmp_path, column, message):
    config = load_config(write(_csv(_twenty(column))), overrides={"model.layers": 1})
    with pytest.raises(DataError, match=message):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# The cache


def test_the_second_load_comes_from_the_cache(write, monkeypatch):
    """Rejected rows and reasons included; nothing is featurised again."""
    rows = _twenty(lambda i: i * 1.25, lambda i: i)
    rows[4] = ("C1CC", 1.0, 4)
    path = write(_csv(rows, "smiles,y,w"))
    first = _load(path, targets=["y"], weight_column="w")

    def refuse(*_):
        raise AssertionError("featurised again")

    monkeypatch.setattr(type(get("zinc")), "__call__", refuse)
    second = _load(path, targets=["y"], weight_column="w")
    assert second.rejected == first.rejected
    assert len(second.rejected) == 1
    np.testing.assert_array_equal(second.labels, first.labels)
    assert second.weights.tolist() == first.weights.tolist() == [*range(4), *range(5, 20)]
    assert {k: v.tolist() for k, v in second.splits.items()} == {
        k: v.tolist() for k, v in first.splits.items()
    }
    # weights and splits are not in the store
    unweighted = _load(path, targets=["y"], ignore_columns=["w"], split_seed=3)
    assert unweighted.weights is None
    assert unweighted.store.digest == first.store.digest
    assert unweighted.digest != first.digest


@pytest.mark.parametrize("level", ["none", "salts"])
def test_the_reasons_of_rows_without_a_smiles_are_those_of_the_file(write, level):
    """The SMILES of both files are the same."""
    good = "".join(f"{Chem.MolToMolBlock(Chem.MolFromSmiles(text))}$$$$\n" for text in ALKANES)
    huge = "\n\n\n  0  0  0     0  0            999 V3000\nM  V30 COUNTS 5000 0 0 0 0\nM  END\n"
    for name, last, reason in (
        ("a.sdf", "\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n", "empty SMILES"),
        ("b.sdf", huge, "5,000 atoms in the structure"),
    ):
        path = write(f"{good}{last}$$$$\n", name)
        dataset = load(
            DataConfig(table=path, standardize=level, targets=["y"]), OGB, labelled=False
        )
        assert dataset.rejected[0].reason.startswith(reason)


def test_another_version_of_rdkit_has_its_own_store(write, tmp_path, monkeypatch):
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    path = write(_csv(_twenty(lambda i: i)))
    first = _load(path)
    monkeypatch.setattr(descriptors, "RDKIT_VERSION", "another")
    second = _load(path)
    assert first.store.path != second.store.path
    assert first.digest == second.digest  # so that a run can be resumed


@pytest.mark.parametrize("change", ["content", "targets", "smiles_column", "featurizer"])
def test_the_cache_knows_what_it_holds(write, change):
    """A changed file or another choice of columns is loaded anew."""
    path = write(_csv(_twenty(lambda i: i, lambda i: -i, lambda i: "N" * (i + 1)), "smiles,a,b,s"))
    _load(path, targets=["a"])
    if change == "content":
        write(_csv(_twenty(lambda i: i + 1, lambda i: -i), "smiles,a,b"))
        assert _load(path, targets=["a"]).labels[0, 0] == 1
    elif change == "targets":
        assert _load(path, targets=["b"]).labels[3, 0] == -3
    elif change == "smiles_column":
        atoms = _load(path, targets=["a"], smiles_column="s").store.atoms
        assert set(atoms[:, 0]) == {2}
    else:
        ogb = get("ogb")
        encoding = EncodingSpec(bond_sizes=ogb.bond_sizes, max_path_length=3)
        dataset = load(DataConfig(table=path, targets=["a"], featurizer="ogb"), encoding)
        assert dataset.store.atoms.shape[1] == len(ogb.atom_sizes)


def test_the_cache_knows_kinds_and_classes(write):
    """The cells are equal, but the labels differ."""
    path = write(_csv(_twenty(lambda i: i % 2, lambda i: 3 * i % 4), "smiles,a,b"))

    def labels(**settings) -> list:
        return _load(path, targets=["b"], **settings).labels[:4, 0].tolist()

    assert labels() == [0, 3, 2, 1]
    assert labels(task_type="multiclass") == [0, 3, 2, 1]
    assert labels(classes={"b": ["3", "2", "1", "0"]}) == [3, 0, 1, 2]
    assert labels(classes={"b": ["0", "1", "2", "3"]}) == [0, 3, 2, 1]


def test_the_cache_tells_formats_apart(write):
    """A line of the same file is a comment in a .smi file, and a row in a .tsv."""
    text = "smiles\ty\n# sorted\n" + "".join(f"{text}\t{i}\n" for i, text in enumerate(ALKANES))
    first, second = _load(write(text, "my.smi")), _load(write(text, "my.tsv"))
    assert (len(first.rejected), len(second.rejected)) == (0, 1)
    for dataset in (first, second):
        assert [dataset.smiles[row] for row in dataset.store.rows] == ALKANES


def test_a_damaged_cache_is_made_anew(write, tmp_path, monkeypatch):
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    path = write(_csv(_twenty(lambda i: i * 3.5)))
    _load(path, targets=["y"])
    (made,) = tmp_path.glob("cache/*.store")
    content = made.read_bytes()
    for damaged in (content[:-7], content[:-7] + b"\1" + content[-6:]):
        made.unlink()  # earlier stores are still mapped
        made.write_bytes(damaged)
        dataset = _load(path, targets=["y"])
        assert dataset.labels[2, 0] == 7.0
        assert dataset.warnings == (
            f"{made} is damaged or no graph store of schema 4: it was made anew.",
        )
        assert made.read_bytes() == content
    assert _load(path, targets=["y"]).warnings == ()


# Columns of one name


def test_columns_of_one_name_are_no_hindrance_where_they_are_not_needed(write):
    rows = _twenty(lambda i: f"n{i}", float, lambda i: f"m{i}", float, float)
    path = write(_csv(rows, "smiles,note,y,note,z,z"))
    assert _load(path, targets=["y"]).targets == ("y",)
    assert _load(path, ignore_columns=["z", "note"]).targets == ("y",)


@pytest.mark.parametrize(
    ("header", "settings", "name"),
    [
        ("smiles,z,z,w,split", {}, "z"),
        ("smiles,y,y,w,split", {"targets": ["y"]}, "y"),
        ("smiles,y,z,z,split", {"targets": ["y"], "weight_column": "z"}, "z"),
        ("smiles,y,w,s,s", {"targets": ["y"], "splits_column": "s"}, "s"),
        ("y,smiles,smiles,w,split", {"targets": ["y"]}, "smiles"),
        ("smiles,y,y,w,split", {"classes": {"y": ["0", "1"]}}, "y"),
    ],
)
def test_a_column_that_is_needed_and_there_twice(write, header, settings, name):
    rows = _twenty(float, float, float, lambda i: ("train", "val", "test")[i % 3])
    with pytest.raises(ConfigError, match=f"my.csv has 2 columns called '{name}'"):
        _load(write(_csv(rows, header)), **settings)


# Streams


def _pipe(text: str) -> Path:
    """Such as a shell's <(…) makes; it stays open, as the shell's does."""
    read, end = os.pipe()
    os.write(end, text.encode())
    os.close(end)
    return Path(f"/dev/fd/{read}")


def test_a_table_from_a_pipe_has_its_own_labels():
    """Not those of another one with the same columns, and none when it is empty."""
    one, other = (_pipe(_csv(_twenty(lambda i, sign=sign: sign * i / 4))) for sign in (1, -1))
    dataset = _load(one)
    assert dataset.name == str(one)
    assert dataset.labels[:, 0].tolist() == [i / 4 for i in range(20)]
    dataset = _load(other)
    assert dataset.labels[:, 0].tolist() == [-i / 4 for i in range(20)]
    with pytest.raises(DataError, match=f"^{other} is empty"):
        _load(other)


def test_the_same_table_from_a_pipe_and_from_a_file_is_the_same_store(write):
    text = _csv(_twenty(lambda i: i / 16))
    assert _load(_pipe(text)).store.path == _load(write(text)).store.path


def test_a_splits_file_from_a_pipe(write):
    split = json.dumps([{"train": "0-9", "val": "10-14", "test": "15-19"}])
    dataset = _load(write(_csv(_twenty(float))), splits_file=_pipe(split))
    assert dataset.splits["val"].tolist() == [10, 11, 12, 13, 14]


# Memory


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_a_table_in_pieces_is_the_same_as_in_one(write, monkeypatch, rows):
    """Labels of all kinds, guesses, remarks, and places of what is refused."""
    words = ("", "", "mild", "strong")
    path = write(
        _csv(
            _twenty(
                *(lambda i: i, lambda i: "" if i < 5 else i / 8, lambda i: words[i % 4]),
                *(lambda i: "yes" if i > 15 else "", lambda i: i % 4, lambda i: 2 if i > 11 else 1),
                *(lambda i: "x" if i == 13 else i, lambda i: ["train", "val", "test"][i % 3]),
            ),
            "smiles,id,y,odour,active,grade,w,nearly,split",
        )
    )
    settings = {"weight_column": "w", "splits_column": "split"}
    named = {**settings, "targets": ["odour", "active", "id", "grade"]}
    kinds = {"grade": "multiclass"}

    def all_of_it():
        found = []
        guessed = {**settings, "ignore_columns": ["odour", "nearly"]}
        for each in (guessed, named, {**named, "task_type": kinds}):
            dataset = _load(path, **each)
            found += [dataset.targets, _known(dataset.labels), dataset.kinds, dataset.classes]
            found += [dataset.warnings, dataset.weights.tolist(), list(dataset.smiles)]
        for each in ({"targets": ["nearly"]}, {"targets": ["y"], "weight_column": "nearly"}):
            with pytest.raises(DataError) as caught:
                _load(path, **each)
            found.append(str(caught.value))
        with pytest.raises(DataError) as caught:
            _load(path, targets=["w"], task_type="binary")
        return [*found, str(caught.value)]

    whole = all_of_it()
    assert "line 15, column 'nearly': 'x' is not a number. 1 such cell" in whole[-2]
    assert "line 14, column 'w': '2' is neither 0 nor 1" in whole[-1]
    monkeypatch.setattr(tables, "_ROWS", rows)
    assert all_of_it() == whole


@pytest.mark.parametrize("targets", [None, [f"t{i}" for i in range(40)]])
def test_memory_of_labels_is_four_bytes_each(write, monkeypatch, targets):
    """And the SMILES, whatever else is in the table."""
    rows, columns = 3000, 40
    cells = ",".join(f"{{0}}.{i}25" for i in range(columns)) + f",{'x' * 200}"
    header = ",".join(["smiles", *(f"t{i}" for i in range(columns)), "note"])
    path = write(header + "\n" + "".join(f"C,{cells.format(i)}\n" for i in range(rows)))

    def stop(*_):
        raise DataError("labels are read")

    def peak() -> int:
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match="labels are read"):
                _load(path, targets=targets)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    monkeypatch.setattr(encoded_rows, "cached_store", stop)
    monkeypatch.setattr(tables, "_ROWS", 100)
    peak()  # modules are loaded
    assert peak() < 2 * 4 * rows * columns + 1_500_000


def test_a_word_that_names_no_split_is_found_on_its_line(write):
    """Also behind cells with line breaks."""
    rows = _twenty(float, lambda i: '"a\nb"', lambda i: ("train", "val", "test", "tst")[i % 4])
    with pytest.raises(DataError, match="my.csv, line 8, column 'split': 'tst' names no split. 5 "):
        _load(write(_csv(rows, "smiles,y,note,split")), targets=["y"], splits_column="split")
