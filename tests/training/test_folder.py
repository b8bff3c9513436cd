"""The files of a run folder: predictions, history and what `--resume` checks."""

from __future__ import annotations

import json
import re
import shutil

import pandas as pd
import pytest

from molsepnorm.data.datasets import load
from molsepnorm.data.legacy import legacy_fingerprints
from molsepnorm.errors import DataError, ModelError
from molsepnorm.model import encoding_of
from molsepnorm.predict import Predictor
from molsepnorm.training import train
from molsepnorm.training.architecture import architecture
from molsepnorm.training.callback import EpochRecord
from molsepnorm.training.folder import RunFolder

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]


def _trained(with_columns, folder, targets, columns, **settings):
    settings = {"data.targets": targets, "run.epochs": 1, **settings}
    return train(with_columns(columns, settings), folder)


@pytest.mark.parametrize(
    ("targets", "header"),
    [
        (["a", "b"], ["a", "a_pred", "b", "b_pred"]),
        (["line"], ["line_true", "line_pred"]),
        (["a", "a_pred"], ["a", "a_pred", "a_pred_true", "a_pred_pred"]),
        (["a_pred", "a"], ["a_pred_true", "a_pred_pred", "a", "a_pred"]),
        (["line", "line_pred"], ["line_true", "line_pred", "line_pred_true", "line_pred_pred"]),
        (["smiles_pred"], ["smiles_pred", "smiles_pred_pred"]),
        (["unit, in [mol/L]"], ["unit, in [mol/L]", "unit, in [mol/L]_pred"]),
    ],
)
def test_a_target_with_the_name_of_another_column_keeps_its_labels(
    with_columns, tmp_path, rows_of, targets, header
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


@pytest.mark.parametrize(
    "targets", [["a", "a_pred", "a_pred_true"], ["line", "line_true"], ["line_true", "line"]]
)
def test_a_target_named_like_a_renamed_column_keeps_its_labels(
    with_columns, tmp_path, rows_of, targets
):
    """Each target has two columns of its own."""
    columns = {name: [value + 10 * i for value in NUMBERS] for i, name in enumerate(targets)}
    _trained(with_columns, tmp_path / "run", targets, columns)
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert len(rows[0]) == 2 + 2 * len(targets)
    row = {name: float(cell) for name, cell in rows[0].items() if name != "smiles"}
    truths = [columns[name][(int(row["line"]) - 2) % len(NUMBERS)] for name in targets]
    others = [name for name in row if name != "line" and name not in {f"{t}_pred" for t in targets}]
    assert [row[name] for name in others] == pytest.approx(truths)


def test_a_target_may_be_named_smiles_if_the_smiles_column_is_not(with_columns, tmp_path, rows_of):
    settings = {"data.smiles_column": "structure"}
    _trained(with_columns, tmp_path / "run", ["smiles"], {"smiles": NUMBERS}, **settings)
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert list(rows[0]) == ["line", "smiles", "smiles_true", "smiles_pred"]
    assert rows[0]["smiles"].startswith("C")


def test_classes_are_written_by_name_with_their_probabilities(with_columns, tmp_path, rows_of):
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


def test_classes_that_look_like_numbers_are_written_as_they_are(with_columns, tmp_path, rows_of):
    """Class 3 is not written as 3.0."""
    settings = {"data.task_type": "multiclass", "data.classes": {"n": ["10", "3", "07"]}}
    result = _trained(
        with_columns, tmp_path / "run", ["n"], {"n": ["3", "10", "07", "3"]}, **settings
    )
    assert result.model.task.targets[0].classes == ("10", "3", "07")
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert {row["n"] for row in rows} | {row["n_pred"] for row in rows} <= {"10", "3", "07"}
    assert {"n_prob_10", "n_prob_3", "n_prob_07"} <= set(rows[0])


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped in its third epoch; the tests change copies of it."""
    return tmp_path_factory.mktemp("stopped")


@pytest.fixture
def resumable(stopped, configure, stop_at, tmp_path):
    """A copy of the stopped run."""
    config = configure({"run.epochs": 3})
    if not (stopped / "run").exists():
        train(config, stopped / "run", callback=stop_at(7))
    run = tmp_path / "run"
    shutil.copytree(stopped / "run", run)
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(re.sub("table: .*", f"table: {config.data.table}", text))
    return run


METRICS = (
    b'{"data": "x", "chosen_by": "mae", "best_epoch": 1, "epochs": 2, "parameters": 1, '
    b'"seconds": 1.5, "val": {"mae": 1.0}, %s}'
)
NO_DATA = "environment.json is damaged"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("environment.json", b"", NO_DATA),
        ("environment.json", b"[]", NO_DATA),
        ("environment.json", b'{"data": 3}', NO_DATA),
        ("environment.json", b"[" * 200_000, NO_DATA),
        ("splits.json", b"{}", "splits.json is damaged: "),
        ("splits.json", b'[{"train": ["1"]}]', r"splits.json is damaged: 0\.train\.0: "),
        ("splits.json", b'[{"train": [1', "splits.json is damaged: "),
        ("metrics.json", b"[]", "metrics.json is damaged: "),
        *(
            ("metrics.json", METRICS % entry, f"metrics.json is damaged: {where}")
            for entry, where in (
                (b'"test": {"mae": 1%s}' % (b"0" * 400), "test.mae: .*finite number"),
                (b'"test": {"mae": NaN}', "test.mae: .*finite number; got nan"),
                (
                    b'"test": {}, "test_interval_95": true',
                    "test_interval_95: Input should be an object",
                ),
                (b'"test": {}, "test_interval_95": {"mae": [1]}', "test_interval_95.mae.1: "),
                (b'"test": {}', "val and test must have the same scores"),
                (b'"test": {}, "test_constant": {"mae": "x"}', "test_constant.mae: "),
            )
        ),
        ("metrics.json", b'{"data": "x", "val": {"mae": "0.1"}}', "metrics.json is damaged: "),
    ],
)
def test_resuming_names_a_damaged_file(resumable, name, text, message):
    (resumable / name).write_bytes(text)
    with pytest.raises(ModelError, match=message) as caught:
        train(folder=resumable, resume=True)
    assert str(resumable / name) in str(caught.value)


OTHER_HISTORIES = [
    None,
    b"",
    b"epoch,step\n1,2\n",
    b"epoch\n1" + b"0" * 5000 + b"\n",
    b"\xff\xfe",
]


@pytest.mark.parametrize("text", [*OTHER_HISTORIES, "without a line in the middle"])
def test_a_resumed_run_has_all_its_history(resumable, rows_of, text):
    """It is in the checkpoint, even if the file was changed."""
    path = resumable / "history.csv"
    before = path.read_bytes()
    if text is None:
        path.unlink()
    else:
        lines = before.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[::2]) if isinstance(text, str) else text)
    assert train(folder=resumable, resume=True).finished
    assert path.read_bytes().startswith(before)
    assert [row["epoch"] for row in rows_of(path)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "text",
    [
        b"epoch,step\none,2\n",
        b"step\n2\n",
        b"epoch,step\n1,2,3\n",
        b"epoch,other\n1,1\n",
        b"\xff\xfe",
        b"epoch\n1" + b"0" * 5000 + b"\n",
    ],
)
def test_a_history_that_is_damaged_while_training_is_refused(tmp_path, text):
    run = RunFolder(tmp_path)
    run.history.write_bytes(text)
    record = EpochRecord(3, 9, 0.1, 1.0, 1.0, {"mae": 1.0}, 1.0, 1.0, best=True)
    with pytest.raises(ModelError, match="history.csv is damaged: .*Remove the file, and resume"):
        run.append_history(record)
    assert run.history.read_bytes() == text


def test_a_history_without_the_column_threads_is_continued(resumable, rows_of):
    path = resumable / "history.csv"
    run = RunFolder(resumable)
    lines = [line.rpartition(",")[0] for line in path.read_text().splitlines()]
    assert path.read_text().startswith(f"{lines[0]},threads\n")
    path.write_text("\n".join(lines))
    columns = lines[0].split(",")
    names = [each[4:] for each in columns if each.startswith("val_") and each != "val_loss"]
    scores = dict.fromkeys(names, 1.0)
    run.append_history(EpochRecord(9, 9, 0.1, 1.0, 1.0, scores, 1.0, 1.0, True, threads=2))
    *old, new = [row["threads"] for row in rows_of(path)]
    assert set(old) == {""} and new == "2"


def test_changed_data_or_splits_are_not_called_damage(configure, stop_at, tmp_path):
    run = tmp_path / "run"
    train(configure(), run, callback=stop_at(2))
    splits, environment = (run / "splits.json").read_text(), (run / "environment.json").read_text()
    (run / "splits.json").write_text('[{"train": [0], "val": [1], "test": [2]}]')
    with pytest.raises(DataError, match="that .*run began with or have another split: restore"):
        train(folder=run, resume=True)
    (run / "splits.json").write_text(splits)
    (run / "environment.json").write_text(re.sub('"data": ".*"', '"data": "0"', environment))
    with pytest.raises(
        DataError, match="the data are no longer those that .*run began with: restore"
    ):
        train(folder=run, resume=True)
    (run / "environment.json").write_text(environment)
    assert train(folder=run, resume=True).finished


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_run_of_an_earlier_version_resumes(with_columns, stop_at, tmp_path, weighted, number):
    """Its environment.json has one of two earlier fingerprints of the data."""
    settings = {"data.weight_column": "w"} if weighted else {"data.ignore_columns": ["w"]}
    columns = {"y": NUMBERS, "w": [1, 2, 3]}
    config = with_columns(columns, {"data.targets": ["y"], **settings})
    run = tmp_path / "run"
    train(config, run, callback=stop_at(2))
    earlier = legacy_fingerprints(load(config.data, encoding_of(architecture(config))))[number]
    environment = json.loads((run / "environment.json").read_text())
    assert environment["data"] != earlier
    (run / "environment.json").write_text(json.dumps({**environment, "data": earlier}))
    assert train(folder=run, resume=True).finished


def test_carriage_returns_do_not_split_rows(with_columns, tmp_path):
    """In rejected rows and in class names."""
    words = ["sweet\ror sour", "bitter"] * 4
    config = with_columns({"taste": words}, {"data.targets": ["taste"], "run.epochs": 1})
    with open(config.data.table, "ab") as file:
        file.write(b'"C1CC\rx",bitter\r\n')
    train(config, tmp_path / "run")
    rejected = pd.read_csv(tmp_path / "run" / "rejected.csv")
    assert rejected["smiles"].tolist() == ["C1CC\rx"]
    predicted = pd.read_csv(tmp_path / "run" / "predictions_test.csv")
    assert set(predicted["taste"]) <= set(words)
    assert predicted["line"].dtype.kind == "i"


def test_many_training_molecules_have_no_predictions(configure, tmp_path, monkeypatch):
    monkeypatch.setattr("molsepnorm.training.objectives.supervised.MAX_TRAINING", 23)
    run = train(configure({"run.epochs": 1}), tmp_path / "run").folder
    assert len(json.loads((run / "splits.json").read_text())[0]["train"]) == 24
    assert not (run / "predictions_train.csv").exists()
    assert (run / "predictions_val.csv").exists()


@pytest.mark.parametrize("by", ["seeds", "folds"])
def test_predictions_of_an_ensemble(configure, tmp_path, rows_of, split_rows, by):
    """By folds, each row outside the test split is in predictions_val.csv, with the prediction of
    the member that it validates."""
    settings = {"run.ensemble": 2, "run.ensemble_by": by, "run.epochs": 1}
    result = train(configure(settings), tmp_path / "run")
    val = rows_of(result.folder / "predictions_val.csv")
    if by == "seeds":
        for split in ("train", "val"):
            rows = rows_of(result.folder / f"predictions_{split}.csv")
            assert [int(row["line"]) - 2 for row in rows] == split_rows(result.folder)[split]
            found = Predictor(result.model).predict(row["smiles"] for row in rows)
            written = [float(row["y_pred"]) for row in rows]
            assert written == pytest.approx([each.values["y"] for each in found], rel=1e-4)
        return
    assert not (result.folder / "predictions_train.csv").exists()
    rows = [int(row["line"]) - 2 for row in val]
    test = split_rows(result.folder)["test"]
    assert rows == sorted({*range(30)} - {*test})
    written = {row["line"]: row["y_pred"] for row in val}
    for member in (result.folder / "members").iterdir():
        for row in rows_of(member / "predictions_val.csv"):
            assert float(written[row["line"]]) == pytest.approx(float(row["y_pred"]), rel=1e-5)


def test_identifiers_of_the_compounds_are_beside_the_predictions(with_columns, tmp_path, rows_of):
    """Columns such as "Compound ID", unless they have another role."""
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
        header = ["line", "Compound ID", "name", "smiles", "y", "y_pred", "cid", "cid_pred"]
        assert list(rows[0]) == header
        assert all(row["Compound ID"] == f"C-{int(row['line']) - 2}" for row in rows)
        assert {row["name"] for row in rows} <= {"alpha", ""}


def test_a_target_that_is_named_like_an_identifier_is_no_identifier(
    with_columns, tmp_path, rows_of
):
    """The targets are guessed here."""
    config = with_columns({"y": NUMBERS, "hit_code": NUMBERS}, {"run.epochs": 1})
    train(config, tmp_path / "run")
    rows = rows_of(tmp_path / "run" / "predictions_test.csv")
    assert list(rows[0]) == ["line", "smiles", "y", "y_pred", "hit_code", "hit_code_pred"]
