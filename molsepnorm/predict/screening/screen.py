"""`screen`: predict a library of any size, and keep the rows that matter.

The folder of a screen has a manifest and numbered parts. A part is finished once its file exists,
which has the counts of its task, so that a later start continues the screen.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from molsepnorm._version import __version__
from molsepnorm.data.tables.columns import require_clear_points, with_points
from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.errors import ConfigError, ModelError
from molsepnorm.files.digests import json_digest
from molsepnorm.files.lock import LOCK, locked
from molsepnorm.files.reading import read_json
from molsepnorm.files.writing import clear_errors, remove_leftovers, replacing, write_json
from molsepnorm.model.folder import packed
from molsepnorm.optional import require_package
from molsepnorm.predict.encode import require_further
from molsepnorm.predict.output import open_table
from molsepnorm.predict.predictor import Predictor
from molsepnorm.predict.screening.filters import Filter, FilterColumns, Kind
from molsepnorm.predict.screening.library import Library, ScreenTask, find_files, open_library
from molsepnorm.predict.tables import ERROR, cells
from molsepnorm.tasks.target import interval_names
from molsepnorm.workers import Workers

_FILE, _ROW = "source_file", "source_row"  # columns that are added
_MANIFEST, _PARTS, _REJECTED, _TOP = "manifest.json", "parts", "rejected", "top"
_KEY = b"molsepnorm"  # of the counts of a part in the metadata of its file


@dataclass(frozen=True)
class ScreenOptions:
    """Rows and columns that a screen writes."""

    reading: ReadOptions = field(default_factory=ReadOptions)
    """How the files are written."""
    columns: Sequence[str] | None = None
    """Columns of the input for the output; by default that of SMILES, and one of identifiers."""
    filter: str | None = None
    """Condition on the columns of the output, see `filters.Filter`."""
    top: int | None = None
    """Number of rows to keep; None for all that pass the filter."""
    by: str | None = None
    """The target or column whose largest values `top` keeps; by default the only target, or its
    pIC50 if it has the transform pic50."""
    ascending: bool | None = None
    """Keep the smallest values instead. Must be set if `by` is a concentration with the transform
    pic50, whose smallest values are the most potent."""
    rows_per_part: int = 10_000
    """Number of rows that are predicted and written together."""


@dataclass(frozen=True)
class ScreenProgress:
    """Counts of a screen that is under way or finished."""

    rows: int = 0
    """Number of rows that are done, also by earlier starts."""
    kept: int = 0
    """Number of rows that pass the filter; once the screen is finished, of those in the output."""
    rejected: int = 0
    """Number of rows that failed."""
    parts: int = 0
    """Number of files in the folder `parts`."""
    ranked_by: str | None = None
    """The column that ranks and its direction; None without `top`."""


def screen(
    predictor: Predictor,
    inputs: Sequence[str],
    output: Path | str,
    options: ScreenOptions = ScreenOptions(),
    on_progress: Callable[[ScreenProgress], None] = lambda _: None,
) -> ScreenProgress:
    """Predict the molecules of files, and write those that pass a filter or are the best.

    The rows of each file are cut into tasks. The result of each task is a Parquet file in the
    folder `parts` of the output, with the carried columns, `source_file`, `source_row` and the
    columns of `Predictor.columns`. Rows that failed are in the folder `rejected`, with the reason
    in `error`. With `top`, the best rows are in `top.csv` and `top.parquet`, the best first.

    The same call continues a screen that was stopped or killed. Memory does not grow with the
    library.

    Args:
        predictor: with several `processes` and the model on a CPU, each process does a task; a GPU
            is used by one task at a time.
        inputs: files, or patterns such as `lib/*.parquet`, see `read_chunks` for the formats.
        on_progress: called at the start and after each part.

    Raises:
        ConfigError: before anything is computed: an option is wrong, a column is missing, the
            output holds something else or another screen, or another process uses it.
        DataError, StorageError: a file is damaged, or cannot be read or written. Finished parts
            stay.
    """
    predictor.model.require_targets()
    for name in ("pyarrow", "pyarrow.parquet"):
        require_package(name, "parquet", "a screen")
    if options.rows_per_part < 1:
        raise ConfigError(f"rows_per_part must be 1 or more; got {options.rows_per_part}")
    folder = Path(output).absolute()
    files = find_files(inputs)
    require_further(predictor.model.inputs, options.reading.further)
    library = open_library(files, options.reading, options.columns, predictor.model.inputs.names)
    for source in library.sources:
        if folder in source.path.parents:
            raise ConfigError(
                f"{source.name} lies in the output {output}: choose a pattern that leaves it out, "
                "or another output"
            )
    work = _work(predictor, library, folder, options)
    with ExitStack() as stack:
        do: Callable[[Iterable[ScreenTask]], Iterator[Done]] = partial(map, work)
        if predictor.device.type == "cpu" and predictor.processes > 1:
            alone = copy(predictor)
            alone.processes = 1
            workers = Workers(predictor.processes, replace(work, predictor=alone))
            do = stack.enter_context(workers).map
        # A worker that is forked while the folder is locked would keep the lock after a SIGKILL.
        stack.enter_context(locked(folder, "screening"))
        return _run(work, options, do, on_progress)


@dataclass(frozen=True)
class Ranking:
    """Keeps the best rows by a column of numbers."""

    column: str
    count: int
    ascending: bool = False
    """The smallest values are the best."""

    def __str__(self) -> str:
        return f"{self.column}, {'smallest' if self.ascending else 'largest'} first"

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
    """Number of `rows`, of those that were `kept`, and of those that failed, `rejected`."""


@dataclass(frozen=True)
class Work:
    """Predicts the rows of a task, and writes those that pass the filter, or the best of them. The
    part is written last, so the task is finished where it exists."""

    predictor: Predictor
    library: Library
    folder: Path
    """The absolute path of the output."""
    chosen: Filter | None = None
    ranking: Ranking | None = None

    def __call__(self, task: ScreenTask) -> Done:
        library, table = self.library, task.table
        features = {name: table[name].tolist() for name in library.features} or None
        predicted = self.predictor.to_frame(table[library.smiles_column].tolist(), features)
        errors = predicted.pop(ERROR)
        rows = table.index.to_numpy(dtype=np.int64)
        table = table[[*library.carried]].reset_index(drop=True)
        table[_FILE], table[_ROW] = task.source.name, rows
        numbers = {}
        for name in self.chosen.numbers if self.chosen else ():
            # the numbers of features have points already
            decimal = "." if name in library.features else library.reading.decimal
            require_clear_points(task.table, name, decimal, task.source.name)
            texts = with_points(table[name], decimal)
            numbers[name] = pd.to_numeric(texts, errors="coerce").astype(np.float64)
            for row in np.flatnonzero(numbers[name].isna() & (table[name].str.strip() != "")):
                if errors[row] is None:
                    text = table[name][row]
                    errors[row] = f"the filter needs a number in {name}: '{text}'"
        valid = errors.isna()
        kept = pd.concat([table, predicted.drop(columns="smiles")], axis=1)[valid]
        if self.chosen is not None:
            kept = kept[self.chosen(kept.assign(**numbers))]
        if self.ranking is not None:
            kept = self.ranking.best(kept).sort_index()
        counts = {"rows": len(table), "kept": len(kept), "rejected": int((~valid).sum())}
        if counts["rejected"]:
            rejected = table.assign(**{ERROR: errors})[~valid]
            _write_part(_part(self.folder, _REJECTED, task.name), rejected)
        _write_part(_part(self.folder, _PARTS, task.name), kept, counts)
        return Done(task.name, counts)


def _work(predictor: Predictor, library: Library, folder: Path, options: ScreenOptions) -> Work:
    """Check the options, and return what is done with each task."""
    for name in library.carried:
        if name in predictor.columns or name in (_FILE, _ROW, ERROR):
            raise ConfigError(
                f"the column '{name}' of the input has the name of a column that is added: leave "
                "it out of --columns, or rename it"
            )
    columns = _columns(predictor, library)
    chosen = None if options.filter is None else Filter(options.filter, columns)
    ranking = None
    if options.top is not None:
        ranking = _ranking(predictor, columns, options)
    elif options.by is not None or options.ascending is not None:
        raise ConfigError("by and ascending choose the best rows: add --top")
    return Work(predictor, library, folder, chosen, ranking)


def _content(work: Work, options: ScreenOptions) -> dict[str, Any]:
    about, _ = packed(work.predictor.model)
    del about["molsepnorm"]  # the version may change
    settings = asdict(options)
    settings = settings.pop("reading") | settings
    del settings["further"]  # the model names the columns
    settings |= {
        "columns": work.library.carried,
        "by": work.ranking and work.ranking.column,
        "ascending": bool(options.ascending),
        "level": work.predictor.level,
        "domain": work.predictor.domain,
        "precision": work.predictor.precision,
    }
    inputs = [
        {"file": source.name, "bytes": source.size, "modified_ns": source.modified}
        for source in work.library.sources
    ]
    ranked_by = work.ranking and str(work.ranking)
    content = {"molsepnorm": __version__, "model": json_digest(about), "options": settings}
    return {**content, "inputs": inputs, "ranked_by": ranked_by}


def _columns(predictor: Predictor, library: Library) -> FilterColumns:
    """Return the columns that a filter or a ranking may name."""
    kinds: dict[str, Kind] = dict.fromkeys(library.carried, "cell")
    for name, dtype in predictor.columns.items():
        kinds[name] = {"f": "number", "b": "yes/no"}.get(dtype.kind, "text")  # type: ignore[assignment]
    targets = predictor.model.task.targets
    aliases = {t.name: t.prediction_column for t in targets}
    aliases |= {t.learned_name: t.output_columns[0] for t in targets if t.kind != "multiclass"}
    for target in targets:
        for name in (*target.output_columns, *target.uncertainty_columns):
            if target.kind != "regression" and kinds.get(name) == "number":
                kinds[name] = "probability"
    classes = {t.prediction_column: t.classes for t in targets if t.kind == "multiclass"}
    return FilterColumns(kinds, aliases, classes)


def _ranking(predictor: Predictor, columns: FilterColumns, options: ScreenOptions) -> Ranking:
    assert options.top is not None
    if options.top < 1:
        raise ConfigError(f"top must be 1 or more; got {options.top}")
    targets = predictor.model.task.targets
    if options.by is None and len(targets) > 1:
        raise ConfigError(
            f"the model has the targets {', '.join(predictor.targets)}: choose the one whose best "
            "rows are kept, with --by"
        )
    name = columns.find(options.by or targets[0].learned_name, "by")
    numbers = [each for each, kind in columns.kinds.items() if kind in ("number", "probability")]
    if name not in numbers:
        raise ConfigError(
            f"by: '{name}' is no column of predicted numbers, which are {', '.join(numbers)}"
        )
    for target in targets:
        if target.transformation is None or target.transformation.sign > 0:
            continue
        falling = target.prediction_column, *interval_names(target.name), target.nearest_column
        has_direction = options.ascending is not None
        if has_direction if options.by is None else name in falling and not has_direction:
            raise ConfigError(
                f"small values of '{target.name}' and large values of '{target.learned_name}' are "
                "the most potent: give --by and a direction (--ascending or --descending), or "
                f"--by {target.learned_name} alone"
            )
    return Ranking(name, options.top, bool(options.ascending))


def _run(
    work: Work,
    options: ScreenOptions,
    do: Callable[[Iterable[ScreenTask]], Iterator[Done]],
    on_progress: Callable[[ScreenProgress], None],
) -> ScreenProgress:
    """Do the tasks that are not finished, in the locked folder."""
    folder, ranking, content = work.folder, work.ranking, _content(work, options)
    progress = ScreenProgress(ranked_by=content["ranked_by"])
    finished: dict[str, dict[str, int]] = {}

    def count_in(done: Done) -> None:
        nonlocal progress
        finished[done.name] = done.counts
        sums = {name: getattr(progress, name) + count for name, count in done.counts.items()}
        progress = replace(progress, parts=len(finished), **sums)

    def write_manifest() -> None:
        write_json(folder / _MANIFEST, {**content, "parts": dict(sorted(finished.items()))})

    _check_folder(folder, json.loads(json.dumps(content)))  # as it is read again
    write_manifest()  # before anything else, since it marks the folder as that of a screen
    for done in _finished(folder):
        count_in(done)
    on_progress(progress)
    tasks = work.library.tasks(options.rows_per_part)
    for done in do(task for task in tasks if task.name not in finished):
        count_in(done)
        on_progress(progress)
    if ranking is not None:
        progress = replace(progress, kept=_write_best(work, ranking, sorted(finished)))
    write_manifest()
    return progress


def _check_folder(folder: Path, content: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` unless a folder is empty, or its manifest has the content."""
    with clear_errors(folder, "read"):
        remove_leftovers(folder)
        present = set(os.listdir(folder)) - {LOCK}
    if not present:
        return
    if _MANIFEST not in present:
        raise ConfigError(
            f"{folder} exists, is not empty and holds no {_MANIFEST} of a screen: choose another "
            "folder"
        )
    begun = read_json(folder / _MANIFEST)
    try:
        old, new = begun["options"], content["options"]
        options = [name for name, value in new.items() if old.get(name) != value]
        files = [each["file"] for each in content["inputs"] if each not in begun["inputs"]]
        differences = ["another model"] * (begun["model"] != content["model"])
        differences += [f"another {name} ({old.get(name)}, now {new[name]})" for name in options]
        differences += [f"another file {name}, or it has changed" for name in files[:1]]
        if not files and begun["inputs"] != content["inputs"]:
            differences.append("other files, or in another order")
    except (TypeError, KeyError, AttributeError):
        raise ModelError(
            f"{folder / _MANIFEST} is damaged, or is not the manifest of a screen: choose another "
            "folder"
        ) from None
    if differences:
        raise ConfigError(
            f"{folder} holds a screen with {'; '.join(differences)}. Start it again as it was "
            "begun, or choose another folder"
        )


