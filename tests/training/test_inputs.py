"""Feature columns and molecule features, from a table to predictions."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

import molsepnorm
from molsepnorm.cli import main
from molsepnorm.data import datasets
from molsepnorm.errors import ConfigError, DataError, ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize.descriptors import DESCRIPTORS
from molsepnorm.nn.conditional import ConditionalLinear
from molsepnorm.predict import Predictor
from molsepnorm.tasks import ExtraInputs
from molsepnorm.training import evaluate, load_config, train
from molsepnorm.training.inputs import with_inputs

RINGS = ("C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "c1ccccc1", "c1ccncc1", "c1ccoc1", "c1ccsc1")
RINGS += ("C1CCNC1", "C1CCOC1")
SMILES = [f"{start}{ring}" for ring in RINGS for start in ("O", "N", "C")]
SETTINGS = {
    "data.featurizer": "zinc",
    "data.targets": ["y"],
    "data.feature_columns": ["temperature", "assay"],
    "data.split_type": "scaffold-ogb",
    "model.layers": 1,
    "model.width": 16,
    "model.ffn_width": 16,
    "model.heads": 2,
    "run.epochs": 2,
    "run.batch_size": 16,
    "run.threads": 1,
}
SHIFT = 5.0


def write(path: Path, rows) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "temperature", "assay", "y"])
        writer.writerows(rows)
    return path


def measured(temperatures=(298.15, 310.15)):
    """Two rows for each molecule; the second is hotter, and its label is larger by the shift."""
    for number, text in enumerate(SMILES):
        for hot, temperature in enumerate(temperatures):
            assay = ("A", "B")[(number + hot) % 2]
            yield text, temperature, assay, round(0.05 * number + SHIFT * hot, 3)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def command(*arguments: object, code: int = 0, input: str | None = None) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)), input=input)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Folder of a run on measured.csv, which lies beside it."""
    folder = tmp_path_factory.mktemp("inputs")
    table = write(folder / "measured.csv", measured())
    settings = {**SETTINGS, "data.molecule_features": ["rdkit", "morgan"]}
    settings["data.standardize"] = "salts"
    train(load_config(table, overrides=settings), folder / "run")
    return folder / "run"


def test_the_model_folder_holds_the_inputs(run):
    inputs = PropertyModel.from_pretrained(run).inputs
    content = json.loads((run / "model" / "config.json").read_text())["inputs"]
    assert content["columns"] == [
        {"name": "temperature", "words": [], "low": 298.15, "high": 310.15},
        {"name": "assay", "words": ["A", "B"], "low": None, "high": None},
    ]
    assert (inputs.morgan, inputs.descriptors) == (2048, DESCRIPTORS)


def test_both_rows_of_a_molecule_are_examples(run):
    splits = json.loads((run / "splits.json").read_text())[0]
    assert sum(map(len, splits.values())) == 2 * len(SMILES)


def test_predict_gives_the_predictions_of_the_run(run, tmp_path):
    """Through the command, with the columns in another order, and with a DataFrame."""
    tested = read(run / "predictions_test.csv")
    rows = read(run.parent / "measured.csv")
    chosen = [rows[int(row["line"]) - 2] for row in tested]
    expected = [float(row["y_pred"]) for row in tested]
    frame = pd.DataFrame(chosen)[["assay", "smiles", "y", "temperature"]]
    frame.to_csv(tmp_path / "new.csv", index=False)
    command("predict", "--model", run, "-i", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    found = [float(row["y_pred"]) for row in read(tmp_path / "out.csv")]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    predictor = Predictor.from_pretrained(run)
    values = [each.values["y"] for each in predictor.predict(frame["smiles"], frame)]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)
    typed = {"temperature": frame["temperature"].astype(float), "assay": list(frame["assay"])}
    values = [each.values["y"] for each in predictor.predict(frame["smiles"], typed)]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)


def test_the_report_shows_the_columns_of_the_worst_predictions(run):
    """Rows of a molecule have the same picture."""
    row = read(run / "predictions_test.csv")[0]
    cells = (f"{name} <b>{row[name]}</b>" for name in ("temperature", "assay"))
    assert f"<div>{', '.join(cells)}</div>" in (run / "report.html").read_text()


