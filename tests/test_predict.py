"""From SMILES to predictions: every row in its place, every spelling the same."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from rdkit import Chem

import molsepnorm.predict as module
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.featurize import get
from molsepnorm.model import PropertyModel
from molsepnorm.nn.graphormer import Graphormer, GraphormerConfig
from molsepnorm.predict import Prediction, Predictor, predict_rows
from molsepnorm.tables import read_chunks
from molsepnorm.tasks import Target, Task

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
    return Predictor(PropertyModel(network, "zinc", task))


def _table(predictor, text: str, **options) -> tuple[list[dict[str, str]], str, tuple[int, int]]:
    out = io.StringIO()
    rows = options.pop("rows", 8192)
    chunks = read_chunks(io.StringIO(text), "my.csv", rows=rows)
    options = {"smiles_column": "smiles", "source": "my.csv", **options}
    counts = predict_rows(predictor, chunks, out, **options)
    return list(csv.DictReader(io.StringIO(out.getvalue()))), out.getvalue(), counts


def test_predictions_come_in_the_order_of_the_smiles(predictor):
    """Whatever their sizes, by which they are batched; each as when asked for alone."""
    together = predictor.predict(DRUGS)
    assert [prediction.smiles for prediction in together] == DRUGS
    for prediction in together:
        (alone,) = predictor.predict([prediction.smiles])
        assert prediction.values == pytest.approx(alone.values, rel=1e-4, abs=1e-5)
    assert len({prediction.values["y"] for prediction in together}) == len(DRUGS)


def test_values_are_in_the_targets_units(predictor):
    """A number in its own unit, and a probability; against the network's outputs."""
    graphs = [get("zinc")(text) for text in DRUGS]
    values = predictor.predict_graphs(graphs)
    assert values.shape == (len(DRUGS), 2)
    assert ((values[:, 1] > 0) & (values[:, 1] < 1)).all()
    predictions = predictor.predict(DRUGS)
    assert [p.values["y"] for p in predictions] == values[:, 0].tolist()
    assert [p.values["z"] for p in predictions] == values[:, 1].tolist()
    assert predictor.targets == ("y", "z")


