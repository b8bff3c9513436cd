"""Cutting batches from encoded molecules.

This works on tensors, so where a data set fits on a GPU a batch is a few look-ups on the device.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from molsepnorm.data.batching.bucketing import tight_plan
from molsepnorm.data.store import GraphStore
from molsepnorm.molecules.codes import GRAPH_TOKEN, PADDING, UNREACHABLE
from molsepnorm.molecules.encodings.encode import EncodedGraphs
from molsepnorm.molecules.encodings.paths import NO_BOND, PathVocabulary
from molsepnorm.nn.batch import GraphBatch, PaddedGroup, PathTable

__all__ = ["GraphTensors", "path_table"]


@dataclass(frozen=True)
class GraphTensors:
    """The arrays of a store, or of molecules just encoded, as tensors from which batches are cut.

    >>> import molsepnorm
    >>> from molsepnorm.molecules.encodings import EncodingSpec, encode
    >>> zinc = molsepnorm.molecules.featurize.get("zinc")
    >>> encoded = encode([zinc("CCO"), zinc("c1ccccc1")], EncodingSpec(bond_sizes=(3,)))
    >>> batch = GraphTensors.of(encoded).cut([1, 0])
    >>> batch.groups, batch.graph_token.tolist()
    ((PaddedGroup(graphs=2, slots=7),), [7, 0])
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
    max_bonds: int
    """As many as any atom has; the same for all batches, whose shapes follow from it."""
    features: Tensor | None = None
    """float32 [G, F]: molecule-level features; None if there are none."""

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
        paths = path_table(graphs.paths).to(device)
        features = None if graphs.features is None else torch.from_numpy(graphs.features).to(device)
        return GraphTensors(
            sizes, **tensors, paths=paths, max_bonds=graphs.max_bonds, features=features
        )

    def cut(self, graphs: np.ndarray | list[int], blocks: int = 1) -> GraphBatch:
        """The batch of these molecules, in up to `blocks` rectangles of graphs of like size."""
        wanted = np.asarray(graphs, dtype=np.int64)
        order = np.argsort(self.sizes[wanted], kind="stable")
        plan = tight_plan(self.sizes[wanted[order]] + 1, blocks)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        device = self.num_atoms.device
        batch = self.gather(torch.from_numpy(wanted[order]).to(device), plan)
        rows = torch.from_numpy(place).to(device)
        features = None if batch.features is None else batch.features[rows]
        return replace(batch, graph_token=batch.graph_token[rows], features=features)

    def gather(self, graphs: Tensor, plan: tuple[PaddedGroup, ...]) -> GraphBatch:
        """The batch of these molecules, laid out one after the other in a plan's rectangles.

        Nothing here waits for the device, and all shapes follow from the plan.

        Args:
            graphs: int64 [B], on the device; each has to fit in the row that it comes to.
            plan: rectangles with B rows together.
        """
        parts = graphs.split([block.graphs for block in plan])
        cuts = [self._rectangle(part, block.slots) for part, block in zip(parts, plan, strict=True)]
        atoms, degrees, mask, pairs = (torch.cat(tensors) for tensors in zip(*cuts, strict=True))
        first, tokens = 0, []
        for block in plan:
            end = first + block.graphs * block.slots
            tokens.append(torch.arange(first, end, block.slots, device=graphs.device))
            first = end
        return GraphBatch(
            atoms=atoms,
            degrees=degrees,
            mask=mask,
            graph_token=torch.cat(tokens),
            pairs=pairs,
            groups=plan,
            paths=self.paths,
            max_bonds=self.max_bonds,
            features=None if self.features is None else self.features[graphs],
        )

    def _rectangle(self, graphs: Tensor, slots: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Atoms (m, A), degrees (m,), mask (m,) and pairs (p,) of graphs padded to `slots`."""
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
        codes[:, 0, :].fill_(GRAPH_TOKEN)
        codes[:, :, 0].fill_(GRAPH_TOKEN)
        codes.masked_fill_((place >= size)[:, None, :], PADDING)
        return atoms, degrees, mask, codes.flatten()


def path_table(paths: PathVocabulary) -> PathTable:
    """A path vocabulary as the network reads it."""
    bonds = paths.bonds_of_all()  # (V, L)
    labels = max(int(bonds.max(initial=0)), 0) + 1
    codes, places = np.nonzero(bonds != NO_BOND)
    columns = places * labels + bonds[codes, places]
    lengths = np.bincount(codes, minlength=len(bonds))
    shape = (len(bonds), bonds.shape[1] * labels)
    return PathTable(
        bonds=_ones(codes, columns, shape),
        bonds_transposed=_ones(columns, codes, shape[::-1]),
        lengths=torch.from_numpy(np.maximum(lengths, 1).astype(np.float32)),
        distances=torch.from_numpy(np.maximum(paths.depths, 0).astype(np.int64)),
        first_bonds=torch.from_numpy(np.maximum(bonds[:, 0], 0).astype(np.int64)),
        labels=labels,
    )


def _ones(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    """A sparse matrix of ones at these places and zeros elsewhere."""
    order = np.lexsort((columns, rows))
    starts = np.append(0, np.bincount(rows, minlength=shape[0]).cumsum())
    with warnings.catch_warnings():  # torch calls its sparse tensors a beta
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(
            torch.from_numpy(starts), torch.from_numpy(columns[order]), torch.ones(len(rows)), shape
        )
