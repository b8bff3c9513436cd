"""Canonical shortest paths between all atom pairs of many molecules, level by level.

A shortest path need not be unique: across an even ring there are two. Graphormer's reference picks
one by the order of the atoms, so its predictions change when the atoms are renumbered. Here the
path whose sequence of bond labels is lexicographically smallest is chosen; it depends on the
molecule alone.

The search is breadth-first from every atom of every molecule at once. Within a level, a path's
*rank* is its place among the level's distinct bond sequences in lexicographic order. A longer path
compares by (rank of its prefix, last bond), which is a single integer; so each level needs a few
passes over flat arrays and no sorting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from molsepnorm.codes import SELF, UNREACHABLE
from molsepnorm.encodings.paths import NO_BOND, PathVocabulary

__all__ = ["DirectedBonds", "shortest_paths"]


@dataclass(frozen=True, eq=False)
class DirectedBonds:
    """The bonds of many molecules, each in both directions, with atoms numbered through.

    Entry e + M is entry e reversed, for 0 ≤ e < M = E / 2.
    """

    sources: np.ndarray
    """int64 [E]: the atom a directed bond leaves."""

    targets: np.ndarray
    """int64 [E]: the atom it reaches."""

    labels: np.ndarray
    """int64 [E]: its bond label in 0 … num_labels − 1."""

    num_labels: int

    def successors(self, num_atoms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which bonds can follow each bond without turning back.

        Returns:
            starts [E], counts [E], followers: bond e is followed by
            followers[starts[e] : starts[e] + counts[e]].
        """
        num_bonds = len(self.sources)
        out_degree = np.bincount(self.sources, minlength=num_atoms)
        out_start = np.cumsum(out_degree) - out_degree
        leaving = np.argsort(self.sources, kind="stable")
        reverse = np.roll(np.arange(num_bonds), num_bonds // 2)

        bond, position = _expand(out_degree[self.targets])
        follower = leaving[out_start[self.targets[bond]] + position]
        onward = follower != reverse[bond]
        counts = out_degree[self.targets] - 1
        return np.cumsum(counts) - counts, counts, follower[onward]


def shortest_paths(
    sizes: np.ndarray, bonds: DirectedBonds, max_distance: int, max_path_length: int
) -> tuple[np.ndarray, PathVocabulary]:
    """The path code of every ordered atom pair, and the vocabulary that explains the codes.

    Args:
        sizes: int [G], atoms of each molecule.
        bonds: their bonds, atoms numbered through all molecules.
        max_distance: pairs at this distance or beyond share their codes.
        max_path_length: bonds after this many are not told apart; at most `max_distance`.

    Returns:
        codes: int32 [Σ N²], molecule after molecule, row i column j for the path from i to j.
        vocabulary: of the paths that occur in these molecules.
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    num_atoms, num_pairs = int(sizes.sum()), int((sizes**2).sum())
    first_atom = np.repeat(np.cumsum(sizes) - sizes, sizes)
    first_pair = np.repeat(np.cumsum(sizes**2) - sizes**2, sizes)
    atoms = np.arange(num_atoms)
    row = first_pair + (atoms - first_atom) * np.repeat(sizes, sizes) - first_atom
    # so the pair (i, j) stands at row[i] + j

    codes = np.full(num_pairs, UNREACHABLE, dtype=np.int32)
    codes[row + atoms] = SELF
    starts, counts, followers = bonds.successors(num_atoms)
    best = np.empty(num_pairs, dtype=np.int64)  # scratch, read only where just written
    levels: list[tuple[np.ndarray, np.ndarray]] = []

    # the frontier: paths that reached their last atom first; by row of their first atom, and bond
    frontier_row, frontier_bond = row[bonds.sources], np.arange(len(bonds.sources))
    frontier_rank = np.zeros(len(frontier_row), dtype=np.int64)
    previous_codes = np.array([SELF])
    depth = 1
    while len(frontier_row):
        pair = frontier_row + bonds.targets[frontier_bond]
        unseen = codes[pair] == UNREACHABLE
        pair, frontier_row = pair[unseen], frontier_row[unseen]
        frontier_bond, frontier_rank = frontier_bond[unseen], frontier_rank[unseen]
        if not len(pair):
            break

        labelled = depth <= max_path_length
        key = frontier_rank
        if labelled:
            key = frontier_rank * bonds.num_labels + bonds.labels[frontier_bond]
        chosen = _smallest_per_pair(pair, key, best)
        pair, key = pair[chosen], key[chosen]
        frontier_row, frontier_bond = frontier_row[chosen], frontier_bond[chosen]

        if depth <= max_distance:
            distinct, frontier_rank = _rank(key)
            if labelled:
                parent, label = np.divmod(distinct, bonds.num_labels)
            else:
                parent, label = distinct, np.full(len(distinct), NO_BOND)
            levels.append((previous_codes[parent], label))
            first_code = previous_codes[-1] + 1
            previous_codes = np.arange(first_code, first_code + len(distinct))
        else:
            frontier_rank = key
        codes[pair] = previous_codes[frontier_rank]

        path, position = _expand(counts[frontier_bond])
        frontier_row, frontier_rank = frontier_row[path], frontier_rank[path]
        frontier_bond = followers[starts[frontier_bond[path]] + position]
        depth += 1
    return codes, PathVocabulary.from_levels(levels)


def _expand(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For counts (2, 0, 3): owners (0, 0, 2, 2, 2) and positions (0, 1, 0, 1, 2)."""
    owners = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return owners, np.arange(len(owners)) - starts[owners]


def _smallest_per_pair(pair: np.ndarray, key: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Indices of one candidate per distinct pair, of the smallest key; ties keep either."""
    best[pair] = key
    while True:
        smaller = np.flatnonzero(key < best[pair])
        if not len(smaller):
            break
        best[pair[smaller]] = key[smaller]  # of several, one is kept; the rest try again
    winners = np.flatnonzero(key == best[pair])
    best[pair[winners]] = winners  # where several tie, the one whose index stays wins
    return winners[best[pair[winners]] == winners]


def _rank(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys in order, and each key's place among them; keys are small integers."""
    occurs = np.zeros(int(keys.max()) + 1, dtype=bool)
    occurs[keys] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[keys]
