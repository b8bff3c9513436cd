"""The charts of a report: truth and prediction, curves of classifiers, learning curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve

from molsepnorm.files.page import table
from molsepnorm.tasks.metrics import label_of
from molsepnorm.training.report.charts import Chart
from molsepnorm.training.report.contents import Contents, TargetPredictions

_TITLES = {"test": "test", "val": "validation"}
_COLOURS = {"test": "one", "val": "two"}
_MAX_CORNERS = 400  # of a curve in a chart
_MAX_CLASSES = 30  # of a confusion table
_BIN = 20  # molecules of a bin of a calibration curve, at least, where there are enough


def target_figures(splits: Mapping[str, TargetPredictions], calibration: Mapping[str, Any]) -> str:
    """Return the charts of a target.

    Args:
        splits: its labels and predictions by split, test and validation.
        calibration: its entry `calibration` of `metrics.json`; empty if there is none.
    """
    scored = {split: each for split, each in splits.items() if each.scored.any()}
    if not scored:
        return "<p>No molecule of the test and validation splits has a label.</p>"
    kind = next(iter(scored.values())).target.kind
    if kind == "regression":
        return _regression(scored, calibration)
    if kind == "binary":
        return _binary(scored)
    return _classes(scored)


def figure(chart: Chart, caption: str) -> str:
    """Return a chart with its caption, which is HTML."""
    return f"<figure>{chart.svg()}<figcaption>{caption}</figcaption></figure>"


def _keys(names: Iterable[str]) -> str:
    return "".join(f'<span class="key {_COLOURS[name]}"></span>{_TITLES[name]}' for name in names)


def _regression(splits: Mapping[str, TargetPredictions], calibration: Mapping[str, Any]) -> str:
    every = [np.concatenate([p.labels[p.scored], p.values[p.scored, 0]]) for p in splits.values()]
    ends = _ends(np.concatenate(every))
    name = next(iter(splits.values())).target.learned_name
    truth = Chart(
        f"Prediction against truth of {name}",
        x=f"measured {name}",
        y=f"predicted {name}",
        x_ends=ends,
        y_ends=ends,
    )
    truth.line(np.array(ends), np.array(ends), "guide")
    caption = f"{_keys(splits)}. Predictions on the dashed diagonal are perfect."
    if (width := calibration.get("width")) is not None:
        for half in (-width / 2, width / 2):
            low, high = max(ends[0], ends[0] - half), min(ends[1], ends[1] - half)
            truth.line(np.array([low, high]), np.array([low, high]) + half, "grid")
        caption += (
            f" The thin lines are the mean {calibration['level']:.0%} interval, ±{width / 2:.3g}."
        )
    bounds = sum(each.bounds for each in splits.values())
    if bounds:
        caption += f" {bounds:,} labels that are bounds, such as &gt;10, are not shown."
    for split in reversed([*splits]):  # the test split lies on top
        rows = splits[split].scored
        truth.points(splits[split].labels[rows], splits[split].values[rows, 0], _COLOURS[split])
    return f'<div class="charts">{figure(truth, caption)}{_residuals(splits, name)}</div>'


def _residuals(splits: Mapping[str, TargetPredictions], name: str) -> str:
    """Return the histogram of the errors of the test molecules, or of those that there are."""
    split, found = next(iter(splits.items()))
    rows = found.scored
    errors = found.values[rows, 0] - found.labels[rows]
    counts, edges = np.histogram(errors, bins=int(np.clip(np.sqrt(len(errors)), 5, 30)))
    chart = Chart(
        f"Histogram of the errors of {name}, {_TITLES[split]} molecules",
        x=f"predicted − measured {name}",
        y="molecules",
        x_ends=(float(edges[0]), float(edges[-1])),
        y_ends=(0.0, float(counts.max()) * 1.05),
    )
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        chart.bar(low, high, count, _COLOURS[split], f"{low:.3g} to {high:.3g}: {count:,}")
    mean = errors.mean()
    return figure(
        chart,
        f"Errors of the {_TITLES[split]} molecules: mean {mean:+.3g}, standard deviation "
        f"{errors.std():.3g}. A mean far from 0 is a systematic error.",
    )


def _binary(splits: Mapping[str, TargetPredictions]) -> str:
    target = next(iter(splits.values())).target
    name, unit = target.name, (0.0, 1.0)
    roc = Chart(f"ROC curve of {name}", "false-positive rate", "true-positive rate", unit, unit)
    recall = Chart(f"Precision-recall curve of {name}", "recall", "precision", unit, unit)
    reliable = Chart(
        f"Calibration curve of {name}", "predicted probability", "observed frequency", unit, unit
    )
    roc.line(np.array(unit), np.array(unit), "guide")
    reliable.line(np.array(unit), np.array(unit), "guide")
    curves, shares = [], []
    for split in reversed([*splits]):
        rows = splits[split].scored
        labels, values = splits[split].labels[rows], splits[split].values[rows, 0]
        style = f"{_COLOURS[split]} line"
        if 0 < labels.sum() < len(labels):
            false, true, _ = roc_curve(labels, values)
            precision, found, _ = precision_recall_curve(labels, values)
            roc.line(*_thinned(false, true), style)
            recall.line(*_thinned(found, precision), style)
            curves.append(split)
        shares.append(f"{labels.mean():.3g} of the {_TITLES[split]} molecules")
        predicted, observed = _bins(labels, values)
        reliable.line(predicted, observed, style)
        reliable.points(predicted, observed, _COLOURS[split])
    only = "" if len(curves) == len(splits) else " A split with one class only has no curve."
    chance = f"Chance has the precision of {escape(target.positive_class)}: {', '.join(shares)}."
    figures = (
        figure(roc, f"{_keys(curves)}. ROC curve; the dashed diagonal is chance.{only}"),
        figure(recall, f"Precision and recall. {chance}"),
        figure(
            reliable,
            "Calibration curve of bins of molecules with similar probabilities; on the dashed "
            "diagonal, probabilities are frequencies.",
        ),
    )
    return f'<div class="charts">{"".join(figures)}</div>'


def _bins(labels: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean probability and the frequency of class 1 of bins of equal numbers of
    molecules, sorted by their probability."""
    parts = np.array_split(np.argsort(values, kind="stable"), max(2, min(10, len(values) // _BIN)))
    parts = [part for part in parts if len(part)]
    return (
        np.array([values[part].mean() for part in parts]),
        np.array([labels[part].mean() for part in parts]),
    )


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a curve with fewer corners; both of its ends stay."""
    if len(x) <= _MAX_CORNERS:
        return x, y
    rows = np.linspace(0, len(x) - 1, _MAX_CORNERS).round().astype(int)
    return x[rows], y[rows]


def _classes(splits: Mapping[str, TargetPredictions]) -> str:
    """Return the confusion table of each split."""
    parts = []
    for split, found in splits.items():
        names, rows = found.target.classes, found.scored
        if len(names) > _MAX_CLASSES:
            return f"<p>{len(names)} classes are too many for a confusion table.</p>"
        counts = confusion_matrix(
            found.labels[rows].astype(int),
            found.values[rows].argmax(axis=1),
            labels=np.arange(len(names)),
        )
        body = []
        for i, (name, row) in enumerate(zip(names, counts, strict=True)):
            correct = f"{row[i] / row.sum():.0%}" if any(row) else "—"
            body.append([name, *(f"{count:,}" for count in row), correct])
        head = ("true class", *(f"predicted {name}" for name in names), "correct")
        parts.append(f"<p>{_TITLES[split].capitalize()} molecules:</p>{table(body, head)}")
    return "".join(parts)


def learning_curves(contents: Contents) -> str:
    """Return the losses and the validation score of each epoch; empty text without a history."""
    histories = {name: each for name, each in contents.histories.items() if len(each)}
    if not histories:
        return ""
    last = max(float(each["epoch"].max()) for each in histories.values())
    metric = contents.metrics["chosen_by"]
    # the validation loss of a run is that of one objective; its score is what chose the epoch
    charts = [("Loss", {"train_loss": "two", "val_loss": "one"})]
    if all(f"val_{metric}" in each for each in histories.values()) and metric != "loss":
        charts.append((f"Validation {label_of(metric)}", {f"val_{metric}": "one"}))
    parts = []
    for title, columns in charts:
        values = [
            each[name].to_numpy(dtype=float)
            for each in histories.values()
            for name in columns
            if name in each
        ]
        chart = Chart(
            f"{title} by epoch", "epoch", title, (0.0, last), _ends(np.concatenate(values)), True
        )
        for member, each in histories.items():
            for name, colour in columns.items():
                if name in each:
                    epochs, own = each["epoch"].to_numpy(float), each[name].to_numpy(float)
                    chart.line(epochs, own, f"{colour} line", member)
                    if len(own) == 1:
                        chart.points(epochs, own, colour)
        caption = f"{escape(title)} after each epoch"
        if len(columns) > 1:
            caption = (
                '<span class="key two"></span>training<span class="key one"></span>validation. '
                "Loss after each epoch"
            )
        caption += f", a line for each of {len(histories)} members." if len(histories) > 1 else "."
        best = contents.metrics["best_epoch"]
        if best is not None:
            ends = np.array(chart.y_ends)
            chart.line(np.array([best, best], dtype=float), ends, "guide", f"best epoch {best}")
            caption += f" The dashed line is the best epoch, {best}."
        parts.append(figure(chart, caption))
    return f'<div class="charts">{"".join(parts)}</div>'


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Return a range with a margin around the finite values."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    margin = (high - low) * 0.04
    return low - margin, high + margin
