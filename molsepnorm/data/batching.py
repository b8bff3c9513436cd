"""`GraphTensors`, from which batches are cut in padded groups, and the molecules of each batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from molsepnorm.errors import ConfigError
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
    """int64 [G]: index of the first atom of each molecule in `atoms`; `first_pair` in `pairs`."""
    first_pair: Tensor
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
        sizes, pairs = graphs.sizes, graphs.pairs
        if pairs.dtype == np.uint16:
            pairs = pairs.view(np.int16)  # torch has few operations for uint16

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        return GraphTensors(
            sizes,
            num_atoms=tensor(sizes),
            first_atom=tensor(np.cumsum(sizes) - sizes),
            first_pair=tensor(np.cumsum(sizes**2) - sizes**2),
            atoms=tensor(graphs.atoms),
            degrees=tensor(graphs.degrees),
            pairs=tensor(pairs),
            paths=path_table(graphs.paths).to(device),
            max_bonds=graphs.max_bonds,
            features=None if graphs.features is None else tensor(graphs.features),
        )

    def cut(self, graphs: np.ndarray | list[int], max_groups: int = 1) -> GraphBatch:
        """Return the batch of these molecules, in up to `max_groups` groups of similar size. A
        `ConfigError` if `graphs` is not a list of indices."""
        wanted = np.asarray(graphs)
        if wanted.dtype.kind not in "iu":  # True and False would be the molecules 1 and 0
            raise ConfigError("graphs must be indices of molecules: pass np.flatnonzero(mask)")
        wanted = wanted.astype(np.int64)
        order = np.argsort(self.sizes[wanted], kind="stable")
        layout = tight_layout(self.sizes[wanted[order]] + 1, max_groups)
        device = self.num_atoms.device
        molecules = torch.from_numpy(wanted[order]).to(device, non_blocking=True)
        rows = torch.from_numpy(np.argsort(order)).to(device, non_blocking=True)
        parts = molecules.split([group.graphs for group in layout])
        cuts = [self._group(part, group.slots) for part, group in zip(parts, layout, strict=True)]
        atoms, degrees, mask, pairs = (torch.cat(tensors) for tensors in zip(*cuts, strict=True))
        first, tokens = 0, []
        for group in layout:
            end = first + group.graphs * group.slots
            tokens.append(torch.arange(first, end, group.slots, device=device))
            first = end
        return GraphBatch(
            atoms=atoms,
            degrees=degrees,
            mask=mask,
            graph_token=torch.cat(tokens)[rows],
            pairs=pairs,
            groups=layout,
            paths=self.paths,
            max_bonds=self.max_bonds,
            features=None if self.features is None else self.features[molecules[rows]],
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


def tight_layout(slots: np.ndarray, max_groups: int) -> tuple[PaddedGroup, ...]:
    """Return the cheapest layout for graphs with these numbers of slots, in ascending order.

    A graph padded to S slots costs about S² + 32 S: attention is quadratic in the slots, the other
    parts of a layer are linear. Dynamic programming over the distinct sizes minimises the cost.
    """
    distinct, first = np.unique(slots, return_index=True)
    ends = np.append(first[1:], len(slots))
    counts = ends - np.append(0, ends[:-1])[:, None]  # [i, j]: graphs of the sizes i to j
    costs = np.where(counts > 0, counts * (distinct**2 + 32 * distinct), np.inf)
    best, cuts = costs[0], []
    for _ in range(min(max_groups, len(distinct)) - 1):
        options = np.append(np.inf, best[:-1])[:, None] + costs  # the last group: sizes i to j
        begin = np.where(options.min(axis=0) < best, options.argmin(axis=0), -1)
        cuts.append(begin)
        best = np.minimum(best, options.min(axis=0))
    last = len(distinct) - 1
    chosen = [last]
    for begin in reversed(cuts):
        if last >= 0 and begin[last] > 0:
            last = int(begin[last]) - 1
            chosen.append(last)
    rows, widths = np.diff(ends[chosen[::-1]], prepend=0), distinct[chosen[::-1]]
    return tuple(map(PaddedGroup, rows.tolist(), widths.tolist()))


def epoch_batches(
    graphs: np.ndarray,
    sizes: np.ndarray,
    batch_size: int,
    rng: np.random.Generator,
    max_groups: int = 1,
    max_pairs: int = 1 << 20,
    min_size: int = 2,
) -> list[np.ndarray]:
    """Return `graphs` (int [G], indices of molecules) in random order, in batches whose sizes
    differ by at most one.

    No batch has a single molecule, on which batch norms cannot be trained, unless there is only one
    or `batch_size` is 1; batches of two become three if necessary. A batch with more than
    `max_pairs` slot pairs, padding included, in `max_groups` padded groups is halved repeatedly, to
    no fewer than `min_size` molecules. `sizes` are the numbers of atoms of all molecules.
    """
    batches = np.array_split(rng.permutation(graphs), num_batches(len(graphs), batch_size))
    if max_batch_pairs(graphs, sizes, batch_size) <= max_pairs:
        return batches
    bounded = []
    for batch in batches:
        bounded += _halved(batch, sizes, max_groups, max_pairs, min_size)
    return bounded


def max_batch_pairs(graphs: np.ndarray, sizes: np.ndarray, batch_size: int) -> int:
    """Return an upper bound of the slot pairs of a batch of `epoch_batches` before halving."""
    return (batch_size + 1) * (int(sizes[graphs].max(initial=0)) + 1) ** 2


def _halved(
    batch: np.ndarray, sizes: np.ndarray, max_groups: int, max_pairs: int, min_size: int
) -> list[np.ndarray]:
    slots = np.sort(sizes[batch] + 1)
    if len(batch) < 2 * min_size or len(batch) * slots[-1] ** 2 <= max_pairs:
        return [batch]
    if sum(group.graphs * group.slots**2 for group in tight_layout(slots, max_groups)) <= max_pairs:
        return [batch]
    one, two = np.array_split(batch, 2)
    limits = (sizes, max_groups, max_pairs, min_size)
    return _halved(one, *limits) + _halved(two, *limits)


def num_batches(num_graphs: int, batch_size: int) -> int:
    """Return the number of batches of `epoch_batches` before halving."""
    smallest = min(batch_size, 2)
    return max(1, min(-(-num_graphs // batch_size), num_graphs // smallest))


def size_sorted_batches(
    graphs: np.ndarray, sizes: np.ndarray, batch_size: int, max_pairs: int = 1 << 20
) -> Iterator[np.ndarray]:
    """Yield `graphs` from small to large, for evaluation with little padding; batches of two
    molecules or more have at most `max_pairs` slot pairs, see `epoch_batches`."""
    ordered = graphs[np.argsort(sizes[graphs], kind="stable")]
    start = 0
    while start < len(ordered):
        end = min(start + batch_size, len(ordered))
        while end > start + 1 and (end - start) * (sizes[ordered[end - 1]] + 1) ** 2 > max_pairs:
            end = start + max(1, (end - start) // 2)
        yield ordered[start:end]
        start = end
