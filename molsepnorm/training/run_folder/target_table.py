"""A table of the labels of each target in each split."""

from __future__ import annotations

import pandas as pd

from molsepnorm.data.datasets.dataset import Dataset

__all__ = ["targets_table"]


def targets_table(dataset: Dataset) -> pd.DataFrame:
    """Return a row for each target and split.

    The columns are target, kind, split, rows, labels (with bounds), bounds, missing, and, for
    the exact labels on the scale that is learned, mean, sd, min and max of a regression target, or
    classes, such as "0: 12; 1: 30".
    """
    rows = []
    for summaries in zip(*map(dataset.summaries, dataset.splits.values()), strict=True):
        for (split, graphs), each in zip(dataset.splits.items(), summaries, strict=True):
            classes = "; ".join(f"{name}: {count}" for name, count in each.classes.items()) or None
            of_split = {"target": each.name, "split": split, "rows": len(graphs)}
            rows.append({**vars(each), **of_split, "classes": classes})
    columns = ["target", "kind", "split", "rows", "labels", "bounds", "missing"]
    return pd.DataFrame(rows, columns=[*columns, "mean", "sd", "min", "max", "classes"])
