"""The folder of a screen: a manifest, and numbered parts that are each written once.

A part is finished as soon as its file exists. The file has the counts of its task, so that a later
start continues the screen.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files.lock import LOCK
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import clear_errors, remove_leftovers, replacing, write_json
from molsepnorm.predict.output import open_table
from molsepnorm.predict.screening.library import task_name
from molsepnorm.predict.tables import cells

MANIFEST, PARTS, REJECTED, TOP = "manifest.json", "parts", "rejected", "top"
"""The manifest, the folders of the results and of the rows that failed, and the name of the files
of the best rows."""

_KEY = b"molsepnorm"  # of the counts of a part in the metadata of its file
_ROWS = 100_000  # rows that are gathered beside the best ones before the others are dropped


@dataclass(frozen=True)
class Ranking:
    """Keeps the best rows by a column of numbers."""

    column: str
    count: int
    ascending: bool = False
    """The smallest values are the best."""

    def __str__(self) -> str:
        return f"{self.column}, {'smallest' if self.ascending else 'largest'} first"

    def scores(self, table: pd.DataFrame) -> np.ndarray:  # float64 (n,)
        """Return numbers that are larger for better rows, and NaN where the value is missing."""
        numbers = table[self.column].to_numpy(dtype=np.float64)
        return -numbers if self.ascending else numbers

    def best(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the best rows, the best first; of equal rows, the first are kept."""
        ordered = table.dropna(subset=[self.column]).sort_values(
            self.column, ascending=self.ascending, kind="stable"
        )
        return ordered.head(self.count)


@dataclass(frozen=True)
class Done:
    """A finished part."""

    name: str
    """Name of the task."""
    counts: dict[str, int]
    """Number of `rows` of the task, of those that were `kept`, and of those that were `rejected`
    because they failed."""
    scores: np.ndarray | None = None
    """float64 [kept]: see `Ranking.scores`; None without a ranking."""


class Results:
    """The folder of a screen, whose manifest has the `content`: the digest of the `model`, the
    `options` that change results, and the `inputs`, each a `file` with its size and time."""

    def __init__(self, folder: Path, content: Mapping[str, Any], ranking: Ranking | None) -> None:
        self.folder, self.ranking = folder, ranking
        self._content = json.loads(json.dumps(content))  # as it is read again
        self._counts: dict[str, dict[str, int]] = {}

    def check(self) -> None:
        """Raise an error unless the output is empty, or holds the same screen."""
        with clear_errors(self.folder, "read"):
            if not self.folder.is_dir():
                if self.folder.exists():
                    raise ConfigError(f"{self.folder} is a file: the output is a folder")
                return
            remove_leftovers(self.folder)
            present = set(os.listdir(self.folder)) - {LOCK}
        if not present:
            return
        if MANIFEST not in present:
            raise ConfigError(
                f"{self.folder} exists, is not empty and holds no {MANIFEST} of a screen: choose "
                "another folder"
            )
        path = self.folder / MANIFEST
        begun = read_json(path)
        try:
            self._require_same(begun)
            self._require_unchanged(begun["inputs"])
        except (TypeError, KeyError, AttributeError):
            raise ModelError(
                f"{path} is damaged, or is not the manifest of a screen: choose another folder"
            ) from None

    def _require_same(self, begun: Mapping[str, Any]) -> None:
        """Check that a screen that was begun has the model, options and files of this one."""
        differences = [] if begun["model"] == self._content["model"] else ["another model"]
        before, now = begun["options"], self._content["options"]
        differences += [
            f"{name} {_shown(before.get(name))}, now {_shown(now.get(name))}"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name)
        ]
        files, others = ([e["file"] for e in each["inputs"]] for each in (begun, self._content))
        if gone := [name for name in files if name not in others]:
            differences.append(f"the file {gone[0]}, which is not named now")
        if new := [name for name in others if name not in files]:
            differences.append(f"no file {new[0]}")
        if not differences and files != others:
            differences.append("the files in another order")
        if differences:
            raise ConfigError(
                f"{self.folder} holds a screen with {'; '.join(differences)}. Start it again as it "
                "was begun, or choose another folder"
            )

    def _require_unchanged(self, inputs: list[Any]) -> None:
        """Check that no file has changed since a part was computed that depends on it."""
        for number, (old, now) in enumerate(zip(inputs, self._content["inputs"], strict=True)):
            own = task_name(number, 0).partition("-")[0] + "-"
            what, prefix = "delete its parts ({}) to screen the file again", own
            if self.ranking is not None:
                prefix = ""
                what = (
                    "rows of other files may have been left out because of its old rows. "
                    "Delete the parts of all files ({}) to screen again"
                )
            if old != now and any(name.startswith(prefix) for name in self._present()):
                raise ConfigError(
                    f"{now['file']} has changed since {self.folder} was begun: "
                    f"{what.format(self.folder / PARTS / f'{prefix}*')}, or choose another folder"
                )

    def _present(self) -> list[str]:
        """Return the names of the parts that exist, in the order of the library."""
        with clear_errors(self.folder, "read"):
            return sorted(path.stem for path in (self.folder / PARTS).glob("*.parquet"))

    def begin(self) -> Iterator[Done]:
        """Write the manifest, and yield the undamaged parts that were finished before.

        The folder should be locked. Rejected rows without a part are deleted.
        """
        self._write()  # before anything else, since it marks the folder as that of a screen
        with clear_errors(self.folder, "write"):
            for kind in (PARTS, REJECTED):
                (self.folder / kind).mkdir(exist_ok=True)
                remove_leftovers(self.folder / kind)
            present = self._present()
            for path in (self.folder / REJECTED).glob("*.parquet"):
                if path.stem not in present:
                    path.unlink()
        for name in present:
            if (done := _read_part(part_path(self.folder, PARTS, name), self.ranking)) is not None:
                self.add(done)
                yield done

    def add(self, done: Done) -> None:
        """Record a finished part."""
        self._counts[done.name] = done.counts

    def finish(self, smiles_column: str, digits: int) -> int | None:
        """Write the counts of all parts and, with a ranking, `top.parquet` and `top.csv`.

        They have the best rows of all parts, the best first. Of rows with the same value, those of
        the first parts come first. Numbers in `top.csv` have `digits` significant digits.

        Returns:
            The number of best rows; None without a ranking.
        """
        best = None if self.ranking is None else self._best(self.ranking)
        if best is not None:
            write_part(self.folder / f"{TOP}.parquet", best)
            numbers = {name for name, column in best.items() if column.dtype.kind in "fi"}
            place = best.columns.get_loc(smiles_column)
            with open_table(self.folder / f"{TOP}.csv", [*best], place, numbers) as write:
                for row in cells(best, digits):
                    write(row)
        self._write()
        return None if self.ranking is None else 0 if best is None else len(best)

    def _best(self, ranking: Ranking) -> pd.DataFrame | None:
        gathered: list[pd.DataFrame] = []
        for name in sorted(self._counts):
            path = part_path(self.folder, PARTS, name)
            with clear_errors(path, "read"), open(path, "rb") as file:
                gathered.append(pd.read_parquet(file))
            if sum(map(len, gathered)) > ranking.count + _ROWS:
                gathered = [ranking.best(pd.concat(gathered, ignore_index=True)).sort_index()]
        return ranking.best(pd.concat(gathered, ignore_index=True)) if gathered else None

    def _write(self) -> None:
        parts = dict(sorted(self._counts.items()))
        write_json(self.folder / MANIFEST, {**self._content, "parts": parts})


