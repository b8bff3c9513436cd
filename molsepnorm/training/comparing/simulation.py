"""`simulate`: how fast `predict.suggest` finds the best molecules of a table that is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.errors import ConfigError, counted
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.suggest import Acquisition, Goal, choose
from molsepnorm.tasks import Task
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import training_dataset
from molsepnorm.training.run import train_on

STRATEGIES = ("suggest", "greedy", "random")

_BEST = 0.05  # share of the molecules that should be found
_VALIDATION = 0.3  # share of the measured molecules that calibrates each model
_LEVEL = 0.5  # of intervals, which are not used here; it needs one validation molecule


class Simulation(NamedTuple):
    """Number of the best molecules that were found."""

    molecules: int
    wanted: int  # number of the best molecules among them
    measured: list[int]  # number of measured molecules, at the start and after each round
    found: dict[str, np.ndarray]  # by strategy, int (repeats, 1 + rounds): the wanted among these


def simulate(
    config: TrainConfig,
    goals: Callable[[Task], Sequence[Goal]],
    rounds: int = 5,
    count: int = 20,
    start: int = 50,
    exploit: float = 0.7,
    repeats: int = 3,
    on_round: Callable[[str], None] = lambda _: None,
) -> Simulation:
    """Hide the labels of a table, and measure them in rounds of training and choice.

    The wanted molecules are the best 5 % by the number that is improved, among those that fulfil
    the other goals; without such a number, all that fulfil the goals. Each repeat starts with other
    molecules, drawn at random, which are the same for all strategies: `suggest`, `greedy` (the best
    predictions, without uncertainty and diversity) and `random`.

    Args:
        config: of the table and the trainings, such as `run.epochs: 0` for the kernel regression.
        goals: makes the goals from the task, see `parse_goals`.
        rounds: number of rounds; each measures `count` molecules.
        start: number of molecules that are measured before the first round.
        exploit: see `choose`.
        on_round: called with a line of progress after each round.

    Raises:
        ConfigError: a goal does not fit the table, or the table has too few molecules.
        DataError: the table cannot be read, or a model cannot be trained on the measured molecules.
    """
    dataset = training_dataset(config)
    wished = goals(Task.fit(dataset.targets, dataset.exact_labels))
    labels = dataset.exact_labels.astype(float)
    pool = dataset.molecules
    targets = np.array([goal.target for goal in wished])
    pool = pool[np.isfinite(labels[np.ix_(pool, targets)]).all(axis=1)]
    _, first = np.unique(dataset.molecule_ids[pool], return_index=True)
    pool = pool[np.sort(first)]
    wanted = np.isin(np.arange(len(labels)), pool)
    for goal in wished:
        wanted &= goal.holds(labels, np.zeros_like(labels))
    for goal in wished:
        if goal.sign:
            order = np.argsort(-goal.sign * labels[:, goal.target], kind="stable")
            order = order[wanted[order]][: max(1, round(_BEST * len(pool)))]
            wanted = np.isin(np.arange(len(labels)), order)
    if not wanted.any() or start + rounds * count > len(pool):
        raise ConfigError(
            f"{dataset.name} has {counted(len(pool), 'molecule')} with labels of the goals, of "
            f"which {wanted.sum():,} are wanted, and {rounds} rounds need "
            f"{start + rounds * count:,} with one wanted: choose smaller --start, --count and "
            "--rounds, or other goals"
        )

    def chosen(strategy: str, known: np.ndarray, rest: np.ndarray, seed: list[int]) -> np.ndarray:
        """Train on the measured molecules, and return the chosen ones of the rest."""
        rng = np.random.default_rng(seed)
        if strategy == "random":
            return rng.choice(rest, count, replace=False)
        held_out, trained = np.split(rng.permutation(known), [round(_VALIDATION * len(known))])
        splits = {"train": np.sort(trained), "val": np.sort(held_out), "test": rest[:0]}
        model = train_on(config, replace(dataset, splits=splits)).model
        assert model is not None
        columns = {name: [cells[row] for row in rest] for name, cells in dataset.columns.items()}
        predictor = Predictor(model, level=_LEVEL, domain=True)
        table = predictor.to_frame(dataset.smiles_of(rest), columns or None)
        valid = table["error"].isna().to_numpy()
        table, rest, value = table[valid], rest[valid], Acquisition.of(model, wished)
        if strategy == "greedy":
            return rest[_by_prediction(value, table)[:count]]
        near = table["similarity"].to_numpy(float)
        choices = choose(value(table), near, table["smiles"].tolist(), count, exploit)
        return rest[choices["row"]]

    found = {name: np.empty((repeats, rounds + 1), dtype=int) for name in STRATEGIES}
    for seed, (name, hits) in product(range(repeats), found.items()):
        measured = np.random.default_rng(seed).choice(pool, start, replace=False)
        hits[seed, 0] = wanted[measured].sum()
        for number in range(rounds):
            rest = pool[~np.isin(pool, measured)]
            measured = np.concatenate([measured, chosen(name, measured, rest, [seed, number])])
            hits[seed, number + 1] = wanted[measured].sum()
            hit = f"{hits[seed, number + 1]} of {wanted.sum():,} found"
            on_round(f"start {seed}, {name}: {hit} among {len(measured):,} measured molecules")
    sizes = [start + count * number for number in range(rounds + 1)]
    return Simulation(len(pool), int(wanted.sum()), sizes, found)


def _by_prediction(value: Acquisition, table: pd.DataFrame) -> np.ndarray:  # int (n,)
    """Return the rows by the predicted number that is improved, those first that probably fulfil
    the other goals; without such a number, by the probability."""
    others = replace(value, goals=tuple(goal for goal in value.goals if not goal.sign))
    keys = [others(table)]
    for goal in value.goals:
        if goal.sign:
            column = value.model.task.targets[goal.target].output_columns[0]
            keys = [goal.sign * table[column].to_numpy(float), keys[0] >= 0.5]
    return np.lexsort(keys)[::-1]
