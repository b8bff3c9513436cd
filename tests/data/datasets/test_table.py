"""A table of one's own: molecules with labels and weights in its order, and what is refused."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from support import of_targets

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.errors import ConfigError, DataError
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


@pytest.mark.parametrize(
    ("words", "settings", "mentioned"),
    [
        (("Train", "test", "valid", ""), {}, True),
        (("Train", "test", "valid", ""), {"splits_column": "part"}, False),
        (("Train", "test", "valid", ""), {"targets_except": ["part"]}, False),
        (("Train", "test", "valid", "control"), {}, False),
    ],
)
def test_a_column_that_could_name_the_split_is_mentioned(write, words, settings, mentioned):
    path = write(_csv(_twenty(lambda i: i, lambda i: words[i % 4]), "smiles,y,part"))
    found = _load(path, targets=["y"], **settings).warnings
    assert any("--splits-column part" in each for each in found) == mentioned


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


@pytest.mark.parametrize(
    ("name", "make", "place"), [(name, *entry) for name, entry in FORMATS.items()]
)
def test_every_format_gives_the_same(tmp_path, name, make, place):
    """A row that is refused is called as in the programs of the format."""
    make(tmp_path / name)
    with pytest.raises(DataError, match=f"{name}, {place}: .*'Si' is not among ZINC's"):
        _load(tmp_path / name, targets=["logS"], on_invalid="fail")
    columns = {"weight_column": "w", "splits_column": "split"}
    dataset = _load(tmp_path / name, targets=["odour", "logS", "active"], **columns)
    assert dataset.name == name
    assert of_targets(dataset, "kind") == ("binary", "regression", "binary")
    assert of_targets(dataset, "classes") == (("mild", "quite strong"), (), ())
    assert list(dataset.smiles) == [row["smiles"] for row in MIXED]
    assert [entry.row for entry in dataset.rejected] == [4]
    kept = [i for i in range(25) if i != 4]
    assert dataset.store.rows.tolist() == kept
    assert _known(dataset.labels) == [
        [(None, 0, 1)[i % 3], MIXED[i]["logS"], MIXED[i]["active"]] if i else [None] * 3
        for i in kept  # the first has the weight 0
    ]
    assert dataset.weights.tolist() == [1 if i == 8 else i for i in kept]
    assert (dataset.weights.dtype, dataset.store.featurizer) == (np.float32, "zinc")
    named = {
        split: dataset.store.rows[indices].tolist() for split, indices in dataset.splits.items()
    }
    assert named == {
        split: [i for i in kept if MIXED[i]["split"] == word]
        for split, word in (("train", "train"), ("val", "Valid"), ("test", "test"))
    }
    guessed = _load(tmp_path / name, **columns, targets=["logS", "active"])
    assert guessed.target_names == ("logS", "active")


def test_line_numbers_are_those_an_editor_shows(write):
    """Blank lines count, and are rows that cannot be read."""
    text = "smiles,y\n\n\n" + "\n".join(f"{text},{i}" for i, text in enumerate(ALKANES))
    with pytest.raises(DataError, match="line 24, column 'y'"):
        _load(write(text + "\nCCO,x\n"), targets=["y"])
    assert _load(write(text)).store.rows.tolist() == list(range(2, 22))


# Errors


@pytest.mark.parametrize("cached", [False, True])
def test_on_invalid_fail_stops_at_the_first(write, cached):
    """Also where the table was loaded before, with such rows left out."""
    rows = _twenty(lambda i: i + (1000 if cached else 0))
    rows[3], rows[8] = ("C1CC", 1), ("nonsense", 2)
    path = write(_csv(rows))
    if cached:
        _load(path)
    with pytest.raises(DataError, match="my.csv, line 5: RDKit cannot read 'C1CC': unclosed ring"):
        _load(path, on_invalid="fail")


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("smiles,y\n", {}, "my.csv has no molecules"),
        (_csv(_twenty(int), "smles,y"), {}, "no column 'smiles'. Did you mean 'smles'"),
        (_csv([("C1CC", 1), ("x", 2)]), {"split": None}, "no molecule that can be read"),
        (b"\x89PNG\r\n\x1a\n", {}, "my.csv cannot be decoded"),
        (_csv(_twenty(int)), {"weight_column": "w"}, "no column 'w'"),
        (_csv(_twenty(int, int), "smiles,y,z"), {"splits_column": "z"}, "'z': '0' names no split"),
    ],
)
def test_a_file_that_cannot_be_used(write, text, settings, message):
    with pytest.raises((ConfigError, DataError), match=message):
        _load(write(text), **settings)


def test_a_constant_target_cannot_be_trained_on(write, tmp_path):
    config = load_config(write(_csv(_twenty(lambda i: 3))), overrides={"model.layers": 1})
    with pytest.raises(DataError, match="'y' is constant .*: all 16 labels are 3"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# The cache


def test_the_second_load_comes_from_the_cache(write, monkeypatch):
    """Rejected rows and reasons included; nothing is featurised again."""
    rows = _twenty(lambda i: i * 1.25, lambda i: i)
    rows[4] = ("C1CC", 1.0, 4)
    path = write(_csv(rows, "smiles,y,w"))
    first = _load(path, targets=["y"], weight_column="w")
    monkeypatch.setattr(type(get("zinc")), "__call__", None)
    second = _load(path, targets=["y"], weight_column="w")
    assert second.rejected == first.rejected
    assert len(second.rejected) == 1
    np.testing.assert_array_equal(second.labels, first.labels)
    assert second.weights.tolist() == first.weights.tolist() == [*range(4), *range(5, 20)]
    for name, part in first.splits.items():
        np.testing.assert_array_equal(second.splits[name], part)
    # weights and splits are not in the store
    unweighted = _load(path, targets=["y"], targets_except=["w"], split_seed=3)
    assert unweighted.weights is None
    assert unweighted.store.digest == first.store.digest
    assert unweighted.digest != first.digest


def test_another_version_of_rdkit_has_its_own_store(write, tmp_path, monkeypatch):
    """So has a file of the same content in another format: one line of it is a comment in a .smi
    file, and a row in a .tsv."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path / "cache"))
    text = "smiles\ty\n# sorted\n" + "".join(f"{text}\t{i}\n" for i, text in enumerate(ALKANES))
    first, second = _load(write(text, "my.smi")), _load(write(text, "my.tsv"))
    assert (len(first.rejected), len(second.rejected)) == (0, 1)
    monkeypatch.setattr(descriptors, "RDKIT_VERSION", "another")
    other = _load(tmp_path / "my.smi")
    assert len({each.store.path for each in (first, second, other)}) == 3
    assert first.digest == other.digest  # so that a run can be resumed


