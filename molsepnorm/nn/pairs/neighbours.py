"""Who is bonded to whom, as tables of fixed width."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from molsepnorm.nn.batch import GraphBatch

__all__ = ["Neighbours", "distances", "neighbours_of"]


@dataclass(frozen=True)
class Neighbours:
    """The bonds of a batch from both of their ends.

    A row has as many places as any atom of the data set has bonds, so that shapes are the same in
    all batches of one plan; places without a bond name the row's own slot.
    """

    slots: Tensor
    """int64 [M, D]: the slots of an atom's neighbours, in rising order; D is 1 where nobody has a
    bond."""

    bonds: Tensor
    """int64 [M, D]: the bonds' labels, counted from 1; 0 where there is none."""

    places: Tensor
    """int64 [M, D]: the numbers of the places, from 0 to M·D − 1."""

    reverse: Tensor
    """int64 [M, D]: the place at which the same bond is seen from its other end; its own where
    there is none."""


def distances(batch: GraphBatch) -> list[Tensor]:  # for each block int64 (graphs, S, S)
    """The hop distance of every two slots; 0 where it is not that of two atoms of a fragment."""
    found = batch.paths.distances.index_select(0, batch.pairs)
    return squares(found, batch)


def squares(values: Tensor, batch: GraphBatch) -> list[Tensor]:  # for each block (graphs, S, S)
    """Values (P,) of the slot pairs, seen block by block."""
    return [
        part.view(block.graphs, block.slots, block.slots)
        for block, part in zip(batch.blocks, batch.by_block(values), strict=True)
    ]


def neighbours_of(batch: GraphBatch) -> Neighbours:
    """The bonds of a batch, read off its path codes: those of distance 1."""
    width = max(batch.max_bonds, 1)
    slots, bonds, ranks = [], [], []
    first = 0
    for codes, hops in zip(squares(batch.pairs, batch), distances(batch), strict=True):
        graphs, size, _ = codes.shape
        bonded = hops == 1
        place = torch.arange(size, device=codes.device)
        # the bonded first, in rising order
        found = min(width, size)
        columns = (torch.where(bonded, 2 * size, size) - place).topk(found, dim=-1).indices
        rest = 0, width - found
        real = F.pad(bonded.gather(-1, columns), rest)  # (graphs, S, D)
        columns = F.pad(columns, rest)
        row = first + size * torch.arange(graphs, device=codes.device)[:, None, None]
        slots.append(torch.where(real, row + columns, row + place[:, None]).flatten(0, 1))
        labels = batch.paths.first_bonds[codes.gather(-1, columns)] + 1
        bonds.append(labels.masked_fill_(~real, 0).flatten(0, 1))
        # [g, i, j]: which of j's neighbours i is
        ranks.append((bonded.cumsum(1) - 1).gather(-1, columns).flatten(0, 1))
        first += graphs * size
    slot, bond, rank = torch.cat(slots), torch.cat(bonds), torch.cat(ranks)
    places = torch.arange(slot.numel(), device=slot.device).view_as(slot)
    return Neighbours(slot, bond, places, torch.where(bond > 0, slot * width + rank, places))
