"""Ablations: the runs of every variant, and the differences between variants."""

from __future__ import annotations

import json
from itertools import product

import pytest

from molsepnorm.cli.display import ablation_tables
from molsepnorm.errors import ConfigError
from molsepnorm.training import ablate
from molsepnorm.training.comparing.ablation import Ablation
from molsepnorm.training.comparing.replicates import Replicates, paired_difference
from runs import configured, outcome, write_table

ONE = {"run.epochs": 1}
NORMS = {"norm": ["shared", "sep", "sep-ln"]}
SPLITS = ("val", "test")


@pytest.fixture(scope="module")
def norms(tmp_path_factory) -> Ablation:
    folder = tmp_path_factory.mktemp("norms")
    config = configured(write_table(folder / "data.csv"), ONE)
    return ablate(config, folder / "norms", NORMS, seeds=[0, 2])


def test_each_run_equals_train_with_its_settings_and_seed(trained, norms):
    assert list(norms.replicates) == NORMS["norm"]
    for name, seed in product(NORMS["norm"], (0, 2)):
        alone = trained({**ONE, "model.norm": name, "run.seed": seed}).folder
        assert outcome(norms.folder / name / f"seed-{seed}") == outcome(alone)


def test_differences_pair_runs_of_the_same_seed(norms):
    """They are relative to the first variant; ablation.json has the same values."""
    assert norms.finished
    assert norms.metric == "rmse"
    assert list(norms.differences) == ["rmse"]
    assert list(norms.differences["rmse"]) == ["sep", "sep-ln"]
    told = json.loads((norms.folder / "ablation.json").read_text())
    for name, by_split in norms.differences["rmse"].items():
        for split, difference in by_split.items():
            runs = [norms.replicates[each].runs for each in (name, "shared")]
            scores = [[run[split]["rmse"] for run in each.values()] for each in runs]
            assert difference == paired_difference(*scores)
            assert difference.pairs == 2
            assert told["differences"]["rmse"][name][split]["mean"] == difference.mean
    assert told["variants"]["sep"]["test"]["rmse"]["values"] == [
        run["test"]["rmse"] for run in norms.replicates["sep"].runs.values()
    ]


def test_every_target_is_compared(configure, tmp_path, monkeypatch):
    """A mean hides a defeat on one of the targets; one metric compares only targets of its kind."""
    names = ("mae", "mae/y", "mae/z", "rmse", "rmse/y", "rmse/z", "roc_auc")

    def series(config, folder, *, seeds, callback):
        shift = {"shared": 0.0, "sep": 1.0, "sep-ln": 2.0}[folder.name]
        scores = {name: 10.0 * i + shift for i, name in enumerate(names)}
        run = {"headlines": ["rmse", "roc_auc"], **dict.fromkeys(SPLITS, scores)}
        spreads = {name: {"mean": each, "sd": None} for name, each in scores.items()}
        summary = {"chosen_by": "rmse", "parameters": 7, **dict.fromkeys(SPLITS, spreads)}
        return Replicates(folder, {"seed-0": run}, summary, True)

    monkeypatch.setattr("molsepnorm.training.comparing.ablation.train_replicates", series)
    found = ablate(configure(ONE), tmp_path / "norms", NORMS, seeds=[0])
    assert list(found.differences) == ["rmse", "rmse/y", "rmse/z", "roc_auc"]
    assert found.differences["rmse/z"]["sep-ln"]["test"].mean == 2
    scores, differences = ablation_tables(found)
    assert (scores.row_count, differences.row_count) == (4 * 3, 4 * 2 * 2)
    assert list(scores.columns[3].cells)[6:9] == ["50.00", "51.00", "52.00"]


def test_seeds_of_a_fold_are_not_independent(configure, tmp_path, monkeypatch):
    """More seeds with the same scores do not change the interval; those of folds are
    corrected for the overlap of their training molecules."""
    scores = {"shared": [1.0, 2.0, 3.0], "sep": [1.1, 2.3, 3.1], "sep-ln": [1.0, 2.0, 3.0]}

    def series(config, folder, *, seeds, callback):
        found = {
            f"fold-{fold}-seed-{seed}": {key: {"mae": score} for key in SPLITS}
            for fold, score in enumerate(scores[folder.name])
            for seed in seeds
        }
        summary = {"chosen_by": "mae", **{key: {"mae": {"mean": 1.0}} for key in SPLITS}}
        return Replicates(folder, found, summary, True)

    monkeypatch.setattr("molsepnorm.training.comparing.ablation.train_replicates", series)
    config = configure({**ONE, "data.folds": 3})
    one, several = (
        ablate(config, tmp_path / "norms", NORMS, seeds=range(count)).differences["mae"]["sep"][
            "test"
        ]
        for count in (1, 4)
    )
    assert one == several and one.pairs == 3
    assert one == paired_difference(scores["sep"], scores["shared"], folds=3)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"norm": ["sep", "sep"]}, "the variant sep is given twice: list each value once"),
        ({"optim.regression_loss": ["l1", "mse"]}, "set run.metric .--metric rmse or --metric mae"),
    ],
)
def test_variants_that_cannot_be_compared_are_refused_before_training(
    configure, tmp_path, vary, message
):
    with pytest.raises(ConfigError, match=message):
        ablate(configure(ONE), tmp_path / "none", vary, seeds=[0])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("way", ["rows", "fold"])
def test_variants_are_scored_on_the_same_rows_and_labels(with_columns, tmp_path, way):
    """A variant leaves out test rows that it cannot read."""
    words = ["a", "b"] * 10 + ["rare"] + ["b"] * 9
    parts = ["train"] * 15 + ["val"] * 5 + ["test"] * 10
    columns = {"y": [1, 2, 4], "s": words, "part": parts}
    settings = {**ONE, "data.targets": ["y"], "data.splits_column": "part"}
    vary = {"data.feature_columns": [[], ["s"]]}
    if way == "fold":
        settings |= {"data.splits_column": None, "data.folds": 3, "data.test_set": False}
    config = with_columns(columns, settings)
    with pytest.raises(ConfigError, match=r"are scored on different rows or labels"):
        ablate(config, tmp_path / "none", vary, seeds=[0])
    assert not (tmp_path / "none").exists()
