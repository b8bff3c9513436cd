"""Embeddings of bond labels."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

__all__ = ["label_embeddings"]


def label_embeddings(tables: Iterable[Tensor]) -> Tensor:  # (K, …)
    """Return the vector of every bond label: the mean of the embeddings of its features.

    Args:
        tables: one table (values, …) for each bond feature. In a label the first feature changes
            fastest.
    """
    first, *others = tables
    labels = first
    for table in others:
        labels = (table[:, None] + labels).flatten(0, 1)
    return labels / (1 + len(others))
