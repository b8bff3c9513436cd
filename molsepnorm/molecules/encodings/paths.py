"""The path vocabulary, which translates the codes of atom pairs.

ZINC's 130 million atom pairs share a few thousand bond sequences. A `PathVocabulary` stores the
sequences as a trie, in which each node is its parent's path plus one bond. An atom pair then needs
one integer, and a model computes the bias of each node once per step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NO_BOND = -1
"""The last bond of a path that is longer than the maximum length of labelled paths."""

_BONDS = 2**16  # more than the number of bond labels


@dataclass(frozen=True, eq=False)
class PathVocabulary:
    """A trie of bond sequences, with nodes sorted by depth and then lexicographically by bonds.

    Data sets with the same paths have equal vocabularies.
    """

    parents: np.ndarray
    """int32 [V]: the code of the path without its last bond; 0 up to `SELF`."""
    bonds: np.ndarray
    """int16 [V]: the last bond's label, or `NO_BOND`."""
    depths: np.ndarray
    """int16 [V]: the hop distance, clipped at the maximum; −1 below `SELF`."""

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def level_starts(self) -> tuple[int, ...]:
        """The first code of each depth 0, 1, …, followed by V."""
        num_levels = int(self.depths[-1]) + 1
        return (*np.searchsorted(self.depths, np.arange(num_levels)).tolist(), len(self))

    def bonds_of_all(self) -> np.ndarray:  # int16 (V, L)
        """Return the bond labels along every path, padded with `NO_BOND`."""
        starts = self.level_starts
        labelled = [d for d in range(1, len(starts) - 1) if self.bonds[starts[d]] != NO_BOND]
        bonds = np.full((len(self), max(1, len(labelled))), NO_BOND, dtype=np.int16)
        for depth, level in enumerate(map(slice, starts[1:], starts[2:]), start=1):
            bonds[level] = bonds[self.parents[level]]
            if depth <= len(labelled):
                bonds[level, depth - 1] = self.bonds[level]
        return bonds

    def bonds_along(self, code: int) -> list[int]:
        labels: list[int] = []
        while code > SELF:
            if self.bonds[code] != NO_BOND:
                labels.append(int(self.bonds[code]))
            code = int(self.parents[code])
        return labels[::-1]

    @staticmethod
    def from_levels(levels: list[tuple[np.ndarray, np.ndarray]]) -> PathVocabulary:
        """Concatenate the (parents, bonds) of each level, beginning with depth 1."""
        head = np.zeros(SELF + 1, dtype=np.int64)
        parents, bonds = [head], [head + NO_BOND]
        depths = [np.array([-1] * SELF + [0])]
        for depth, (level_parents, level_bonds) in enumerate(levels, start=1):
            parents.append(level_parents)
            bonds.append(level_bonds)
            depths.append(np.full(len(level_parents), depth))
        return PathVocabulary(
            np.concatenate(parents).astype(np.int32),
            np.concatenate(bonds).astype(np.int16),
            np.concatenate(depths).astype(np.int16),
        )


class PathMerger:
    """Merges the vocabularies of many chunks into that of a whole data set."""

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}  # parent's number * _BONDS + bond + 1 -> number
        self._depths: list[int] = [-1] * SELF + [0]

    def add(self, chunk: PathVocabulary) -> np.ndarray:
        """Add a chunk's vocabulary and return int32 [V of the chunk]: code -> provisional code."""
        provisional = np.arange(len(chunk), dtype=np.int32)
        starts = chunk.level_starts
        for depth, level in enumerate(map(slice, starts[1:], starts[2:]), start=1):
            parents = provisional[chunk.parents[level]].astype(np.int64)
            keys = (parents * _BONDS + chunk.bonds[level] + 1).tolist()
            for key in set(keys).difference(self._ids):
                self._ids[key] = len(self._depths)
                self._depths.append(depth)
            provisional[level] = list(map(self._ids.__getitem__, keys))
        return provisional

    def finish(self) -> tuple[PathVocabulary, np.ndarray]:
        """Return the merged vocabulary, and int32 [V]: provisional -> final code."""
        depths = np.array(self._depths)
        all_parents, all_bonds = np.divmod(np.array(list(self._ids), dtype=np.int64), _BONDS)
        final = np.arange(len(depths), dtype=np.int32)
        next_code = SELF + 1
        levels = []
        for depth in range(1, int(depths.max()) + 1):
            nodes = np.flatnonzero(depths == depth)
            parents = final[all_parents[nodes - SELF - 1]]
            bonds = all_bonds[nodes - SELF - 1] - 1
            order = np.lexsort((bonds, parents))
            final[nodes[order]] = np.arange(next_code, next_code + len(nodes))
            next_code += len(nodes)
            levels.append((parents[order], bonds[order]))
        return PathVocabulary.from_levels(levels), final


PADDING = 0  # the second slot of the pair is padding, which must not be attended to
GRAPH_TOKEN = 1  # at least one slot is the graph token
UNREACHABLE = 2  # atoms of different fragments, such as the ions of a salt
SELF = 3  # an atom and itself: the empty path, which is the first of the path codes
