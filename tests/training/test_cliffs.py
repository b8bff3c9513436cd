"""Activity cliffs of a report, against RDKit one pair after the other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from molsepnorm.tasks.metrics import significant
from molsepnorm.training import load_config, train
from molsepnorm.training.report.cliffs import activity_cliffs
from molsepnorm.training.report.contents import Contents
from runs import TINY, rows_of, write_rows
from support import similarities

PARTS = ("train", "train", "val", "test")
WRONG = "CCCCCCCCCCO"  # a test molecule among alcohols of the same length


@pytest.fixture(scope="module")
def run(tmp_path_factory, no_baselines):
    """Two regression targets, of which the second is the same for similar molecules, and a class.
    The labels follow the end of a chain, but for one."""
    folder = tmp_path_factory.mktemp("cliffs")
    ends = {"O": -2.0, "N": 0.5, "c1ccccc1": 2.0, "C(=O)O": -1.0}
    rows = []
    for length in range(4, 14):
        for number, (end, y) in enumerate(ends.items()):
            text = f"{'C' * length}{end}"
            part = "test" if text == WRONG else PARTS[(length + number) % 4]
            rows.append([text, 4.0 if text == WRONG else y, y, int(y > 0), part])
    path = write_rows(folder / "data.csv", ["smiles", "y", "even", "active", "part"], *rows)
    settings = {**TINY, "data.targets": ["y", "even", "active"], "data.splits_column": "part"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molsepnorm.training.completing.baseline.fit_baseline", no_baselines)
        train(load_config(path, overrides=settings), folder / "run")
    return folder / "run"


def test_cliffs_are_those_of_rdkit(run):
    tables = {name: rows_of(run / f"predictions_{name}.csv") for name in ("test", "val", "train")}
    every = [(name == "test", row) for name, rows in tables.items() for row in rows]
    labels = np.array([float(row["y"]) for _, row in every])
    least, on_cliff, cliffs = labels.std(), set(), 0
    similarity = similarities(*[[row["smiles"] for _, row in every]] * 2)
    for (i, (first, _)), (j, (second, _)) in combinations(enumerate(every), 2):
        steep = abs(labels[i] - labels[j]) > least
        if steep and (first or second) and similarity[i, j] >= 0.7:
            cliffs += 1
            on_cliff |= {i, j}
    assert cliffs > 2
    errors = [abs(float(row["y"]) - float(row["y_pred"])) for row in tables["test"]]
    own = [error for i, error in enumerate(errors) if i in on_cliff]
    others = [error for i, error in enumerate(errors) if i not in on_cliff]
    cells = [significant(least, 3), f"{cliffs}", f"{len(own)}", significant(np.mean(own), 3)]
    cells += [f"{len(others)}", significant(np.mean(others), 3)]
    (row,) = activity_cliffs(Contents.read(run))["table"]  # not the target without cliffs
    assert row == ["y", *cells]


def test_a_wrong_label_is_found(run):
    found = activity_cliffs(Contents.read(run))["pairs"]
    name, alike, molecules = found[0]
    assert (name, molecules[0][:2]) == ("y", (WRONG, "4"))
    assert alike >= 0.85
    text = (run / "report.html").read_text()
    assert f"<code>{WRONG}</code>" in text.partition("Activity cliffs")[2]
