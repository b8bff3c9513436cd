"""Predictions from SMILES: rows keep their order, and all SMILES of a molecule agree."""

from __future__ import annotations

import csv
import io
import multiprocessing
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem

import molsepnorm.predict.predictor as module
from molsepnorm.data.tables import read_chunks
from molsepnorm.errors import ConfigError, DataError, DataWarning
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import NetworkPart
from molsepnorm.molecules.featurize import get
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.predict import Prediction, Predictor, TableRows, predict_rows
from molsepnorm.tasks import ExtraInputs, FeatureColumn, Target, Task
from support import SMALL, far_from_initial, tiny_model

DRUGS = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "C[C@H](N)C(=O)O",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C[NH2+]Cc1ccccc1",
    "FC(F)(F)c1ccc(Cl)cc1",
    "N#CC1CC1",
    "C",
]


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    """Random weights with a wide spread, so that different molecules differ; two targets."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        task = Task((Target("y", "regression", 2.0, 3.0), Target("z", "binary")), "loss")
        config = GraphormerConfig(
            layers=2, width=16, ffn_width=16, heads=2, max_path_length=3, outputs=2
        )
        network = Graphormer(config)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    return Predictor(PropertyModel.of(network, "zinc", task))


def _table(
    predictor, text: str, rows=8192, on_invalid="keep", **options
) -> tuple[list[dict[str, str]], str, tuple[int, int]]:
    out = io.StringIO()
    chunks = read_chunks(io.StringIO(text), "my.csv", rows=rows)
    table = TableRows(chunks, "smiles", "my.csv", on_invalid)
    counts = predict_rows(predictor, table, out, **options)
    return list(csv.DictReader(io.StringIO(out.getvalue()))), out.getvalue(), counts


def test_an_invalid_row_is_kept_with_the_reason(predictor):
    texts = ["C1CC", DRUGS[0], "", DRUGS[1], "C[Si](C)(C)C", DRUGS[2], "CCO ethanol"]
    predictions = predictor.predict(texts)
    assert [prediction.smiles for prediction in predictions] == texts
    failed = [prediction.values is None for prediction in predictions]
    assert failed == [True, False, True, False, True, False, True]
    assert "unclosed ring" in predictions[0].error
    assert predictions[2].error == "empty SMILES"
    assert "'Si' is not among ZINC's" in predictions[4].error
    assert "whitespace" in predictions[6].error
    clean = predictor.predict([DRUGS[0], DRUGS[1], DRUGS[2]])
    for got, wanted in zip(predictions[1::2], clean, strict=True):
        assert got.error is None
        assert got.values == pytest.approx(wanted.values, rel=1e-4, abs=1e-5)


def test_a_stream_is_read_piece_by_piece(predictor, monkeypatch):
    """No more SMILES are read than the current task needs."""
    monkeypatch.setattr(module, "_TASK", 3)
    taken = []

    def source():
        for text in DRUGS:
            taken.append(text)
            yield text

    stream = predictor.stream(source())
    assert taken == []
    assert next(stream).smiles == DRUGS[0]
    assert len(taken) == 3
    rest = list(stream)
    assert [prediction.smiles for prediction in rest] == DRUGS[1:]
    assert len(taken) == len(DRUGS)


TABLE = (
    'id,"a, b",smiles,note\n'
    '007,"x ""y""",CCO,\n'
    '1e5,,C1CC,"two\nlines"\n'
    "NA,3.10,c1ccccc1, spaces \n"
    ",,,\n"
)


def test_a_table_keeps_its_rows_columns_and_cells(predictor):
    """Cells are copied as text, and the predictions follow them."""
    rows, text, counts = _table(predictor, TABLE)
    before = list(csv.DictReader(io.StringIO(TABLE)))
    assert text.splitlines()[0] == 'id,"a, b",smiles,note,y_pred,z_pred,error'
    assert [{key: row[key] for key in before[0]} for row in rows] == before
    assert counts == (4, 2)
    assert [bool(row["y_pred"]) for row in rows] == [True, False, True, False]
    assert [bool(row["z_pred"]) for row in rows] == [True, False, True, False]
    assert [bool(row["error"]) for row in rows] == [False, True, False, True]


def test_a_model_reads_the_output_of_another_one(predictor):
    """Its columns are replaced, wherever they are; all others stay."""
    first, text, counts = _table(predictor, TABLE)
    given, old = csv.DictReader(io.StringIO(TABLE)), io.StringIO()
    writer = csv.DictWriter(old, ["y_pred", "error", *given.fieldnames], restval="old")
    writer.writeheader()
    writer.writerows(given)
    for table in (text, old.getvalue()):
        again, _, its_counts = _table(predictor, table, overwrite=True)
        assert (again, its_counts) == (first, counts)
        assert list(again[0]) == list(first[0])


