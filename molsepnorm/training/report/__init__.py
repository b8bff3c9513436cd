"""The report of a run: one HTML page, from the template `page.html` and the files of the run."""

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
from molsepnorm.errors import MolsepnormError, counted, first_of
from molsepnorm.files.page import page, template
from molsepnorm.files.writing import replacing
from molsepnorm.molecules.drawing import draw_structure
from molsepnorm.tasks.metrics import between, label_of, signed, significant
from molsepnorm.training.callback import Callback
from molsepnorm.training.report import figures
from molsepnorm.training.report.cliffs import activity_cliffs
from molsepnorm.training.report.contents import Contents
from molsepnorm.training.results import summary
from molsepnorm.training.run_folder.folder import RunFolder

__all__ = ["try_report", "write_report"]

_SPLITS = {"train": "training", "val": "validation", "test": "test"}
_DRAWN = 12  # targets with charts; of more, the first ones
_LISTED = 10  # reasons of rejected rows, the most frequent ones
_ENVIRONMENT = ("molsepnorm", "python", "packages", "platform", "cores", "threads", "gpu")
_FILTERS = {"number": partial(significant, digits=3, none="—"), "ends": partial(between, digits=3)}


def write_report(folder: Path | str, output: Path | str | None = None) -> Path:
    """Write the report of a finished run, by default its report.html, and return the path."""
    path = RunFolder(folder).report if output is None else Path(output)
    text = report_page(Contents.read(folder), path)
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")
    return path


def try_report(folder: Path | str, callback: Callback) -> None:
    """Write the report of a finished run; a failure is a warning."""
    try:
        write_report(folder)
    except Exception as error:  # any failure of a page is less than that of a training
        reason = str(error) if isinstance(error, MolsepnormError) else repr(error)
        callback.on_warning(
            f"The report of the run could not be written: {reason}. The model and its scores are "
            f"complete. To try again: molsepnorm models report {shlex.quote(str(folder))}"
        )


def report_page(contents: Contents, path: Path) -> str:
    """Return the page; links to other files of the run are relative to `path`."""
    label, metrics, environment = contents.config.data.label, contents.metrics, contents.environment
    names = [target.name for target in contents.targets]
    about = f"prediction of {first_of(names, 3)}" if names else "pre-training on structures"
    program, *words = map(str, environment.get("command") or ["molsepnorm"])
    again = ["molsepnorm", "train" if names else "pretrain", "--config", str(contents.run.config)]
    counts = [counted(n, f"{_SPLITS[split]} molecule") for split, n in metrics.molecules.items()]
    versions = {name: environment.get(name) for name in _ENVIRONMENT}
    body = template("molsepnorm.training.report", "page.html", **_FILTERS).render(
        config=contents.config,
        metrics=metrics,
        environment=environment,
        label=summary.metric_label,
        drawn=lru_cache(1)(draw_structure),
        sentences=summary.conclusion(metrics),
        parts=summary.composition(contents.model, metrics.epochs),
        counts=", ".join(counts),
        **_data(contents, path),
        notes=summary.score_notes(summary.score_columns(metrics)),
        scores=_scores(contents),
        targets=_targets(contents),
        undrawn=len(names) > _DRAWN,
        intervals=summary.calibration_table(metrics),
        similarity=figures.error_by_similarity(metrics.domain),
        worst=figures.worst_predictions(contents),
        cliffs=activity_cliffs(contents),
        curves=figures.learning_curves(contents),
        again=shlex.join([*again, "--output", f"{contents.run.path}-again"]),
        command=shlex.join([Path(program).name.replace("__main__.py", "molsepnorm"), *words]),
        configuration=contents.run.config.read_text(encoding="utf-8"),
        versions=json.dumps(versions, indent=2, ensure_ascii=False),
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
    columns, differences = summary.score_columns(metrics), metrics.baseline_difference or {}
    cells = summary.score_rows(columns, digits=3)
    for name, row in cells.items() if differences else ():
        gap = differences.get(name)
        row.append(f"{signed(gap.difference, 3)} ({between(gap.interval_95, 3)})" if gap else "—")
    order = {target.name: i for i, target in enumerate(contents.targets)}
    means = [name for name in cells if "/" not in name]
    several = [name.partition("/") for name in cells if "/" in name]
    several.sort(key=lambda parts: order.get(parts[2], 0))
    return {
        "head": ["", *columns, *["test − random forest (95 % interval)"] * bool(differences)],
        "means": [[summary.metric_label(metrics.test, name), *cells[name]] for name in means],
        "targets": [[f"{n}, {label_of(m)}", *cells[f"{m}/{n}"]] for m, _, n in several],
        "compared": bool(differences),
    }


def _targets(contents: Contents) -> list[tuple[str, Any, Any]]:
    shown = []
    for target in contents.targets[:_DRAWN] if "test" in contents.tables else ():
        predicted = ((split, contents.predicted(split, target)) for split in ("test", "val"))
        splits = {split: table for split, table in predicted if table is not None}
        charts = figures.target_charts(splits, contents.metrics.calibration.get(target.name))
        shown.append((target.learned_name, charts, figures.confusion_tables(splits)))
    return shown


def _tidy(cell: str) -> str:
    """Return a number, unless it is a count, with four significant digits."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return cell if value.is_integer() and "." not in cell else significant(value)
