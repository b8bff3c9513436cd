"""The figures of a report: truth and prediction, curves of classifiers, learning curves, errors by
similarity and scaffold, and the worst predictions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve

from molsepnorm.errors import InvalidMolecule, counted
from molsepnorm.molecules.drawing import draw_structure
from molsepnorm.molecules.featurize.standardize import Level, molecule_key, standardized
from molsepnorm.tasks.metrics import label_of
from molsepnorm.tasks.molecule_errors import describe_error, mean_errors, relative_errors
from molsepnorm.training.report.charts import Chart
from molsepnorm.training.report.contents import Contents, TargetPredictions
from molsepnorm.training.results.scores import domain_errors
from molsepnorm.training.scoring import drawn

_TITLES = {"test": "test", "val": "validation"}
_COLOURS = {"test": "one", "val": "two"}
_MAX_CORNERS = 400  # of a curve in a chart
_MAX_CLASSES = 30  # of a confusion table
_BIN = 20  # molecules of a bin of a calibration curve, at least, where there are enough


class Figure(NamedTuple):
    """A chart with its caption."""

    chart: Chart
    caption: str
    keys: Sequence[tuple[str, str]] = ()
    """Colours and what they stand for."""


class Table(NamedTuple):
    """A table with its caption."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def target_figures(
    splits: Mapping[str, TargetPredictions], calibration: Mapping[str, Any]
) -> list[Figure]:
    """Return the charts of a target; none for several classes or without a labelled molecule.

    Args:
        splits: its labels and predictions by split, test and validation.
        calibration: its entry `calibration` of `metrics.json`; empty if there is none.
    """
    scored = {split: each for split, each in splits.items() if each.scored.any()}
    kinds = {each.target.kind for each in scored.values()}
    if kinds == {"regression"}:
        return [_truth(scored, calibration), _residuals(scored)]
    return _binary(scored) if kinds == {"binary"} else []


def _keys(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(_COLOURS[name], _TITLES[name]) for name in names]


def _truth(splits: Mapping[str, TargetPredictions], calibration: Mapping[str, Any]) -> Figure:
    every = [np.concatenate([p.labels[p.scored], p.values[p.scored, 0]]) for p in splits.values()]
    ends = _ends(np.concatenate(every))
    name = next(iter(splits.values())).target.learned_name
    title = f"Prediction against truth of {name}"
    truth = Chart(title, f"measured {name}", f"predicted {name}", ends, ends)
    truth.line(np.array(ends), np.array(ends), "guide")
    caption = "Predictions on the dashed diagonal are perfect."
    if (width := calibration.get("width")) is not None:
        for half in (-width / 2, width / 2):
            low, high = max(ends[0], ends[0] - half), min(ends[1], ends[1] - half)
            truth.line(np.array([low, high]), np.array([low, high]) + half, "grid")
        caption += (
            f" The thin lines are the mean {calibration['level']:.0%} interval, ±{width / 2:.3g}."
        )
    if bounds := sum(each.bounds for each in splits.values()):
        caption += f" {bounds:,} labels that are bounds, such as >10, are not shown."
    for split in reversed([*splits]):  # the test split lies on top
        rows = splits[split].scored
        truth.points(splits[split].labels[rows], splits[split].values[rows, 0], _COLOURS[split])
    return Figure(truth, caption, _keys([*splits]))


def _residuals(splits: Mapping[str, TargetPredictions]) -> Figure:
    """Return the histogram of the errors of the test molecules, or of those that there are."""
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
    )
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        chart.bar(low, high, count, _COLOURS[split], f"{low:.3g} to {high:.3g}: {count:,}")
    return Figure(
        chart,
        f"Errors of the {_TITLES[split]} molecules: mean {errors.mean():+.3g}, standard deviation "
        f"{errors.std():.3g}. A mean far from 0 is a systematic error.",
    )


