"""Shapley values of players, from the values of coalitions that are drawn at random.

The n players are the atoms of a molecule and further inputs. The value of a coalition, a set of
present players, is the model's prediction without the other players.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Draws:
    r"""Random orders in which players are added, and the distinct coalitions that occur.

    .. math:: \phi_i = \frac1R \sum_{r=1}^R v(P_{ri} \cup \{i\}) - v(P_{ri})

    with the players :math:`P_{ri}` that precede player i in order r. Orders come in pairs, an order
    and its reverse, which lowers the variance. The differences of one order add up to
    v(all) - v(none), so the contributions do so exactly, for any number of orders.

    Source: Castro, Gómez and Tejada, Computers & Operations Research 2009, 36, 1726; pairs of
    orders: Mitchell et al., "Sampling Permutations for Shapley Value Estimation", JMLR 2022, 23.
    """

    orders: np.ndarray
    """int64 [R, n]: the players in the order in which they are added; R is even."""
    coalitions: np.ndarray
    """bool [K, n]: the distinct coalitions; the first is empty, the last has all players."""
    steps: np.ndarray
    """int64 [R, n + 1]: the coalition after 0, 1, …, n players of each order."""

    def contributions(self, values: np.ndarray) -> np.ndarray:  # (K, O) -> (R / 2, n, O)
        """Return each player's contribution in every pair of orders; their mean is φ.

        Args:
            values: float64 (K, O), the values of the coalitions.
        """
        added = np.diff(values[self.steps], axis=1)  # (R, n, O), in the order of addition
        of_player = np.empty_like(added)
        np.put_along_axis(of_player, self.orders[:, :, None], added, axis=1)
        return of_player.reshape(len(added) // 2, 2, *added.shape[1:]).mean(axis=1)


def draw(players: int, pairs: int, seed: int = 0) -> Draws:
    """Draw R / 2 pairs of random orders of n players."""
    rng = np.random.default_rng(seed)
    half = rng.permuted(np.tile(np.arange(players), (pairs, 1)), axis=1)
    orders = np.stack([half, half[:, ::-1]], axis=1).reshape(2 * pairs, players)
    place = orders.argsort(axis=1)  # (R, n)
    after = place[:, None, :] < np.arange(players + 1)[:, None]  # (R, n + 1, n)
    packed = np.packbits(after.reshape(-1, players), axis=1)
    size = after.sum(axis=2).reshape(-1, 1).astype(">u2").view(np.uint8).reshape(len(packed), 2)
    _, first, steps = np.unique(
        np.hstack([size, packed]), axis=0, return_index=True, return_inverse=True
    )
    return Draws(orders, after.reshape(-1, players)[first], steps.reshape(2 * pairs, players + 1))
