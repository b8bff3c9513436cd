"""Cutting batches from encoded molecules, and the order of an epoch.

Both work on tensors, so where a data set fits on a GPU a batch is a few look-ups on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from molsepnorm.codes import GRAPH_TOKEN, PADDING, UNREACHABLE
from molsepnorm.encodings.encode import EncodedGraphs
from molsepnorm.encodings.paths import PathVocabulary
from molsepnorm.nn.batch import Block, GraphBatch, PathTable
from molsepnorm.store import GraphStore

__all__ = ["GraphTensors", "by_size", "epoch_batches", "largest_batch", "num_batches", "path_table"]


@dataclass(frozen=True)
class GraphTensors:
    """The arrays of a store, or of molecules just encoded, as tensors from which batches are cut.

    >>> import molsepnorm
    >>> from molsepnorm.encodings import EncodingSpec, encode
    >>> zinc = molsepnorm.featurize.get("zinc")
    >>> encoded = encode([zinc("CCO"), zinc("c1ccccc1")], EncodingSpec(bond_sizes=(3,)))
    >>> batch = GraphTensors.of(encoded).cut([1, 0])
    >>> batch.blocks, batch.graph_token.tolist()
    ((Block(graphs=2, slots=7),), [7, 0])
    """

    sizes: np.ndarray
    """int64 [G]: atoms of each molecule, on the CPU, where batches are planned."""
    num_atoms: Tensor
    """int64 [G]: the same."""
    first_atom: Tensor
    """int64 [G]: where its atoms begin."""
    first_pair: Tensor
    """int64 [G]: where its pairs begin."""
    atoms: Tensor
    """uint8 [Σ N, A]."""
    degrees: Tensor
    """uint8 [Σ N]."""
    pairs: Tensor
    """int16 (the bits of a uint16) or int32 [Σ N²]."""
    paths: PathTable

    @staticmethod
    def of(graphs: GraphStore | EncodedGraphs, device: torch.device | str = "cpu") -> GraphTensors:
        """Wrap a store (on a CPU without copying it) or encoded molecules."""
        sizes = graphs.sizes
        pairs = graphs.pairs
        if pairs.dtype == np.uint16:
            pairs = pairs.view(np.int16)  # torch has few operations for uint16
        arrays = {
            "num_atoms": sizes,
            "first_atom": np.cumsum(sizes) - sizes,
            "first_pair": np.cumsum(sizes**2) - sizes**2,
            "atoms": graphs.atoms,
            "degrees": graphs.degrees,
            "pairs": pairs,
        }
        tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        return GraphTensors(sizes, **tensors, paths=path_table(graphs.paths).to(device))

    def cut(self, graphs: np.ndarray | list[int], blocks: int = 1) -> GraphBatch:
        """The batch of these molecules, in up to `blocks` rectangles of graphs of like size."""
        wanted = np.asarray(graphs, dtype=np.int64)
        order = np.argsort(self.sizes[wanted], kind="stable")
        ends = _block_ends(self.sizes[wanted[order]] + 1, blocks)
        parts = np.split(wanted[order], ends[:-1])
        plan = tuple(Block(len(part), int(self.sizes[part[-1]]) + 1) for part in parts)
        cuts = [self._rectangle(part, block.slots) for part, block in zip(parts, plan, strict=True)]
        atoms, degrees, mask, pairs = (torch.cat(tensors) for tensors in zip(*cuts, strict=True))

        slots = np.repeat([block.slots for block in plan], [block.graphs for block in plan])
        graph_token = np.empty_like(order)
        graph_token[order] = np.cumsum(slots) - slots
        return GraphBatch(
            atoms=atoms,
            degrees=degrees,
            mask=mask,
            graph_token=torch.from_numpy(graph_token).to(mask.device),
            pairs=pairs,
            blocks=plan,
            paths=self.paths,
        )

    def _rectangle(self, which: np.ndarray, slots: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Atoms (m, A), degrees (m,), mask (m,) and pairs (p,) of graphs padded to `slots`."""
        graphs = torch.from_numpy(which).to(self.num_atoms.device)
        size = self.num_atoms[graphs][:, None]  # (b, 1)
        place = torch.arange(slots, device=graphs.device) - 1  # slot 0 is the graph token's
        real = (place >= 0) & (place < size)  # (b, S)
        atom = torch.where(real, self.first_atom[graphs][:, None] + place, 0)
        mask = real.flatten()
        atoms = self.atoms[atom.flatten()].long() * mask[:, None]
        degrees = self.degrees[atom.flatten()].long() * mask

        both = real[:, :, None] & real[:, None, :]  # (b, S, S)
        row = (self.first_pair[graphs][:, None] + place * size)[:, :, None]
        codes = self.pairs[torch.where(both, row + place, 0)]
        codes = codes.long() & 0xFFFF if codes.dtype == torch.int16 else codes.long()
        codes = torch.where(both, codes, UNREACHABLE)  # a row of padding, whose output is unused
        codes[:, 0, :] = GRAPH_TOKEN
        codes[:, :, 0] = GRAPH_TOKEN
        codes.masked_fill_((place >= size)[:, None, :], PADDING)
        return atoms, degrees, mask, codes.flatten()


