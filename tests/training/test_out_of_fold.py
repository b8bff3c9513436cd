"""Cross-validation without a held-out test set, and its out-of-fold predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from molsepnorm.errors import DataError
from molsepnorm.model import PropertyModel
from molsepnorm.predict import Predictor
from molsepnorm.training import train, train_replicates
from molsepnorm.training.comparing.replicates import OOF
from runs import NUMBERS, rows_of, split_rows, write_rows

NESTED = {"data.folds": 3, "data.test_set": False, "run.epochs": 1}


def _replace(path: Path, change) -> None:
    """Apply a function to the rows of a table, each a dictionary."""
    rows = rows_of(path)
    for number, row in enumerate(rows):
        change(number, row)
    write_rows(path, rows[0], *(row.values() for row in rows))


def test_every_row_is_predicted_once_by_the_model_without_its_fold(configure, tmp_path, table):
    """All columns of the table stay, in its order. An invalid SMILES has the reason."""
    lines = table.read_text().splitlines()
    lines[5] = "C1CC,1.0,0"
    table.write_text("\n".join([f"{line},{'id' if i == 0 else i}" for i, line in enumerate(lines)]))
    config = configure({**NESTED, "data.targets": ["y", "active"]})
    replicates = train_replicates(config, tmp_path / "cv", seeds=[0])
    assert replicates.finished
    written = rows_of(tmp_path / "cv" / OOF)
    own = rows_of(table)
    names = ["line", *own[0], "fold", "y_pred", "active_pred", "error"]
    assert list(written[0]) == names
    assert [{name: row[name] for name in own[0]} for row in written] == own
    assert [row["line"] for row in written] == [str(line) for line in range(2, 32)]
    bad = written.pop(4)
    assert (bad["fold"], bad["y_pred"]) == ("", "")
    assert "unclosed ring" in bad["error"]
    assert {row["error"] for row in written} == {""}
    for fold in range(3):
        folder = tmp_path / "cv" / f"fold-{fold}-seed-0"
        mine = [row for row in written if row["fold"] == str(fold)]
        assert [int(row["line"]) - 2 for row in mine] == split_rows(folder)["test"]
        found = Predictor(PropertyModel.from_pretrained(folder)).predict(
            [row["smiles"] for row in mine]
        )
        for row, each in zip(mine, found, strict=True):
            assert float(row["y_pred"]) == pytest.approx(each.values["y"], rel=1e-4, abs=1e-5)
            assert float(row["active_pred"]) == pytest.approx(each.values["active"], rel=1e-4)


def test_merged_rows_have_the_prediction_of_their_molecule(configure, tmp_path, table):
    """The label column has the cell of the row; transformed targets have both scales."""
    lines = table.read_text().splitlines()
    lines = [lines[0].replace("y,", "y_nM,"), *lines[1:], "OC,9.5,", "NCC,>20,"]
    lines = [line.replace("-", "").replace(",0.0,", ",0.2,") for line in lines]
    table.write_text("\n".join(lines))
    settings = {"data.targets": ["y_nM"], "data.transform": {"y_nM": "pic50"}}
    config = configure({**NESTED, **settings, "data.duplicates": "mean"})
    replicates = train_replicates(config, tmp_path / "cv", seeds=[0])
    *rows, methanol, ethylamine = rows_of(tmp_path / "cv" / OOF)
    for row, smiles, cell in ((methanol, "CO", "9.5"), (ethylamine, "CCN", ">20")):
        (same,) = (each for each in rows if each["smiles"] == smiles)
        assert row["y_nM"] == cell
        for name in ("fold", "y_nM_pred", "y_nM_pic50_pred"):
            assert row[name] == same[name] != ""
        value = 9 - np.log10(float(row["y_nM_pred"]))
        assert float(row["y_nM_pic50_pred"]) == pytest.approx(value, rel=1e-5)
    assert sum(replicates.summary["out_of_fold"]["molecules"]) == 29
    about = replicates.summary["out_of_fold"]["labels"]["y_nM"]
    assert about["repeats"]["molecules"] == 1
    assert about["scale"].startswith("pic50")


def test_classes_have_their_probabilities_and_several_seeds_their_mean(with_columns, tmp_path):
    columns = {"colour": ["red", "blue", "green", "blue"], "fold": [1]}
    settings = {**NESTED, "data.targets": ["colour"]}
    replicates = train_replicates(with_columns(columns, settings), tmp_path / "cv", seeds=[0, 3])
    assert len(replicates.runs) == 6
    rows = rows_of(tmp_path / "cv" / OOF)
    names = [f"colour_prob_{name}" for name in ("blue", "green", "red")]
    assert list(rows[0])[4:] == ["fold_oof", "colour_pred", *names, "error"]
    for fold in range(3):
        runs = [
            rows_of(tmp_path / "cv" / f"fold-{fold}-seed-{s}" / "predictions_test.csv")
            for s in (0, 3)
        ]
        mine = [row for row in rows if row["fold_oof"] == str(fold)]
        for row, *each in zip(mine, *runs, strict=True):
            mean = [np.mean([float(one[name]) for one in each]) for name in names]
            assert [float(row[name]) for name in names] == pytest.approx(mean, rel=1e-5)
            assert row["colour_pred"] == ("blue", "green", "red")[np.argmax(mean)]
    accuracy = [
        np.mean([replicates.runs[f"fold-{fold}-seed-{s}"]["test"]["accuracy"] for s in (0, 3)])
        for fold in range(3)
    ]
    assert replicates.summary["test"]["accuracy"]["values"] == pytest.approx(accuracy)


def test_a_row_that_no_model_can_read_has_the_reason(with_columns, tmp_path):
    """Such as a solvent that no other fold has, or a row without a label."""
    solvents = [*["water", "hexane"] * 14, "water", "DMSO"]
    columns = {"y": ["", *NUMBERS[1:], *NUMBERS * 3, 1, 2], "solvent": solvents}
    settings = {**NESTED, "data.targets": ["y"], "data.feature_columns": ["solvent"]}
    config = with_columns(columns, {**settings, "data.folds": 2, "run.ensemble": 2})
    for _ in range(2):  # the second call finds the runs finished
        train_replicates(config, tmp_path / "cv", seeds=[0])
    first, *rows, last = rows_of(tmp_path / "cv" / OOF)
    assert first["error"] == "the row has no label, or the weight 0, so it is in no fold"
    assert "a feature column has a value that no training row" in last["error"]
    assert last["y_pred"] == first["y_pred"] == ""
    assert all(row["y_pred"] and not row["error"] for row in rows)


def test_other_labels_and_features_in_a_fold_leave_its_predictions_as_they_are(
    configure, with_columns, tmp_path, baselines
):
    """To the last bit: nothing that is fitted depends on them: standardisation, class weights,
    inputs, the probe, the epoch, the forest."""
    start = train(configure({"run.epochs": 1}), tmp_path / "start").folder
    columns = {"y": NUMBERS, "active": [0, 1, 1, 0, 1], "t": [20, 25, 37.5, 4], "w": [1, 2, 0.5]}
    settings = {**NESTED, "data.folds": 2, "run.epochs": 2, "finetune.start": str(start)}
    settings |= {"data.targets": ["y", "active"], "data.weight_column": "w"}
    settings |= {"data.feature_columns": ["t"], "data.molecule_features": ["morgan"]}
    settings |= {"optim.class_weight": "balanced", "run.metric": "mae"}
    config = with_columns(columns, settings)
    first = train_replicates(config, tmp_path / "first", seeds=[0])
    tested = {*split_rows(tmp_path / "first" / "fold-1-seed-0")["test"]}
    odd = min(tested)

    def change(number: int, row: dict[str, str]) -> None:
        if number in tested:
            row |= {"y": f"{float(row['y']) * 50 + 9}", "active": f"{number % 2}", "w": "30"}
        if number == odd:  # whose own prediction changes, and no other
            row["t"] = "-900"

    _replace(config.data.table, change)
    second = train_replicates(config, tmp_path / "second", seeds=[0])

    def predictions(folder: Path) -> list[list[str]]:
        rows = rows_of(folder / "predictions_test.csv")
        names = [name for name in rows[0] if name.endswith(("_pred", "_forest"))]
        assert len(names) == 4
        return [[row[name] for name in names] for row in rows]

    ours, theirs = (predictions(tmp_path / name / "fold-1-seed-0") for name in ("first", "second"))
    assert ours[1:] == theirs[1:]
    assert ours[0] != theirs[0]
    runs = [replicates.runs["fold-1-seed-0"] for replicates in (first, second)]
    assert runs[0]["val"] == runs[1]["val"]
    assert runs[0]["kept_epoch"] == runs[1]["kept_epoch"]
    assert runs[0]["test"] != runs[1]["test"]
    other = [predictions(tmp_path / name / "fold-0-seed-0") for name in ("first", "second")]
    assert other[0] != other[1]


@pytest.mark.parametrize(
    ("name", "settings", "splits"),
    [
        ("fold", NESTED, None),
        ("split", {"run.epochs": 1, "data.split_seed": 2, "data.split": [0.4, 0.4, 0.2]}, 9),
    ],
)
def test_a_fold_that_cannot_be_trained_is_refused_before_any_is(
    with_columns, tmp_path, name, settings, splits
):
    """All rows with another label than 0 are in one fold."""
    config = with_columns({"y": [0.0] * 29 + [1.0]}, {**settings, "data.targets": ["y"]})
    message = rf"{name} \d \(counted from 0\) cannot be trained: target 'y' is constant among the"
    with pytest.raises(DataError, match=message):
        train_replicates(config, tmp_path / "cv", seeds=[0], splits=splits)
    assert not (tmp_path / "cv").exists()


def test_the_summary_compares_with_the_forest_and_the_trivial_baseline(
    configure, tmp_path, baselines
):
    """And has the scores of all rows together, by numpy from the file."""
    replicates = train_replicates(configure(NESTED), tmp_path / "cv", seeds=[0])
    summary, runs = replicates.summary, list(replicates.runs.values())
    for entry, values in (
        ("test_constant", [run["test_constant"]["mae"] for run in runs]),
        ("test", [run["test"]["mae"] for run in runs]),
    ):
        assert summary[entry]["mae"]["values"] == values
        assert summary[entry]["mae"]["mean"] == pytest.approx(np.mean(values))
        assert summary[entry]["mae"]["sd"] == pytest.approx(np.std(values, ddof=1))
    forest = [run["baseline"]["test"]["mae"] for run in runs]
    assert summary["baseline"]["test"]["mae"]["values"] == forest
    difference = np.array([run["test"]["mae"] for run in runs]) - forest
    found = summary["baseline_difference"]["mae"]
    assert found["values"] == pytest.approx(difference.tolist())
    error = np.sqrt((1 / 3 + 1 / 2) * difference.var(ddof=1))
    ends = difference.mean() + np.array([-1, 1]) * stats.t.ppf(0.975, 2) * error
    assert found["interval_95"] == pytest.approx(ends.tolist())
    rows = [row for row in rows_of(tmp_path / "cv" / OOF) if row["y"]]
    y, predicted = (np.array([float(row[name]) for row in rows]) for name in ("y", "y_pred"))
    pooled = summary["out_of_fold"]
    assert pooled["scores"]["mae"] == pytest.approx(np.abs(y - predicted).mean(), rel=1e-5)
    assert (pooled["molecules"], pooled["file"]) == ([10, 10, 9], OOF)
    assert json.loads((tmp_path / "cv" / "summary.json").read_text()) == summary