@pytest.mark.parametrize("name", ["y_pred", "c_prob_dark, blue", "error"])
def test_a_column_that_would_be_replaced_is_refused(classifier, name):
    with pytest.raises(ConfigError, match=f"my.csv has a column '{name}' already, which a new"):
        _table(classifier, f'smiles,"{name}"\nCCO,1\n')
    assert _table(classifier, "smiles,c,red,c_prob\nCCO,1,2,3\n")[2] == (1, 0)
    table = TableRows([pd.DataFrame({"y_pred": ["1"], "error": ["CCO"]})], "error", "my.csv")
    with pytest.raises(ConfigError, match="my.csv has a column 'error' already"):
        predict_rows(classifier, table, io.StringIO(), overwrite=True)


def test_on_invalid_fail_stops_with_row_and_reason(predictor):
    """Rows are counted over all chunks."""
    with pytest.raises(
        DataError, match="my.csv, (row 2|line 3): RDKit cannot read 'C1CC': unclose"
    ):
        _table(predictor, TABLE, on_invalid="fail")
    text = "smiles\n" + "CC\n" * 5 + "C1CC\n"
    with pytest.raises(DataError, match="my.csv, (row 6|line 7): "):
        _table(predictor, text, on_invalid="fail", rows=2)


# --- classes --------------------------------------------------------------------------------------

CLASSES = ("red", "dark, blue", "[green]")


