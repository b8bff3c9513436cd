"""`history.csv`: a line for each epoch of a run."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict
from pathlib import Path

from molsepnorm.errors import ModelError
from molsepnorm.files.writing import clear_errors, replacing
from molsepnorm.training.callback import EpochRecord


def append_epoch(path: Path, record: EpochRecord) -> None:
    """Add a line, and remove lines of epochs that a resumed run repeats.

    Raises:
        ModelError: the file is damaged.
    """
    row = asdict(record)
    scores = row.pop("scores")
    row |= {f"val_{name}": score for name, score in scores.items()}
    row["best"] = int(record.best)
    if math.isnan(record.train_loss):
        row["train_loss"] = None
    try:
        lines = csv.DictReader(io.StringIO(read_history(path).decode()))
        earlier = [line for line in lines if int(line["epoch"]) < record.epoch]
        with (
            replacing(path) as scratch,
            open(scratch, "w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, fieldnames=list(row))
            writer.writeheader()
            writer.writerows([*earlier, row])
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise ModelError(
            f"{path} is damaged: {error}. Remove the file, and resume the run to restore it"
        ) from error


def read_history(path: Path) -> bytes:
    """Return the content of the history; empty before the first line."""
    with clear_errors(path, "read"):
        return path.read_bytes() if path.exists() else b""
