"""A CSV of one's own: which columns are targets, which rows are molecules, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.datasets import DataConfig, load
from molsepnorm.datasets import table as tables
from molsepnorm.datasets.table import random_split
from molsepnorm.encodings import EncodingSpec
from molsepnorm.errors import ConfigError, DataError, StorageError
from molsepnorm.featurize import get
from molsepnorm.training import load_config, train

ZINC = EncodingSpec(bond_sizes=(3,), max_path_length=3)
ALKANES = ["C" * length for length in range(1, 21)]
NAN = float("nan")


@pytest.fixture
def write(tmp_path):
    """`write(text)` makes my.csv of it."""

    def make(text: str | bytes):
        path = tmp_path / "my.csv"
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


def test_a_table_becomes_molecules_with_labels_in_its_order(write):
    dataset = _load(write(_csv(_twenty(lambda i: i / 4))))
    assert dataset.name == "my.csv"
    assert dataset.targets == ("y",)
    assert dataset.kinds == ("regression",)
    assert dataset.store.sizes.tolist() == list(range(1, 21))
    assert dataset.store.rows.tolist() == list(range(20))
    assert dataset.store.labels[:, 0].tolist() == [i / 4 for i in range(20)]
    assert dataset.store.featurizer == "zinc"
    assert list(dataset.smiles) == ALKANES
    assert dataset.rejected == ()


def test_named_targets_come_in_the_order_named(write):
    """Other columns are left alone, be they numbers or not."""
    path = write(_csv(_twenty(float, lambda i: "x", lambda i: -i), "smiles,a,b,c"))
    dataset = _load(path, targets=["c", "a"])
    assert dataset.targets == ("c", "a")
    assert dataset.store.labels[3].tolist() == [-3.0, 3.0]


def test_without_names_every_numeric_column_is_a_target(write):
    """Blanks and yes/no are numbers too; a column of texts or of blanks alone is not."""
    path = write(
        _csv(
            _twenty(
                lambda i: f"mol{i}",
                lambda i: i if i % 3 else "",
                lambda i: "yes" if i % 2 else "no",
                lambda i: "",
                lambda i: f" {i}e-3 ",
            ),
            "smiles,name,a,active,empty,b",
        )
    )
    dataset = _load(path)
    assert dataset.targets == ("a", "active", "b")
    assert dataset.kinds == ("regression", "binary", "regression")
    np.testing.assert_allclose(dataset.store.labels[4], [4, 0, 0.004])
    np.testing.assert_allclose(dataset.store.labels[3], [NAN, 1, 0.003], rtol=1e-6)


@pytest.mark.parametrize("yes", ["1", "1.0", "yes", "YES", "True", "true", " Yes "])
@pytest.mark.parametrize("no", ["0", "no", "FALSE"])
def test_yes_and_no_in_every_spelling(write, yes, no):
    dataset = _load(write(_csv(_twenty(lambda i: yes if i % 2 else no))))
    assert dataset.kinds == ("binary",)
    assert dataset.store.labels[:, 0].tolist() == [0.0, 1.0] * 10


@pytest.mark.parametrize("blank", ["", " ", "nan", "NaN", "NA", "n/a", "None", "null", '""'])
def test_blanks_in_every_spelling(write, blank):
    dataset = _load(write(_csv(_twenty(lambda i: i if i != 7 else blank))))
    assert np.isnan(dataset.store.labels[:, 0]).tolist() == [i == 7 for i in range(20)]
    assert dataset.kinds == ("regression",)


def test_zeros_and_ones_with_anything_else_are_numbers(write):
    dataset = _load(write(_csv(_twenty(lambda i: i % 3, lambda i: i % 2), "smiles,a,b")))
    assert dataset.kinds == ("regression", "binary")


def test_rows_that_cannot_be_read_are_left_out_with_their_reason(write):
    """The others keep their order, their labels and their place in the file."""
    rows = _twenty(float)
    rows[2] = ("C1CC", 2.0)
    rows[5] = ("", 5.0)
    rows[9] = ("C[Si](C)(C)C", 9.0)
    dataset = _load(write(_csv(rows)))
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
    assert dataset.store.labels[:, 0].tolist() == kept
    assert sorted(np.concatenate(list(dataset.splits.values())).tolist()) == list(range(17))


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
        match="my.csv, line 5: RDKit cannot read 'C1CC': unclosed ring. Mend the row, or use "
        "--on-invalid skip to leave such rows out",
    ):
        _load(path, on_invalid="fail")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", DataError, "my.csv is empty: a header line and a row per molecule are expected"),
        ("\n\n", DataError, "my.csv is empty"),
        ("smiles,y\n", DataError, "my.csv has a header but no rows"),
        (_csv(_twenty(int), "SMILES,y"), ConfigError, "my.csv has no column 'smiles'.*SMILES"),
        (_csv(_twenty(int), "smile,y"), ConfigError, r"no column 'smiles'. Did you mean 'smile'\?"),
        (_csv([("C1CC", 1), ("x", 2)]), DataError, "my.csv has 0 readable molecules: too few"),
        (_csv([("C", 1), ("CC", 2)]), DataError, "2 readable .* too few for a split into 0.8 / 0"),
        (_csv(_twenty(lambda i: "x")), ConfigError, "no column of numbers.*Columns: smiles, y"),
        ('smiles,y\n"CCO,1\n', DataError, "my.csv cannot be read as CSV"),
        ("smiles,y\nC,1\nCC,2,3,4\n", DataError, "my.csv cannot be read as CSV: .*line 3"),
        (b"smiles,y\xe9\nC,1\n", DataError, "my.csv cannot be read as CSV: .*utf-8"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00", DataError, "my.csv cannot be read as CSV"),
    ],
)
def test_a_file_that_cannot_be_used(write, text, error, message):
    with pytest.raises(error, match=message):
        _load(write(text))


def test_another_spelling_of_the_smiles_column_is_pointed_at(write):
    """The commonest slip of all: the column is there in capitals."""
    with pytest.raises(ConfigError, match=r"Did you mean 'SMILES'\?"):
        _load(write(_csv(_twenty(int), "SMILES,y")))


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(StorageError, match="cannot read .*none.csv: there is no such file"):
        _load(tmp_path / "none.csv")


def test_a_missing_target_names_the_nearest(write):
    with pytest.raises(ConfigError, match=r"no column 'logs'. Did you mean 'logS'\? Known: logS"):
        _load(write(_csv(_twenty(int), "smiles,logS")), targets=["logs"])


@pytest.mark.parametrize("bad", ["high", ">5", "1,5", "inf", "-inf", "1e999", "5 mM"])
def test_a_label_that_is_no_number_is_shown_with_its_place(write, bad):
    rows = _twenty(float)
    rows[4] = ("CCO", f'"{bad}"')
    rows[6] = ("CCO", f'"{bad}"')
    with pytest.raises(DataError) as caught:
        _load(write(_csv(rows)), targets=["y"])
    assert f"my.csv, line 6, column 'y': '{bad}' is not a number. 2 such cell(s)" in str(
        caught.value
    )


def test_a_line_number_is_the_one_an_editor_shows(write):
    """Blank lines count."""
    text = "smiles,y\n\n\n" + "\n".join(f"{text},{i}" for i, text in enumerate(ALKANES))
    with pytest.raises(DataError, match="line 24, column 'y'"):
        _load(write(text + "\nCCO,x\n"), targets=["y"])


def test_a_row_that_is_too_short_has_blanks(write):
    """As a spreadsheet would read it."""
    text = _csv(_twenty(float)).replace("CCC,2.0\n", "CCC\n")
    dataset = _load(write(text), targets=["y"])
    assert np.isnan(dataset.store.labels[2, 0])
    assert len(dataset.store) == 20


def test_commas_at_the_ends_of_lines_shift_no_column(write):
    """Some programs write them; the SMILES must not become the rows' names."""
    text = _csv([(*row, "") for row in _twenty(float)])
    assert text.splitlines()[1] == "C,0.0,"
    path = write(text)
    try:
        dataset = _load(path)
    except DataError as error:
        assert "cannot be read as CSV" in str(error)
    else:
        assert list(dataset.smiles) == ALKANES
        assert dataset.store.labels[:, 0].tolist() == list(range(20))


