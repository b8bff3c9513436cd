"""Tables whose first molecule is a mixture with amounts, such as 0.3 CCO + 0.7 O."""

from __future__ import annotations

import math
import random

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from molsepnorm import Predictor, fit
from molsepnorm.analysis.explanations import explain
from molsepnorm.cli.main import main
from molsepnorm.data.datasets import DataConfig
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.interop.sklearn import GraphormerRegressor
from molsepnorm.model import PropertyModel
from molsepnorm.serve.service import Service
from molsepnorm.training import load_config, train
from molsepnorm.training.recipes import load_dataset
from runs import TINY, rows_of, write_rows

VISCOSITY = {"O": 0.89, "CO": 0.54, "CCO": 1.07, "CC(C)=O": 0.31, "CC#N": 0.37, "OCCO": 16.1}
"""mPa s at 25 °C; mixtures follow the rule of Arrhenius, ln η = Σ x ln η."""
SETTINGS = {**TINY, "data.smiles_column": "mix", "data.feature_columns": ["mix:molecule"]}
CELLS = ["0.3 CCO + 0.7 O", "7 O + 3 OCC", "0.8 CCO + 0.2 O", "CCO"]


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory):
    """mixtures.csv: 6 liquids and 84 mixtures of two of them, in any order."""
    draw = random.Random(0)
    rows = [[text, round(math.log(value), 3)] for text, value in VISCOSITY.items()]
    while len(rows) < 90:
        (one, first), (other, second) = draw.sample([*VISCOSITY.items()], 2)
        share = draw.randint(1, 9) / 10
        cell = f"{share} {one} + {1 - share:.1f} {other}"
        y = share * math.log(first) + (1 - share) * math.log(second)
        rows.append([cell, round(y, 3)])
    return write_rows(tmp_path_factory.mktemp("mixtures") / "m.csv", ["mix", "y"], *rows)


@pytest.fixture(scope="module")
def start(trained):
    own = {"data.targets": ["active"], "run.epochs": 1, "model.init": "xavier"}
    return {"finetune.start": str(trained(own).folder), "run.epochs": 0}


@pytest.fixture(scope="module")
def run(mixtures, start):
    settings = {**SETTINGS, **start}
    train(load_config(mixtures, overrides=settings), mixtures.parent / "run")
    return mixtures.parent / "run"


@pytest.fixture(scope="module")
def predictor(run):
    return Predictor(PropertyModel.from_pretrained(run), domain=True)


def test_the_amounts_decide_and_the_order_does_not(predictor):
    found = predictor.to_frame(CELLS, {"mix": CELLS})
    y = found["y_pred"].to_numpy()
    assert abs(y[0] - y[1]) < 1e-6 < 1e-3 < abs(y[0] - y[2])
    assert found["nearest_smiles"].iloc[0] == "CCO.O"
    assert "+" in found["mix_nearest_smiles"].iloc[0]


def test_the_mixing_rule_is_learned(run):
    """Far better than the mean, for pairs of liquids that training has in no share."""
    rows = rows_of(run / "predictions_test.csv")
    y, predicted = (np.array([float(row[name]) for row in rows]) for name in ("y", "y_pred"))
    assert np.abs(predicted - y).mean() < 0.5 * np.abs(y - y.mean()).mean()


def test_a_mixture_that_cannot_be_read_keeps_its_reason(predictor):
    cells = ["0.3 CCO + 0.7 C1CC", "0.3 CCO + O", "0.3 CCO + 0.7 O", "0.3 CCO + 0.7 O"]
    columns = {"mix": [*cells[:3], pd.NA]}
    errors = predictor.to_frame(cells, columns)["error"].tolist()
    assert "C1CC" in errors[0] and "amount" in errors[1] and errors[2] is None
    assert "needs a further molecule" in errors[3]


