"""Tanimoto similarities by a table, against loops and the plain function."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from molsepnorm.nn.kernel_head import KernelHead, tanimoto
from molsepnorm.nn.kernels.tanimoto import TanimotoTo

LEVELS = 4


def some_counts(molecules: int, columns: int = 30) -> Tensor:
    """Counts from 0 to 8, most of them 0."""
    return torch.randint(9, (molecules, columns)) * (torch.rand(molecules, columns) < 0.2)


def test_similarities_equal_a_loop_over_counts() -> None:
    """Counts above 4 are compared as 4."""
    torch.manual_seed(0)
    queries, known = some_counts(7), some_counts(11)
    found = TanimotoTo(known.byte(), LEVELS)(queries.float())
    for row, one in zip(found.tolist(), queries.clamp(max=LEVELS).tolist(), strict=True):
        for value, other in zip(row, known.clamp(max=LEVELS).tolist(), strict=True):
            pairs = list(zip(one, other, strict=True))
            larger = sum(max(pair) for pair in pairs)
            assert abs(value - sum(min(pair) for pair in pairs) / max(larger, 1)) < 1e-6


def test_similarities_equal_the_plain_function_bit_by_bit() -> None:
    """Also for molecules without counts, first, last and in between, and for no molecules."""
    torch.manual_seed(1)
    known = some_counts(60, 500).byte()
    queries = some_counts(40, 500).float()
    queries[[0, 17, 18, -1]] = 0
    similar = TanimotoTo(known, LEVELS)
    for part in (queries, queries[:1], queries[:0], queries.double()):
        assert torch.equal(similar(part), tanimoto(part, known))


def test_a_head_reads_the_counts_that_it_has_now() -> None:
    """The table is made again when other counts are loaded, also in a copy of the head."""
    torch.manual_seed(2)
    counts = some_counts(5).float()
    queries = torch.cat([torch.zeros(5, 2), counts], dim=1)  # two channels of embedding
    head, other = (KernelHead(32, centers=9, outputs=1, counts=30) for _ in range(2))
    head.counts.copy_(some_counts(9))
    other.counts.copy_(some_counts(9))
    for each in (head, other):
        each.weight.fill_(1)
        each(queries)  # makes the table
    copied = copy.deepcopy(head)
    for each in (head, copied):
        before = each(queries)
        each.load_state_dict(other.state_dict())
        torch.testing.assert_close(each(queries), other(queries))
        assert not torch.allclose(each(queries), before)
    head.counts = torch.zeros_like(head.counts)
    torch.testing.assert_close(head(queries), torch.full((5, 1), 9.0))  # all at the distance 0