def _finished(folder: Path) -> Iterator[Done]:
    """Yield the finished parts that are not damaged, and delete rejected rows without a part."""
    with clear_errors(folder, "write"):
        for kind in (_PARTS, _REJECTED):
            (folder / kind).mkdir(exist_ok=True)
            remove_leftovers(folder / kind)
        present = sorted(path.stem for path in (folder / _PARTS).glob("*.parquet"))
        for path in (folder / _REJECTED).glob("*.parquet"):
            if path.stem not in present:
                path.unlink()
    for name in present:
        if (done := _read_part(_part(folder, _PARTS, name))) is not None:
            yield done


def _write_best(work: Work, ranking: Ranking, names: Sequence[str]) -> int:
    """Write the best rows of all parts, best first, and return their number. Of equal rows, those
    of earlier parts come first."""
    best: pd.DataFrame | None = None
    for name in names:
        path = _part(work.folder, _PARTS, name)
        with clear_errors(path, "read"), open(path, "rb") as file:
            part = pd.read_parquet(file)
        best = ranking.best(part if best is None else pd.concat([best, part], ignore_index=True))
    if best is None:
        return 0
    _write_part(work.folder / f"{_TOP}.parquet", best)
    numbers = {name for name, column in best.items() if column.dtype.kind in "fi"}
    place = best.columns.get_loc(work.library.smiles_column)
    with open_table(work.folder / f"{_TOP}.csv", [*best], place, numbers) as write:
        for row in cells(best, work.predictor.model.task.digits):
            write(row)
    return len(best)


