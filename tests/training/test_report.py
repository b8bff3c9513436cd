"""The report of a run: what it shows, from which files, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.tasks.metrics import significant
from molsepnorm.tasks.molecule_errors import target_error
from molsepnorm.training import load_config, train
from molsepnorm.training.report import write_report
from molsepnorm.training.report.contents import Contents
from molsepnorm.training.results.metrics import Metrics
from molsepnorm.training.results.summary import composition, conclusion
from runs import TINY, rows_of, write_rows
from support import Page, Recorder

ALERT = "<script>alert(1)</script>"
NUMBERS = [0.5, 2, 1.5, 3, 1, 0.2, 0.7]
YES_NO = [0, 1, 0, "", 0, 1, 1, 0]
WORDS = ["lo", "mi", "<i>hi", "lo", "mi", "", "lo"]


def read(folder: Path) -> tuple[str, Page]:
    text = (folder / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory, no_baselines):
    """A finished run with a target of each kind, missing labels, a rejected row and a forest."""
    folder, name = tmp_path_factory.mktemp("mixed"), ALERT
    ends = ("O", "N", "C1CC1", "c1ccncc1", "C(=O)O", "c1ccccc1")
    smiles = [f"{'C' * length}{end}" for length in range(1, 9) for end in ends]
    rows = [
        [text, *(each[row % len(each)] for each in (NUMBERS, YES_NO, WORDS))]
        for row, text in enumerate(smiles)
    ]
    header, bad = ["smiles", name, "active", "class"], ['C1CC"<b>', 1, 1, "lo"]
    path = write_rows(folder / "data & 'more'.csv", header, *rows, bad)
    settings = {
        **TINY,
        "data.targets": [name, "active", "class"],
        "data.task_type": {"class": "multiclass"},
        "data.split": [0.5, 0.25, 0.25],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molsepnorm.training.completing.baseline.fit_baseline", no_baselines)
        patch.setattr("molsepnorm.training.completing.baseline.TREES", 8)
        train(load_config(path, overrides=settings), folder / "run")
    return folder / "run"


def test_training_writes_the_report_and_the_folder_alone_gives_it_again(mixed, tmp_path):
    copied = tmp_path / mixed.name
    shutil.copytree(mixed, copied)
    (copied / "report.html").unlink()
    shutil.rmtree(copied / "checkpoints")
    write_report(copied)
    again = (copied / "report.html").read_text().replace(str(copied), str(mixed))
    assert again == (mixed / "report.html").read_text()


def test_the_sentences_and_scores_are_those_of_the_metrics(mixed):
    metrics = json.loads((mixed / "metrics.json").read_text())
    _, reader = read(mixed)
    sentences = conclusion(Metrics.from_json(metrics))
    text = re.sub(r"\s", "", reader.text)
    assert sentences and all(re.sub(r"[\s`]", "", each) in text for each in sentences)
    low, high = metrics["test_interval_95"]["rmse"]
    assert f"{significant(low, 3)} to {significant(high, 3)}" in reader.text
    found = metrics["baseline_difference"]["rmse"]["difference"]
    assert f"{'+' if found > 0 else ''}{significant(found, 3)} (" in reader.text
    assert f"{metrics['calibration'][ALERT]['coverage']:.1%}" in reader.text
    model = PropertyModel.from_pretrained(mixed / "model")
    assert f"Model: {composition(model, metrics['epochs'])}." in reader.text
    assert "Molecules by similarity" in reader.text
    assert "The line is the expected error" not in reader.text  # of several targets none is drawn


def test_the_labels_and_predictions_are_those_of_the_model(mixed):
    """The columns of the file are found for every kind of target."""
    contents = Contents.read(mixed)
    model = PropertyModel.from_pretrained(mixed / "model")
    rows = rows_of(mixed / "predictions_test.csv")
    assert [each.name for each in contents.targets] == [ALERT, "active", "class"]
    number, yes_no, classes = (contents.predicted("test", each) for each in model.task.targets)
    assert number.values[:, 0] == pytest.approx([float(row[f"{ALERT}_pred"]) for row in rows])
    assert number.labels == pytest.approx([float(row[ALERT]) for row in rows])
    known = [row["active"] != "" for row in rows]
    assert np.isfinite(yes_no.labels).tolist() == known
    likely = yes_no.values[known, 0]
    own = np.array([float(row["active"]) for row in rows if row["active"]])
    expected = -np.log(np.where(own == 1, likely, 1 - likely))
    errors = target_error(yes_no.target, yes_no.labels, yes_no.values)
    assert errors[known] == pytest.approx(expected)
    names = [row["class"] for row in rows]
    written = [classes.truth(i) if ok else "" for i, ok in enumerate(classes.scored)]
    assert written == names
    assert [classes.prediction(i).split(" (")[0] for i in range(len(rows))] == [
        row["class_pred"] for row in rows
    ]


def test_the_worst_prediction_comes_first(mixed):
    contents = Contents.read(mixed)
    errors = []
    for target in contents.targets:
        found = contents.predicted("test", target)
        own = target_error(target, found.labels, found.values)
        errors.append(own / np.nanmean(own))
    row = int(np.nanargmax(np.nanmax(np.array(errors), axis=0)))
    text, _ = read(mixed)
    section = text.partition("The worst predictions")[2]
    first = re.search(r"<code>([^<]+)</code>", section)[1]
    assert first == contents.smiles("test")[row]


def test_the_confusion_table_counts_molecules(mixed):
    contents = Contents.read(mixed)
    found = contents.predicted("test", contents.targets[2])
    names = contents.targets[2].classes
    counts = confusion_matrix(
        found.labels[found.scored], found.values[found.scored].argmax(1), labels=range(len(names))
    )
    text, _ = read(mixed)
    for name, row in zip(names, counts.tolist(), strict=True):
        name = name.replace("<", "&lt;").replace(">", "&gt;")
        assert f"<tr><td>{name}</td>{''.join(f'<td>{n}</td>' for n in row)}<td>" in text


def test_texts_of_users_are_escaped(mixed):
    text, reader = read(mixed)
    assert not {"script", "i", "iframe", "object", "img", "form"} & {*reader.tags}
    assert ALERT in reader.text and "<i>hi" in reader.text
    assert 'C1CC"<b>' not in text


def test_the_page_loads_nothing(mixed):
    text, reader = read(mixed)
    links = [
        value
        for name, value in reader.attributes
        if name in ("src", "href", "xlink:href", "action", "data", "srcset")
    ]
    assert links == ["rejected.csv"]
    assert "url(" not in text and "@import" not in text
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    # only the namespaces of SVG are addresses, and a browser does not open them
    assert {re.sub(r"\W+$", "", each) for each in re.findall(r"https?://[^'\" ]+", text)} <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
        "http://www.rdkit.org/xml",
    }


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("predictions_test.csv", "active_pred", "other"), ("history.csv", "epoch,", "ep,")],
)
def test_damaged_files_are_named(mixed, tmp_path, file, old, new):
    copied = tmp_path / "run"
    shutil.copytree(mixed, copied)
    path = copied / file
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ModelError, match=f"{file} is damaged"):
        write_report(copied, tmp_path / "new.html")
    assert not (tmp_path / "new.html").exists()


def test_training_does_not_fail_if_the_report_does(configure, tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("a chart")

    seen = Recorder()
    monkeypatch.setattr("molsepnorm.training.report.report_page", fail)
    settings = {"run.epochs": 1, "run.baseline": False}
    result = train(configure(settings), tmp_path / "run", callback=seen)
    assert result.finished and result.metrics
    (text,) = [each for each in seen.warnings if "report" in each]
    assert "a chart" in text and "molsepnorm models report" in text
