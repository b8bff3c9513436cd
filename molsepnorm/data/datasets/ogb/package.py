"""The list of sets, the downloads and the evaluator of the `ogb` package."""

from __future__ import annotations

import csv
import io
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

_STALLED = 60  # seconds without data after which a download fails


def facts(name: str) -> dict[str, str]:
    """Return the row of a set in OGB's `master.csv`, without importing the package."""
    spec = find_spec("ogb")
    assert spec is not None and spec.origin is not None
    table = Path(spec.origin).parent / "graphproppred" / "master.csv"
    with table.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {row[0]: row[header.index(name)] for row in rows}


def folder_name(name: str) -> str:
    """Return the name of OGB's folder for a set: ogbg_molhiv for ogbg-molhiv."""
    return name.replace("-", "_")


def fetch(name: str, into: Path) -> Path:
    """Download and extract a set, and return the folder of its raw files in `into`.

    Raises:
        Exception: of any kind, from the network, the archive or the disk.
    """
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), _download_timeout():
        _graphproppred()
        from ogb.utils.url import download_url, extract_zip  # without OGB's question

        try:
            extract_zip(download_url(facts(name)["url"], str(into)), str(into))
        except RuntimeError as error:  # OGB wraps any other error in it, even Ctrl-C
            raise error.__context__ or error from None
    return into / facts(name)["download_name"]


def evaluate(name: str, predictions: np.ndarray, labels: np.ndarray) -> float:
    """Return the score of OGB's `Evaluator` for (G, T) predictions and labels, NaN if missing.

    Raises:
        RuntimeError: no task has both classes.
    """
    evaluator = _graphproppred().Evaluator(name)
    score = evaluator.eval({"y_true": labels, "y_pred": predictions})
    return float(score[evaluator.eval_metric])


def _graphproppred() -> Any:
    """Import `ogb.graphproppred` where it is used, without a message about newer versions."""
    os.environ.setdefault("OUTDATED_IGNORE", "1")
    from ogb import graphproppred

    return graphproppred


@contextmanager
def _download_timeout() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_STALLED)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