def path_table(paths: PathVocabulary) -> PathTable:
    """A path vocabulary as the network reads it."""
    return PathTable(
        parents=torch.from_numpy(paths.parents.astype(np.int64)),
        bonds=torch.from_numpy(np.maximum(paths.bonds, 0).astype(np.int64)),
        level_starts=paths.level_starts,
    )


def _block_ends(slots: np.ndarray, blocks: int) -> np.ndarray:
    """Where to end each of up to `blocks` blocks of graphs with these slots, in rising order.

    The cut of least cost, by dynamic programming over the distinct sizes. A graph padded to S
    slots costs about S² + 32 S: attention's passes over pairs, and the layers' over slots.
    """
    distinct, first = np.unique(slots, return_index=True)
    ends = np.append(first[1:], len(slots))  # graphs up to and including each distinct size
    counts = ends - np.append(0, ends[:-1])[:, None]  # [i, j]: graphs of the sizes i to j
    costs = np.where(counts > 0, counts * (distinct**2 + 32 * distinct), np.inf)
    best, cuts = costs[0], []
    for _ in range(min(blocks, len(distinct)) - 1):
        options = np.append(np.inf, best[:-1])[:, None] + costs  # the last block: sizes i to j
        begin = np.where(options.min(axis=0) < best, options.argmin(axis=0), -1)
        cuts.append(begin)
        best = np.minimum(best, options.min(axis=0))
    chosen, last = [len(slots)], len(distinct) - 1
    for begin in reversed(cuts):
        if last >= 0 and begin[last] > 0:
            last = int(begin[last]) - 1
            chosen.append(int(ends[last]))
    return np.array(chosen[::-1])


def epoch_batches(
    graphs: np.ndarray,
    sizes: np.ndarray,
    batch_size: int,
    rng: np.random.Generator,
    blocks: int = 1,
    max_pairs: int = 1 << 20,
) -> list[np.ndarray]:
    """A random order of `graphs` in batches whose sizes differ by one at most.

    No molecule is dropped, and no batch holds a single one (unless there is only one, or
    `batch_size` is 1), which a batch norm could not train on: for that, batches of two become
    three where need be. A batch of too many slot pairs is halved, as often as that is possible.

    Args:
        graphs: int [G], which molecules.
        sizes: int, atoms of every molecule of the store.
        batch_size: most molecules of a batch.
        rng: draws the order.
        blocks: rectangles that a batch will be cut in.
        max_pairs: most slot pairs of a batch, padding included, which bounds memory where
            molecules are large.
    """
    batches = np.array_split(rng.permutation(graphs), num_batches(len(graphs), batch_size))
    if largest_batch(graphs, sizes, batch_size) <= max_pairs:
        return batches
    bounded = []
    for batch in batches:
        bounded += _halved(batch, sizes, blocks, max_pairs)
    return bounded


def largest_batch(graphs: np.ndarray, sizes: np.ndarray, batch_size: int) -> int:
    """No batch of `epoch_batches` has more slot pairs than this."""
    return (batch_size + 1) * (int(sizes[graphs].max(initial=0)) + 1) ** 2


def _halved(batch: np.ndarray, sizes: np.ndarray, blocks: int, max_pairs: int) -> list[np.ndarray]:
    slots = np.sort(sizes[batch] + 1)
    if len(batch) < 4 or len(batch) * slots[-1] ** 2 <= max_pairs:
        return [batch]
    ends = _block_ends(slots, blocks)
    if (np.diff(ends, prepend=0) * slots[ends - 1] ** 2).sum() <= max_pairs:
        return [batch]
    halves = np.array_split(batch, 2)
    return [part for half in halves for part in _halved(half, sizes, blocks, max_pairs)]


def num_batches(num_graphs: int, batch_size: int) -> int:
    """How many batches `epoch_batches` makes, where none is too large."""
    smallest = min(batch_size, 2)
    return max(1, min(-(-num_graphs // batch_size), num_graphs // smallest))


def by_size(
    graphs: np.ndarray, sizes: np.ndarray, batch_size: int, max_pairs: int = 1 << 20
) -> Iterator[np.ndarray]:
    """For evaluation: `graphs` from small to large, in batches with little padding.

    Args:
        graphs: int [G], which molecules.
        sizes: int, atoms of every molecule of the store.
        batch_size: most molecules of a batch.
        max_pairs: most slot pairs of a batch, which bounds memory where molecules are large.
    """
    ordered = graphs[np.argsort(sizes[graphs], kind="stable")]
    start = 0
    while start < len(ordered):
        end = min(start + batch_size, len(ordered))
        while end > start + 1 and (end - start) * (sizes[ordered[end - 1]] + 1) ** 2 > max_pairs:
            end = start + max(1, (end - start) // 2)
        yield ordered[start:end]
        start = end
