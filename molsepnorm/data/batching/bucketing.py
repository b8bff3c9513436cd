"""Batches: which molecules share one, and the padded groups in which their graphs are laid out.

A layout is a tuple of `PaddedGroup`, from narrow to wide, with one row per graph of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from molsepnorm.nn.batch import PaddedGroup

Layout = tuple[PaddedGroup, ...]
"""The rectangles into which a batch is padded."""


def tight_layout(slots: np.ndarray, max_groups: int) -> Layout:
    """Return the cheapest layout for graphs with these numbers of slots, in ascending order.

    The cost of a graph padded to S slots is about S² + 32 S: attention is quadratic in the slots,
    the other parts of a layer are linear. The cost is minimised by dynamic programming over the
    distinct sizes.
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

    No molecule is dropped. No batch has a single molecule, on which batch norms cannot be trained,
    unless there is only one or `batch_size` is 1; batches of two become three if necessary. A batch
    with more than `max_pairs` slot pairs, padding included, in `max_groups` padded groups is halved
    repeatedly, to no fewer than `min_size` molecules. `sizes` are the numbers of atoms of all
    molecules of the store.
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
    """Yield `graphs` from small to large, for evaluation in batches with little padding.
    `max_pairs` bounds the slot pairs of a batch of two molecules or more; see `epoch_batches`.
    """
    ordered = graphs[np.argsort(sizes[graphs], kind="stable")]
    start = 0
    while start < len(ordered):
        end = min(start + batch_size, len(ordered))
        while end > start + 1 and (end - start) * (sizes[ordered[end - 1]] + 1) ** 2 > max_pairs:
            end = start + max(1, (end - start) // 2)
        yield ordered[start:end]
        start = end
