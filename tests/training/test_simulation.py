"""Rounds of training and choice on a table whose labels are known."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest

from molsepnorm.predict.suggest import parse_goals
from molsepnorm.training import load_config
from molsepnorm.training.comparing.simulation import STRATEGIES, simulate

QUICK = {"run.epochs": 0, "run.blend": "none", "run.baseline": False}


@pytest.fixture
def esol(datasets, tmp_path):
    """300 molecules with their solubility, and whether it is above -1.5."""
    table = pd.read_csv(datasets / "moleculenet" / "esol.csv").sample(300, random_state=0)
    table["soluble"] = (table["log_solubility"] > -1.5).astype(int)
    table.to_csv(tmp_path / "esol.csv", index=False)
    return partial(load_config, tmp_path / "esol.csv")


def wish(goals, maximum=()):
    return lambda task: parse_goals(task, goals, {}, dict(maximum))


def test_chosen_molecules_are_better_than_random_ones(esol):
    config = esol(overrides={**QUICK, "data.targets": ["log_solubility"]})
    lines: list[str] = []
    found = simulate(
        config,
        wish({"log_solubility": "min"}),
        rounds=2,
        count=15,
        start=30,
        repeats=1,
        on_round=lines.append,
    )
    assert (found.molecules, found.wanted) == (300, 15)
    assert found.measured == [30, 45, 60]
    assert len(lines) == 2 * len(STRATEGIES)
    hits = {name: array[0] for name, array in found.found.items()}
    assert len({array[0] for array in hits.values()}) == 1  # all start with the same molecules
    assert all((array[1:] >= array[:-1]).all() for array in hits.values())
    assert hits["suggest"][-1] - hits["suggest"][0] >= 4
    assert hits["suggest"][-1] >= hits["random"][-1] + 3
    assert hits["greedy"][-1] >= hits["random"][-1] + 3
