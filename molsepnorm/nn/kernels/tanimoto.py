"""`kernel_head.tanimoto` to fixed molecules, written for speed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


class TanimotoTo:
    """Computes Tanimoto similarities of counts to those of fixed molecules.

    A molecule has few of thousands of counts, so the rows of a table are summed that belong to its
    counts, instead of multiplying matrices of zeros. All sums are of small integers and therefore
    exact, so the result is equal to that of `kernel_head.tanimoto`, bit by bit.

    Args:
        counts: counts of the fixed molecules, uint8 [m, F].
        levels: counts above this number are compared as this number.
    """

    def __init__(self, counts: Tensor, levels: int) -> None:
        reached = torch.cat([counts >= level for level in range(1, levels + 1)], dim=1)  # (m, L F)
        used = reached.any(0)
        self._levels = levels
        self._table = F.pad(reached[:, used].T.float(), (0, 0, 0, 1))  # (rows + 1, m); last is zero
        rows = torch.where(used, used.cumsum(0) - 1, len(self._table) - 1)
        self._rows = rows.view(levels, -1)  # of level and count
        self._total = counts.clamp(max=levels).sum(1, dtype=torch.float32)

    def __call__(self, counts: Tensor) -> Tensor:  # (n, F) -> (n, m)
        """Return the similarities of n molecules to all fixed ones, float64 for such counts, else
        float32."""
        dtype = torch.float64 if counts.dtype == torch.float64 else torch.float32
        limited = counts.clamp(max=self._levels)
        molecules, columns = limited.nonzero(as_tuple=True)
        values = limited[molecules, columns]
        reached = [values >= level for level in range(1, self._levels + 1)]
        rows = torch.cat([each[columns[at]] for each, at in zip(self._rows, reached, strict=True)])
        order = torch.cat([molecules[at] for at in reached]).sort(stable=True)
        first = torch.searchsorted(order.values, torch.arange(len(counts)))
        smaller = F.embedding_bag(rows[order.indices], self._table, first, mode="sum").to(dtype)
        total = limited.sum(1, dtype=dtype)[:, None] + self._total
        return smaller / (total - smaller).clamp(min=1)
