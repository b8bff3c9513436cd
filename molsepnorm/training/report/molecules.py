"""Single molecules in a report: errors by similarity and scaffold, and the worst predictions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from markupsafe import Markup

from molsepnorm.errors import InvalidMolecule, counted
from molsepnorm.molecules.drawing import draw_structure
from molsepnorm.molecules.featurize.standardize import Level, molecule_key, standardized
from molsepnorm.tasks.molecule_errors import describe_error, mean_errors, relative_errors
from molsepnorm.training.report.charts import Chart
from molsepnorm.training.report.contents import Contents, TargetPredictions
from molsepnorm.training.report.figures import Figure
from molsepnorm.training.results.scores import domain_errors
from molsepnorm.training.scoring import drawn

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