def test_the_report_of_a_column_that_is_named_like_the_position_of_a_row(tmp_path):
    """A cell line, say."""
    rows = [(*row[:2], f"cell{row[2]}", row[3]) for row in measured()]
    table = write(tmp_path / "t.csv", rows)
    table.write_text(table.read_text().replace("assay", "line", 1))
    settings = {**SETTINGS, "data.feature_columns": ["line", "temperature"]}
    train(load_config(table, overrides=settings), tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "line <b>cellA</b>, temperature <b>" in page or "line <b>cellB</b>" in page


def test_evaluate_gives_the_scores_of_the_run(run):
    scores = json.loads((run / "metrics.json").read_text())["test"]
    found = evaluate(run, load_config(run.parent / "measured.csv").data, device="cpu").scores
    assert found["mae"] == pytest.approx(scores["mae"], rel=1e-4)


def test_workers_read_the_columns_of_their_rows(run):
    rows = list(measured()) * 6
    smiles, temperature, assay, _ = zip(*rows, strict=True)
    columns = {"temperature": temperature, "assay": assay}
    alone, shared = (
        [
            each.values["y"]
            for each in Predictor.from_pretrained(run, processes=n).predict(smiles, columns)
        ]
        for n in (1, 2)
    )
    np.testing.assert_allclose(shared, alone, rtol=1e-4, atol=1e-4)


def test_every_extra_input_changes_the_embedding(run):
    """The last inputs of the head are, in their order, columns, counts and descriptors."""
    predictor = Predictor.from_pretrained(run)
    columns = {"temperature": [298.15, 310.15, 298.15], "assay": ["A", "A", "B"]}
    found = predictor.embed(["CCO"] * 3, columns=columns).molecules[:, 16:]
    assert found.shape[1] == predictor.model.inputs.width
    assert np.flatnonzero(found[0] != found[1]).tolist() == [0]
    assert np.flatnonzero(found[0] != found[2]).tolist() == [1, 2]
    other = predictor.embed(["CCN"], columns={"temperature": [298.15], "assay": ["A"]})
    changed = np.flatnonzero(other.molecules[0, 16:] != found[0])
    assert changed.min() >= 3 and (changed < 3 + 2048).any() and (changed >= 3 + 2048).any()


def test_descriptors_are_those_of_the_standardised_molecule(run):
    predictor = Predictor.from_pretrained(run)
    columns = {"temperature": [300, 300], "assay": ["A", "A"]}
    salt, parent = predictor.embed(["Oc1ccccc1.Cl", "Oc1ccccc1"], columns=columns).molecules[:, 16:]
    np.testing.assert_array_equal(salt, parent)


def test_embed_writes_a_table_with_feature_columns(run, tmp_path):
    table = write(tmp_path / "t.csv", [("CCO", 300, "A", 0), ("CCO", 300, "Z", 0)])
    output = command("embed", "--model", run, "-i", table, "-o", tmp_path / "e.csv")
    assert "1 could not be embedded" in output
    first, second = read(tmp_path / "e.csv")
    assert first["embedding_0"] and not second["embedding_0"]
    assert "'Z' in column 'assay' is not a word" in second["error"]


def test_a_row_that_cannot_be_read_fails_by_itself(run, tmp_path):
    rows = [("CCO", 300, "A", 0), ("CCO", "", "A", 0), ("CCO", "RT", "A", 0), ("CCO", 1, "C", 0)]
    table = write(tmp_path / "t.csv", [*rows, ("C1CC", 300, "B", 0)])
    command("predict", "--model", run, "-i", table, "-o", tmp_path / "out.csv")
    found = read(tmp_path / "out.csv")
    assert [bool(row["y_pred"]) for row in found] == [True, False, False, False, False]
    assert [row["error"] for row in found[1:4]] == [
        "the model needs a value in column 'temperature', which is empty",
        "'RT' in column 'temperature' is not a number",
        "'C' in column 'assay' is not a word that the model was trained with: A, B",
    ]
    assert "unclosed ring" in found[4]["error"]


@pytest.mark.parametrize("name", ["predict", "embed"])
def test_missing_columns_are_named(run, tmp_path, name):
    (tmp_path / "t.csv").write_text("smiles,assay\nCCO,A\n")
    output = ("-o", tmp_path / "out.csv")
    message = "the model reads the feature columns temperature, assay, and {} has no column {}"
    found = command(name, "--model", run, "-i", tmp_path / "t.csv", *output, code=2)
    assert message.format(tmp_path / "t.csv", "temperature: use a table") in found
    found = command(name, "--model", run, "--smiles", "CCO", *output, code=2)
    assert message.format("--smiles", "temperature, assay") in found
    found = command(name, "--model", run, *output, code=2, input="CCO\n")
    assert message.format("standard input", "temperature, assay") in found
    (tmp_path / "t.csv").write_text("smiles,assay,assay,temperature\nCCO,A,A,3\n")
    found = command(name, "--model", run, "-i", tmp_path / "t.csv", *output, code=2)
    assert "2 columns called 'assay'" in found
    assert not (tmp_path / "out.csv").exists()


def test_wrong_columns_in_python(run):
    predictor = Predictor.from_pretrained(run)
    with pytest.raises(ConfigError, match="columns has no column temperature, assay"):
        predictor.predict(["CCO"])
    with pytest.raises(ConfigError, match="columns has no column assay"):
        predictor.stream(["CCO"], {"temperature": [1]})
    with pytest.raises(ConfigError, match="smiles and the feature columns have different lengths"):
        predictor.predict(["CCO", "C"], {"temperature": [1, 2], "assay": ["A"]})
    for cells in ("20", 25, None):
        with pytest.raises(ConfigError, match=r"columns\['temperature'\] must be a list"):
            predictor.predict(["CCO", "C"], {"temperature": cells, "assay": ["A", "A"]})
    with pytest.raises(ConfigError, match="which a graph does not have: predict from SMILES"):
        predictor.predict_graphs([featurize.get("zinc")("CCO")])


def test_a_model_without_feature_columns_takes_none():
    short = {**SETTINGS, "run.epochs": 1}
    del short["data.feature_columns"]
    result = molsepnorm.fit(SMILES, range(30), overrides={**short, "data.targets": ["y"]})
    with pytest.raises(ConfigError, match="the model has no feature columns"):
        Predictor(result.model).predict(["CCO"], {"temperature": [1]})


def test_evaluate_leaves_rows_out_that_the_model_cannot_read(run, tmp_path):
    rows = [("CCO", 300, "A", 1), ("CCN", 300, "Z", 2), ("CCF", 310, "B", 3)]
    data = load_config(write(tmp_path / "t.csv", rows)).data
    found = evaluate(run, data, device="cpu")
    assert found.molecules == 2
    assert "Left out: 1 row, since 'Z' in column 'assay'" in found.dataset.warnings[-1]
    data = load_config(write(tmp_path / "t.csv", rows[1:2])).data
    with pytest.raises(DataError, match="has no row to score: Left out: 1 row, since 'Z'"):
        evaluate(run, data, device="cpu")
    with pytest.raises(
        ConfigError, match="reads the feature columns temperature, assay, which zinc"
    ):
        evaluate(run, load_config("zinc").data, device="cpu")


def test_a_word_that_no_training_row_has_is_left_out(tmp_path):
    """With a warning, as such a row could not be predicted either."""
    rows = [list(row) for row in measured()]
    rows[-1][2] = "rare"
    table = write(tmp_path / "t.csv", [[*row[:3], row[3]] for row in rows])
    with table.open() as file:
        lines = file.read().splitlines()
    parts = ["split", *["train"] * 40, *["val"] * 10, *["test"] * 10]
    table.write_text("\n".join(f"{a},{b}" for a, b in zip(lines, parts, strict=True)) + "\n")
    settings = {**SETTINGS, "data.split_type": "random", "data.splits_column": "split"}
    result = train(load_config(table, overrides={**settings, "run.epochs": 1}), tmp_path / "run")
    assert result.model.inputs.columns[1].words == ("A", "B")
    assert len(json.loads((tmp_path / "run" / "splits.json").read_text())[0]["test"]) == 9


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_split_without_rows_that_the_model_can_read_is_refused(tmp_path, split):
    """Before training."""
    parts = ["train"] * 40 + ["val"] * 10 + ["test"] * 10
    rows = [
        (*row[:2], "new" if part == split else row[2], row[3])
        for row, part in zip(measured(), parts, strict=True)
    ]
    table = write(tmp_path / "t.csv", rows)
    lines = zip(table.read_text().splitlines(), ["split", *parts], strict=True)
    table.write_text("\n".join(f"{line},{part}" for line, part in lines) + "\n")
    settings = {**SETTINGS, "data.split_type": "random", "data.splits_column": "split"}
    config = load_config(table, overrides=settings)
    message = f"none of the 10 rows of the split '{split}' can be read: 'new' in column 'assay'"
    with pytest.raises(DataError, match=message):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "history.csv").exists()


