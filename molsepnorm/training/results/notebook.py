"""Results of training as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from molsepnorm.predict.notebook import table_html
from molsepnorm.tasks.metrics import label_of
from molsepnorm.training.results.conclusion import conclusion
from molsepnorm.training.results.scores import score_columns

__all__ = ["result_html"]

_MAX_ROWS = 30


def result_html(folder: Path | None, finished: bool, metrics: Mapping[str, Any]) -> str:
    """Return the folder, the scores and the conclusion of a run; arguments as in
    `TrainingResult`."""
    where = "in memory" if folder is None else str(folder)
    state = "finished" if finished else "not finished"
    head = f"<p>Run <code>{escape(where)}</code>, {state}</p>"
    if not metrics:
        return f"<div>{head}</div>"
    names, columns = [*metrics["test"]], score_columns(metrics)
    rows = [
        (label_of(name), *(column.get(name) for column in columns.values()))
        for name in names[:_MAX_ROWS]
    ]
    more = f"<p>{len(names) - _MAX_ROWS:,} more in metrics.json</p>" * (len(names) > _MAX_ROWS)
    sentences = "".join(f"<li>{escape(each)}</li>" for each in conclusion(metrics))
    return (
        f"<div>{head}{table_html(rows, ('metric', *columns))}{more}"
        f"{f'<ul>{sentences}</ul>' if sentences else ''}</div>"
    )
