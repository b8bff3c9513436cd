"""The sections of a report, in the order in which they are read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from pathlib import Path
from urllib.parse import quote

from molsepnorm._version import __version__
from molsepnorm.errors import counted, first_of
from molsepnorm.files.page import code, page, table
from molsepnorm.tasks.metrics import METRICS, between, label_of, signed, significant
from molsepnorm.training.report.charts import STYLE
from molsepnorm.training.report.contents import Contents
from molsepnorm.training.report.figures import learning_curves, target_figures
from molsepnorm.training.report.molecules import molecules_sections
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


def report_page(contents: Contents, path: Path) -> str:
    """Return the page.

    Args:
        contents: the files of the run.
        path: the file that the page will be, for links to other files of the run.
    """
    config, name = contents.config, contents.run.path.resolve().name
    sections = {
        "Conclusion": _conclusion(contents),
        "Data": _data(contents, path),
        "Scores": _scores(contents),
        "Truth and prediction": _predictions(contents),
        "Intervals": _intervals(contents),
        **molecules_sections(contents),
        "Learning curves": learning_curves(contents),
        "How to reproduce this run": _reproduce(contents),
    }
    body = "".join(
        f"<section><h2>{escape(title)}</h2>{text}</section>"
        for title, text in sections.items()
        if text
    )
    return page(
        f"{config.data.label}: report of {name}",
        f"{config.data.label}: {_question(contents)}",
        body,
        __version__,
        STYLE + _STYLE,
    )


_STYLE = """
.numbers { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0 }
.numbers div { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .9rem;
               background: var(--panel); max-width: 100% }
.numbers b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums;
             color: var(--accent); line-height: 1.3 }