def test_a_column_that_is_constant_in_the_training_rows(tmp_path):
    rows = [
        (*row[:2], "A" if number < 40 else "B", row[3]) for number, row in enumerate(measured())
    ]
    table = write(tmp_path / "t.csv", rows)
    settings = {**SETTINGS, "data.split_type": "random", "data.splits_file": tmp_path / "s.json"}
    parts = {"train": [*range(40)], "val": [*range(40, 50)], "test": [*range(50, 60)]}
    (tmp_path / "s.json").write_text(json.dumps([parts]))
    with pytest.raises(DataError, match="column 'assay' of the training rows: every row has 'A'"):
        train(load_config(table, overrides=settings), tmp_path / "run")


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("temperature", "", "line 4, column 'temperature': the cell is empty"),
        ("temperature", "RT", "line 4, column 'temperature': 'RT' is not a number"),
        ("assay", "7", "line 4, column 'assay': '7' is a number"),
    ],
)
def test_a_cell_of_a_table_that_cannot_be_an_input(tmp_path, column, cell, message):
    """The error has the line of the file, and comes before any molecule is encoded."""
    rows = [dict(zip(("smiles", "temperature", "assay", "y"), r, strict=True)) for r in measured()]
    rows[2][column], rows[2]["smiles"] = cell, "not read yet"
    table = write(tmp_path / "t.csv", [row.values() for row in rows])
    settings = {**SETTINGS, "data.on_invalid": "fail"}
    with pytest.raises(DataError, match=message):
        train(load_config(table, overrides=settings), tmp_path / "run")


