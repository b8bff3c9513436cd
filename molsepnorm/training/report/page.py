"""The page of a report: the template `page.html`, and what it shows."""

from __future__ import annotations

import json
import os
import shlex
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader

from molsepnorm._version import __version__
from molsepnorm.errors import counted, first_of
from molsepnorm.files.page import page
from molsepnorm.tasks.metrics import METRICS, between, label_of, signed, significant
from molsepnorm.training.report.charts import STYLE
from molsepnorm.training.report.contents import Contents
from molsepnorm.training.report.figures import (
    confusion_tables,
    error_by_similarity,
    learning_curves,
    molecule_errors,
    scaffolds,
    target_figures,
    worst_predictions,
)
from molsepnorm.training.results.card import composition
from molsepnorm.training.results.conclusion import conclusion, metric_label
from molsepnorm.training.results.scores import (
    calibration_table,
    score_columns,
    score_notes,
    score_rows,
)

_SPLITS = {"train": "training", "val": "validation", "test": "test"}
_DRAWN = 12  # targets with charts; of more, the first ones
_LISTED = 10  # reasons of rejected rows
_ENVIRONMENT = ("molsepnorm", "python", "packages", "platform", "cores", "threads", "gpu")

_number = partial(significant, digits=3, none="—")
_between = partial(between, digits=3)


