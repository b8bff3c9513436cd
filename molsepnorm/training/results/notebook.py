"""Results of training as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from molsepnorm.files.page import table
from molsepnorm.tasks.metrics import label_of
from molsepnorm.training.results.conclusion import conclusion
from molsepnorm.training.results.scores import listed_metrics, score_columns, score_rows

__all__ = ["result_html"]


def result_html(folder: Path | None, finished: bool, metrics: Mapping[str, Any]) -> str:
    """Return the folder, the scores and the conclusion of a run; arguments as in
    `TrainingResult`."""
    where = "in memory" if folder is None else str(folder)
    state = "finished" if finished else "not finished"
    head = f"<p>Run <code>{escape(where)}</code>, {state}</p>"
    if not metrics:
        return f"<div>{head}</div>"
    columns = score_columns(metrics)
    cells = score_rows(columns)
    rows = [(label_of(name), *cells[name]) for name in listed_metrics(cells)]
    hidden = len(cells) - len(rows)
    more = f"<p>{hidden:,} more in metrics.json</p>" if hidden else ""
    sentences = "".join(f"<li>{escape(each)}</li>" for each in conclusion(metrics))
    return (
        f"<div>{head}{table(rows, ('metric', *columns))}{more}"
        f"{f'<ul>{sentences}</ul>' if sentences else ''}</div>"
    )
