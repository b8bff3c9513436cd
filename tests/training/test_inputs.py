"""Feature columns and molecule features, from a table to predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner

import molsepnorm
from molsepnorm.cli import main
from molsepnorm.data import datasets
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.molecules.featurize.descriptors import DESCRIPTORS
from molsepnorm.nn.parts import ConditionalLinear
from molsepnorm.predict import Predictor
from molsepnorm.training import evaluate, load_config, train
from runs import rows_of, write_rows

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
    return write_rows(path, ["smiles", "temperature", "assay", "y"], *rows)


def measured(temperatures=(298.15, 310.15)):
    """Two rows for each molecule; the second is hotter, and its label is larger by the shift."""
    for number, text in enumerate(SMILES):
        for hot, temperature in enumerate(temperatures):
            assay = ("A", "B")[(number + hot) % 2]
            yield text, temperature, assay, round(0.05 * number + SHIFT * hot, 3)


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


def test_predict_gives_the_predictions_of_the_run(run, tmp_path):
    """Through the command, with the columns in another order, and with a DataFrame."""
    tested = rows_of(run / "predictions_test.csv")
    rows = rows_of(run.parent / "measured.csv")
    chosen = [rows[int(row["line"]) - 2] for row in tested]
    expected = [float(row["y_pred"]) for row in tested]
    frame = pd.DataFrame(chosen)[["assay", "smiles", "y", "temperature"]]
    frame.to_csv(tmp_path / "new.csv", index=False)
    command("predict", "--model", run, "-i", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    found = [float(row["y_pred"]) for row in rows_of(tmp_path / "out.csv")]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    predictor = Predictor.from_pretrained(run)
    values = [each.values["y"] for each in predictor.predict(frame["smiles"], frame)]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)
    typed = {"temperature": frame["temperature"].astype(float), "assay": list(frame["assay"])}
    values = [each.values["y"] for each in predictor.predict(frame["smiles"], typed)]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)


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
    """The last inputs of the head are, in their order, counts, descriptors and columns."""
    predictor = Predictor.from_pretrained(run)
    columns = {"temperature": [298.15, 310.15, 298.15], "assay": ["A", "A", "B"]}
    found = predictor.embed(["CCO"] * 3, columns=columns).molecules[:, 16:]
    assert found.shape[1] == predictor.model.inputs.width
    described = 2048 + len(DESCRIPTORS)
    assert np.flatnonzero(found[0] != found[1]).tolist() == [described]
    assert np.flatnonzero(found[0] != found[2]).tolist() == [described + 1, described + 2]
    other = predictor.embed(["CCN"], columns={"temperature": [298.15], "assay": ["A"]})
    changed = np.flatnonzero(other.molecules[0, 16:] != found[0])
    assert changed.max() < described and (changed < 2048).any() and (changed >= 2048).any()


def test_descriptors_are_those_of_the_standardised_molecule(run):
    predictor = Predictor.from_pretrained(run)
    columns = {"temperature": [300, 300], "assay": ["A", "A"]}
    salt, parent = predictor.embed(["Oc1ccccc1.Cl", "Oc1ccccc1"], columns=columns).molecules[:, 16:]
    np.testing.assert_array_equal(salt, parent)


def test_a_row_that_cannot_be_read_fails_by_itself(run, tmp_path):
    rows = [("CCO", 300, "A", 0), ("CCO", "", "A", 0), ("CCO", "RT", "A", 0), ("CCO", 1, "C", 0)]
    table = write(tmp_path / "t.csv", [*rows, ("C1CC", 300, "B", 0)])
    command("predict", "--model", run, "-i", table, "-o", tmp_path / "out.csv")
    found = rows_of(tmp_path / "out.csv")
    assert [bool(row["y_pred"]) for row in found] == [True, False, False, False, False]
    for row, word in zip(found[1:], ("temperature", "'RT'", "'C'", "unclosed ring"), strict=True):
        assert word in row["error"]


def test_evaluate_leaves_rows_out_that_the_model_cannot_rows_of(run, tmp_path):
    rows = [("CCO", 300, "A", 1), ("CCN", 300, "Z", 2), ("CCF", 310, "B", 3)]
    data = load_config(write(tmp_path / "t.csv", rows)).data
    found = evaluate(run, data, device="cpu")
    assert found.molecules == 2
    assert "Left out: 1 row, since 'Z' in column 'assay'" in found.dataset.warnings[-1]
    data = load_config(write(tmp_path / "t.csv", rows[1:2])).data
    with pytest.raises(DataError, match="has no row to score: Left out: 1 row, since 'Z'"):
        evaluate(run, data, device="cpu")
    with pytest.raises(ConfigError, match="temperature, assay"):
        evaluate(run, load_config("zinc").data, device="cpu")


def test_a_cell_of_a_table_that_cannot_be_an_input(tmp_path):
    """The error has the line of the file, and comes before any molecule is encoded."""
    rows = list(measured())
    rows[2] = ("not read yet", "RT", *rows[2][2:])
    table = write(tmp_path / "t.csv", rows)
    settings = {**SETTINGS, "data.on_invalid": "fail"}
    with pytest.raises(DataError, match="line 4, column 'temperature': 'RT' is not a number"):
        train(load_config(table, overrides=settings), tmp_path / "run")


def test_cells_stay_with_their_molecule_after_an_invalid_smiles(tmp_path):
    rows = [("C1CC", 250, "B", 0), *measured(), ("C1CC", 250, "B", 0)]
    data = load_config(write(tmp_path / "t.csv", rows), overrides=SETTINGS).data
    dataset = datasets.load(data, EncodingSpec(bond_sizes=(3,)))
    assert dataset.columns["temperature"] == ["298.15", "310.15"] * len(SMILES)
    assert dataset.columns["assay"] == [row[2] for row in measured()]


NO_CHANGE = {"optim.lr": 1e-30, "optim.weight_decay": 0.0}


def continued(table: Path, folder: Path, first: dict, second: dict):
    """A run and one that starts from it and learns nothing, which has the same predictions."""
    start = train(load_config(table, overrides=first), folder / "start")
    settings = {key: value for key, value in SETTINGS.items() if not key.startswith("model.")}
    settings |= {"finetune.start": str(start.folder), **NO_CHANGE, **second}
    result = train(load_config(table, overrides=settings), folder / "run")
    before, after = (
        [float(row["y_pred"]) for row in rows_of(folder / name / "predictions_test.csv")]
        for name in ("start", "run")
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    return start.model.network.head, result.model.network.head


def test_a_start_without_the_inputs_keeps_its_predictions(tmp_path, run):
    """The body and the outputs are loaded, and the new inputs have weights of 0 at first."""
    plain = {key: value for key, value in SETTINGS.items() if key != "data.feature_columns"}
    continued(run.parent / "measured.csv", tmp_path, plain, {"data.molecule_features": ["rdkit"]})


def test_a_start_with_the_same_inputs_keeps_its_predictions(tmp_path, run):
    """Its outputs depend on the product of a molecule's channels and the columns."""
    more = {"data.molecule_features": ["rdkit"]}
    first = {**SETTINGS, **more, "optim.lr": 0.01}
    head, again = continued(run.parent / "measured.csv", tmp_path, first, more)
    assert isinstance(head, ConditionalLinear) and head.interactions.abs().min() > 0
    assert head.sizes[1:] == (len(DESCRIPTORS), 3)
    torch.testing.assert_close(again.interactions, head.interactions)


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