.scaffolds { grid-template-columns: repeat(auto-fill, minmax(min(9.5rem, 100%), 1fr)) }
.scaffolds .card { font-size: .85rem }
.card code { font-size: .8rem }
.warning { border-left: 3px solid var(--accent); padding-left: .7rem }
"""


def _question(contents: Contents) -> str:
    targets = contents.targets
    if not targets:
        return "pre-training on structures"
    return f"prediction of {first_of([target.name for target in targets], 3)}"


def _conclusion(contents: Contents) -> str:
    """Return the headline scores as large numbers, the sentences, and the parts of the model."""
    metrics, tiles = contents.metrics, []
    intervals = metrics.get("test_interval_95", {})
    for name in metrics.get("headlines", ()):
        ends = intervals.get(name)
        interval = "" if ends is None else f"95 % interval {_between(ends)}"
        value = metrics["test"].get(name)
        tiles.append(
            f"<div>test {escape(metric_label(metrics, name))}<b>{_number(value)}</b>"
            f'<span class="soft">{interval}</span></div>'
        )
    sentences = "".join(f"<li>{escape(each)}</li>" for each in conclusion(metrics))
    numbers = f'<div class="numbers">{"".join(tiles)}</div>' if tiles else ""
    if not sentences and not numbers:
        return f"<p>The scores of {escape(contents.run.path.resolve().name)} are below.</p>"
    parts = ""
    if contents.targets:
        parts = f"<p>Model: {composition(contents.model, metrics['epochs'])}.</p>"
    return f"{numbers}<ul>{sentences}</ul>{parts}"


def _data(contents: Contents, path: Path) -> str:
    metrics, data = contents.metrics, contents.config.data
    counts = metrics.get("molecules", {})
    described = [counted(counts[split], f"{_SPLITS[split]} molecule") for split in counts]
    text = f"The data are {code(str(data.table or data.dataset))}"
    text += f": {', '.join(described)}." if described else "."
    if "split" in metrics:
        text += f" The molecules were divided by a {escape(str(metrics['split']))}."
    parts = [f"<p>{text}</p>"]
    labels = contents.labels
    if len(labels) and {"target", "kind", "split", "labels", "missing"} <= {*labels}:
        columns = [name for name in labels if name not in ("rows", "molecules")]
        columns = [name for name in columns if not labels[name].isin(("", "0")).all()]
        rows = ([_tidy(row[name]) for name in columns] for row in labels.to_dict("records"))
        parts.append(table(rows, columns))
    parts += _rejected(contents, path)
    parts += [f'<p class="warning">{escape(each)}</p>' for each in _warnings(contents)]
    return "".join(parts)


def _rejected(contents: Contents, path: Path) -> Iterator[str]:
    rejected, file = contents.rejected, contents.run.path / "rejected.csv"
    if not len(rejected):
        if file.exists():
            yield "<p>No row of the table was left out.</p>"
        return
    link = quote(os.path.relpath(file.resolve(), path.resolve().parent).replace(os.sep, "/"))
    yield (
        f"<p>{counted(len(rejected), 'row')} of the table {'was' if len(rejected) == 1 else 'were'}"
        f' left out; <a href="{link}">rejected.csv</a> has the rows with the reasons.</p>'
    )
    if "reason" in rejected:
        reasons = rejected["reason"].value_counts()
        rows = [(reason, f"{count:,}") for reason, count in reasons.head(_LISTED).items()]
        if len(reasons) > _LISTED:
            rows.append(("other reasons", f"{reasons.iloc[_LISTED:].sum():,}"))
        yield table([(str(reason), count) for reason, count in rows], ("reason", "rows"))


def _warnings(contents: Contents) -> Iterator[str]:
    """Yield the warnings of the start of the run."""
    recorded = contents.environment.get("warnings")
    if isinstance(recorded, list):
        yield from map(str, recorded)


def _scores(contents: Contents) -> str:
    """Return the table of all scores, and the paired differences from the forest."""
    metrics = contents.metrics
    columns = score_columns(metrics)
    scores = score_rows(columns, digits=3)
    differences = metrics.get("baseline_difference", {})
    head = ["", *columns, *["test − random forest (95 % interval)"] * bool(differences)]

    def row(name: str, title: str) -> list[str]:
        cells = [title, *scores[name]]
        if differences:
            found = differences.get(name)
            cells.append(
                "—"
                if found is None
                else f"{signed(found['difference'], 3)} ({_between(found['interval_95'])})"
            )
        return cells

    order = {target.name: i for i, target in enumerate(contents.targets)}
    means = [name for name in metrics["test"] if "/" not in name]
    several = [name for name in metrics["test"] if "/" in name]
    several.sort(key=lambda name: order.get(name.partition("/")[2], 0))
    notes = score_notes(columns)
    text = f"<p>{notes}</p>" if notes else ""
    text += table([row(name, metric_label(metrics, name)) for name in means], head)
    if differences:
        text += (
            '<p class="soft">The difference is paired: both models are scored on the same '
            "resampled test molecules. It is clear if its interval does not contain 0. "
            f"{_better(means)}</p>"
        )
    if several:
        parts = ((name, *name.partition("/")) for name in several)
        rows = [row(name, f"{target}, {label_of(metric)}") for name, metric, _, target in parts]
        text += (
            f"<details{' open' if len(rows) <= 30 else ''}><summary>Scores of each target"
            f"</summary>{table(rows, ('target and metric', *head[1:]))}</details>"
        )
    return text


def _better(names: Sequence[str]) -> str:
    low = [label_of(name) for name in names if not METRICS[name].higher_is_better]
    high = [label_of(name) for name in names if METRICS[name].higher_is_better]
    parts = [f"{', '.join(low)}: lower is better"] * bool(low)
    parts += [f"{', '.join(high)}: higher is better"] * bool(high)
    return escape("; ".join(parts)) + "."


def _predictions(contents: Contents) -> str:
    """Return the charts of each target."""
    targets, parts = contents.targets, []
    if "test" not in contents.tables:
        return ""
    if len(targets) > _DRAWN:
        parts.append(
            f"<p>The first {_DRAWN} of {len(targets)} targets are drawn; the scores of all are "
            "above.</p>"
        )
    for target in targets[:_DRAWN]:
        splits = {split: contents.predicted(split, target) for split in ("test", "val")}
        found = {split: each for split, each in splits.items() if each is not None}
        entry = contents.metrics.get("calibration", {}).get(target.name, {})
        parts.append(f"<h3>{escape(target.learned_name)}</h3>{target_figures(found, entry)}")
    return "".join(parts)


def _intervals(contents: Contents) -> str:
    """Return the coverage of the intervals and sets of each target."""
    if not contents.metrics.get("calibration"):
        return ""
    head, rows = calibration_table(contents.metrics)
    return (
        "<p>Intervals (and sets of classes) are fitted to the validation molecules. Coverage is "
        "the share of test molecules whose label lies inside; it should be close to the level. "
        "Sizes are on the scale that the model learns.</p>" + table(rows, head)
    )


def _reproduce(contents: Contents) -> str:
    run, config = contents.run, contents.config
    command = "pretrain" if not contents.targets else "train"
    again = f"{run.path}-again"
    text = shlex.join(["molsepnorm", command, "--config", str(run.config), "--output", again])
    words = contents.environment.get("command")
    first = ""
    if isinstance(words, list) and words:
        name = Path(str(words[0])).name
        shown = ["molsepnorm" if name in ("__main__.py", "molsepnorm") else name, *words[1:]]
        first = f"<p>The run was started with</p><pre>{escape(shlex.join(map(str, shown)))}</pre>"
    metrics = contents.metrics
    facts = [
        ("seed", str(config.run.seed)),
        ("parameters of the final model", f"{metrics['parameters']:,}"),
        ("epochs", f"{metrics['epochs']:,}"),
        ("best epoch", "—" if metrics["best_epoch"] is None else f"{metrics['best_epoch']:,}"),
        ("chosen by", f"validation {metrics['chosen_by']}"),
        ("training time", f"{metrics['seconds']:,.0f} s"),
        ("molsepnorm", str(contents.environment.get("molsepnorm", "unknown"))),
    ]
    return (
        f"<p>To train again with the same configuration, seed and data:</p>"
        f"<pre>{escape(text)}</pre>{first}{table(facts)}"
        "<details><summary>Configuration (config.yaml)</summary>"
        f"<pre>{escape(contents.configuration())}</pre></details>"
        "<details><summary>Versions and machine (environment.json)</summary>"
        f"<pre>{escape(contents.environment_text())}</pre></details>"
    )


_number = partial(significant, digits=3, none="—")
_between = partial(between, digits=3)


def _tidy(cell: str) -> str:
    """Return a number with four significant digits; counts and other texts as they are."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return cell if value.is_integer() and "." not in cell else significant(value)