def test_a_column_that_is_not_there(tmp_path):
    config = load_config(
        write(tmp_path / "t.csv", measured()),
        overrides={**SETTINGS, "data.feature_columns": ["temperatur"]},
    )
    with pytest.raises(ConfigError, match="no column 'temperatur'. Did you mean 'temperature'"):
        train(config, tmp_path / "run")


def test_a_feature_column_is_not_guessed_as_a_target(tmp_path):
    table = write(tmp_path / "t.csv", measured())
    settings = {**SETTINGS, "data.targets": None, "data.feature_columns": ["temperature"]}
    config = load_config(table, overrides=settings)
    assert datasets.load(config.data, EncodingSpec(bond_sizes=(3,))).targets == ("y",)


def test_cells_stay_with_their_molecule_after_an_invalid_smiles(tmp_path):
    rows = [("C1CC", 250, "B", 0), *measured(), ("C1CC", 250, "B", 0)]
    data = load_config(write(tmp_path / "t.csv", rows), overrides=SETTINGS).data
    dataset = datasets.load(data, EncodingSpec(bond_sizes=(3,)))
    assert dataset.columns["temperature"] == ["298.15", "310.15"] * len(SMILES)
    assert dataset.columns["assay"] == [row[2] for row in measured()]


def test_other_cells_are_other_data(tmp_path):
    """A run is not resumed after a temperature was changed."""
    fingerprints = set()
    for temperatures in ((298.15, 310.15), (298.15, 311.15)):
        table = write(tmp_path / "t.csv", measured(temperatures))
        data = load_config(table, overrides=SETTINGS).data
        fingerprints.add(datasets.load(data, EncodingSpec(bond_sizes=(3,))).digest)
    assert len(fingerprints) == 2


def test_the_inputs_of_training_and_of_prediction_are_equal(run):
    """Training reads descriptors from the cache, prediction computes them row by row."""
    model = PropertyModel.from_pretrained(run)
    data = load_config(config=run / "config.yaml").data
    dataset = with_inputs(datasets.load(data, model.encoding), model.inputs)
    predictor = Predictor(model)
    rows = [
        (dataset.smiles[r], *(dataset.columns[n][r] for n in model.inputs.names)) for r in range(60)
    ]
    for index, encoded in predictor._prepare(rows).groups:
        np.testing.assert_array_equal(encoded.features, dataset.store.features[index])


def test_a_descriptor_that_rdkit_does_not_have(run):
    model = PropertyModel.from_pretrained(run)
    model.inputs = ExtraInputs(model.inputs.columns, 2048, ("Another", *DESCRIPTORS[1:]))
    columns = {"temperature": [300], "assay": ["A"]}
    with pytest.raises(ModelError, match="reads the descriptor 'Another', which RDKit"):
        Predictor(model).predict(["CCO"], columns)