def _binary(splits: Mapping[str, TargetPredictions]) -> list[Figure]:
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
        bins = max(2, min(10, len(values) // _BIN))
        observed, predicted = calibration_curve(labels, values, n_bins=bins, strategy="quantile")
        reliable.line(predicted, observed, style)
        reliable.points(predicted, observed, _COLOURS[split])
    only = "" if len(curves) == len(splits) else " A split with one class only has no curve."
    chance = f"Chance has the precision of {target.positive_class}: {', '.join(shares)}."
    return [
        Figure(roc, f"ROC curve; the dashed diagonal is chance.{only}", _keys(curves)),
        Figure(recall, f"Precision and recall. {chance}"),
        Figure(
            reliable,
            "Calibration curve of bins of molecules with similar probabilities; on the dashed "
            "diagonal, probabilities are frequencies.",
        ),
    ]


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a curve with fewer corners; both of its ends stay."""
    if len(x) <= _MAX_CORNERS:
        return x, y
    rows = np.linspace(0, len(x) - 1, _MAX_CORNERS).round().astype(int)
    return x[rows], y[rows]


def confusion_tables(splits: Mapping[str, TargetPredictions]) -> list[Table]:
    """Return the table of true and predicted classes of each split; none for other targets, or for
    more than 30 classes."""
    tables = []
    for split, found in splits.items():
        names, rows = found.target.classes, found.scored
        if found.target.kind != "multiclass" or len(names) > _MAX_CLASSES or not rows.any():
            continue
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
        tables.append(Table(f"{_TITLES[split].capitalize()} molecules:", head, body))
    return tables


def learning_curves(contents: Contents) -> list[Figure]:
    """Return the losses and the validation score of each epoch; nothing without a history."""
    histories = {name: each for name, each in contents.histories.items() if len(each)}
    if not histories:
        return []
    last = max(float(each["epoch"].max()) for each in histories.values())
    metric, best = contents.metrics["chosen_by"], contents.metrics["best_epoch"]
    # the validation loss of a run is that of one objective; its score is what chose the epoch
    charts = [("Loss", {"train_loss": "two", "val_loss": "one"})]
    if all(f"val_{metric}" in each for each in histories.values()) and metric != "loss":
        charts.append((f"Validation {label_of(metric)}", {f"val_{metric}": "one"}))
    figures = []
    for title, columns in charts:
        lines = [
            (member, colour, each["epoch"].to_numpy(float), each[name].to_numpy(float))
            for member, each in histories.items()
            for name, colour in columns.items()
            if name in each
        ]
        ends = _ends(np.concatenate([values for *_, values in lines]))
        chart = Chart(f"{title} by epoch", "epoch", title, (0.0, last), ends, True)
        for member, colour, epochs, values in lines:
            chart.line(epochs, values, f"{colour} line", member)
            if len(values) == 1:
                chart.points(epochs, values, colour)
        caption = f"{title} after each epoch"
        caption += f", a line for each of {len(histories)} members." if len(histories) > 1 else "."
        if best is not None:
            line = np.array([best, best], dtype=float), np.array(chart.y_ends)
            chart.line(*line, "guide", f"best epoch {best}")
            caption += f" The dashed line is the best epoch, {best}."
        keys = [("two", "training"), ("one", "validation")] if len(columns) > 1 else []
        figures.append(Figure(chart, caption, keys))
    return figures


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Return a range with a margin around the finite values."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    margin = (high - low) * 0.04
    return low - margin, high + margin


_WORST = 20  # predictions that are drawn
_SCAFFOLDS = 10  # that are listed
_MAX_COMPARED = 2000  # test molecules whose scaffolds are computed
_MEASURED = 3  # different labels of the nearest molecule that are shown
_SIZE = 280, 190  # pixels of a molecule
_SMALL = 140, 100  # pixels of a scaffold


@dataclass(frozen=True, eq=False)
class MoleculeErrors:
    """Errors of the n test molecules."""

    smiles: list[str]
    predicted: list[TargetPredictions]
    relative: np.ndarray
    """float64 [n, T]: those of several targets divided by the target's mean; NaN without a
    label."""

    @property
    def mean(self) -> np.ndarray:
        """float64 [n]: mean over the labelled targets; NaN without any label."""
        return mean_errors(self.relative)

    @property
    def meaning(self) -> str:
        return describe_error([each.target for each in self.predicted], "test")


def molecule_errors(contents: Contents) -> MoleculeErrors | None:
    """Return the errors of the test molecules; None for a run without SMILES or labels of them."""
    smiles = contents.smiles("test")
    if smiles is None or not contents.targets:
        return None
    found = [contents.predicted("test", target) for target in contents.targets]
    predicted = [each for each in found if each is not None]
    errors = np.stack([each.errors for each in predicted], axis=1)
    if not np.isfinite(errors).any():
        return None
    return MoleculeErrors(smiles, predicted, relative_errors(errors, errors))


def error_by_similarity(contents: Contents) -> Figure | None:
    """Return the mean error of the test molecules by their similarity, from `metrics.json`."""
    domain = contents.metrics.get("domain") or {}
    if not (bins := domain.get("bins", {}).get("test")):
        return None
    chart = Chart(
        "Mean error by similarity to the nearest training molecule",
        x="similarity to the training molecules",
        y="mean error",
        x_ends=(0.0, 1.0),
        y_ends=(0.0, max(each["error"] or 0.0 for each in bins) * 1.08),
    )
    for each in bins:
        low, high, count = each["low"], each["high"], each["molecules"]
        text = f"similarity {low:.1f} to {high:.1f}: {each['error']:.3g}, {count:,} molecules"
        chart.bar(low + 0.008, high - 0.008, each["error"], "one", text)
    threshold = float(domain["threshold"])
    ends = np.array(chart.y_ends)
    chart.line(np.full(2, threshold), ends, "guide", f"threshold {threshold:.2f}")
    counts = ", ".join(f"{e['molecules']:,} ({e['low']:.1f}–{e['high']:.1f})" for e in bins)
    return Figure(
        chart,
        f"Test molecules; the error is the {domain['error']}. The dashed line is the limit of the "
        f"model's domain, {threshold:.2f}: {domain_errors(domain, 'test')}. Molecules by "
        f"similarity: {counts}. A bar of few molecules is uncertain.",
    )


def scaffolds(errors: MoleculeErrors, level: Level) -> dict[str, Any]:
    """Return the scaffolds with the most test molecules, and their mean errors."""
    from molsepnorm.molecules.featurize.scaffold import murcko_scaffold

    mean = errors.mean
    every = np.flatnonzero(np.isfinite(mean))
    rows = drawn(every, _MAX_COMPARED)
    forms = standardized([errors.smiles[row] for row in rows], level)
    groups: dict[str, dict[str, list[int]]] = {}  # the rows of each molecule
    for row, form in zip(rows.tolist(), forms, strict=True):
        try:
            own = groups.setdefault(murcko_scaffold(form), {})
        except InvalidMolecule:
            continue
        own.setdefault(molecule_key(form, "none"), []).append(row)
    ordered = sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    return {
        "count": len(groups),
        "sample": "" if len(rows) == len(every) else f" {len(rows):,} randomly drawn",
        "mean": mean[every].mean(),
        "cards": [
            {
                "smiles": text,
                "drawing": _drawing(text, _SMALL) if text else None,
                "molecules": counted(len(own), "molecule"),
                "error": mean[[*chain(*own.values())]].mean(),
            }
            for text, own in ordered[:_SCAFFOLDS]
        ],
    }


def worst_predictions(contents: Contents, errors: MoleculeErrors) -> list[dict[str, Any]]:
    """Return the test predictions with the largest errors, each with its nearest training molecule
    if the model has those."""
    order = np.argsort(-np.nan_to_num(errors.relative, nan=-1.0), axis=None, kind="stable")
    places = [divmod(int(each), errors.relative.shape[1]) for each in order[:_WORST]]
    places = [place for place in places if np.isfinite(errors.relative[place])]
    nearest = _nearest(contents, [errors.smiles[row] for row, _ in places])
    rows_of = _rows_by_smiles(contents)
    labels = {
        (split, column): contents.predicted(split, errors.predicted[column].target)
        for split in ("train", "val")
        for column in {column for _, column in places}
    }
    cards = []
    for (row, column), near in zip(places, nearest, strict=True):
        found = errors.predicted[column]
        card = {
            "smiles": errors.smiles[row],
            "drawing": _drawing(errors.smiles[row], _SIZE),
            "conditions": _conditions(contents, row),
            "target": found.target.learned_name if len(errors.predicted) > 1 else "",
            "truth": found.truth(row),
            "prediction": found.prediction(row),
        }
        if near is not None:
            smiles, card["similarity"] = near
            truths = (
                labelled.truth(place)
                for split, place in rows_of[smiles]
                if (labelled := labels[split, column]) is not None
                and np.isfinite(labelled.labels[place])
            )
            card |= {"nearest": smiles, "measured": [*dict.fromkeys(truths)][:_MEASURED]}
        cards.append(card)
    return cards


def _nearest(contents: Contents, smiles: list[str]) -> list[tuple[str, float] | None]:
    """Return the most similar training molecule of each molecule, and the similarity."""
    from molsepnorm.molecules.featurize.fingerprints import nearest_molecules

    level = contents.model.standardize
    if not contents.model.structures:
        return [None] * len(smiles)
    known = contents.model.training_molecules()
    forms = standardized(smiles, level)
    index, similarity, _ = nearest_molecules(forms, known.smiles, known.fingerprints, level)
    return [
        (known.smiles[place], float(share)) if np.isfinite(share) else None
        for place, share in zip(index, similarity, strict=True)
    ]


def _rows_by_smiles(contents: Contents) -> dict[str, list[tuple[str, int]]]:
    """Return the rows of each SMILES in the training and validation splits. The model may be fitted
    to validation molecules, too."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for split in ("train", "val"):
        for row, text in enumerate(contents.smiles(split) or ()):
            found[text].append((split, row))
    return found


def _conditions(contents: Contents, row: int) -> list[tuple[str, str]]:
    """Return the names and cells of the feature columns of a test row.

    They follow the SMILES in the table of predictions, where some have a longer name.
    """
    table, names = contents.tables["test"], contents.model.inputs.names
    first = table.columns.get_loc("smiles") + 1
    return [(name, table.iloc[row, place]) for place, name in enumerate(names, start=first)]


def _drawing(smiles: str, size: tuple[int, int]) -> Markup | None:
    picture = draw_structure(smiles, size)
    return None if picture is None else Markup(picture)
