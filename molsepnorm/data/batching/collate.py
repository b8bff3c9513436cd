"""`GraphTensors`: encoded molecules as tensors, from which batches are cut.

If a data set fits into the memory of a GPU, a batch is a few look-ups on the device.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from molsepnorm.data.batching.bucketing import tight_layout
from molsepnorm.molecules.encodings.encoding import EncodedGraphs
from molsepnorm.molecules.encodings.paths import (
    GRAPH_TOKEN,
    NO_BOND,
    PADDING,
    UNREACHABLE,
    PathVocabulary,
)
from molsepnorm.nn.batch import GraphBatch, PaddedGroup, PathTable


@dataclass(frozen=True)
class GraphTensors:
    """The arrays of a store, or of molecules just encoded, as tensors.

    >>> import molsepnorm
    >>> from molsepnorm.molecules.encodings import EncodingSpec, encode
    >>> zinc = molsepnorm.featurize.get("zinc")
    >>> encoded = encode([zinc("CCO"), zinc("c1ccccc1")], EncodingSpec(bond_sizes=(3,)))
    >>> batch = GraphTensors.of(encoded).cut([1, 0])
    >>> batch.groups, batch.graph_token.tolist()
    ((PaddedGroup(graphs=2, slots=7),), [7, 0])
    """

    sizes: np.ndarray
    """int64 [G]: number of atoms of each molecule, on the CPU."""
    num_atoms: Tensor
    """int64 [G]: the same, on the device."""
    first_atom: Tensor
    """int64 [G]: index of its first atom."""
    first_pair: Tensor
    """int64 [G]: index of its first pair."""
    atoms: Tensor
    """uint8 [Σ N, A]."""
    degrees: Tensor
    """uint8 [Σ N]."""
    pairs: Tensor
    """int16 (the bits of a uint16) or int32 [Σ N²]."""
    paths: PathTable
    max_bonds: int
    """Maximum number of bonds on any atom. All batches share it, so that shapes are fixed."""
    features: Tensor | None = None
    """float32 [G, F]: molecule-level features; None if there are none."""

    @staticmethod
    def of(graphs: EncodedGraphs, device: torch.device | str = "cpu") -> GraphTensors:
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

    def cut(self, graphs: np.ndarray | list[int], max_groups: int = 1) -> GraphBatch:
        """Return the batch of these molecules, in up to `max_groups` groups of similar size."""
        wanted = np.asarray(graphs, dtype=np.int64)
        order = np.argsort(self.sizes[wanted], kind="stable")
        layout = tight_layout(self.sizes[wanted[order]] + 1, max_groups)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        device = self.num_atoms.device
        molecules = torch.from_numpy(wanted[order]).to(device, non_blocking=True)
        batch = self.gather(molecules, layout)
        rows = torch.from_numpy(rank).to(device, non_blocking=True)
        features = None if batch.features is None else batch.features[rows]
        return replace(batch, graph_token=batch.graph_token[rows], features=features)

    def gather(self, graphs: Tensor, layout: tuple[PaddedGroup, ...]) -> GraphBatch:
        """Return the batch of these molecules (int64 [B], on the device), one after the other in
        the B rows of a layout into which they must fit.

        All shapes depend on the layout only, and nothing synchronises with the device.
        """
        parts = graphs.split([group.graphs for group in layout])
        cuts = [self._group(part, group.slots) for part, group in zip(parts, layout, strict=True)]
        atoms, degrees, mask, pairs = (torch.cat(tensors) for tensors in zip(*cuts, strict=True))
        first, tokens = 0, []
        for group in layout:
            end = first + group.graphs * group.slots
            tokens.append(torch.arange(first, end, group.slots, device=graphs.device))
            first = end
        return GraphBatch(
            atoms=atoms,
            degrees=degrees,
            mask=mask,
            graph_token=torch.cat(tokens),
            pairs=pairs,
            groups=layout,
            paths=self.paths,
            max_bonds=self.max_bonds,
            features=None if self.features is None else self.features[graphs],
        )

    def _group(self, graphs: Tensor, slots: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pad graphs to `slots`: atoms (m, A), degrees (m,), mask (m,) and pairs (p,)."""
        size = self.num_atoms[graphs][:, None]  # (b, 1)
        index = torch.arange(slots, device=graphs.device) - 1  # slot 0 is the graph token
        real = (index >= 0) & (index < size)  # (b, S)
        atom = torch.where(real, self.first_atom[graphs][:, None] + index, 0)
        mask = real.flatten()
        atoms = self.atoms[atom.flatten()].long() * mask[:, None]
        degrees = self.degrees[atom.flatten()].long() * mask

        both = real[:, :, None] & real[:, None, :]  # (b, S, S)
        row = (self.first_pair[graphs][:, None] + index * size)[:, :, None]
        codes = self.pairs[torch.where(both, row + index, 0)]
        codes = codes.long() & 0xFFFF if codes.dtype == torch.int16 else codes.long()
        codes = torch.where(both, codes, UNREACHABLE)  # the output of padding is unused
        codes[:, 0, :].fill_(GRAPH_TOKEN)
        codes[:, :, 0].fill_(GRAPH_TOKEN)
        codes.masked_fill_((index >= size)[:, None, :], PADDING)
        return atoms, degrees, mask, codes.flatten()


def path_table(paths: PathVocabulary) -> PathTable:
    """Convert a path vocabulary to the tensors of the network."""
    bonds = paths.bonds_of_all()  # (V, L)
    labels = max(int(bonds.max(initial=0)), 0) + 1
    codes, positions = np.nonzero(bonds != NO_BOND)
    columns = positions * labels + bonds[codes, positions]
    lengths = np.bincount(codes, minlength=len(bonds))
    shape = (len(bonds), bonds.shape[1] * labels)
    with warnings.catch_warnings():  # that sparse tensors are in beta
        warnings.simplefilter("ignore")
        ones = torch.ones(len(codes))
        indices = torch.from_numpy(np.stack([codes, columns]))
        marked = torch.sparse_coo_tensor(indices, ones, shape).to_sparse_csr()
        transposed = torch.sparse_coo_tensor(indices.flip(0), ones, shape[::-1]).to_sparse_csr()
    return PathTable(
        bonds=marked,
        bonds_transposed=transposed,
        lengths=torch.from_numpy(np.maximum(lengths, 1).astype(np.float32)),
        distances=torch.from_numpy(np.maximum(paths.depths, 0).astype(np.int64)),
        first_bonds=torch.from_numpy(np.maximum(bonds[:, 0], 0).astype(np.int64)),
        labels=labels,
    )
