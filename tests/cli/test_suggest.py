"""`molsepnorm suggest` through the command line."""

from __future__ import annotations

import pandas as pd
import pytest

from .conftest import ENDS, write_csv


@pytest.fixture(scope="module")
def model(ok, tiny, tmp_path_factory):
    """A model of y that was trained on 30 molecules."""
    folder = tmp_path_factory.mktemp("suggest")
    table = write_csv(folder / "known.csv", y=[0.5, 2, -1.5, 3, 1, -0.2, 0.7])
    split = ("--split", "0.5,0.5,0", "--no-baseline")
    ok("train", "--data", table, "--targets", "y", *tiny, *split, "-o", folder / "run")
    return folder / "run"


@pytest.fixture
def given(model, tmp_path):
    smiles = [f"{'N' * (n % 2)}{'C' * n}{end}" for n in range(4, 9) for end in ENDS]
    pd.DataFrame({"smiles": [*smiles, "C1CC"]}).to_csv(tmp_path / "new.csv", index=False)
    return "suggest", "--model", model, "--input", tmp_path / "new.csv", "--processes", "1"


def test_a_batch_is_written_in_order_of_choice(run, given, tmp_path):
    out = tmp_path / "batch.tsv"
    done = run(*given, "--goal", "y=max", "--minimum", "y_pic50=3", "-o", out)
    assert done.exit_code == 2
    done = run(*given, "--goal", "y=max", "--count", "5", "-o", out)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    found = pd.read_csv(out, sep="\t")
    assert found["rank"].tolist() == [1, 2, 3, 4, 5]
    added = {"y_pred", "y_low", "y_high", "acquisition", "similarity", "batch_similarity", "reason"}
    assert added <= {*found.columns}
    assert len(pd.read_csv(tmp_path / "batch-rejected.tsv", sep="\t")) == 1
    assert f"5 chosen in {out}" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--goal", "y=max"],
        ["--goal", "y=max", "-o", "x.csv", "--epochs", "3"],
        ["--goal", "y=max", "-o", "x.csv", "--rounds", "3"],
        ["-o", "x.csv"],
    ],
)
def test_options_that_do_not_fit_are_refused(refused, given, options):
    refused(*given, *options)


def test_a_simulation_prints_a_row_for_each_strategy(ok, tiny, tmp_path):
    table = write_csv(tmp_path / "known.csv", y=[0.5, 2, -1.5, 3, 1, -0.2, 0.7])
    given = ("--targets", "y", "--goal", "y=max", "--epochs", "1", "--set", "model.layers=1")
    given += ("--set", "model.width=16", "--set", "model.ffn_width=16", "--set", "model.heads=2")
    numbers = ("--rounds", "1", "--count", "5", "--start", "12", "--repeats", "1")
    text = ok("suggest", "--simulate", "--data", table, *given, *numbers)
    assert [text.count(f"{name} ") for name in ("suggest", "greedy", "random")] == [1, 1, 1]
    assert "12 measured" in text
    assert "17 measured" in text