def _part(folder: Path, kind: str, name: str) -> Path:
    return folder / kind / f"{name}.parquet"


def _write_part(path: Path, table: pd.DataFrame, counts: Mapping[str, int] | None = None) -> None:
    """Write a table of float64, int64, bool and text without nulls as Parquet, with counts in the
    metadata of the file."""
    arrow = importlib.import_module("pyarrow")
    kinds = {"f": arrow.float64(), "i": arrow.int64(), "b": arrow.bool_()}
    types = {name: kinds.get(column.dtype.kind, arrow.string()) for name, column in table.items()}
    texts = [name for name, kind in types.items() if kind == arrow.string()]
    table = table.assign(**{name: table[name].fillna("") for name in texts})
    content = arrow.Table.from_pandas(table, arrow.schema(types.items()), preserve_index=False)
    content = content.replace_schema_metadata({_KEY: json.dumps(counts)} if counts else None)
    with replacing(path) as scratch:
        importlib.import_module("pyarrow.parquet").write_table(content, scratch)


def _read_part(path: Path) -> Done | None:
    """Return a finished part; None if its file is damaged."""
    arrow, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.parquet"))
    try:
        counts = json.loads(parquet.read_schema(path).metadata[_KEY])
        return Done(path.stem, {name: counts[name] for name in ("rows", "kept", "rejected")})
    except (arrow.ArrowException, OSError, LookupError, TypeError, ValueError):
        return None