def test_commands_and_the_server_read_the_table(run, predictor, tmp_path):
    table = write_rows(tmp_path / "new.csv", ["mix"], *([cell] for cell in CELLS))
    expected = predictor.to_frame(CELLS, {"mix": CELLS})["y_pred"].to_numpy()
    own = ["--model", str(run), "-i", str(table), "--smiles-column", "mix"]
    predicted, screened = tmp_path / "p.csv", tmp_path / "hits"
    for command in (
        ["predict", "-o", str(predicted)],
        ["screen", "-o", str(screened), "--top", "4"],
    ):
        result = CliRunner().invoke(main, [command[0], *own, *command[1:]])
        assert result.exit_code == 0, result.output
    rows = rows_of(predicted)
    assert [row["mix"] for row in rows] == CELLS
    assert [float(row["y_pred"]) for row in rows] == pytest.approx(expected, abs=1e-4)
    kept = {row["mix"]: float(row["y_pred"]) for row in rows_of(screened / "top.csv")}
    assert [kept[cell] for cell in CELLS] == pytest.approx(expected, abs=1e-4)
    service, cells = Service({"m": predictor.model}), {"mix": CELLS[:1]}
    ((prediction,), _) = service.predict(CELLS[:1], columns=cells)
    assert prediction.values["y"] == pytest.approx(expected[0], abs=1e-4)
    found = service.explain(CELLS[0], columns=cells)
    assert [part["structure"] for part in found["further"]["mix"]] == ["CCO", "O"]


def test_an_explanation_has_the_atoms_of_the_components(predictor):
    found = explain(predictor, CELLS[:2], {"mix": CELLS[:2]}, pairs=2)
    for each in found:
        of = each.targets["y"]
        total = of.base + of.atoms.sum() + sum(of.inputs.values())
        assert each.structure == "CCO.O" and total == pytest.approx(of.value, abs=1e-5)
    assert found[0].targets["y"].atoms == pytest.approx(found[1].targets["y"].atoms, abs=1e-4)


def test_mixtures_in_memory(mixtures, start):
    rows = rows_of(mixtures)
    cells, y = [row["mix"] for row in rows], [float(row["y"]) for row in rows]
    overrides = {**TINY, **start}
    model = fit(cells, y, feature_columns={"mix:molecule": cells}, overrides=overrides).model
    again = GraphormerRegressor(feature_columns=["mix:molecule"], overrides=overrides)
    table = pd.DataFrame({"mix": cells})
    learned = again.fit(table, y).predict(table)
    found = Predictor(model).to_frame(cells, {"mix": cells})["y_pred"]
    for values in (learned, found):
        assert np.corrcoef(values, y)[0, 1] > 0.9
    with pytest.raises(DataError, match="mixture"):
        fit(cells, y, overrides=overrides)


def read(path, **settings):
    return load_dataset(
        load_config(path, overrides={**SETTINGS, "data.targets": ["y"], **settings})
    )


@pytest.mark.parametrize("split", [{}, {"data.folds": 3}, {"data.split_by": "mix"}])
def test_the_rows_of_a_set_of_components_are_in_one_split(mixtures, split):
    dataset = read(mixtures, **split)
    parts = [{*np.array(dataset.smiles)[rows]} for rows in dataset.splits.values()]
    sets = {*dataset.smiles}
    assert len(sets) == 6 + 15 == sum(map(len, parts)) and "CCO.O" in sets


def test_rows_of_new_shares_may_be_tested(mixtures):
    dataset = read(mixtures, **{"data.split_by": "none"})
    parts = [{*np.array(dataset.smiles)[rows]} for rows in dataset.splits.values()]
    assert parts[0] & parts[2]


def test_a_mixture_must_be_declared(mixtures):
    with pytest.raises(DataError, match="--feature-columns mix:molecule"):
        read(mixtures, **{"data.feature_columns": []})
    twice = DataConfig(table=mixtures, smiles_column="mix,mix")
    assert (twice.smiles_column, twice.feature_columns) == ("mix", ["mix:molecule"])
    with pytest.raises(ConfigError, match="one role"):
        load_config(mixtures, overrides={**SETTINGS, "data.feature_columns": ["mix:category"]})
