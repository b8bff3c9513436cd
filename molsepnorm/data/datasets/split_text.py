"""Descriptions of a split in words, from the settings."""

from __future__ import annotations

from molsepnorm.data.datasets.config import DataConfig

__all__ = ["split_details", "split_name", "split_origin"]


def split_name(config: DataConfig) -> str | None:
    """Return the kind of split, such as "scaffold split"; None if it is not known."""
    if config.in_memory or (config.dataset is None and config.table is None):
        return None  # the split may be an argument
    if config.dataset is not None:
        return f"split of {config.dataset}"
    if config.splits_column is not None:
        return f"split of the column {config.splits_column}"
    if config.splits_file is not None:
        return "split of a file"
    kinds = {"scaffold-ogb": "scaffold split", "time": "split by time", "butina": "cluster split"}
    return kinds.get(config.split_type, f"{config.split_type} split")


def split_details(config: DataConfig) -> str:
    """Return the settings of the split, such as "scaffold, seed 3"."""
    if config.dataset is not None:
        return "that of the data set"
    if config.splits_file is not None:
        return f"from a file, entry {config.fold}"
    if config.split_type == "time":
        return f"by time, from the column {config.time_column}"
    number = "" if config.split_type == "scaffold-ogb" else f", seed {config.split_seed}"
    kind: str = config.split_type
    if config.splits_column is not None:
        kind = f"from the column {config.splits_column}"
        if config.folds is None:
            return kind
    if config.folds is not None:
        return f"{kind}{number}, fold {config.fold} of {config.folds}"
    return f"{kind}{number}{f', replicate {config.fold}' if config.fold else ''}"


def split_origin(config: DataConfig) -> str:
    """Return the column or the file of a split that is not drawn."""
    if config.splits_column is not None:
        return f"column '{config.splits_column}'"
    if config.splits_file is not None:
        return f"{config.splits_file}, entry {config.fold}"
    return f"time, column '{config.time_column}'"
