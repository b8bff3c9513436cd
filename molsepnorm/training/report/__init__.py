"""The report of a run: one HTML page that needs no other file.

The template `page.html` is filled from the files of the run's folder. No model is applied.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from molsepnorm._version import __version__
from molsepnorm.errors import MolsepnormError, StorageError, counted, first_of
from molsepnorm.files.page import page, template
from molsepnorm.files.writing import replacing
from molsepnorm.molecules.drawing import draw_structure
from molsepnorm.tasks.metrics import between, label_of, signed, significant
from molsepnorm.training.callback import Callback
from molsepnorm.training.report.contents import Contents
from molsepnorm.training.report.figures import (
    confusion_tables,
    error_by_similarity,
    learning_curves,
    target_charts,
    worst_predictions,
)
from molsepnorm.training.results.summary import (
    calibration_table,
    composition,
    conclusion,
    metric_label,
    score_columns,
    score_notes,
    score_rows,
)
from molsepnorm.training.run_folder.folder import RunFolder

__all__ = ["try_report", "write_report"]

_SPLITS = {"train": "training", "val": "validation", "test": "test"}
_DRAWN = 12  # targets with charts; of more, the first ones
_LISTED = 10  # reasons of rejected rows, the most frequent ones
_ENVIRONMENT = ("molsepnorm", "python", "packages", "platform", "cores", "threads", "gpu")
_FILTERS = {
    "number": partial(significant, digits=3, none="—"),
    "ends": partial(between, digits=3),
}


def write_report(folder: Path | str, output: Path | str | None = None) -> Path:
    """Write the report of a finished run, and return its path.

    Args:
        output: the file to write; by default report.html in the folder.

    Raises:
        ModelError: the run is not finished, or a file is damaged.
        StorageError: a file cannot be read or written.
    """
    path = RunFolder(folder).report if output is None else Path(output)
    if path.is_dir():
        raise StorageError(f"cannot write {path}: there is a folder of that name")
    text = report_page(Contents.read(folder), path)
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")
    return path


def try_report(folder: Path | str, callback: Callback) -> None:
    """Write the report of a run that has just finished; a failure is a warning."""
    try:
        write_report(folder)
    except Exception as error:  # any failure of a page is less than that of a training
        reason = str(error) if isinstance(error, MolsepnormError) else repr(error)
        callback.on_warning(
            f"The report of the run could not be written: {reason}. The model and its scores are "
            f"complete. To try again: molsepnorm models report {shlex.quote(str(folder))}"
        )


def report_page(contents: Contents, path: Path) -> str:
    """Return the page; `path` is the file that it will be, for links to other files of the run."""
    label, metrics, environment = contents.config.data.label, contents.metrics, contents.environment
    names = [target.name for target in contents.targets]
    about = f"prediction of {first_of(names, 3)}" if names else "pre-training on structures"
    program, *words = map(str, environment.get("command") or ["molsepnorm"])
    again = ["molsepnorm", "train" if names else "pretrain", "--config", str(contents.run.config)]
    body = template("molsepnorm.training.report", "page.html", **_FILTERS).render(
        config=contents.config,
        metrics=metrics,
        environment=environment,
        label=metric_label,
        drawn=lru_cache(1)(draw_structure),
        sentences=conclusion(metrics),
        parts=composition(contents.model, metrics.epochs),
        counts=", ".join(
            counted(count, f"{_SPLITS[split]} molecule")
            for split, count in metrics.molecules.items()
        ),
        **_data(contents, path),
        notes=score_notes(score_columns(metrics)),
        scores=_scores(contents),
        targets=_targets(contents),
        undrawn=len(names) > _DRAWN,
        intervals=calibration_table(metrics),
        similarity=error_by_similarity(metrics.domain),
        worst=worst_predictions(contents),
        curves=learning_curves(contents),
        again=shlex.join([*again, "--output", f"{contents.run.path}-again"]),
        command=shlex.join([Path(program).name.replace("__main__.py", "molsepnorm"), *words]),
        configuration=contents.run.config.read_text(encoding="utf-8"),
        versions=json.dumps(
            {name: environment.get(name) for name in _ENVIRONMENT}, indent=2, ensure_ascii=False
        ),
    )
    title = f"{label}: report of {contents.run.path.resolve().name}"
    style = template("molsepnorm.training.report", "style.css").render()
    return page(title, f"{label}: {about}", body, __version__, style)


def _data(contents: Contents, path: Path) -> dict[str, Any]:
    labels = contents.labels.drop(columns=["rows", "molecules"], errors="ignore")
    shown = [name for name in labels if not labels[name].isin(("", "0")).all()]
    reasons = Counter(contents.rejected.get("reason", ())).most_common(_LISTED)
    file = (contents.run.path / "rejected.csv").resolve()
    link = os.path.relpath(file, path.resolve().parent).replace(os.sep, "/")
    return {
        "labels": {"head": shown, "rows": [map(_tidy, row) for row in labels[shown].to_numpy()]},
        "reasons": [(reason, f"{count:,}") for reason, count in reasons],
        "rejected": counted(len(contents.rejected), "row"),
        "link": quote(link),
    }


def _scores(contents: Contents) -> dict[str, Any]:
    """Return the cells of all scores, and of the paired differences from the forest."""
    metrics = contents.metrics
    columns, differences = score_columns(metrics), metrics.baseline_difference or {}
    cells = score_rows(columns, digits=3)
    for name, row in cells.items() if differences else ():
        gap = differences.get(name)
        row.append(f"{signed(gap.difference, 3)} ({between(gap.interval_95, 3)})" if gap else "—")
    order = {target.name: i for i, target in enumerate(contents.targets)}
    means = [name for name in cells if "/" not in name]
    several = [name.partition("/") for name in cells if "/" in name]
    several.sort(key=lambda parts: order.get(parts[2], 0))
    return {
        "head": ["", *columns, *["test − random forest (95 % interval)"] * bool(differences)],
        "means": [[metric_label(metrics.test, name), *cells[name]] for name in means],
        "targets": [[f"{n}, {label_of(m)}", *cells[f"{m}/{n}"]] for m, _, n in several],
        "compared": bool(differences),
    }


def _targets(contents: Contents) -> list[tuple[str, Any, Any]]:
    """Return the name, charts and tables of each target."""
    shown = []
    for target in contents.targets[:_DRAWN] if "test" in contents.tables else ():
        splits = {split: contents.predicted(split, target) for split in ("test", "val")}
        found = {split: each for split, each in splits.items() if each is not None}
        charts = target_charts(found, contents.metrics.calibration.get(target.name))
        shown.append((target.learned_name, charts, confusion_tables(found)))
    return shown


def _tidy(cell: str) -> str:
    """Return a number with four significant digits; counts and other texts as they are."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return cell if value.is_integer() and "." not in cell else significant(value)
