"""Replicates: their runs, how they continue after a stop, and their summary."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from scipy import stats

from molsepnorm.errors import ConfigError, DataError
from molsepnorm.training import load_config, train_replicates
from molsepnorm.training.comparing.replicates import paired_difference
from molsepnorm.training.run_folder.folder import RunFolder
from runs import outcome, split_rows, stop_at

ONE = {"run.epochs": 1}
LABELLED = {*range(30)} - {3}  # the rows of `table` that have a number


def _folders(replicates) -> list[str]:
    return sorted(path.name for path in replicates.folder.iterdir() if path.is_dir())


def _times(folder) -> dict[str, int]:
    """Modification times of all files but summary.json, which is always written anew."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p): p.stat().st_mtime_ns for p in files if p.name != "summary.json"}


def _summary(folder) -> dict:
    return json.loads((folder / "summary.json").read_text())


def test_replicates_draw_new_training_and_validation_molecules(configure, trained, tmp_path):
    """The first one is the plain split; the test molecules are the same."""
    config = configure(ONE)
    replicates = train_replicates(config, tmp_path / "replicates", seeds=[0], splits=3)
    assert _folders(replicates) == [f"split-{number}-seed-0" for number in range(3)]
    splits = [split_rows(replicates.folder / name) for name in replicates.runs]
    assert len({str(part["test"]) for part in splits}) == 1
    assert len({str(part["val"]) for part in splits}) == 3
    assert splits[0] == split_rows(trained(ONE).folder)


def test_the_entries_of_a_splits_file_are_replicates(configure, tmp_path):
    """Either the first ones, or the configured one alone."""
    taught = [row for row in range(20) if row in LABELLED]
    entries = [{"train": taught, "val": [20 + i, 24], "test": [25 + i, 29]} for i in range(3)]
    (tmp_path / "splits.json").write_text(json.dumps(entries))
    config = configure({"data.splits_file": tmp_path / "splits.json", "data.fold": 1, **ONE})
    replicates = train_replicates(config, tmp_path / "two", seeds=[0], splits=2)
    assert [split_rows(replicates.folder / name) for name in replicates.runs] == entries[:2]
    replicates = train_replicates(config, tmp_path / "one", seeds=[0])
    assert _folders(replicates) == ["seed-0"]
    assert split_rows(replicates.folder / "seed-0") == entries[1]


@pytest.mark.parametrize("steps", [3, 8])
def test_stopped_replicates_continue_exactly(configure, trained, tmp_path, steps):
    """With 3 steps per run: within the first, at its end, and within the third. Finished runs are
    not changed."""
    settings = {"model.dropout": 0.2, **ONE}
    config = configure(settings)
    parts = train_replicates(config, tmp_path / "parts", seeds=range(3), callback=stop_at(steps))
    assert not parts.finished
    done = [RunFolder(tmp_path / "parts" / name) for name in parts.runs]
    assert len(done) == (steps - 1) // 3
    if done:
        assert _summary(tmp_path / "parts")["runs"] == list(parts.runs) == parts.summary["runs"]
    before = [_times(run.path) for run in done]
    again = train_replicates(config, tmp_path / "parts", seeds=range(3))
    assert again.finished
    assert [_times(run.path) for run in done] == before
    alone = [trained({**settings, "run.seed": seed}) for seed in range(3)]
    for name, each in zip(again.runs, alone, strict=True):
        assert outcome(tmp_path / "parts" / name) == outcome(each.folder)
    expected = [each.metrics["test"]["rmse"] for each in alone]
    assert again.summary["test"]["rmse"]["values"] == expected


def test_more_seeds_on_a_changed_table_are_refused(configure, tmp_path, table, tree):
    """Nothing is trained before the error."""
    train_replicates(configure(ONE), tmp_path / "replicates", seeds=[0])
    before = tree(tmp_path / "replicates")
    table.write_text(table.read_text().replace("CCO,", "CCS,"))
    with pytest.raises(DataError, match="no longer those that .*seed-0 began with"):
        train_replicates(configure(ONE), tmp_path / "replicates", seeds=[1, 0])
    assert tree(tmp_path / "replicates") == before