def test_the_reasons_of_rows_without_a_smiles_are_those_of_the_file(write):
    """The SMILES of both files are the same."""
    good = "".join(f"{Chem.MolToMolBlock(Chem.MolFromSmiles(text))}$$$$\n" for text in ALKANES)
    none = "\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n"
    huge = "\n\n\n  0  0  0     0  0            999 V3000\nM  V30 COUNTS 5000 0 0 0 0\nM  END\n"
    for last, reason in ((none, "empty SMILES"), (huge, "5,000 atoms in the structure")):
        config = DataConfig(table=write(f"{good}{last}$$$$\n", "a.sdf"), targets=["y"])
        assert load(config, OGB, labelled=False).rejected[0].reason.startswith(reason)


def test_the_cache_knows_what_it_holds(write):
    """A changed file or another choice of columns, features or classes is loaded anew."""
    path = write(_csv(_twenty(lambda i: i, lambda i: -i, lambda i: "N" * (i + 1)), "smiles,a,b,s"))
    assert _load(path, targets=["a"]).labels[3, 0] == 3
    assert _load(path, targets=["b"]).labels[3, 0] == -3
    classes = {"a": [str(i) for i in range(19, -1, -1)]}
    assert _load(path, targets=["a"], classes=classes).labels[3, 0] == 16
    atoms = _load(path, targets=["a"], smiles_column="s").store.atoms
    assert set(atoms[:, 0]) == {2}
    dataset = load(DataConfig(table=path, targets=["a"], featurizer="ogb"), OGB)
    assert dataset.store.atoms.shape[1] == len(get("ogb").atom_sizes)
    write(_csv(_twenty(lambda i: i + 1, lambda i: -i), "smiles,a,b"))
    assert _load(path, targets=["a"]).labels[0, 0] == 1


# Columns of one name


@pytest.mark.parametrize(
    ("header", "settings", "name"),
    [
        ("smiles,z,z,w,split", {"targets": ["z"]}, "z"),
        ("smiles,y,z,z,split", {"targets": ["y"], "weight_column": "z"}, "z"),
        ("y,smiles,smiles,w,split", {"targets": ["y"]}, "smiles"),
    ],
)
def test_a_column_that_is_needed_and_there_twice(write, header, settings, name):
    """It is no hindrance where it is not needed."""
    rows = _twenty(float, float, float, lambda i: ("train", "val", "test")[i % 3])
    with pytest.raises(ConfigError, match=f"my.csv has 2 columns called '{name}'"):
        _load(write(_csv(rows, header)), **settings)
    path = write(_csv(rows, "smiles,y,z,z,split"))
    assert _load(path, targets=["y"]).target_names == ("y",)


# Streams


def _pipe(text: str) -> Path:
    """Such as a shell's <(…) makes; it stays open, as the shell's does."""
    read, end = os.pipe()
    os.write(end, text.encode())
    os.close(end)
    return Path(f"/dev/fd/{read}")


def test_a_table_from_a_pipe_has_its_own_labels(write):
    """Not those of another one with the same columns, and none when it is empty. Its store is that
    of the same file, and its rejected rows keep their lines."""
    texts = [_csv([*_twenty(lambda i, sign=sign: sign * i / 4), ("C1CC", 1)]) for sign in (1, -1)]
    one, other = map(_pipe, texts)
    dataset = _load(one)
    assert dataset.name == str(one)
    assert dataset.labels[:, 0].tolist() == [i / 4 for i in range(20)]
    assert _left_out(dataset)[1][:3] == ["22", "C1CC", "1"]
    assert dataset.store.path == _load(write(texts[0])).store.path
    dataset = _load(other)
    assert dataset.labels[:, 0].tolist() == [-i / 4 for i in range(20)]
    with pytest.raises(DataError, match=f"^{other} is empty"):
        _load(other)