def test_bom_crlf_quotes_and_line_breaks_in_cells(write):
    """What Excel writes."""
    rows = [f'"{text}",{i},"a ""note"",\r\nin two lines"' for i, text in enumerate(ALKANES)]
    path = write("\ufeff" + "\r\n".join(['"smiles",y,note', *rows]) + "\r\n")
    dataset = _load(path, targets=["y"])
    assert list(dataset.smiles) == ALKANES
    assert dataset.store.labels[:, 0].tolist() == list(range(20))


def test_the_second_load_comes_from_the_cache(write, monkeypatch):
    """Rejected rows and reasons included; nothing is featurised again."""
    rows = _twenty(lambda i: i * 1.25)
    rows[4] = ("C1CC", 1.0)
    path = write(_csv(rows))
    first = _load(path)

    def refuse(*_):
        raise AssertionError("featurised again")

    monkeypatch.setattr(type(get("zinc")), "__call__", refuse)
    second = _load(path)
    assert second.rejected == first.rejected
    assert len(second.rejected) == 1
    assert second.store.labels.tolist() == first.store.labels.tolist()
    assert {k: v.tolist() for k, v in second.splits.items()} == {
        k: v.tolist() for k, v in first.splits.items()
    }


@pytest.mark.parametrize("change", ["content", "targets", "smiles_column", "featurizer"])
def test_the_cache_knows_what_it_holds(write, change):
    """A changed file or another choice of columns is loaded anew."""
    path = write(_csv(_twenty(lambda i: i, lambda i: -i, lambda i: "N" * (i + 1)), "smiles,a,b,s"))
    _load(path, targets=["a"])
    if change == "content":
        write(_csv(_twenty(lambda i: i + 1, lambda i: -i), "smiles,a,b"))
        assert _load(path, targets=["a"]).store.labels[0, 0] == 1
    elif change == "targets":
        assert _load(path, targets=["b"]).store.labels[3, 0] == -3
    elif change == "smiles_column":
        atoms = _load(path, targets=["a"], smiles_column="s").store.atoms
        assert set(atoms[:, 0]) == {2}
    else:
        ogb = get("ogb")
        encoding = EncodingSpec(bond_sizes=ogb.bond_sizes, max_path_length=3)
        dataset = load(DataConfig(table=path, targets=["a"], featurizer="ogb"), encoding)
        assert dataset.store.atoms.shape[1] == len(ogb.atom_sizes)


