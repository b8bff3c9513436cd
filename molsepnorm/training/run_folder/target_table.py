"""A table of the labels of each target in each split."""

from __future__ import annotations

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.dataset import Dataset

__all__ = ["targets_table"]


def targets_table(dataset: Dataset) -> pd.DataFrame:
    """Return a row for each target and split.

    The columns are target, kind, split, rows, labels (with bounds), bounds, missing, and, for
    the exact labels on the scale that is learned, mean, sd, min and max of a regression target, or
    classes, such as "0: 12; 1: 30".
    """
    exact, rows = dataset.exact_labels, []
    for i, (name, kind) in enumerate(zip(dataset.targets, dataset.kinds, strict=True)):
        for split, graphs in dataset.splits.items():
            column = exact[graphs, i].astype(float)
            present = column[~np.isnan(column)]
            labels = int(np.count_nonzero(~np.isnan(dataset.labels[graphs, i])))
            row = {"target": name, "kind": kind, "split": split, "rows": len(graphs)}
            row |= {"labels": labels, "bounds": labels - len(present)}
            row |= {"missing": len(graphs) - labels}
            if kind != "regression":
                names = dataset.classes[i] if kind == "multiclass" else ("0", "1")
                counts = np.bincount(present.astype(int), minlength=len(names))
                shown = zip(names, counts.tolist(), strict=True)
                row["classes"] = "; ".join(f"{each}: {count}" for each, count in shown)
            elif len(present):
                row |= {"mean": present.mean(), "sd": present.std()}
                row |= {"min": present.min(), "max": present.max()}
            rows.append(row)
    columns = ["target", "kind", "split", "rows", "labels", "bounds", "missing"]
    return pd.DataFrame(rows, columns=[*columns, "mean", "sd", "min", "max", "classes"])
