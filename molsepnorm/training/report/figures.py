"""The charts and tables of a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import compress
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve

from molsepnorm.molecules.featurize.fingerprints import nearest_molecules
from molsepnorm.molecules.featurize.standardize import standardized
from molsepnorm.tasks.metrics import label_of
from molsepnorm.tasks.molecule_errors import relative_errors
from molsepnorm.training.report.charts import Chart
from molsepnorm.training.report.contents import Contents, TargetPredictions
from molsepnorm.training.results.metrics import DomainErrors, IntervalCoverage

_TITLES = {"test": "test", "val": "validation"}
_COLOURS = {"test": "one", "val": "two"}
_KEYS = {split: (colour, _TITLES[split]) for split, colour in _COLOURS.items()}
_MAX_CORNERS = 400  # of a curve in a chart
_MAX_CLASSES = 30  # of a confusion table
_BIN = 20  # molecules of a bin of a calibration curve, at least, where there are enough
_WORST = 20  # predictions that are drawn
_MEASURED = 3  # different labels of the nearest molecule that are shown

Splits = Mapping[str, TargetPredictions]
"""Labels and predictions of a target by split, test and validation."""


def target_charts(splits: Splits, calibration: Any) -> list[Chart]:
    """Return the charts of a target; none for several classes or without a labelled molecule."""
    scored = {split: each for split, each in splits.items() if each.scored.any()}
    kinds = {each.target.kind for each in scored.values()}
    if kinds == {"regression"}:
        return [_truth(scored, calibration), _residuals(scored)]
    return _binary(scored) if kinds == {"binary"} else []


def _truth(splits: Splits, calibration: Any) -> Chart:
    every = [np.concatenate([p.labels[p.scored], p.values[p.scored, 0]]) for p in splits.values()]
    low, high = _ends(np.concatenate(every))
    name = next(iter(splits.values())).target.learned_name
    title = f"Prediction against truth of {name}"
    chart = Chart(title, f"measured {name}", f"predicted {name}", (low, high), (low, high))
    chart.line((low, high), (low, high), "guide")
    chart.caption = "Predictions on the dashed diagonal are perfect."
    if isinstance(calibration, IntervalCoverage) and calibration.width is not None:
        half = calibration.width / 2
        chart.line((low, high - half), (low + half, high), "grid")
        chart.line((low + half, high), (low, high - half), "grid")
        chart.caption += (
            f" The thin lines are the mean {calibration.level:.0%} interval, ±{half:.3g}."
        )
    if bounds := sum(each.bounds for each in splits.values()):
        chart.caption += f" {bounds:,} labels that are bounds, such as >10, are not shown."
    for split in reversed([*splits]):  # the test split lies on top
        rows = splits[split].scored
        chart.points(splits[split].labels[rows], splits[split].values[rows, 0], _COLOURS[split])
    chart.keys = [_KEYS[split] for split in splits]
    return chart


def _residuals(splits: Splits) -> Chart:
    split, found = next(iter(splits.items()))
    name, rows = found.target.learned_name, found.scored
    errors = found.values[rows, 0] - found.labels[rows]
    counts, edges = np.histogram(errors, bins=int(np.clip(np.sqrt(len(errors)), 5, 30)))
    chart = Chart(
        f"Histogram of the errors of {name}, {_TITLES[split]} molecules",
        x=f"predicted − measured {name}",
        y="molecules",
        x_ends=(float(edges[0]), float(edges[-1])),
        y_ends=(0.0, float(counts.max()) * 1.05),
        caption=f"Errors of the {_TITLES[split]} molecules: mean {errors.mean():+.3g}, standard "
        f"deviation {errors.std():.3g}. A mean far from 0 is a systematic error.",
    )
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        chart.bar(low, high, count, _COLOURS[split], f"{low:.3g} to {high:.3g}: {count:,}")
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
            precision, found, _ = precision_recall_curve(labels, values)
            for chart, x, y in ((roc, false, true), (recall, found, precision)):
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
    reliable.caption = (
        "Calibration curve of bins of molecules with similar probabilities; on the dashed "
        "diagonal, probabilities are frequencies."
    )
    return [roc, recall, reliable]


def confusion_tables(splits: Splits) -> list[dict[str, Any]]:
    """Return the table of true and predicted classes of each split, for up to 30 classes."""
    tables = []
    for split, found in splits.items():
        names, rows = found.target.classes, found.scored
        if found.target.kind != "multiclass" or len(names) > _MAX_CLASSES or not rows.any():
            continue
        labels, predicted = found.labels[rows].astype(int), found.values[rows].argmax(axis=1)
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
    histories = {name: each for name, each in contents.histories.items() if len(each)}
    if not histories:
        return []
    last = max(float(each["epoch"].max()) for each in histories.values())
    metric, best = contents.metrics.chosen_by, contents.metrics.best_epoch
    # the validation loss of a run is that of one objective; its score is what chose the epoch
    figures = {"Loss": {"train_loss": "two", "val_loss": "one"}}
    if all(f"val_{metric}" in each for each in histories.values()) and metric != "loss":
        figures[f"Validation {label_of(metric)}"] = {f"val_{metric}": "one"}
    charts = []
    for title, columns in figures.items():
        lines = [
            (member, colour, each["epoch"].to_numpy(float), each[name].to_numpy(float))
            for member, each in histories.items()
            for name, colour in columns.items()
            if name in each
        ]
        ends = _ends(np.concatenate([values for *_, values in lines]))
        chart = Chart(f"{title} by epoch", "epoch", title, (0.0, last or 1.0), ends, whole=True)
        for member, colour, epochs, values in lines:
            chart.line(epochs, values, f"{colour} line", member)
            if len(values) == 1:
                chart.points(epochs, values, colour)
        chart.caption = f"{title} after each epoch"
        chart.caption += f", a line for each of {len(histories)} members." * (len(histories) > 1)
        if best is not None:
            chart.line((best, best), chart.y_ends, "guide", f"best epoch {best}")
            chart.caption += f". The dashed line is the best epoch, {best}."
        chart.keys = [("two", "training"), ("one", "validation")] if len(columns) > 1 else []
        charts.append(chart)
    return charts


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Return a range with a margin around the finite values."""
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
    counts = ", ".join(f"{each.molecules:,} ({each.low:.1f}–{each.high:.1f})" for each in bins)
    curves = [*filter(None, domain.expected.values())] if len(domain.expected) == 1 else []
    highest = max(*(each.error for each in bins), *(curve[0] for curve in curves), 0.0)
    chart = Chart(
        "Mean error by similarity to the nearest training molecule",
        x="similarity to the training molecules",
        y="mean error",
        x_ends=(0.0, 1.0),
        y_ends=(0.0, highest * 1.08 or 1.0),
        caption=f"Test molecules; the error is the {domain.error}. The line is the expected error, "
        "learned from the validation molecules, as far as their similarity reaches "
        f"({domain.lowest:.2f}). Molecules by similarity: {counts}. A bar of few molecules is "
        "uncertain.",
    )
    for each in bins:
        text = f"similarity {each.low:.1f} to {each.high:.1f}: {each.error:.3g}, {each.molecules:,}"
        chart.bar(each.low + 0.008, each.high - 0.008, each.error, "one", f"{text} molecules")
    for curve in curves:
        known = [place >= domain.lowest for place in domain.similarity]
        places, errors = (list(compress(each, known)) for each in (domain.similarity, curve))
        chart.line(places, errors, "guide", "expected error")
    return chart