def test_more_splits_than_the_file_has_are_refused(configure, tmp_path):
    """Before anything is trained."""
    entry = {"train": [*range(20)], "val": [20, 24], "test": [25, 29]}
    (tmp_path / "two.json").write_text(json.dumps([entry, entry]))
    config = configure({**ONE, "data.splits_file": tmp_path / "two.json"})
    with pytest.raises(ConfigError, match=r"data.fold is 2, but .* has 2 splits"):
        train_replicates(config, tmp_path / "replicates", seeds=[0], splits=3)
    assert not (tmp_path / "replicates").exists()


def test_the_summary_has_mean_and_unbiased_standard_deviation(configure, tmp_path):
    """For every score of both splits and for the time, compared with numpy."""
    config = configure({"data.targets": ["y", "active"], "data.split": [0.4, 0.3, 0.3], **ONE})
    replicates = train_replicates(config, tmp_path / "replicates", seeds=range(3))
    written = _summary(tmp_path / "replicates")
    assert written == replicates.summary
    runs = [
        json.loads((tmp_path / "replicates" / name / "metrics.json").read_text())
        for name in written["runs"]
    ]
    assert list(replicates.runs.values()) == runs
    checked = 0
    for split in ("val", "test"):
        assert list(written[split]) == list(runs[0][split])
        for name, figures in written[split].items():
            values = [run[split][name] for run in runs]
            assert figures["values"] == values
            assert None not in values
            assert figures["mean"] == pytest.approx(np.mean(values))
            assert figures["sd"] == pytest.approx(np.std(values, ddof=1))
            checked += figures["sd"] > 0
    assert checked > 5
    assert written["seconds"]["mean"] == pytest.approx(np.mean([run["seconds"] for run in runs]))
    assert written["parameters"] == runs[0]["parameters"]
    assert (written["data"], written["chosen_by"]) == ("data.csv", "loss")
    assert written["command"] == sys.argv
    (tmp_path / "from_summary.yaml").write_text(json.dumps(written["config"]))
    assert load_config(config=tmp_path / "from_summary.yaml") == config


def test_undefined_scores_are_null_and_left_out(with_columns, tmp_path):
    """For a fold with molecules of a single class; the summary lists the metrics that selected."""
    columns = {"a": [1, 1, 1, 1, 1, *([0] * 25)]}
    settings = {"data.targets": ["a"], "data.folds": 5, "data.split_seed": 2, **ONE}
    replicates = train_replicates(
        with_columns(columns, settings), tmp_path / "replicates", seeds=[0]
    )
    figures = replicates.summary["val"]["roc_auc"]
    defined = [value for value in figures["values"] if value is not None]
    assert 1 < len(defined) < 5
    assert figures["mean"] == pytest.approx(np.mean(defined))
    assert figures["sd"] == pytest.approx(np.std(defined, ddof=1))
    assert replicates.summary["chosen_by"] == "loss, roc_auc"
    assert _summary(tmp_path / "replicates") == replicates.summary


@pytest.mark.parametrize("number", [2, 10])
def test_the_paired_difference_equals_scipys(number):
    rng = np.random.default_rng(number)
    base = rng.normal(0.3, 0.05, number)
    scores = base + rng.normal(-0.01, 0.01, number)
    found = paired_difference(scores.tolist(), base.tolist())
    test = stats.ttest_rel(scores, base)
    interval = test.confidence_interval(0.95)
    assert found.mean == pytest.approx(scores.mean() - base.mean())
    assert found.interval == pytest.approx((interval.low, interval.high))


def test_undefined_intervals_are_none():
    """A single pair has none, and equal differences, also up to rounding, have none."""
    one = paired_difference([0.5], [0.4])
    assert (one.mean, one.interval) == (pytest.approx(0.1), None)
    alike = paired_difference([0.5, 0.25], [0.5, 0.25])
    assert (alike.mean, alike.interval) == (0.0, None)
    shifted = paired_difference([0.31, 0.41, 0.51], [0.30, 0.40, 0.50])
    assert (shifted.mean, shifted.interval) == (pytest.approx(0.01), None)


def test_folds_widen_the_interval_of_a_paired_t_test():
    values = [0.3, 0.1, 0.2, 0.4, 0.15]
    found = paired_difference(values, [0.0] * 5, folds=6)
    plain = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    ratio = np.sqrt((1 / 5 + 1 / 5) / (1 / 5))
    assert np.ptp(found.interval) / np.ptp(plain) == pytest.approx(ratio)
