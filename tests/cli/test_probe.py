"""A model that is only the probe of fine-tuning, in every command that reads a model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from .conftest import read_rows

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, ok, tiny, write_table):
    """A folder with data.csv, a model to start from, and a probe of it in run."""
    folder = tmp_path_factory.mktemp("probe")
    table = write_table(folder / "data.csv", y=NUMBERS, a=[0, 1, 0, 0, 1, 1, 0])
    data = ("train", "--data", table, "--split", "0.4,0.3,0.3")
    ok(*data, "--targets", "a", *tiny, "-o", folder / "start")
    start = ("--from", folder / "start", "--epochs", "0")
    text = ok(*data, "--targets", "y", *start, "-o", folder / "run")
    assert "Best epoch: 0 of 0, by validation rmse" in text
    return folder


def test_no_epochs_need_a_start(workspace, refused, tiny):
    data = ("train", "--data", workspace / "data.csv", "--targets", "y", *tiny[2:])
    assert "run.epochs: 0 fits the probe" in refused(*data, "--epochs", "0")


def test_evaluation_repeats_the_scores(workspace, ok):
    written = json.loads((workspace / "run" / "metrics.json").read_text())["test"]
    model = ("evaluate", "--model", workspace / "run", "--data", workspace / "data.csv")
    scores = json.loads(ok(*model, "--split", "test", "--json"))
    assert {name: scores[name] for name in written} == pytest.approx(written, rel=1e-5)


def test_predictions_are_those_of_the_run(workspace, ok):
    rows = read_rows((workspace / "run" / "predictions_test.csv").read_text())
    asked = [part for row in rows for part in ("--smiles", row["smiles"])]
    text = ok("predict", "--model", workspace / "run", *asked, "--processes", "1")
    found = [float(row["y_pred"]) for row in read_rows(text)]
    assert found == pytest.approx([float(row["y_pred"]) for row in rows], rel=1e-5)


def test_embeddings_are_those_of_every_layer(workspace, ok, tmp_path):
    """Token and mean of one layer of width 16."""
    out = tmp_path / "embeddings.parquet"
    model = ("embed", "--model", workspace / "run", "--smiles", "CCO", "--smiles", "CCN")
    ok(*model, "-o", out, "--processes", "1")
    assert np.stack(pd.read_parquet(out)["embedding"]).shape == (2, 32)


def test_a_probe_can_be_analysed(workspace, ok, tmp_path):
    ok("analyze", "--model", workspace / "run", "--split", "all", "-o", tmp_path / "report")
    assert json.loads((tmp_path / "report" / "geometry.json").read_text())["molecules"] == 30
