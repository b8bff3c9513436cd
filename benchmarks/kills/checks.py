"""Checks after a fault and after the repetition; each function returns the promises that failed."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from safetensors.numpy import load

from benchmarks.kills.faults import Operation, Outcome
from molsepnorm.files.digests import check_sealed

_TIMES = re.compile("second|time|duration")
_UNCOMPARED = {"log.txt", "environment.json", "report.html", "README.md", "importance.png"}
"""Files with times, or drawn by a library."""
_GROWING = {"log.txt"}
"""Files that are written line by line."""


def files(folder: Path) -> dict[str, Path]:
    """Return all files by name, with hidden ones."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path for path in found}


def is_hidden(name: str) -> bool:
    """Return whether a file is temporary: it, or a folder that it is in, has a hidden name."""
    return any(part.startswith(".") for part in Path(name).parts)


def incomplete(folder: Path, but: str = "") -> list[str]:
    """Return the files under final names, but one, that cannot be read to the end."""
    found = []
    for name, path in files(folder).items():
        if is_hidden(name) or path.name in _GROWING or name == but:
            continue
        try:
            _READERS.get(path.suffix, _filled)(path)
        except Exception as error:
            found.append(f"{name} is incomplete: {type(error).__name__}: {error}")
    return found


def lost(folder: Path, operations: tuple[Operation, ...]) -> list[str]:
    """Return final names that were in place before the last operation, and are no longer there."""
    there: set[str] = set()
    for each in operations[:-1]:
        if each.kind == "rename" and not is_hidden(each.to):
            there.add(each.to)
        elif each.kind in ("remove", "rmdir"):
            there.discard(each.path)
    return [f"{each} is gone" for each in sorted(there) if not (folder / each).exists()]


def unclear(outcome: Outcome) -> list[str]:
    """Return what is wrong with the end of a command that had an error."""
    found = []
    if "Traceback" in outcome.output or outcome.code < 0:
        found.append(f"exit status {outcome.code}: {outcome.output[-1500:]}")
    if outcome.code and not re.search(r"\bError: |cannot ", outcome.output):
        found.append(f"exit status {outcome.code} without a message: {outcome.output[-300:]}")
    return found


def differences(folder: Path, undisturbed: Path, repeats: bool = True) -> list[str]:
    """Compare all files of two folders, without times; without `repeats`, their names and the
    number of complete trials."""
    ours, theirs = files(folder), files(undisturbed)
    found = [f"{name} is missing" for name in theirs.keys() - ours.keys()]
    found += [f"{name} is left over" for name in ours.keys() - theirs.keys()]
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name].name in _UNCOMPARED or ours[name].suffix == ".db":
            continue
        if not repeats and name.rpartition("/")[2] != "trials.csv":
            continue
        if comparable(ours[name]) != comparable(theirs[name]):
            found.append(f"{name} differs")
    return found


def unannounced(found: list[str], output: str, fault: str) -> list[str]:
    """Return the differences of a command that succeeded, without a report that its output says
    could not be written, and the lock in a read-only folder, which ends with its process."""
    allowed = set()
    if "The report of the run could not be written" in output:
        allowed.add("report.html is missing")
    if fault == "readonly":
        allowed.add(".lock is left over")
    return [each for each in found if each.rpartition("/")[2] not in allowed]


def comparable(path: Path) -> Any:
    """Return the content of a file without times."""
    if path.suffix == ".json":
        return _without_times(json.loads(path.read_text(encoding="utf-8")))
    if path.suffix == ".csv":
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        if path.name == "trials.csv":
            return int((table["state"] == "complete").sum())
        return table[[name for name in table if not _TIMES.search(str(name))]].to_csv(index=False)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    if path.name == "last.safetensors":
        tensors = load(path.read_bytes())
        history = tensors.pop("history").tobytes().decode()
        return {name: array.tobytes() for name, array in tensors.items()}, len(history.splitlines())
    return path.read_bytes()


def _without_times(content: Any) -> Any:
    if isinstance(content, dict):
        left = {key: each for key, each in content.items() if not _TIMES.search(key)}
        return {key: _without_times(each) for key, each in left.items()}
    return [_without_times(each) for each in content] if isinstance(content, list) else content


def _csv(path: Path) -> None:
    text = path.read_bytes().decode()
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    widths = {len(row) for row in csv.reader(io.StringIO(text, newline=""))}
    if len(widths) > 1:
        raise ValueError(f"rows of {sorted(widths)} cells")


def _sealed(path: Path) -> None:
    load(path.read_bytes())
    if not path.with_name("config.json").exists():  # which has the digests of a model folder
        check_sealed(path)


def _yaml(path: Path) -> None:
    if not isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict):
        raise ValueError("no mapping")


def _html(path: Path) -> None:
    if not path.read_text(encoding="utf-8").rstrip().endswith("</html>"):
        raise ValueError("no end of the page")


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        if damaged := archive.testzip():
            raise ValueError(f"{damaged} is damaged")


def _database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        if (found := connection.execute("pragma integrity_check").fetchone()) != ("ok",):
            raise ValueError(str(found))


def _png(path: Path) -> None:
    if not path.read_bytes().endswith(b"IEND\xaeB`\x82"):
        raise ValueError("no end of the picture")


def _filled(path: Path) -> None:
    if not path.read_bytes().strip():
        raise ValueError("it is empty")


_READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": _csv,
    ".db": _database,
    ".html": _html,
    ".json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    ".parquet": pd.read_parquet,
    ".safetensors": _sealed,
    ".store": _sealed,
    ".yaml": _yaml,
    ".png": _png,
    ".zip": _zip,
}
"""Readers by the end of the name; other files must not be empty."""
