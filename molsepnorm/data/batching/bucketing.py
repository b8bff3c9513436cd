"""Which molecules share a batch, and in which rectangles their graphs are padded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from molsepnorm.nn.batch import PaddedGroup

__all__ = [
    "by_size",
    "epoch_batches",
    "fixed_plan",
    "largest_batch",
    "num_batches",
    "rows_of",
    "tight_plan",
]

_SPREADS = 4.5
"""Standard deviations: normal deviates are larger once in 300,000."""


def fixed_plan(sizes: np.ndarray, batch_size: int, blocks: int) -> tuple[PaddedGroup, ...]:
    """Rectangles in which random batches fit, but for one in many thousands.

    For every threshold a plan has as many rows above it as a batch needs on average, and
    `_SPREADS` standard deviations more.

    Args:
        sizes: int, atoms of the molecules from which batches are drawn.
        batch_size: molecules of each batch.
        blocks: most rectangles.
    """
    slots = np.sort(sizes) + 1
    distinct, counts = np.unique(slots, return_counts=True)
    above = 1 - np.cumsum(counts) / len(slots)
    needed = batch_size * above + _SPREADS * np.sqrt(batch_size * above * (1 - above)) + 1
    needed[-1] = 0
    largest_known = np.append(counts[::-1].cumsum()[::-1][1:], 0)  # no batch has more than all
    rows = np.minimum(np.minimum(np.ceil(needed), largest_known), batch_size).astype(int)
    return _cheapest_plan(distinct, batch_size - rows, blocks)


def rows_of(sizes: np.ndarray, plan: tuple[PaddedGroup, ...]) -> np.ndarray | None:
    """Which molecule goes into each row of a plan, int64 [B]; None where they do not fit.

    Args:
        sizes: int [B], the molecules' atoms.
        plan: rectangles with B rows together, from narrow to wide.
    """
    order = np.argsort(sizes, kind="stable")
    widths = np.repeat([block.slots for block in plan], [block.graphs for block in plan])
    return order if (sizes[order] < widths).all() else None


def tight_plan(slots: np.ndarray, blocks: int) -> tuple[PaddedGroup, ...]:
    """Up to `blocks` rectangles for graphs with these slots, in rising order."""
    distinct, first = np.unique(slots, return_index=True)
    return _cheapest_plan(distinct, np.append(first[1:], len(slots)), blocks)


def _cheapest_plan(distinct: np.ndarray, ends: np.ndarray, blocks: int) -> tuple[PaddedGroup, ...]:
    """Up to `blocks` rectangles of least cost, by dynamic programming over the distinct sizes.

    A graph padded to S slots costs about S² + 32 S: attention's passes over pairs, and the layers'
    over slots.

    Args:
        distinct: rising numbers of slots.
        ends: how many rows hold graphs of up to each of them, rising to the number of all.
        blocks: most rectangles.
    """
    counts = ends - np.append(0, ends[:-1])[:, None]  # [i, j]: graphs of the sizes i to j
    costs = np.where(counts > 0, counts * (distinct**2 + 32 * distinct), np.inf)
    best, cuts = costs[0], []
    for _ in range(min(blocks, len(distinct)) - 1):
        options = np.append(np.inf, best[:-1])[:, None] + costs  # the last block: sizes i to j
        begin = np.where(options.min(axis=0) < best, options.argmin(axis=0), -1)
        cuts.append(begin)
        best = np.minimum(best, options.min(axis=0))
    last = len(distinct) - 1
    chosen = [last]
    for begin in reversed(cuts):
        if last >= 0 and begin[last] > 0:
            last = int(begin[last]) - 1
            chosen.append(last)
    rows = np.diff(ends[chosen[::-1]], prepend=0)
    widths = distinct[chosen[::-1]]
    return tuple(PaddedGroup(*pair) for pair in zip(rows.tolist(), widths.tolist(), strict=True))


def epoch_batches(
    graphs: np.ndarray,
    sizes: np.ndarray,
    batch_size: int,
    rng: np.random.Generator,
    blocks: int = 1,
    max_pairs: int = 1 << 20,
    fewest: int = 2,
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
        fewest: molecules that halving leaves in a batch.
    """
    batches = np.array_split(rng.permutation(graphs), num_batches(len(graphs), batch_size))
    if largest_batch(graphs, sizes, batch_size) <= max_pairs:
        return batches
    bounded = []
    for batch in batches:
        bounded += _halved(batch, sizes, blocks, max_pairs, fewest)
    return bounded


def largest_batch(graphs: np.ndarray, sizes: np.ndarray, batch_size: int) -> int:
    """No batch of `epoch_batches` has more slot pairs than this."""
    return (batch_size + 1) * (int(sizes[graphs].max(initial=0)) + 1) ** 2


def _halved(
    batch: np.ndarray, sizes: np.ndarray, blocks: int, max_pairs: int, fewest: int
) -> list[np.ndarray]:
    slots = np.sort(sizes[batch] + 1)
    if len(batch) < 2 * fewest or len(batch) * slots[-1] ** 2 <= max_pairs:
        return [batch]
    if sum(block.graphs * block.slots**2 for block in tight_plan(slots, blocks)) <= max_pairs:
        return [batch]
    halves = np.array_split(batch, 2)
    return [part for half in halves for part in _halved(half, sizes, blocks, max_pairs, fewest)]


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
