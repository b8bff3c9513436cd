"""Canonical shortest paths between all atom pairs of many molecules, level by level.

Of several shortest paths, such as the two ways around an even ring, the one with the
lexicographically smallest sequence of bond labels is chosen. It depends on the molecule only, not
on the order of its atoms as in Graphormer's reference.

The search is breadth-first from every atom of every molecule at once. The *rank* of a path is its
position among the distinct bond sequences of its level, in lexicographic order. A longer path is
compared by (rank of its prefix, last bond), a single integer, so no level needs sorting.
"""

from __future__ import annotations

import numpy as np

from molsepnorm.molecules.encodings.paths import NO_BOND, SELF, UNREACHABLE, PathVocabulary


def _successors(
    sources: np.ndarray, targets: np.ndarray, num_atoms: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bonds that leave the target of each of E bonds, except its reverse, as one linked
    list per bond.

    Returns:
        first, int64 [E]: index of the first entry of a bond's list; −1 if it is empty.
        another, int64 [Σ]: index of the next entry; −1 at the end of a list.
        bonds, int64 [Σ]: the bond of each entry.
    """
    num_bonds = len(sources)
    out_degree = np.bincount(sources, minlength=num_atoms)
    out_start = np.cumsum(out_degree) - out_degree
    leaving = np.argsort(sources, kind="stable")
    reverse = np.roll(np.arange(num_bonds), num_bonds // 2)

    out_of_target = out_degree[targets]
    bond = np.repeat(np.arange(num_bonds), out_of_target)
    before = np.cumsum(out_of_target) - out_of_target
    follower = leaving[np.arange(len(bond)) + (out_start[targets] - before)[bond]]
    onward = follower != reverse[bond]

    counts = out_of_target - 1
    ends = np.cumsum(counts)
    another = np.arange(1, len(follower) - num_bonds + 1)
    another[ends[counts > 0] - 1] = -1
    return np.where(counts > 0, ends - counts, -1), another, follower[onward]


def _extended(
    last: np.ndarray, first: np.ndarray, another: np.ndarray, bonds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of an index into `last` and a bond that follows this bond, in half the time
    of `np.repeat`: first followers come first, then second ones."""
    entry = first.take(last)
    index = np.flatnonzero(entry >= 0)
    entry = entry.take(index)
    indices, entries = [index], [entry]
    while len(index):
        entry = another.take(entry)
        more = np.flatnonzero(entry >= 0)
        index, entry = index.take(more), entry.take(more)
        indices.append(index)
        entries.append(entry)
    return np.concatenate(indices), bonds.take(np.concatenate(entries))


def shortest_paths(
    sizes: np.ndarray,
    ends: np.ndarray,
    labels: np.ndarray,
    num_labels: int,
    max_distance: int,
    max_path_length: int,
) -> tuple[np.ndarray, PathVocabulary]:
    """Return the path code of every ordered atom pair, and the vocabulary of the codes.

    Args:
        sizes: int64 [G], atoms of each molecule.
        ends: int64 [M, 2], the two atoms of each bond; all atoms are numbered consecutively.
        labels: int64 [M], the bond labels, in 0 … `num_labels` − 1.
        num_labels: number of bond labels.
        max_distance: pairs at this distance or beyond share their codes.
        max_path_length: number of bonds whose labels are distinguished; at most `max_distance`.

    Returns:
        codes, int32 [Σ N²]: one matrix after the other; row i, column j is the path from i to j.
    """
    sources, targets = ends.T.ravel(), ends[:, ::-1].T.ravel()  # bond e + M is the reverse of e
    labels = np.concatenate([labels, labels])
    num_atoms, num_pairs = int(sizes.sum()), int((sizes**2).sum())
    first_atom = np.repeat(np.cumsum(sizes) - sizes, sizes)
    first_pair = np.repeat(np.cumsum(sizes**2) - sizes**2, sizes)
    atoms = np.arange(num_atoms)
    row = first_pair + (atoms - first_atom) * np.repeat(sizes, sizes) - first_atom
    # the index of the pair (i, j) is row[i] + j

    codes = np.full(num_pairs, UNREACHABLE, dtype=np.int32)
    codes[row + atoms] = SELF
    successors = _successors(sources, targets, num_atoms)
    owner = np.empty(num_pairs, dtype=np.int32)  # scratch memory, read only where just written
    levels: list[tuple[np.ndarray, np.ndarray]] = []

    # frontier of all paths of one length: row of the first atom, last bond, rank of the prefix
    path_row, last_bond = row[sources], np.arange(len(sources))
    rank = np.zeros(len(path_row), dtype=np.int64)
    previous_codes = np.array([SELF], dtype=np.int32)
    depth = 1
    while len(path_row):
        labelled = depth <= max_path_length
        if labelled:
            rank *= num_labels
            rank += labels.take(last_bond)
        pair = path_row + targets.take(last_bond)
        chosen = _smallest_per_pair(pair, rank, codes.take(pair) == UNREACHABLE, owner)
        if not len(chosen):
            break
        pair, rank, last_bond = pair.take(chosen), rank.take(chosen), last_bond.take(chosen)

        if depth <= max_distance:
            distinct, rank = _rank(rank)
            if labelled:
                parent, label = np.divmod(distinct, num_labels)
            else:
                parent, label = distinct, np.full(len(distinct), NO_BOND)
            levels.append((previous_codes[parent], label))
            first_code = previous_codes[-1] + 1
            previous_codes = np.arange(first_code, first_code + len(distinct), dtype=np.int32)
        codes[pair] = previous_codes.take(rank)

        path, last_bond = _extended(last_bond, *successors)
        path_row, rank = path_row.take(chosen.take(path)), rank.take(path)
        depth += 1
    return codes, PathVocabulary.from_levels(levels)


def _smallest_per_pair(
    pair: np.ndarray, key: np.ndarray, unseen: np.ndarray, owner: np.ndarray
) -> np.ndarray:
    """Return the index of the unseen candidate with the smallest key for each distinct pair."""
    candidate = np.arange(len(pair), dtype=owner.dtype)
    owner[pair] = candidate  # the last of several candidates remains
    beaten = np.flatnonzero((owner.take(pair) != candidate) & unseen)
    if len(beaten):
        rivals = beaten
        while len(rivals):
            rivals = rivals[key[rivals] < key[owner[pair[rivals]]]]
            unseen[owner[pair[rivals]]] = False
            owner[pair[rivals]] = rivals  # one of several remains; the others try again
        unseen[beaten] = False
        unseen[owner[pair[beaten]]] = True
    return np.flatnonzero(unseen)


def _rank(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys, sorted, and the rank of each key; keys are small integers."""
    occurs = np.zeros(int(keys.max()) + 1, dtype=bool)
    occurs[keys] = True
    distinct = np.flatnonzero(occurs)
    rank = np.empty(len(occurs), dtype=np.int64)
    rank[distinct] = np.arange(len(distinct))
    return distinct, rank.take(keys)
