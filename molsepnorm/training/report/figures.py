"""The charts and tables of a report; `page.html` draws a chart as SVG."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve

from molsepnorm.molecules.featurize.fingerprints import nearest_molecules
from molsepnorm.molecules.featurize.further import as_one_molecule
from molsepnorm.molecules.featurize.standardize import standardized
from molsepnorm.tasks import Target
from molsepnorm.tasks.metrics import label_of
from molsepnorm.tasks.molecule_errors import relative_errors, target_error
from molsepnorm.training.report.contents import Contents, TargetPredictions
from molsepnorm.training.results.metrics import DomainErrors, IntervalCoverage
from molsepnorm.training.scoring import drawn

_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 386, 12, 274  # edges of the axes, in units of the drawing
_TICKS = 5  # approximate number per axis
_MAX_POINTS = 3000  # of one group in a chart; a random sample of more is drawn
_TITLES = {"test": "test", "val": "validation"}
_COLOURS = {"test": "one", "val": "two"}
_KEYS = {split: (colour, _TITLES[split]) for split, colour in _COLOURS.items()}
_MAX_CORNERS = 400  # of a curve in a chart
_MAX_CLASSES = 30  # of a confusion table
_BIN = 20  # molecules of a bin of a calibration curve, at least, where there are enough
_WORST = 20  # predictions that are drawn
_MEASURED = 3  # different labels of the nearest molecule that are shown

_Numbers = Sequence[float] | np.ndarray


@dataclass
class Chart:
    """A chart with linear axes, drawn in the colours "one", the accent, and "two", a quiet grey."""

    label: str  # for screen readers: what the chart shows
    x: str  # names of the axes
    y: str
    x_ends: tuple[float, float]  # range of the axis, which is not empty
    y_ends: tuple[float, float]
    whole: bool = False  # True if the ticks of the horizontal axis are whole numbers
    caption: str = ""
    keys: Sequence[tuple[str, str]] = ()  # colours and what they stand for
    paths: list[tuple[str, str, str]] = field(default_factory=list)  # class, path and title

    def points(self, x: np.ndarray, y: np.ndarray, colour: str) -> None:
        """Draw points [n], or a random sample of `_MAX_POINTS`."""
        chosen = drawn(np.flatnonzero(np.isfinite(x) & np.isfinite(y)), _MAX_POINTS)
        places = (f"M{place}h0" for place in self._places(x[chosen], y[chosen]))
        self.paths.append((f"{colour} dots", "".join(places), ""))

    def line(self, x: _Numbers, y: _Numbers, style: str, title: str = "") -> None:
        """Draw a line through the points [n] that are finite."""
        x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
        chosen = np.isfinite(x) & np.isfinite(y)
        if chosen.any():
            path = "L".join(self._places(x[chosen], y[chosen]))
            self.paths.append((style, f"M{path}", title))

    def bar(self, low: float, high: float, value: float, title: str) -> None:
        """Draw a bar from 0 to the value, between two places of the horizontal axis."""
        corners = self._places([low, low, high, high], [0, value, value, 0])
        self.paths.append(("rect", f"M{'L'.join(corners)}z", title))

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        ticks = _ticks(*self.x_ends, self.whole)
        return [(_place(tick, self.x_ends, _LEFT, _RIGHT), text) for tick, text in ticks]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        ticks = _ticks(*self.y_ends)
        return [(_place(tick, self.y_ends, _BOTTOM, _TOP), text) for tick, text in ticks]

    def _places(self, x: _Numbers, y: _Numbers) -> list[str]:
        """Return the places of points; those outside of the axes are at the edge."""
        return [
            f"{_place(a, self.x_ends, _LEFT, _RIGHT)} {_place(b, self.y_ends, _BOTTOM, _TOP)}"
            for a, b in zip(x, y, strict=True)
        ]


def _place(value: float, ends: tuple[float, float], first: int, last: int) -> float:
    share = (min(max(value, ends[0]), ends[1]) - ends[0]) / (ends[1] - ends[0])
    return round(first + float(share) * (last - first), 1)


def _ticks(low: float, high: float, whole: bool = False) -> list[tuple[float, str]]:
    """Return round numbers in a range, with their texts.

    >>> [text for _, text in _ticks(-0.1, 1.04)]
    ['0', '0.2', '0.4', '0.6', '0.8', '1']
    """
    power = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step = min((power * m for m in (1, 2, 5, 10)), key=lambda s: abs((high - low) / s - _TICKS))
    if whole:
        step = max(1.0, round(step))
    numbers = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(number * step, f"{number * step:.6g}") for number in numbers]


Splits = Mapping[str, TargetPredictions]
"""Labels and predictions of a target by split, test and validation."""


def target_charts(splits: Splits, calibration: Any) -> list[Chart]:
    """Return the charts of a target; none for several classes or without a labelled molecule."""
    scored = {split: table for split, table in splits.items() if table.scored.any()}
    kinds = {table.target.kind for table in scored.values()}
    if kinds == {"regression"}:
        return [_truth(scored, calibration)]
    return _binary(scored) if kinds == {"binary"} else []


def _truth(splits: Splits, calibration: Any) -> Chart:
    every = [np.concatenate([p.labels[p.scored], p.values[p.scored, 0]]) for p in splits.values()]
    low, high = _ends(np.concatenate(every))
    name = next(iter(splits.values())).target.learned_name
    title = f"Prediction against truth of {name}"
    chart = Chart(title, f"measured {name}", f"predicted {name}", (low, high), (low, high))
    chart.line((low, high), (low, high), "guide")
    split, table = next(iter(splits.items()))
    errors = table.values[table.scored, 0] - table.labels[table.scored]
    chart.caption = (
        "Predictions on the dashed diagonal are perfect. The errors of the "
        f"{_TITLES[split]} molecules have the mean {errors.mean():+.3g} and the standard deviation "
        f"{errors.std():.3g}."
    )
    if isinstance(calibration, IntervalCoverage) and calibration.width is not None:
        half = calibration.width / 2
        chart.line((low, high - half), (low + half, high), "grid")
        chart.line((low + half, high), (low, high - half), "grid")
        interval = f"{calibration.level:.0%} interval, ±{half:.3g}"
        chart.caption += f" The thin lines are the mean {interval}."
    if bounds := sum(table.bounds for table in splits.values()):
        chart.caption += f" {bounds:,} labels that are bounds, such as >10, are not shown."
    for split in reversed([*splits]):  # the test split lies on top
        rows = splits[split].scored
        chart.points(splits[split].labels[rows], splits[split].values[rows, 0], _COLOURS[split])
    chart.keys = [_KEYS[split] for split in splits]
    return chart


def _binary(splits: Splits) -> list[Chart]:
    target = next(iter(splits.values())).target
    roc, recall, reliable = (
        Chart(f"{title} of {target.name}", x, y, (0.0, 1.0), (0.0, 1.0))
        for title, x, y in (
            ("ROC curve", "false-positive rate", "true-positive rate"),
            ("Precision-recall curve", "recall", "precision"),
            ("Calibration curve", "predicted probability", "observed frequency"),
        )
    )
    for chart in (roc, reliable):
        chart.line((0, 1), (0, 1), "guide")
    curves, shares = [], []
    for split in reversed([*splits]):
        rows = splits[split].scored
        labels, values = splits[split].labels[rows], splits[split].values[rows, 0]
        style = f"{_COLOURS[split]} line"
        if 0 < labels.sum() < len(labels):
            false, true, _ = roc_curve(labels, values)
            precision, recalled, _ = precision_recall_curve(labels, values)
            for chart, x, y in ((roc, false, true), (recall, recalled, precision)):
                corners = np.linspace(0, len(x) - 1, min(len(x), _MAX_CORNERS)).round().astype(int)
                chart.line(x[corners], y[corners], style)
            curves.append(_KEYS[split])
        shares.append(f"{labels.mean():.3g} of the {_TITLES[split]} molecules")
        bins = max(2, min(10, len(values) // _BIN))
        observed, predicted = calibration_curve(labels, values, n_bins=bins, strategy="quantile")
        reliable.line(predicted, observed, style)
        reliable.points(predicted, observed, _COLOURS[split])
    only = "" if len(curves) == len(splits) else " A split with one class only has no curve."
    roc.caption, roc.keys = f"ROC curve; the dashed diagonal is chance.{only}", curves
    chance = f"Chance has the precision of {target.positive_class}: {', '.join(shares)}."
    recall.caption = f"Precision and recall. {chance}"
    reliable.caption = "On the dashed diagonal, predicted probabilities are observed frequencies."
    return [roc, recall, reliable]


def confusion_tables(splits: Splits) -> list[dict[str, Any]]:
    """Return the table of true and predicted classes of each split, for up to 30 classes."""
    tables = []
    for split, table in splits.items():
        names, rows = table.target.classes, table.scored
        if table.target.kind != "multiclass" or len(names) > _MAX_CLASSES or not rows.any():
            continue
        labels, predicted = table.labels[rows].astype(int), table.values[rows].argmax(axis=1)
        counts = confusion_matrix(labels, predicted, labels=np.arange(len(names)))
        body = []
        for i, (name, row) in enumerate(zip(names, counts, strict=True)):
            correct = f"{row[i] / row.sum():.0%}" if any(row) else "—"
            body.append([name, *(f"{count:,}" for count in row), correct])
        head = ["true class", *(f"predicted {name}" for name in names), "correct"]
        tables.append({"split": _TITLES[split].capitalize(), "head": head, "rows": body})
    return tables


def learning_curves(contents: Contents) -> list[Chart]:
    """Return the losses and the validation score of each epoch."""
    histories = {name: table for name, table in contents.histories.items() if len(table)}
    if not histories:
        return []
    last = max(float(table["epoch"].max()) for table in histories.values())
    metric, kept = contents.metrics.chosen_by, contents.metrics.kept_epoch
    figures = {"Loss": {"train_loss": "two", "val_loss": "one"}}
    if all(f"val_{metric}" in table for table in histories.values()) and metric != "loss":
        figures[f"Validation {label_of(metric)}"] = {f"val_{metric}": "one"}
    charts = []
    for title, columns in figures.items():
        lines = [
            (member, colour, table["epoch"].to_numpy(float), table[name].to_numpy(float))
            for member, table in histories.items()
            for name, colour in columns.items()
            if name in table
        ]
        ends = _ends(np.concatenate([values for *_, values in lines]))
        chart = Chart(f"{title} by epoch", "epoch", title, (0.0, last or 1.0), ends, whole=True)
        for member, colour, epochs, values in lines:
            chart.line(epochs, values, f"{colour} line", member)
            if len(values) == 1:
                chart.points(epochs, values, colour)
        chart.caption = f"{title} after each epoch"
        chart.caption += f", a line for each of {len(histories)} members." * (len(histories) > 1)
        if kept not in (None, contents.metrics.epochs):
            chart.line((kept, kept), chart.y_ends, "guide", f"kept epoch {kept}")
            chart.caption += f". The dashed line is the epoch that is kept, {kept}."
        chart.keys = [("two", "training"), ("one", "validation")] if len(columns) > 1 else []
        charts.append(chart)
    return charts


def _ends(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    margin = (high - low) * 0.04 or abs(low) / 10 or 1.0
    return low - margin, high + margin


def error_by_similarity(domain: DomainErrors | None) -> Chart | None:
    """Return the mean error of the test molecules by their similarity, and the expected one."""
    if domain is None or not (bins := domain.bins.get("test")):
        return None
    counts = ", ".join(f"{b.molecules:,} ({b.low:.1f}–{b.high:.1f})" for b in bins)
    curves = [*filter(None, domain.expected.values())] if len(domain.expected) == 1 else []
    line = ""
    if curves:
        line = "The line is the expected error, learned from the validation molecules, as far as "
        line += f"their similarity reaches ({domain.lowest:.2f}). "
    highest = max(*(b.error for b in bins), *(curve[0] for curve in curves), 0.0)
    chart = Chart(
        "Mean error by similarity to the nearest training molecule",
        x="similarity to the training molecules",
        y="mean error",
        x_ends=(0.0, 1.0),
        y_ends=(0.0, highest * 1.08 or 1.0),
        caption=f"Test molecules; the error is the {domain.error}. {line}Molecules by similarity: "
        f"{counts}. A bar of few molecules is uncertain.",
    )
    for b in bins:
        text = f"similarity {b.low:.1f} to {b.high:.1f}: {b.error:.3g}, {b.molecules:,} molecules"
        chart.bar(b.low + 0.008, b.high - 0.008, b.error, text)
    places = np.array(domain.similarity)
    known = places >= domain.lowest
    for curve in curves:
        chart.line(places[known], np.array(curve)[known], "guide", "expected error")
    return chart


def worst_predictions(contents: Contents) -> list[dict[str, Any]]:
    """Return the test predictions with the largest errors, relative to the target's mean error,
    each with its nearest training molecule if the model has those."""
    tables = (contents.predicted("test", target) for target in contents.targets)
    predicted = [table for table in tables if table is not None and table.scored.any()]
    smiles = contents.smiles("test")
    if not (smiles and predicted):
        return []
    every = np.stack([target_error(p.target, p.labels, p.values) for p in predicted], axis=1)
    errors = relative_errors(every, every)
    order = np.argsort(-np.nan_to_num(errors, nan=-1.0), axis=None, kind="stable")
    places = [divmod(int(number), errors.shape[1]) for number in order[:_WORST]]
    places = [place for place in places if np.isfinite(errors[place])]
    table, columns = contents.tables["test"], contents.model.inputs.columns
    first = table.columns.get_loc("smiles") + 1  # of the feature columns, which follow the SMILES

    def conditions(row: int) -> list[tuple[str, str, str]]:  # name, cell, and a structure to draw
        cells = table.iloc[row, first : first + len(columns)]
        pairs = zip(columns, cells, strict=True)
        return [(c.name, cell, as_one_molecule(cell) if c.components else "") for c, cell in pairs]

    cards = [
        {
            "smiles": smiles[row],
            "conditions": conditions(row),
            "target": predicted[column].target.learned_name if len(predicted) > 1 else "",
            "truth": predicted[column].truth(row),
            "prediction": predicted[column].prediction(row),
        }
        for row, column in places
    ]
    if contents.model.structures:
        known, level = contents.model.training_molecules(), contents.model.standardize
        forms = standardized([card["smiles"] for card in cards], level)
        found = nearest_molecules(forms, known.smiles, known.fingerprints, level)[:2]
        index, shares = (each[:, 0] for each in found)
        labels = {c: _labels(contents, predicted[c].target) for c in {c for _, c in places}}
        for card, (_, column), place, share in zip(cards, places, index, shares, strict=True):
            if np.isfinite(share):
                nearest = known.smiles[place]
                measured = [*dict.fromkeys(labels[column][nearest])][:_MEASURED]
                card |= {"nearest": nearest, "similarity": share, "measured": measured}
    return cards


def _labels(contents: Contents, target: Target) -> dict[str, list[str]]:
    """Return the labels of each SMILES of the training and validation splits."""
    labels: dict[str, list[str]] = defaultdict(list)
    for split in ("train", "val"):
        if (known := contents.predicted(split, target)) is not None:
            smiles = contents.smiles(split)
            for row in np.flatnonzero(np.isfinite(known.labels)):
                labels[smiles[row]].append(known.truth(int(row)))
    return labels