def test_a_damaged_cache_is_made_anew(write, cache):
    path = write(_csv(_twenty(lambda i: i * 3.5)))
    before = set(cache.glob("*.store"))
    _load(path)
    (made,) = set(cache.glob("*.store")) - before
    made.write_bytes(made.read_bytes()[:-7])
    assert _load(path).store.labels[2, 0] == 7.0


@pytest.mark.parametrize(
    ("num_graphs", "shares", "sizes"),
    [
        (100, (0.8, 0.1, 0.1), (80, 10, 10)),
        (1000, (0.5, 0.25, 0.25), (500, 250, 250)),
        (10, (0.8, 0.1, 0.1), (8, 1, 1)),
        (4, (0.5, 0.25, 0.25), (2, 1, 1)),
    ],
)
def test_a_split_has_the_shares_asked_for(num_graphs, shares, sizes):
    """Every molecule is in exactly one part, in the order of the file."""
    parts = random_split(num_graphs, shares, 0, "my.csv")
    assert tuple(parts) == ("train", "val", "test")
    assert tuple(len(part) for part in parts.values()) == sizes
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(num_graphs))
    assert all((np.diff(part) > 0).all() for part in parts.values())


def test_a_split_is_the_same_for_the_same_seed_only():
    one, again, other = (random_split(200, (0.8, 0.1, 0.1), seed, "x") for seed in (1, 1, 2))
    assert all((one[name] == again[name]).all() for name in one)
    assert any((one[name] != other[name]).any() for name in one)
    assert not (one["test"] == np.arange(180, 200)).all()


@pytest.mark.parametrize(
    ("num_graphs", "shares"), [(0, (0.8, 0.1, 0.1)), (4, (0.8, 0.1, 0.1)), (3, (0.4, 0.3, 0.3))]
)
def test_too_few_for_a_split(num_graphs, shares):
    with pytest.raises(DataError, match=f"my.csv has {num_graphs} readable molecules: too few"):
        random_split(num_graphs, shares, 0, "my.csv")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (lambda i: 3, "target 'y' is constant among the training molecules: all 16 labels are 3"),
        (lambda i: "yes", "target 'y' is constant among the training molecules: all 16 labels"),
        (lambda i: 1 if i == 2 else "", "target 'y' (is constant|has no label)"),
    ],
)
def test_a_constant_target_cannot_be_trained_on(write, tmp_path, column, message):
    config = load_config(write(_csv(_twenty(column))), overrides={"model.layers": 1})
    with pytest.raises(DataError, match=message):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_number_too_large_for_single_precision_is_refused(write):
    """It would become infinite without a word."""
    rows = _twenty(float)
    rows[1] = ("CC", "1e300")
    with pytest.raises(DataError, match="line 3, column 'y'"):
        _load(write(_csv(rows)), targets=["y"])


def test_a_target_named_twice_is_refused(write):
    """Its two predictions would overwrite each other."""
    with pytest.raises(ConfigError, match="y"):
        _load(write(_csv(_twenty(float))), targets=["y", "y"])


def test_memory_does_not_hold_all_graphs(write, monkeypatch):
    """Molecules go to the store as they are read."""
    seen, written = [], []
    plain = tables.cached_store

    def spy(key, featurizer, encoding, targets, molecules, notes):
        def watch():
            for molecule in molecules:
                seen.append(molecule.row)
                written.append(len(seen))
                yield molecule

        return plain(key, featurizer, encoding, targets, watch(), notes)

    monkeypatch.setattr(tables, "cached_store", spy)
    _load(write(_csv(_twenty(lambda i: i * 0.75))))
    assert written == list(range(1, 21))


def test_a_table_without_any_molecule_is_refused_also_without_a_split(write):
    """Where a model is scored on all molecules of a table there must be one."""
    with pytest.raises(DataError, match="has no molecule that can be read: .*unclosed ring"):
        _load(write("smiles,y\nC1CC,1\nC1CCC,2\n"), split=None)
