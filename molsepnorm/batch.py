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

__all__ = ["GraphTensors", "by_size", "epoch_batches", "path_table"]


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

    sizes: Tensor
    """int64 [G]: atoms of each molecule."""
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
            "sizes": sizes,
            "first_atom": np.cumsum(sizes) - sizes,
            "first_pair": np.cumsum(sizes**2) - sizes**2,
            "atoms": graphs.atoms,
            "degrees": graphs.degrees,
            "pairs": pairs,
        }
        tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        return GraphTensors(**tensors, paths=path_table(graphs.paths).to(device))

    def cut(self, graphs: np.ndarray | list[int], blocks: int = 1) -> GraphBatch:
        """The batch of these molecules, in up to `blocks` rectangles of graphs of like size."""
        wanted = torch.as_tensor(np.asarray(graphs, dtype=np.int64), device=self.sizes.device)
        order = torch.argsort(self.sizes[wanted], stable=True)
        parts = [part for part in order.tensor_split(min(blocks, len(order))) if len(part)]
        slots = [int(self.sizes[wanted[part[-1]]]) + 1 for part in parts]
        cuts = [
            self._rectangle(wanted[part], size) for part, size in zip(parts, slots, strict=True)
        ]
        atoms, degrees, mask, pairs = (torch.cat(tensors) for tensors in zip(*cuts, strict=True))

        tokens, first_slot = [], 0
        for part, size in zip(parts, slots, strict=True):
            tokens.append(first_slot + torch.arange(len(part), device=order.device) * size)
            first_slot += len(part) * size
        graph_token = torch.empty_like(order).index_copy_(0, order, torch.cat(tokens))
        return GraphBatch(
            atoms=atoms,
            degrees=degrees,
            mask=mask,
            graph_token=graph_token,
            pairs=pairs,
            blocks=tuple(Block(len(part), size) for part, size in zip(parts, slots, strict=True)),
            paths=self.paths,
        )

    def _rectangle(self, graphs: Tensor, slots: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Atoms (m, A), degrees (m,), mask (m,) and pairs (p,) of graphs padded to `slots`."""
        size = self.sizes[graphs][:, None]  # (b, 1)
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


def epoch_batches(
    graphs: np.ndarray, batch_size: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """A random order of `graphs` in batches whose sizes differ by one at most.

    No molecule is dropped, and no batch holds a single one (unless there is only one, or
    `batch_size` is 1), which a batch norm could not train on.
    """
    shuffled = rng.permutation(graphs)
    return np.array_split(shuffled, max(1, -(-len(graphs) // batch_size)))


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