def part_path(folder: Path, kind: str, name: str) -> Path:
    return folder / kind / f"{name}.parquet"


def write_part(path: Path, table: pd.DataFrame, counts: Mapping[str, int] | None = None) -> None:
    """Write a table as Parquet, with counts in the metadata of the file.

    Numbers are float64, or int64 for positions. Texts are never null.
    """
    arrow = importlib.import_module("pyarrow")
    kinds = {"f": arrow.float64(), "i": arrow.int64(), "b": arrow.bool_()}
    types = {name: kinds.get(column.dtype.kind, arrow.string()) for name, column in table.items()}
    texts = [name for name, kind in types.items() if kind == arrow.string()]
    table = table.assign(**{name: table[name].fillna("") for name in texts})
    content = arrow.Table.from_pandas(table, arrow.schema(types.items()), preserve_index=False)
    metadata = {_KEY: json.dumps(counts)} if counts else None
    sink = arrow.BufferOutputStream()
    write = importlib.import_module("pyarrow.parquet").write_table
    write(content.replace_schema_metadata(metadata), sink)
    with replacing(path) as scratch:
        scratch.write_bytes(sink.getvalue())


def _read_part(path: Path, ranking: Ranking | None) -> Done | None:
    """Return a finished part; None if its file is damaged."""
    arrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    try:
        with open(path, "rb") as opened:
            file = parquet.ParquetFile(opened)
            counts = json.loads(file.schema_arrow.metadata[_KEY])
            counts = {name: counts[name] for name in ("rows", "kept", "rejected")}
            scores = None
            if ranking is not None:
                table = file.read([ranking.column], use_threads=False)
                scores = ranking.scores(table.to_pandas())
        return Done(path.stem, counts, scores)
    except (arrow.ArrowException, OSError, LookupError, TypeError, ValueError):
        return None


def _shown(value: Any) -> str:
    return "none" if value is None else f"'{value}'"