def worst_predictions(contents: Contents) -> list[dict[str, Any]]:
    """Return the test predictions with the largest errors, each with its nearest training molecule
    if the model has those.

    The errors of several targets are compared after division by the target's mean error.
    """
    found = [contents.predicted("test", target) for target in contents.targets]
    predicted = [each for each in found if each is not None and each.scored.any()]
    smiles = contents.smiles("test")
    if not (smiles and predicted):
        return []
    errors = np.stack([each.errors for each in predicted], axis=1)
    errors = relative_errors(errors, errors)
    order = np.argsort(-np.nan_to_num(errors, nan=-1.0), axis=None, kind="stable")
    places = [divmod(int(each), errors.shape[1]) for each in order[:_WORST]]
    places = [place for place in places if np.isfinite(errors[place])]
    table, names = contents.tables["test"], contents.model.inputs.names
    first = table.columns.get_loc("smiles") + 1  # of the feature columns, which follow the SMILES
    cards = []
    for row, column in places:
        cells = table.iloc[row, first : first + len(names)]
        card = {
            "smiles": smiles[row],
            "conditions": [*zip(names, cells, strict=True)],
            "target": predicted[column].target.learned_name if len(predicted) > 1 else "",
            "truth": predicted[column].truth(row),
            "prediction": predicted[column].prediction(row),
        }
        cards.append(card)
    if contents.model.structures:
        known, level = contents.model.training_molecules(), contents.model.standardize
        forms = standardized([card["smiles"] for card in cards], level)
        index, shares, _ = nearest_molecules(forms, known.smiles, known.fingerprints, level)
        labels = {each: _labels(contents, predicted[each]) for each in {c for _, c in places}}
        for card, (_, column), place, share in zip(cards, places, index, shares, strict=True):
            if np.isfinite(share):
                nearest = known.smiles[place]
                measured = [*dict.fromkeys(labels[column][nearest])][:_MEASURED]
                card |= {"nearest": nearest, "similarity": share, "measured": measured}
    return cards


def _labels(contents: Contents, found: TargetPredictions) -> dict[str, list[str]]:
    """Return the labels of each SMILES of the training and validation splits."""
    labels: dict[str, list[str]] = defaultdict(list)
    for split in ("train", "val"):
        if (known := contents.predicted(split, found.target)) is not None:
            smiles = contents.smiles(split)
            for row in np.flatnonzero(np.isfinite(known.labels)):
                labels[smiles[row]].append(known.truth(int(row)))
    return labels