def test_a_start_without_the_inputs_keeps_its_predictions(tmp_path, run):
    """The body and the outputs are loaded, and the new inputs have weights of 0 at first."""
    table = run.parent / "measured.csv"
    plain = {key: value for key, value in SETTINGS.items() if key != "data.feature_columns"}
    start = train(load_config(table, overrides=plain), tmp_path / "start")
    no_change = {"optim.lr": 1e-30, "optim.weight_decay": 0.0, "finetune.freeze_epochs": 2}
    settings = {k: v for k, v in SETTINGS.items() if not k.startswith("model.")}
    settings |= {"finetune.start": str(start.folder), "data.molecule_features": ["rdkit"]}
    train(load_config(table, overrides={**settings, **no_change}), tmp_path / "run")
    before, after = (
        [float(row["y_pred"]) for row in read(tmp_path / name / "predictions_test.csv")]
        for name in ("start", "run")
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", [[], ["rdkit"]])
def test_a_start_with_the_same_inputs_keeps_its_predictions(tmp_path, run, features):
    """Its outputs depend on the product of a molecule's channels and the columns."""
    table = run.parent / "measured.csv"
    more = {"data.molecule_features": features, "optim.lr": 0.01}
    start = train(load_config(table, overrides={**SETTINGS, **more}), tmp_path / "start")
    head = start.model.network.head
    assert isinstance(head, ConditionalLinear) and head.interactions.abs().min() > 0
    assert head.sizes[1:] == (3, len(DESCRIPTORS) if features else 0)
    settings = {k: v for k, v in SETTINGS.items() if not k.startswith("model.")}
    settings |= {"optim.lr": 1e-30, "optim.weight_decay": 0.0, "finetune.freeze_epochs": 2}
    settings |= {"finetune.start": str(start.folder), "data.molecule_features": features}
    result = train(load_config(table, overrides=settings), tmp_path / "run")
    before, after = (
        [float(row["y_pred"]) for row in read(tmp_path / name / "predictions_test.csv")]
        for name in ("start", "run")
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(result.model.network.head.interactions, head.interactions)


def test_the_column_explains_what_the_molecule_cannot(tmp_path):
    """A start with the probe alone: the error falls from half of the shift to a fraction of it.

    Both rows of a molecule are in the same split."""
    table, errors = write(tmp_path / "t.csv", measured()), {}
    kept = ("data.targets", "data.split_type", "run.threads")
    for name, columns in (("with", ["temperature"]), ("without", [])):
        settings = {key: SETTINGS[key] for key in kept} | {"run.epochs": 0}
        settings["data.feature_columns"] = columns
        metrics = train(load_config(table, overrides=settings), tmp_path / name).metrics
        errors[name] = metrics["test"]["mae"]
    assert errors["without"] > 0.4 * SHIFT
    assert errors["with"] < 0.25 * SHIFT


def test_columns_in_memory_equal_those_of_a_table(tmp_path):
    table = write(tmp_path / "t.csv", measured())
    frame = pd.read_csv(table)
    expected = train(load_config(table, overrides=SETTINGS), tmp_path / "run")
    settings = {
        k: v for k, v in SETTINGS.items() if k not in ("data.targets", "data.feature_columns")
    }
    for columns in (
        frame[["temperature", "assay"]],
        frame[["temperature", "assay"]].to_dict("list"),
    ):
        result = molsepnorm.fit(
            frame["smiles"], frame["y"], feature_columns=columns, overrides=settings
        )
        assert result.metrics["test"] == expected.metrics["test"]
    assert result.model.inputs == expected.model.inputs


@pytest.mark.parametrize(
    ("columns", "overrides", "message"),
    [
        ({"t": [1, 2]}, {}, "feature column 't' has 2 rows, and there are 30 molecules"),
        ({"t": [1.0, np.nan] * 15}, {}, "molecule 1, column 't': the cell is empty"),
        (None, {"data.feature_columns": ["t"]}, "pass a DataFrame or a dictionary of columns"),
    ],
)
def test_wrong_columns_in_memory(columns, overrides, message):
    settings = {"data.featurizer": "zinc", "model.layers": 1, **overrides}
    with pytest.raises((ConfigError, DataError), match=message):
        molsepnorm.fit(SMILES, range(30), feature_columns=columns, overrides=settings)


def test_graphs_have_no_molecule_features():
    settings = {"data.featurizer": "zinc", "model.layers": 1, "data.molecule_features": ["rdkit"]}
    graphs = featurize.get("zinc").many(SMILES)
    with pytest.raises(ConfigError, match="has no SMILES to compute them from"):
        molsepnorm.fit(graphs, range(30), overrides=settings)


def test_pre_training_has_no_extra_inputs(tmp_path):
    table = write(tmp_path / "t.csv", measured())
    settings = {**SETTINGS, "objective.name": "pretraining", "data.molecule_features": ["rdkit"]}
    with pytest.raises(ConfigError, match="the objective pretraining has none"):
        train(load_config(table, overrides=settings), tmp_path / "run")
