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

from molsepnorm.molecules.codes import SELF, UNREACHABLE
from molsepnorm.molecules.encodings.paths import NO_BOND, PathVocabulary

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

    def successors(self, num_atoms: int) -> Successors:
        """Which bonds can follow each bond without turning back."""
        num_bonds = len(self.sources)
        out_degree = np.bincount(self.sources, minlength=num_atoms)
        out_start = np.cumsum(out_degree) - out_degree
        leaving = np.argsort(self.sources, kind="stable")
        reverse = np.roll(np.arange(num_bonds), num_bonds // 2)

        out_of_target = out_degree[self.targets]
        bond = np.repeat(np.arange(num_bonds), out_of_target)
        before = np.cumsum(out_of_target) - out_of_target
        follower = leaving[np.arange(len(bond)) + (out_start[self.targets] - before)[bond]]
        onward = follower != reverse[bond]

        counts = out_of_target - 1
        ends = np.cumsum(counts)
        another = np.arange(1, len(follower) - num_bonds + 1)
        another[ends[counts > 0] - 1] = -1
        return Successors(np.where(counts > 0, ends - counts, -1), another, follower[onward])


@dataclass(frozen=True, eq=False)
class Successors:
    """The bonds that can follow each bond, as a list for each."""

    first: np.ndarray
    """int64 [E]: where the list of a bond begins; −1 where nothing follows."""

    another: np.ndarray
    """int64 [Σ]: where the list goes on; −1 at its end."""

    bonds: np.ndarray
    """int64 [Σ]: the bond at each place of a list."""

    def after(self, bonds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each of `bonds` and each bond that follows it: the index of the former, the latter.

        First all that head a list, then all second ones, …: few bonds have more than one follower,
        so this takes half the time of repeating each index as often as need be.
        """
        place = self.first.take(bonds)
        index = np.flatnonzero(place >= 0)
        place = place.take(index)
        indices, places = [], []
        while len(index):
            indices.append(index)
            places.append(place)
            place = self.another.take(place)
            more = np.flatnonzero(place >= 0)
            index, place = index.take(more), place.take(more)
        if not indices:
            return index, index
        return np.concatenate(indices), self.bonds.take(np.concatenate(places))


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
    onward = bonds.successors(num_atoms)
    owner = np.empty(num_pairs, dtype=np.int32)  # scratch, read only where just written
    levels: list[tuple[np.ndarray, np.ndarray]] = []

    # the frontier: all paths of one length; the row of their first atom, last bond, rank before it
    path_row, last_bond = row[bonds.sources], np.arange(len(bonds.sources))
    rank = np.zeros(len(path_row), dtype=np.int64)
    previous_codes = np.array([SELF], dtype=np.int32)
    depth = 1
    while len(path_row):
        labelled = depth <= max_path_length
        if labelled:
            rank *= bonds.num_labels
            rank += bonds.labels.take(last_bond)
        pair = path_row + bonds.targets.take(last_bond)
        chosen = _smallest_per_pair(pair, rank, codes.take(pair) == UNREACHABLE, owner)
        if not len(chosen):
            break
        pair, rank, last_bond = pair.take(chosen), rank.take(chosen), last_bond.take(chosen)

        if depth <= max_distance:
            distinct, rank = _rank(rank)
            if labelled:
                parent, label = np.divmod(distinct, bonds.num_labels)
            else:
                parent, label = distinct, np.full(len(distinct), NO_BOND)
            levels.append((previous_codes[parent], label))
            first_code = previous_codes[-1] + 1
            previous_codes = np.arange(first_code, first_code + len(distinct), dtype=np.int32)
        codes[pair] = previous_codes.take(rank)

        path, last_bond = onward.after(last_bond)
        path_row, rank = path_row.take(chosen.take(path)), rank.take(path)
        depth += 1
    return codes, PathVocabulary.from_levels(levels)


def _smallest_per_pair(
    pair: np.ndarray, key: np.ndarray, unseen: np.ndarray, owner: np.ndarray
) -> np.ndarray:
    """Indices of one unseen candidate per distinct pair, of the smallest key; ties keep either."""
    candidate = np.arange(len(pair), dtype=owner.dtype)
    owner[pair] = candidate  # of several, one is kept
    beaten = np.flatnonzero((owner.take(pair) != candidate) & unseen)
    if len(beaten):
        rivals = beaten
        while len(rivals):
            rivals = rivals[key[rivals] < key[owner[pair[rivals]]]]
            unseen[owner[pair[rivals]]] = False
            owner[pair[rivals]] = rivals  # of several, one is kept; the rest try again
        unseen[beaten] = False
        unseen[owner[pair[beaten]]] = True
    return np.flatnonzero(unseen)


def _rank(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys in order, and each key's place among them; keys are small integers."""
    occurs = np.zeros(int(keys.max()) + 1, dtype=bool)
    occurs[keys] = True
    distinct = np.flatnonzero(occurs)
    place = np.empty(len(occurs), dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place.take(keys)
