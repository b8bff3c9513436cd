"""The `ogb` package, tamed: silent, offline but for downloads, and without questions.

It is imported here alone, within functions. What it would do unasked, and what is done about it:

- its import starts a thread that looks for a newer version: it is imported without `outdated`;
- it asks before it replaces a release other than its own: the folder is marked as its own release;
- it asks before it downloads more than 1 GB: whoever names a set wants it;
- it prints, warns, and draws bars, watched by a thread: they go nowhere, and there is no thread;
- `torch.load` refuses what it has saved (snap-stanford/ogb#497): it is allowed for the moment.
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

__all__ = ["evaluate", "facts", "fetch", "folder_name", "read"]

_STALLED = 60  # seconds after which a download that delivers nothing is given up


def facts(name: str) -> dict[str, str]:
    """What OGB's table, `master.csv`, says of a set; the package is not imported for it."""
    spec = find_spec("ogb")
    assert spec is not None and spec.origin is not None
    table = Path(spec.origin).parent / "graphproppred" / "master.csv"
    with table.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {row[0]: row[header.index(name)] for row in rows}


def folder_name(name: str) -> str:
    """The folder in which OGB keeps a set: ogbg_molhiv for ogbg-molhiv."""
    return name.replace("-", "_")


def read(name: str, root: Path) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The set whose raw files lie in `root`, by OGB's class, which adds its own files there.

    Returns:
        All graphs in one PyG `Data`; for each of its tensors where each graph begins; and the
        split, train, valid and test.

    Raises:
        Exception: of any kind, since OGB checks nothing of what it reads.
    """
    (root / folder_name(name) / f"RELEASE_v{facts(name)['version']}.txt").touch()
    with _quiet():
        graphproppred = _graphproppred()
        with _loadable():
            dataset = graphproppred.PygGraphPropPredDataset(name, str(root))
        return dataset._data, dataset.slices, dataset.get_idx_split()


def fetch(name: str, into: Path) -> Path:
    """Download and unpack a set; the folder within `into` that holds its raw files.

    Raises:
        Exception: of any kind: the network's, the archive's, the disk's.
    """
    with _quiet(), _impatient():
        _graphproppred()
        from ogb.utils.url import download_url, extract_zip

        try:
            extract_zip(download_url(facts(name)["url"], str(into)), str(into))
        except RuntimeError as error:  # in which OGB hides any other, Ctrl-C too
            raise error.__context__ or error from None
    return into / facts(name)["download_name"]


def evaluate(name: str, predictions: np.ndarray, labels: np.ndarray) -> float:
    """The score of OGB's `Evaluator` for (G, T) predictions and labels, NaN where missing.

    Raises:
        RuntimeError: no task has both classes.
    """
    with _quiet():
        evaluator = _graphproppred().Evaluator(name)
        score = evaluator.eval({"y_true": labels, "y_pred": predictions})
    return float(score[evaluator.eval_metric])


def _graphproppred() -> Any:
    """`ogb.graphproppred`. Where `outdated` cannot be imported, ogb starts no thread; the variable
    that it sets for it is put back."""
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

    interval, tqdm.monitor_interval = tqdm.monitor_interval, 0  # or a thread would stay for good
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
def _impatient() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_STALLED)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextmanager
def _loadable() -> Iterator[None]:
    """Allow the classes of PyG that are in OGB's files, unless they are allowed anyway."""
    import torch
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    if not hasattr(torch.serialization, "safe_globals"):  # before 2.5, which refuses nothing
        yield
        return
    before = torch.serialization.get_safe_globals()
    needed = (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage)
    with torch.serialization.safe_globals([each for each in needed if each not in before]):
        yield