def report_page(contents: Contents, path: Path) -> str:
    """Return the page.

    Args:
        contents: the files of the run.
        path: the file that the page will be, for links to other files of the run.
    """
    label, metrics = contents.config.data.label, contents.metrics
    names = [target.name for target in contents.targets]
    about = f"prediction of {first_of(names, 3)}" if names else "pre-training on structures"
    errors = molecule_errors(contents)
    of_molecules: dict[str, Any] = {}
    if errors is not None:
        of_molecules = {
            "errors": errors,
            "similarity": error_by_similarity(contents),
            "scaffolds": scaffolds(errors, contents.model.standardize),
            "worst": worst_predictions(contents, errors),
        }
    environment = Environment(
        loader=PackageLoader("molsepnorm.training.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    body = environment.get_template("page.html").render(
        metrics=metrics,
        tiles=_tiles(contents),
        sentences=conclusion(metrics),
        parts=composition(contents.model, metrics["epochs"]) if names else None,
        **_data(contents, path),
        notes=score_notes(score_columns(metrics)),
        scores=_scores(contents),
        targets=_targets(contents),
        undrawn=len(names) > _DRAWN,
        intervals=calibration_table(metrics) if metrics.get("calibration") else None,
        **of_molecules,
        curves=learning_curves(contents),
        **_reproduce(contents),
    )
    title = f"{label}: report of {contents.run.path.resolve().name}"
    return page(title, f"{label}: {about}", body, __version__, STYLE)


def _tiles(contents: Contents) -> list[dict[str, str | None]]:
    """Return the headline scores."""
    metrics = contents.metrics
    intervals = metrics.get("test_interval_95", {})
    return [
        {
            "name": metric_label(metrics, name),
            "score": _number(metrics["test"].get(name)),
            "interval": _between(intervals[name]) if name in intervals else None,
        }
        for name in metrics.get("headlines", ())
    ]


def _data(contents: Contents, path: Path) -> dict[str, Any]:
    data, table, rejected = contents.config.data, contents.labels, contents.rejected
    counts = contents.metrics.get("molecules", {})
    shown = [name for name in table if name not in ("rows", "molecules")]
    shown = [name for name in shown if not table[name].isin(("", "0")).all()]
    warnings = contents.environment.get("warnings")
    found: dict[str, Any] = {
        "source": str(data.table or data.dataset),
        "counts": ", ".join(
            counted(counts[split], f"{_SPLITS[split]} molecule") for split in counts
        ),
        "labels": {"head": shown, "rows": [map(_tidy, row) for row in table[shown].to_numpy()]},
        "warnings": warnings if isinstance(warnings, list) else [],
    }
    if len(rejected):
        file = (contents.run.path / "rejected.csv").resolve()
        reasons = [*rejected["reason"].value_counts().items()]
        rows = [(reason, f"{count:,}") for reason, count in reasons[:_LISTED]]
        if len(reasons) > _LISTED:
            rows.append(("other reasons", f"{sum(count for _, count in reasons[_LISTED:]):,}"))
        relative = os.path.relpath(file, path.resolve().parent).replace(os.sep, "/")
        count = counted(len(rejected), "row")
        found["rejected"] = {"count": count, "link": quote(relative), "reasons": rows}
    return found


def _scores(contents: Contents) -> dict[str, Any]:
    """Return the cells of all scores, and of the paired differences from the forest."""
    metrics = contents.metrics
    columns = score_columns(metrics)
    cells = score_rows(columns, digits=3)
    differences = metrics.get("baseline_difference", {})
    for name, row in cells.items() if differences else ():
        found = differences.get(name)
        row.append(
            f"{signed(found['difference'], 3)} ({_between(found['interval_95'])})" if found else "—"
        )
    order = {target.name: i for i, target in enumerate(contents.targets)}
    means = [name for name in cells if "/" not in name]
    several = [name for name in cells if "/" in name]
    several.sort(key=lambda name: order.get(name.partition("/")[2], 0))
    better = {
        f"{direction} is better": ", ".join(
            label_of(name) for name in means if METRICS[name].higher_is_better == is_higher
        )
        for direction, is_higher in (("lower", False), ("higher", True))
    }
    return {
        "head": ["", *columns, *["test − random forest (95 % interval)"] * bool(differences)],
        "means": [[metric_label(metrics, name), *cells[name]] for name in means],
        "targets": [
            [f"{name.partition('/')[2]}, {label_of(name.partition('/')[0])}", *cells[name]]
            for name in several
        ],
        "compared": bool(differences),
        "better": "; ".join(f"{names}: {text}" for text, names in better.items() if names),
    }


def _targets(contents: Contents) -> list[dict[str, Any]]:
    """Return the charts and tables of each target."""
    shown = []
    for target in contents.targets[:_DRAWN] if "test" in contents.tables else ():
        splits = {split: contents.predicted(split, target) for split in ("test", "val")}
        found = {split: each for split, each in splits.items() if each is not None}
        entry = contents.metrics.get("calibration", {}).get(target.name, {})
        charts, tables = target_figures(found, entry), confusion_tables(found)
        shown.append({"name": target.learned_name, "figures": charts, "tables": tables})
    return shown


def _reproduce(contents: Contents) -> dict[str, Any]:
    run, metrics, environment = contents.run, contents.metrics, contents.environment
    start = ["molsepnorm", "train" if contents.targets else "pretrain"]
    again = [*start, "--config", str(run.config), "--output", f"{run.path}-again"]
    words = environment.get("command")
    command = None
    if isinstance(words, list) and words:
        name = Path(str(words[0])).name
        first = "molsepnorm" if name == "__main__.py" else name
        command = shlex.join([first, *map(str, words[1:])])
    best = metrics["best_epoch"]
    facts = {
        "seed": contents.config.run.seed,
        "parameters of the final model": f"{metrics['parameters']:,}",
        "epochs": f"{metrics['epochs']:,}",
        "best epoch": "—" if best is None else f"{best:,}",
        "chosen by": f"validation {metrics['chosen_by']}",
        "training time": f"{metrics['seconds']:,.0f} s",
        "molsepnorm": environment.get("molsepnorm", "unknown"),
    }
    versions = {name: environment.get(name) for name in _ENVIRONMENT}
    return {
        "again": shlex.join(again),
        "command": command,
        "facts": facts.items(),
        "configuration": run.config.read_text(encoding="utf-8"),
        "environment": json.dumps(versions, indent=2, ensure_ascii=False),
    }


def _tidy(cell: str) -> str:
    """Return a number with four significant digits; counts and other texts as they are."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return cell if value.is_integer() and "." not in cell else significant(value)
