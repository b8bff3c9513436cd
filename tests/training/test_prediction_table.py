"""The columns of predictions_*.csv: names of targets, classes, identifiers, ensembles."""

from __future__ import annotations

import pytest

from molsepnorm.predict import Predictor
from molsepnorm.training import train
from runs import rows_of

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]


def _trained(with_columns, folder, targets, columns, **settings):
    settings = {"data.targets": targets, "run.epochs": 1, **settings}
    return train(with_columns(columns, settings), folder)


@pytest.mark.parametrize(
    ("targets", "header"),
    [
        (["a", "b"], ["a", "a_pred", "b", "b_pred"]),
        (["line"], ["line_true", "line_pred"]),
        (["a", "a_pred"], ["a", "a_pred", "a_pred_true", "a_pred_pred"]),
        (["unit, in [mol/L]"], ["unit, in [mol/L]", "unit, in [mol/L]_pred"]),
    ],
)
def test_a_target_with_the_name_of_another_column_keeps_its_labels(
    with_columns, tmp_path, targets, header
):
    """Every column has its own name, and predictions have their usual names."""
    columns = {name: NUMBERS[i:] for i, name in enumerate(targets)}
    result = _trained(with_columns, tmp_path / "run", targets, columns)
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert list(rows[0]) == ["line", "smiles", *header]
    found = Predictor(result.model).predict(row["smiles"] for row in rows)
    for row, prediction in zip(rows, found, strict=True):
        for i, name in enumerate(targets):
            truth, predicted = header[2 * i : 2 * i + 2]
            cells = columns[name]
            assert float(row[truth]) == pytest.approx(cells[(int(row["line"]) - 2) % len(cells)])
            assert float(row[predicted]) == pytest.approx(prediction.values[name], rel=1e-4)


def test_classes_are_written_by_name_with_their_probabilities(with_columns, tmp_path):
    """The most probable class is predicted, probabilities sum to 1, missing labels are empty."""
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
        *("line", "smiles", "colour", "colour_pred", *probabilities),
        *("y", "y_pred"),
    ]
    assert "" in {row["colour"] for row in rows}
    found = Predictor(result.model).predict(row["smiles"] for row in rows)
    for row, prediction in zip(rows, found, strict=True):
        assert row["colour"] == colours[(int(row["line"]) - 2) % len(colours)]
        assert row["colour_pred"] == prediction.values["colour"]
        shares = [float(row[name]) for name in probabilities]
        assert shares == pytest.approx(list(prediction.probabilities["colour"].values()), rel=1e-4)
        assert sum(shares) == pytest.approx(1, rel=1e-5)
        assert row["colour_pred"] == classes[shares.index(max(shares))]


def test_bounds_have_all_digits_of_the_table(with_columns, tmp_path):
    """Those of other labels are not rounded, either."""
    cells = [">203.2008", "0.25", "<1234567", "3", ">10", "1.5", "2"]
    _trained(with_columns, tmp_path / "run", ["y"], {"y": cells})
    found = set()
    for split in ("train", "val", "test"):
        rows = rows_of(tmp_path / "run" / f"predictions_{split}.csv")
        found |= {row["y"] for row in rows if row["y"][0] in "<>"}
    assert found == {">203.2008", "<1234567", ">10"}


def test_identifiers_of_the_compounds_are_beside_the_predictions(with_columns, tmp_path):
    """Columns such as "Compound ID"; a feature column with such a name follows the SMILES."""
    columns = {
        "Compound ID": [f"C-{i}" for i in range(30)],
        "name": ["alpha", ""],
        "assay_id": [1, 2],
        "batch": ["a", "b"],
        "y": NUMBERS,
        "cid": NUMBERS,
    }
    settings = {"data.feature_columns": ["assay_id"]}
    _trained(with_columns, tmp_path / "run", ["y", "cid"], columns, **settings)
    for split in ("train", "val", "test"):
        rows = rows_of(tmp_path / "run" / f"predictions_{split}.csv")
        identity = ["line", "Compound ID", "name", "smiles", "assay_id"]
        assert list(rows[0]) == [*identity, "y", "y_pred", "cid", "cid_pred"]
        assert all(int(row["assay_id"]) == 1 + int(row["line"]) % 2 for row in rows)
        assert all(row["Compound ID"] == f"C-{int(row['line']) - 2}" for row in rows)
        assert {row["name"] for row in rows} <= {"alpha", ""}
