"""The bonds of a batch as tables of fixed width, and the tensors of slot pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.nn.batch import GraphBatch


@dataclass(frozen=True)
class Neighbours:
    """The bonds of a batch, each listed at both of its ends.

    Every row has D entries, the maximum number of bonds on any atom of the data set. An entry
    without a bond refers to the row's own slot.
    """

    slots: Tensor
    """int64 [M, D]: the slots of an atom's neighbours, in increasing order. D is 1 if there are no
    bonds at all."""
    bonds: Tensor
    """int64 [M, D]: the labels of the bonds, counted from 1; 0 if there is no bond."""
    entries: Tensor
    """int64 [M, D]: the indices of the entries, from 0 to M·D − 1."""
    reverse: Tensor
    """int64 [M, D]: the entry of the same bond at its other end; an entry without a bond refers to
    itself."""

    @cached_property
    def real(self) -> tuple[Tensor, Tensor, Tensor]:
        """The E entries with a bond: their slots (E,), the labels of their bonds (E,), counted from
        0, and the index (M,) of the first entry of each row."""
        labels = self.bonds.flatten()
        real = labels.nonzero()[:, 0]
        counts = (self.bonds > 0).sum(1)
        return self.slots.flatten()[real], labels[real] - 1, counts.cumsum(0) - counts


def hop_distances(batch: GraphBatch) -> tuple[Tensor, ...]:  # for each group int64 (graphs, S, S)
    """Return the hop distance of any two slots; 0 unless they are atoms of one fragment."""
    return batch.by_group(batch.paths.distances.index_select(0, batch.pairs))


def neighbours_of(batch: GraphBatch) -> Neighbours:
    """Return the bonds of a batch, which are its path codes of distance 1."""
    width = max(batch.max_bonds, 1)
    slots, bonds, ranks = [], [], []
    first = 0
    for codes, hops in zip(batch.by_group(batch.pairs), hop_distances(batch), strict=True):
        graphs, size, _ = codes.shape
        bonded = hops == 1
        index = torch.arange(size, device=codes.device)
        # bonded slots first, in increasing order
        count = min(width, size)
        columns = (torch.where(bonded, 2 * size, size) - index).topk(count, dim=-1).indices
        rest = 0, width - count
        real = F.pad(bonded.gather(-1, columns), rest)  # (graphs, S, D)
        columns = F.pad(columns, rest)
        row = first + size * torch.arange(graphs, device=codes.device)[:, None, None]
        slots.append(torch.where(real, row + columns, row + index[:, None]).flatten(0, 1))
        labels = batch.paths.first_bonds[codes.gather(-1, columns)] + 1
        bonds.append(labels.masked_fill_(~real, 0).flatten(0, 1))
        # [g, i, j]: the rank of i among the neighbours of j
        ranks.append((bonded.cumsum(1) - 1).gather(-1, columns).flatten(0, 1))
        first += graphs * size
    slot, bond, rank = torch.cat(slots), torch.cat(bonds), torch.cat(ranks)
    entries = torch.arange(slot.numel(), device=slot.device).view_as(slot)
    return Neighbours(slot, bond, entries, torch.where(bond > 0, slot * width + rank, entries))


@dataclass(frozen=True)
class PairTensors:
    """Tensors of slot pairs, one for each padded group. Q is S, or 1 if only graph tokens query."""

    bias: list[Tensor]
    """(H, graphs, Q, S): added to the attention logits; −∞ if the key is padding."""
    neighbours: Neighbours | None = None
    """The bonds of the whole batch."""

    def first_query(self) -> PairTensors:
        return replace(self, bias=[group[:, :, :1] for group in self.bias])
