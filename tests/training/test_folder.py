"""`predictions_test.csv`, whatever targets and classes are called."""

from __future__ import annotations

import pandas as pd
import pytest

from molsepnorm.predict import Predictor
from molsepnorm.training import train

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]


def _trained(with_columns, folder, targets, columns, **settings):
    settings = {"data.targets": targets, "run.epochs": 1, **settings}
    return train(with_columns(columns, settings), folder)


@pytest.mark.parametrize(
    ("targets", "header"),
    [
        (["a", "b"], ["a", "a_pred", "b", "b_pred"]),
        (["row"], ["row_true", "row_pred"]),
        (["a", "a_pred"], ["a", "a_pred", "a_pred_true", "a_pred_pred"]),
        (["a_pred", "a"], ["a_pred_true", "a_pred_pred", "a", "a_pred"]),
        (["row", "row_pred"], ["row_true", "row_pred", "row_pred_true", "row_pred_pred"]),
        (["smiles_pred"], ["smiles_pred", "smiles_pred_pred"]),
        (["unit, in [mol/L]"], ["unit, in [mol/L]", "unit, in [mol/L]_pred"]),
    ],
)
def test_a_target_called_like_another_column_keeps_its_truth(
    with_columns, tmp_path, rows_of, targets, header
):
    """No column stands in another's place, and predictions have the names they always have."""
    columns = {name: NUMBERS[i:] for i, name in enumerate(targets)}
    result = _trained(with_columns, tmp_path / "run", targets, columns)
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert list(rows[0]) == ["row", "smiles", *header]
    found = Predictor(result.model).predict(row["smiles"] for row in rows)
    for row, prediction in zip(rows, found, strict=True):
        for i, name in enumerate(targets):
            truth, predicted = header[2 * i : 2 * i + 2]
            cells = columns[name]
            assert float(row[truth]) == pytest.approx(cells[int(row["row"]) % len(cells)])
            assert float(row[predicted]) == pytest.approx(prediction.values[name], rel=1e-4)


@pytest.mark.parametrize(
    "targets", [["a", "a_pred", "a_pred_true"], ["row", "row_true"], ["row_true", "row"]]
)
def test_no_truth_is_lost_to_a_target_called_like_its_other_name(
    with_columns, tmp_path, rows_of, targets
):
    """Each of the targets has two columns of its own."""
    columns = {name: [value + 10 * i for value in NUMBERS] for i, name in enumerate(targets)}
    _trained(with_columns, tmp_path / "run", targets, columns)
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert len(rows[0]) == 2 + 2 * len(targets)
    row = {name: float(cell) for name, cell in rows[0].items() if name != "smiles"}
    truths = [columns[name][int(row["row"]) % len(NUMBERS)] for name in targets]
    others = [name for name in row if name != "row" and name not in {f"{t}_pred" for t in targets}]
    assert [row[name] for name in others] == pytest.approx(truths)


def test_a_target_may_be_called_smiles_where_the_smiles_are_not(with_columns, tmp_path, rows_of):
    settings = {"data.smiles_column": "structure"}
    _trained(with_columns, tmp_path / "run", ["smiles"], {"smiles": NUMBERS}, **settings)
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert list(rows[0]) == ["row", "smiles", "smiles_true", "smiles_pred"]
    assert rows[0]["smiles"].startswith("C")


def test_classes_stand_by_their_names_with_a_probability_each(with_columns, tmp_path, rows_of):
    """Truth and prediction are words, blanks blank; the most probable class is predicted, and the
    probabilities sum to one."""
    colours = ["red", "dark, blue", "", "[green]", "", 'say "no"', "red", "dark, blue"]
    columns = {"colour": colours, "y": NUMBERS}
    result = _trained(
        with_columns, tmp_path / "run", ["colour", "y"], columns, **{"data.split": [0.4, 0.2, 0.4]}
    )
    classes = ["[green]", "dark, blue", "red", 'say "no"']
    assert list(result.model.task.targets[0].classes) == classes
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    probabilities = [f"colour_prob_{name}" for name in classes]
    assert list(rows[0]) == [
        *("row", "smiles", "colour", "colour_pred", *probabilities),
        *("y", "y_pred"),
    ]
    assert "" in {row["colour"] for row in rows}
    found = Predictor(result.model).predict(row["smiles"] for row in rows)
    for row, prediction in zip(rows, found, strict=True):
        assert row["colour"] == colours[int(row["row"]) % len(colours)]
        assert row["colour_pred"] == prediction.values["colour"]
        shares = [float(row[name]) for name in probabilities]
        assert shares == pytest.approx(list(prediction.probabilities["colour"].values()), rel=1e-4)
        assert sum(shares) == pytest.approx(1, rel=1e-5)
        assert row["colour_pred"] == classes[shares.index(max(shares))]


def test_classes_that_look_like_numbers_are_written_as_they_are(with_columns, tmp_path, rows_of):
    """Class 3 is no 3.0."""
    settings = {"data.task_type": "multiclass", "data.classes": {"n": ["10", "3", "07"]}}
    result = _trained(
        with_columns, tmp_path / "run", ["n"], {"n": ["3", "10", "07", "3"]}, **settings
    )
    assert result.model.task.targets[0].classes == ("10", "3", "07")
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert {row["n"] for row in rows} | {row["n_pred"] for row in rows} <= {"10", "3", "07"}
    assert {"n_prob_10", "n_prob_3", "n_prob_07"} <= set(rows[0])


def test_carriage_returns_split_no_row(with_columns, tmp_path):
    """Of the rows left out, and of classes."""
    words = ["sweet\ror sour", "bitter"] * 4
    config = with_columns({"taste": words}, {"data.targets": ["taste"], "run.epochs": 1})
    with open(config.data.table, "ab") as file:
        file.write(b'"C1CC\rx",bitter\r\n')
    train(config, tmp_path / "run")
    rejected = pd.read_csv(tmp_path / "run" / "rejected.csv")
    assert rejected["smiles"].tolist() == ["C1CC\rx"]
    predicted = pd.read_csv(tmp_path / "run" / "predictions_test.csv")
    assert set(predicted["taste"]) <= set(words)
    assert predicted["row"].dtype.kind == "i"
