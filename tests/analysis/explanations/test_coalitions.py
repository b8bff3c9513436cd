"""Random orders of players, and the Shapley values that they estimate."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from molsepnorm.analysis.explanations.contributions import draw


def game(players: int, outputs: int = 2) -> dict[tuple[bool, ...], np.ndarray]:
    """A random value for every coalition."""
    rng = np.random.default_rng(players)
    every = np.indices((2,) * players).reshape(players, -1).T.astype(bool)
    return {tuple(each): rng.normal(size=outputs) for each in every.tolist()}


def differences(values: dict, order: list[int]) -> np.ndarray:  # (n, O)
    """Return the value that each player adds in one order, one after the other."""
    present = [False] * len(order)
    added = {}
    for player in order:
        before = values[tuple(present)]
        present[player] = True
        added[player] = values[tuple(present)] - before
    return np.array([added[player] for player in range(len(order))])


@pytest.mark.parametrize("players", [1, 2, 5, 12])
def test_contributions_equal_a_loop_over_the_orders(players):
    draws, values = draw([1] * players, 6), game(players)
    found = draws.contributions(np.array([values[tuple(each)] for each in draws.coalitions]))
    slow = [differences(values, order) for order in draws.orders.tolist()]
    expected = np.array(slow).reshape(6, 2, players, 2).mean(axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_orders_come_in_pairs_of_which_one_is_the_reverse():
    orders = draw([1] * 7, 5).orders
    np.testing.assert_array_equal(orders[::2], orders[1::2, ::-1])
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(7), (10, 1)))
    assert len({*map(tuple, orders[::2])}) == 5


@pytest.mark.parametrize("players", [1, 3, 300])
def test_coalitions_are_distinct_and_go_from_none_to_all(players):
    draws = draw([1] * players, 2)
    sizes = draws.coalitions.sum(axis=1)
    assert sizes[0] == 0 and sizes[-1] == players
    assert len({each.tobytes() for each in draws.coalitions}) == len(draws.coalitions)


def test_many_orders_lead_to_the_shapley_values():
    """Within four standard errors, and those are not too large."""
    players, values = 5, game(5)
    exact = np.mean([differences(values, [*each]) for each in permutations(range(5))], axis=0)
    draws = draw([1] * players, 400)
    samples = draws.contributions(np.array([values[tuple(each)] for each in draws.coalitions]))
    error = samples.std(axis=0, ddof=1) / 20
    assert (abs(samples.mean(axis=0) - exact) < 4 * error).all() and error.max() < 0.06


def test_players_of_a_group_share_what_it_adds_as_one_player():
    """A game of 3 groups, and its quotient, in which each group is one player."""
    groups, values = [1, 3, 2], game(6)
    group = np.repeat(np.arange(3), groups)
    draws, quotient = draw(groups, 5), draw([1] * 3, 5)
    found = draws.contributions(np.array([values[tuple(each)] for each in draws.coalitions]))
    whole = [values[tuple(each[group].tolist())] for each in quotient.coalitions]
    expected = quotient.contributions(np.array(whole))
    sums = np.stack([found[:, group == each].sum(axis=1) for each in range(3)], axis=1)
    np.testing.assert_allclose(sums, expected, atol=1e-12)
    assert (np.diff(group[draws.orders]) != 0).sum() == 2 * len(draws.orders)
