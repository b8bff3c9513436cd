"""`molsepnorm benchmark` as its user meets it."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pytest

from molsepnorm.training.step import TrainStep

NUMBERS = [0.5, 2, -1.5, 3, 1, -0.2, 0.7]
YES_NO = [0, 1, 0, 0, 1, 1, 0]


@pytest.fixture
def benchmark(tmp_path, tiny, write_table):
    """Arguments of a series on data.csv of the test's folder, into its folder series."""
    table = write_table(tmp_path / "data.csv", y=NUMBERS, a=YES_NO)
    return (
        *("benchmark", "--data", table, "--targets", "y", *tiny, "-o", tmp_path / "series"),
        *("--epochs", 1),
    )


def _summary(folder) -> dict:
    return json.loads((folder / "series" / "summary.json").read_text())


def test_it_tells_of_each_run_and_what_they_come_to(benchmark, ok, tmp_path):
    """A line a run, a table of mean and deviation, and where all figures are."""
    text = ok(*benchmark, "--seeds", "0-1,5")
    runs = {
        name: json.loads((tmp_path / "series" / name / "metrics.json").read_text())
        for name in ("seed-0", "seed-1", "seed-5")
    }
    for name, metrics in runs.items():
        assert f"{name}: val rmse {metrics['val']['rmse']:.4f}, test rmse" in text
    values = [metrics["test"]["rmse"] for metrics in runs.values()]
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in text
    assert "data.csv: mean ± sd of 3 run(s)" in text
    assert str(tmp_path / "series" / "summary.json") in text
    assert text.count("Splits") == 1


def test_json_is_the_summary_and_nothing_else(benchmark, ok, tmp_path):
    told = json.loads(ok(*benchmark, "--seeds", "0,3", "--json"))
    assert told == _summary(tmp_path)
    assert told["runs"] == ["seed-0", "seed-3"]
    assert told["test"]["mae"]["mean"] == pytest.approx(np.mean(told["test"]["mae"]["values"]))


def test_given_again_nothing_is_repeated(benchmark, ok, tmp_path, monkeypatch):
    """The same table is printed; more seeds are trained besides."""
    first = ok(*benchmark, "--seeds", "0-1")
    plain, steps = TrainStep.__call__, []

    def step(self, *planned):
        steps.append(self.config.run.seed)
        return plain(self, *planned)

    monkeypatch.setattr(TrainStep, "__call__", step)
    again = ok(*benchmark, "--seeds", "0-1")
    assert again in first
    assert not steps
    ok(*benchmark, "--seeds", "0-2")
    assert set(steps) == {2}
    assert _summary(tmp_path)["runs"] == ["seed-0", "seed-1", "seed-2"]


def test_folds_and_replicates_are_splits(benchmark, ok, tmp_path):
    told = json.loads(ok(*benchmark, "--seeds", "0", "--folds", 3, "--json"))
    assert told["runs"] == ["fold-0-seed-0", "fold-1-seed-0", "fold-2-seed-0"]
    told = json.loads(ok(*benchmark, "--seeds", "1", "--replicates", 2, "--json"))
    assert told["runs"] == ["split-0-seed-1", "split-1-seed-1"]


def test_without_output_the_folder_is_called_like_the_data(
    ok, tiny, write_table, tmp_path, monkeypatch
):
    """And found again by the same command."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "mine.csv", y=NUMBERS)
    for _ in range(2):
        ok("benchmark", "--data", "mine.csv", *tiny, "--epochs", 1, "--seeds", "0")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["mine-series"]


@pytest.mark.parametrize("targets", ["y,a", "a"])
def test_runs_chosen_by_the_loss_are_told_by_a_score(benchmark, ok, targets):
    """The loss itself is no score; one that is undefined is said to be."""
    args = [*benchmark]
    args[args.index("--targets") + 1] = targets
    text = ok(*args, "--seeds", "4", "--split", "0.9,0.05,0.05")
    (line,) = (line for line in text.splitlines() if line.startswith("seed-4: "))
    metric = "mae" if "y" in targets else "roc_auc"  # the first of the scores
    assert line.startswith(f"seed-4: val {metric} ")
    assert f", test {metric} {'undefined, ' if metric == 'roc_auc' else ''}" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_series_that_is_stopped_goes_on_by_the_same_command(
    benchmark, ok, run, tmp_path, monkeypatch, number
):
    """The run under way is saved; it says how to go on and leaves with the signal's code."""
    plain, handlers = TrainStep.__call__, [signal.getsignal(s) for s in (2, 15)]

    def step(self, *planned):
        if self.config.run.seed == 1:
            os.kill(os.getpid(), number)
        return plain(self, *planned)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", step)
        result = run(*benchmark, "--seeds", "0-2")
    assert result.exit_code == 128 + number
    assert "Stopped and saved. Give the same command again to go on." in result.stderr
    assert "Traceback" not in result.output
    assert [signal.getsignal(s) for s in (2, 15)] == handlers
    assert _summary(tmp_path)["runs"] == ["seed-0"]
    assert (tmp_path / "series" / "seed-1" / "checkpoints").exists()
    ok(*benchmark, "--seeds", "0-2")
    assert _summary(tmp_path)["runs"] == ["seed-0", "seed-1", "seed-2"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--seeds", "a"), "'a' should look like 0-9 or 0,3,7"),
        (("--seeds", ""), "'' should look like 0-9 or 0,3,7"),
        (("--seeds", "-1"), "'-1' should look like 0-9 or 0,3,7"),
        (("--seeds", "0,"), "'0,' should look like"),
        (("--seeds", "0-"), "'0-' should look like"),
        (("--seeds", "1.5"), "'1.5' should look like"),
        (("--seeds", "0-999999999999"), "'0-999999999999' are 10,000 seeds or more"),
        (("--seeds", "3-1"), "at least one seed is needed, each once"),
        (("--seeds", "0-3,2"), "at least one seed is needed, each once, such as 0-9"),
        (("--replicates", "0"), "'--replicates': 0 is not in the range x>=1"),
        (("--replicates", "-2"), "'--replicates'"),
        (("--folds", "3", "--replicates", "2"), "data.folds is 3, which is the number of splits"),
        (("--splits-column", "a", "--replicates", "2"), "the column 'a' defines the split"),
        (("--seed", "1"), "--seed"),
    ],
)
def test_a_plan_that_makes_no_sense_is_a_usage_error(benchmark, refused, tmp_path, args, message):
    assert message in refused(*benchmark, *args)
    assert not (tmp_path / "series").exists()


def test_another_configuration_in_the_folder_is_refused(benchmark, ok, refused, tree, tmp_path):
    """With the name of the run, and everything left as it is."""
    ok(*benchmark, "--seeds", "0")
    before = tree(tmp_path)
    message = refused(*benchmark, "--seeds", "0-1", "--layers", 2)
    assert "seed-0 is a run of another configuration: choose another folder" in message
    assert tree(tmp_path) == before


def test_without_data_it_says_what_to_give(refused):
    assert "no data: name a data set" in refused("benchmark")


def test_it_has_help_with_examples(ok):
    text = ok("benchmark", "--help")
    assert text.count("molsepnorm benchmark ") >= 3
    for option in ("--seeds", "--replicates", "--folds", "--json", "-o, --output"):
        assert option in text