def test_a_row_that_cannot_be_read_keeps_its_place_with_the_reason(predictor):
    """And costs the others nothing."""
    texts = ["C1CC", DRUGS[0], "", DRUGS[1], "C[Si](C)(C)C", DRUGS[2], "CCO ethanol"]
    predictions = predictor.predict(texts)
    assert [prediction.smiles for prediction in predictions] == texts
    assert [prediction.values is None for prediction in predictions] == [
        True,
        False,
        True,
        False,
        True,
        False,
        True,
    ]
    assert "unclosed ring" in predictions[0].error
    assert predictions[2].error == "empty SMILES"
    assert "'Si' is not among ZINC's" in predictions[4].error
    assert "whitespace" in predictions[6].error
    clean = predictor.predict([DRUGS[0], DRUGS[1], DRUGS[2]])
    for got, wanted in zip(predictions[1::2], clean, strict=True):
        assert got.error is None
        assert got.values == pytest.approx(wanted.values, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("texts", [[], ["C1CC"], ["", "x"]])
def test_no_molecule_at_all(predictor, texts):
    assert [p.values for p in predictor.predict(texts)] == [None] * len(texts)


@pytest.mark.parametrize("smiles", DRUGS[:6])
def test_all_spellings_of_a_molecule_get_exactly_the_same(predictor, smiles):
    """Random atom orders, Kekulé forms, explicit hydrogens, isotopes and atom maps."""
    mol = Chem.MolFromSmiles(smiles)
    spellings = Chem.MolToRandomSmilesVect(mol, 8, randomSeed=1)
    spellings.append(Chem.MolToSmiles(mol, kekuleSmiles=True))
    spellings.append(Chem.MolToSmiles(mol, allHsExplicit=True))
    spellings.append(Chem.MolToSmiles(Chem.AddHs(mol)))
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    spellings.append(Chem.MolToSmiles(mol))
    assert len(set(spellings)) > 5
    predictions = predictor.predict(spellings)
    assert {prediction.error for prediction in predictions} == {None}
    assert len({prediction.values["y"] for prediction in predictions}) == 1
    assert len({prediction.values["z"] for prediction in predictions}) == 1


def test_mirror_images_are_two_molecules(predictor):
    """In ZINC's labels they look alike, which the user should know; nothing fails."""
    left, right = predictor.predict(["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"])
    assert left.values.keys() == right.values.keys()


def test_a_stream_is_read_piece_by_piece(predictor, monkeypatch):
    """In memory that does not grow: no more is taken than the piece under way."""
    monkeypatch.setattr(module, "_CHUNK", 3)
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


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_pieces_of_any_size_give_the_same(predictor, monkeypatch, chunk):
    texts = [*DRUGS[:4], "C1CC", *DRUGS[4:], "x"]
    wanted = predictor.predict(texts)
    monkeypatch.setattr(module, "_CHUNK", chunk)
    for got, want in zip(predictor.predict(texts), wanted, strict=True):
        assert (got.smiles, got.error) == (want.smiles, want.error)
        assert got.values == (want.values and pytest.approx(want.values, rel=1e-4, abs=1e-5))


def test_a_predictor_leaves_the_callers_random_numbers_alone(predictor):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    predictor.predict(DRUGS)
    assert torch.equal(torch.get_rng_state(), before)


def test_predicting_twice_gives_the_same(predictor):
    """Dropout is off, and statistics stay."""
    assert predictor.predict(DRUGS) == predictor.predict(DRUGS)


def test_from_a_folder_everything_needed_is_known(predictor, tmp_path):
    predictor.model.save_pretrained(tmp_path / "model")
    again = Predictor.from_pretrained(tmp_path / "model")
    assert again.predict(DRUGS) == predictor.predict(DRUGS)


def test_a_prediction_says_what_became_of_it():
    assert Prediction("C", {"y": 1.0}).error is None


TABLE = (
    'id,"a, b",smiles,note\n'
    '007,"x ""y""",CCO,\n'
    '1e5,,C1CC,"two\nlines"\n'
    "NA,3.10,c1ccccc1, spaces \n"
    ",,,\n"
)


def test_a_table_keeps_its_rows_columns_and_cells(predictor):
    """In their order, blanks blank, numbers as they were written; predictions come after them."""
    rows, text, counts = _table(predictor, TABLE)
    before = list(csv.DictReader(io.StringIO(TABLE)))
    assert text.splitlines()[0] == 'id,"a, b",smiles,note,y_pred,z_pred,error'
    assert [{key: row[key] for key in before[0]} for row in rows] == before
    assert counts == (4, 2)
    assert [bool(row["y_pred"]) for row in rows] == [True, False, True, False]
    assert [bool(row["z_pred"]) for row in rows] == [True, False, True, False]
    assert [bool(row["error"]) for row in rows] == [False, True, False, True]


def test_a_tables_predictions_are_those_of_its_smiles(predictor):
    """To six digits."""
    text = "smiles\n" + "\n".join(DRUGS) + "\n"
    rows, _, _ = _table(predictor, text)
    wanted = predictor.predict(DRUGS)
    for row, prediction in zip(rows, wanted, strict=True):
        assert float(row["y_pred"]) == pytest.approx(prediction.values["y"], rel=1e-5)
        assert float(row["z_pred"]) == pytest.approx(prediction.values["z"], rel=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_table_in_pieces_has_one_header(predictor, rows):
    whole, _, counts = _table(predictor, TABLE)
    pieces, in_pieces, its_counts = _table(predictor, TABLE, rows=rows)
    assert its_counts == counts
    assert in_pieces.count("y_pred") == 1
    drop = ("y_pred", "z_pred")
    assert [{k: v for k, v in row.items() if k not in drop} for row in pieces] == [
        {k: v for k, v in row.items() if k not in drop} for row in whole
    ]
    for one, other in zip(pieces, whole, strict=True):
        assert (one["y_pred"] == "") == (other["y_pred"] == "")
        if one["y_pred"]:
            assert float(one["y_pred"]) == pytest.approx(float(other["y_pred"]), rel=1e-4)


@pytest.mark.parametrize("name", ["y_pred", "z_pred", "error"])
def test_a_column_that_would_be_replaced_is_refused(predictor, name):
    with pytest.raises(ConfigError, match=f"my.csv has a column '{name}' already, which a predic"):
        _table(predictor, f"smiles,{name}\nCCO,1\n")


def test_a_missing_smiles_column_names_the_nearest(predictor):
    with pytest.raises(ConfigError, match=r"my.csv has no column 'smiles'. Did you mean 'smile'\?"):
        _table(predictor, "smile,x\nCCO,1\n")
    rows, _, _ = _table(predictor, "smile,x\nCCO,1\n", smiles_column="smile")
    assert rows[0]["y_pred"]


def test_on_invalid_fail_stops_with_row_and_reason(predictor):
    """The row's number counts through all pieces."""
    with pytest.raises(
        DataError, match="my.csv, (row 2|line 3): RDKit cannot read 'C1CC': unclose"
    ):
        _table(predictor, TABLE, on_invalid="fail")
    text = "smiles\n" + "CC\n" * 5 + "C1CC\n"
    with pytest.raises(DataError, match="my.csv, (row 6|line 7): "):
        _table(predictor, text, on_invalid="fail", rows=2)


def test_a_table_without_any_molecule(predictor):
    rows, _, counts = _table(predictor, "smiles\nC1CC\nx\n")
    assert counts == (2, 2)
    assert [row["y_pred"] for row in rows] == ["", ""]


def test_large_and_small_molecules_together(predictor):
    """A dendrimer among methanes changes nothing for them."""
    long = "C" * 300
    predictions = predictor.predict(["C", long, "CC", long + "O", "C"])
    alone = predictor.predict(["C", "CC"])
    assert predictions[0].values == predictions[4].values
    assert predictions[0].values == pytest.approx(alone[0].values, rel=1e-4, abs=1e-5)
    assert predictions[2].values == pytest.approx(alone[1].values, rel=1e-4, abs=1e-5)
    assert all(np.isfinite(p.values["y"]) for p in predictions)


# --- classes --------------------------------------------------------------------------------------

CLASSES = ("red", "dark, blue", "[green]")
PROBABILITIES = [f"c_prob_{name}" for name in CLASSES]


@pytest.fixture(scope="module")
def classifier(predictor) -> Predictor:
    """A number, three classes and a yes/no, from five outputs of the same kind of network."""
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
        torch.nn.init.zeros_(network.readout.bias)
    return Predictor(PropertyModel(network, "zinc", Task(targets, "loss")))


def test_a_class_is_predicted_by_its_name_with_the_probability_of_each(classifier):
    """The most probable one; probabilities are the softmax of the outputs and sum to one."""
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


def test_a_row_without_classes_has_no_probabilities(predictor, classifier):
    """Where the molecule cannot be read, and where no target has classes."""
    bad, good = classifier.predict(["C1CC", "CCO"])
    assert (bad.values, bad.probabilities) == (None, {})
    assert good.probabilities
    assert {str(p.probabilities) for p in predictor.predict(DRUGS)} == {"{}"}


def test_all_spellings_have_the_same_probabilities(classifier):
    mol = Chem.MolFromSmiles(DRUGS[0])
    spellings = Chem.MolToRandomSmilesVect(mol, 8, randomSeed=1)
    predictions = classifier.predict(spellings)
    assert all(p.probabilities == predictions[0].probabilities for p in predictions)
    assert all(p.values == predictions[0].values for p in predictions)


@pytest.mark.parametrize("rows", [1, 3, 8192])
def test_a_table_has_a_column_for_each_class(classifier, rows):
    """After the predicted one, target by target; a row that failed has blanks in all of them."""
    table, text, counts = _table(classifier, TABLE, rows=rows)
    assert list(table[0])[4:] == ["y_pred", "c_pred", *PROBABILITIES, "z_pred", "error"]
    assert text.count("c_pred") == 1
    assert counts == (4, 2)
    wanted = classifier.predict(row["smiles"] for row in table)
    for row, prediction in zip(table, wanted, strict=True):
        if prediction.error:
            assert {row[name] for name in ("y_pred", "c_pred", *PROBABILITIES, "z_pred")} == {""}
            continue
        assert row["c_pred"] == prediction.values["c"]
        for name, share in prediction.probabilities["c"].items():
            assert float(row[f"c_prob_{name}"]) == pytest.approx(share, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", ["c_pred", "c_prob_red", "c_prob_dark, blue"])
def test_a_column_of_a_class_is_not_replaced(classifier, name):
    with pytest.raises(ConfigError, match=f"my.csv has a column '{name}' already"):
        _table(classifier, f'smiles,"{name}"\nCCO,1\n')
    assert _table(classifier, "smiles,c,red,c_prob\nCCO,1,2,3\n")[2] == (1, 0)


def test_classes_come_from_a_folder_too(classifier, tmp_path):
    classifier.model.save_pretrained(tmp_path / "model")
    again = Predictor.from_pretrained(tmp_path / "model")
    assert again.predict(DRUGS) == classifier.predict(DRUGS)
