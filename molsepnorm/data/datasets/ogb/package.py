"""The `ogb` package without output, questions, or network access except for downloads.

It is imported only here, within functions. Its side effects, and how they are avoided:

- its import starts a thread that checks for a newer version: it is imported without `outdated`;
- it prompts before it downloads more than 1 GB: the download is called without the prompt;
- it prints, warns, and shows progress bars with a thread: all of these are suppressed.
"""

from __future__ import annotations

import csv
import io
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["evaluate", "facts", "fetch", "folder_name"]

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
    with _quiet(), _download_timeout():
        _graphproppred()
        from ogb.utils.url import download_url, extract_zip

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
    with _quiet():
        evaluator = _graphproppred().Evaluator(name)
        score = evaluator.eval({"y_true": labels, "y_pred": predictions})
    return float(score[evaluator.eval_metric])


def _graphproppred() -> Any:
    """Import `ogb.graphproppred` without `outdated`, so that no thread is started; the environment
    variable that it sets is restored."""
    if "ogb" not in sys.modules:
        variable, module = os.environ.get("OUTDATED_IGNORE"), sys.modules.get("outdated")
        sys.modules["outdated"] = None  # type: ignore[assignment]
        try:
            import ogb  # noqa: F401
        finally:
            del sys.modules["outdated"]
            if module is not None:
                sys.modules["outdated"] = module
            os.environ.pop("OUTDATED_IGNORE", None)
            if variable is not None:
                os.environ["OUTDATED_IGNORE"] = variable
    from ogb import graphproppred

    return graphproppred


@contextmanager
def _quiet() -> Iterator[None]:
    from tqdm import tqdm  # type: ignore[import-untyped]

    interval, tqdm.monitor_interval = tqdm.monitor_interval, 0  # otherwise a thread would remain
    try:
        with (
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        tqdm.monitor_interval = interval


@contextmanager
def _download_timeout() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_STALLED)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