@pytest.fixture(scope="module")
def classifier(predictor) -> Predictor:
    """Regression, three classes and a binary target, from five outputs."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        targets = (
            Target("y", "regression", 2.0, 3.0),
            Target("c", "multiclass", classes=CLASSES),
            Target("z", "binary"),
        )
        network = Graphormer(replace(predictor.model.network.config, outputs=5))
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        torch.nn.init.zeros_(network.head.bias)
    return Predictor(PropertyModel.of(network, "zinc", Task(targets, "loss")))


def test_a_class_is_predicted_by_its_name_with_the_probability_of_each(classifier):
    """It is the most probable one; probabilities are the softmax of the outputs."""
    predictions = classifier.predict(DRUGS)
    columns = classifier.predict_graphs([get("zinc")(text) for text in DRUGS])
    assert columns.shape == (len(DRUGS), 5)
    assert len({prediction.values["c"] for prediction in predictions}) > 1
    for prediction, row in zip(predictions, columns, strict=True):
        assert list(prediction.values) == ["y", "c", "z"]
        assert list(prediction.probabilities) == ["c"]
        shares = prediction.probabilities["c"]
        assert tuple(shares) == CLASSES
        assert list(shares.values()) == row[1:4].tolist()
        assert sum(shares.values()) == pytest.approx(1, rel=1e-5)
        assert prediction.values["c"] == max(shares, key=shares.get)
        assert (prediction.values["y"], prediction.values["z"]) == (row[0], row[4])
        assert 0 < prediction.values["z"] < 1


# --- several processes ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> list[str]:
    """A thousand SMILES of all sizes, some of them invalid."""
    molecules = [
        f"{'C' * length}{end}" for length in range(1, 30) for end in ("O", "N", "c1ccccc1")
    ]
    rows = (molecules * 12)[:1000]
    rows[3], rows[500], rows[999] = "", "C1CC", "x"
    return rows


def _with(predictor: Predictor, processes: int) -> Predictor:
    return Predictor(predictor.model, processes=processes)


def _agree(got: list[Prediction], wanted: list[Prediction]) -> None:
    for one, other in zip(got, wanted, strict=True):
        assert (one.smiles, one.error) == (other.smiles, other.error)
        assert one.values == (other.values and pytest.approx(other.values, rel=1e-4, abs=1e-5))


@pytest.mark.claim(
    "Any number of processes and any division of a table gives the same rows in the same "
    "order, with equal values up to rounding. An error or the death of a worker is reported, "
    "and no worker remains."
)
@pytest.mark.parametrize(("processes", "run_here"), [(3, False), (2, True)])
def test_any_number_of_processes_gives_the_same(predictor, many, processes, run_here):
    """Rows keep their order, and values differ by rounding alone; also where the main process runs
    the network while workers encode, as with a GPU."""
    several = _with(predictor, processes)
    several._run_here = run_here
    _agree(several.predict(many), predictor.predict(many))


def test_few_rows_start_no_process_and_many_do(predictor, many):
    """They have ended when the stream ends, or is closed early."""
    for count, started in ((1, 0), (255, 0), (256, 2), (1000, 2)):
        stream = _with(predictor, 2).stream(many[:count])
        assert multiprocessing.active_children() == []
        next(stream)
        assert len(multiprocessing.active_children()) == started
        stream.close()
        assert multiprocessing.active_children() == []
    stream = _with(predictor, 8).stream(many[:400])
    next(stream)
    assert len(multiprocessing.active_children()) == 3  # enough rows for so many
    assert len(list(stream)) == 399
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("rows", [100, 8192])
def test_pieces_of_a_table_are_put_together_from_any_tasks(predictor, many, monkeypatch, rows):
    """The sizes of chunks, tasks and shares are independent."""
    monkeypatch.setattr(module, "_TASK", 150)
    text = "n,smiles\n" + "".join(f"{n},{smiles}\n" for n, smiles in enumerate(many))
    table, written, counts = _table(_with(predictor, 2), text, rows=rows)
    assert counts == (1000, 3)
    assert written.count("y_pred") == 1
    assert [row["n"] for row in table] == [str(n) for n in range(1000)]
    for row, prediction in zip(table, predictor.predict(many), strict=True):
        assert (row["smiles"], row["error"]) == (prediction.smiles, prediction.error or "")
        if prediction.values:
            assert float(row["z_pred"]) == pytest.approx(prediction.values["z"], rel=1e-4, abs=1e-5)


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "digits"), [(300.0, 6), (1e5, 8), (-3e8, 9)])
def test_values_that_differ_little_for_their_size_have_more_digits(predictor, mean, digits):
    """Which show a thousandth of their standard deviation, as far as single precision goes."""
    targets = (Target("T_mK", "regression", mean=mean), predictor.model.task.targets[1])
    model = replace(predictor.model, task=Task(targets, "loss"))
    assert targets[0].digits == digits
    out = io.StringIO()
    table = TableRows([pd.DataFrame({"smiles": ["CCO"]})], "smiles", "rows")
    predict_rows(Predictor(model), table, out)
    cell = out.getvalue().splitlines()[1].split(",")[1]
    value = Predictor(model).predict(["CCO"])[0].values["T_mK"]
    assert cell == f"{value:.{digits}g}"


@pytest.mark.parametrize("call", ["stream", "embed", "to_frame"])
def test_a_single_smiles_is_not_read_as_a_list_of_characters(predictor, call):
    """The error comes with the call, not with the first prediction."""
    for smiles in ("CCO", b"CCO", {"ethanol": "CCO"}, {"CCO"}):
        with pytest.raises(ConfigError, match="^smiles (must be a list, and )?is "):
            getattr(predictor, call)(smiles)


def _damaged(output: int, value: float, precision: str = "fp32") -> Predictor:
    """Return a predictor of three targets, with this bias of one of five outputs."""
    targets = (
        Target("y", "regression", 1.0, 2.0),
        Target("b", "binary"),
        Target("c", "multiclass", classes=("p", "q", "r")),
    )
    model = tiny_model(*targets)
    with torch.no_grad():
        model.network.head.bias[output] = value
    return Predictor(model, "cpu", 1, precision=precision)


@pytest.mark.parametrize(
    ("output", "value", "name"),
    [
        (0, 3e38, "y"),  # finite until it is in the target's units
        (1, np.inf, "b"),  # its sigmoid is 1
        (3, -np.inf, "c"),  # the softmax of the others is finite
    ],
)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_prediction_that_is_not_finite_is_an_error_of_its_row(output, value, name, precision):
    """An invalid SMILES beside it keeps its own error."""
    predictor = _damaged(output, value, precision)
    texts = [DRUGS[0], "C1CC", DRUGS[1]]
    wanted = f"the prediction of {name} is not a finite number: the model's weights are damaged"
    for rows in (predictor.predict(texts), list(predictor.stream(texts))):
        assert [row.values for row in rows] == [None] * 3
        assert all(not row.probabilities for row in rows)
        assert rows[0].error.startswith(wanted)
        assert rows[2].error == rows[0].error
        assert "unclosed ring" in rows[1].error
        assert ("bf16 overflows" in rows[0].error) == (precision == "bf16")
    assert np.isnan(predictor.predict_graphs([get("zinc")(DRUGS[0])])).all()
    table = "smiles\n" + "\n".join(texts)
    rows, _, counts = _table(predictor, table)
    assert counts == (3, 3)
    assert all(not cell for row in rows for key, cell in row.items() if "_p" in key)
    assert rows[0]["error"].startswith(wanted)
    with pytest.raises(DataError, match=f"line 2: {wanted}"):
        _table(predictor, table, on_invalid="fail")


def test_columns_of_one_name_and_cells_with_carriage_returns_are_kept(predictor):
    """pandas and Python read the same rows."""
    text = 'note,smiles,note,note.1\n"first\rsecond",CCO, a ,"b\r\n"\nx,CCC,"q""q",\n'
    out = io.StringIO(newline="")
    chunks = read_chunks(io.StringIO(text, newline=""), "my.csv")
    predict_rows(predictor, TableRows(chunks, "smiles", "my.csv"), out)
    rows = list(csv.reader(io.StringIO(out.getvalue(), newline="")))
    assert rows[0][:4] == ["note", "smiles", "note", "note.1"]
    assert rows[1][:4] == ["first\rsecond", "CCO", " a ", "b\r\n"]
    assert rows[2][:4] == ["x", "CCC", 'q"q', ""]
    options = {"dtype": object, "na_filter": False, "header": None}
    table = pd.read_csv(io.StringIO(out.getvalue(), newline=""), **options)
    assert table.to_numpy().tolist() == rows


def test_rdkit_molecules_are_predicted_as_their_smiles(predictor):
    """A molecule that RDKit could not read is None, and fails by itself."""
    mols = [Chem.MolFromSmiles(text) for text in ("OCC", "C1CC", "c1ccccc1N")]
    found = predictor.predict(mols)
    assert [each.smiles for each in found] == ["CCO", None, "Nc1ccccc1"]
    expected = predictor.predict(["CCO", "Nc1ccccc1"])
    assert [found[0].values, found[2].values] == [each.values for each in expected]
    assert found[1].error == "not a text value: None"


@pytest.fixture(scope="module")
def with_ph(predictor) -> Predictor:
    """A model that also reads the column pH."""
    config = GraphormerConfig(**{**SMALL, "outputs": 2, "molecule_features": 1})
    inputs = ExtraInputs((FeatureColumn("pH"),))
    task = predictor.model.task
    return Predictor(PropertyModel.of(far_from_initial(config), "zinc", task, inputs=inputs))


def test_feature_columns_may_be_tensors_or_arrow_arrays(with_ph):
    arrow = pytest.importorskip("pyarrow")
    smiles = ["CCO", "CCO"]
    expected = with_ph.predict(smiles, {"pH": [7, 5]})
    assert expected[0].values != expected[1].values
    for cells in (torch.tensor([7, 5]), arrow.array([7, 5]), arrow.table({"pH": [7, 5]})["pH"]):
        assert with_ph.predict(smiles, {"pH": cells}) == expected


def test_numbers_outside_the_range_of_training_are_announced_once(with_ph):
    """Rows that fail for another reason do not count; the predictions are the same."""
    inputs = ExtraInputs((FeatureColumn("pH", low=5, high=7.5),))
    model = with_ph.model
    known = Predictor(model.with_parts([NetworkPart(model.network, inputs)], (1.0,)))
    smiles, cells = ["CCO", "C1CC", "CCN", "CCC"] * 1000, [7.7, 9, 8, 5] * 1000
    expected = with_ph.to_frame(smiles, {"pH": cells})
    message = "column 'pH' has numbers outside the range of the training rows, 5 to 7.5;"
    with pytest.warns(DataWarning, match=message) as caught:
        pd.testing.assert_frame_equal(known.to_frame(smiles, {"pH": cells}), expected)
    with pytest.warns(DataWarning, match=message):
        known.predict(["CCC"], {"pH": ["4.7"]})
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known.predict(["CCO", "C1CC"], {"pH": [6, 100]})


def test_rows_in_another_order_than_their_columns_are_refused(predictor):
    """Rows are matched by position, also those of pandas."""
    table = pd.DataFrame({"smiles": ["CCO", "CC", "C"], "pH": ["7", "5", "6"]}, index=[4, 7, 1])
    by_ph = table.sort_values("pH")
    with pytest.raises(ConfigError, match=r"use columns\.loc\[smiles\.index\]"):
        predictor.to_frame(table["smiles"], by_ph)
    for columns in (table, by_ph.reset_index()):
        with pytest.raises(ConfigError, match="the model has no feature columns"):
            predictor.to_frame(table["smiles"], columns)


def test_a_frame_has_the_index_of_a_series(predictor):
    """Values of shuffled rows stay with their molecule; other inputs are counted from 0."""
    table = pd.DataFrame({"smiles": [*DRUGS, "C1CC"]}).sample(frac=1, random_state=1)
    assert table.index[0] != 0
    found = predictor.to_frame(table["smiles"])
    table["p"] = found["y_pred"]
    wanted = predictor.to_frame(table["smiles"].tolist())
    assert [*found.index] == [*table.index] and [*wanted.index] == [*range(len(table))]
    np.testing.assert_array_equal(table["p"].astype(float), wanted["y_pred"].astype(float))
    pd.testing.assert_frame_equal(found.reset_index(drop=True), wanted)
