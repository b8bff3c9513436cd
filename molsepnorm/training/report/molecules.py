"""Sections about single molecules: errors by similarity and scaffold, and the worst predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain

import numpy as np

from molsepnorm.errors import InvalidMolecule, counted
from molsepnorm.files.page import code
from molsepnorm.molecules.drawing import draw_structure
from molsepnorm.molecules.featurize.standardize import Level, molecule_key, standardized
from molsepnorm.tasks.molecule_errors import describe_error, mean_errors, relative_errors
from molsepnorm.training.completing.domain import drawn, error_by_similarity
from molsepnorm.training.report.charts import Chart
from molsepnorm.training.report.contents import Contents, TargetPredictions
from molsepnorm.training.report.figures import figure
from molsepnorm.training.results.scores import domain_errors

_WORST = 20  # predictions that are drawn
_SCAFFOLDS = 10  # that are listed
_MAX_COMPARED = 2000  # test molecules whose scaffolds or similarities are computed
_MEASURED = 3  # different labels of the nearest molecule that are shown
_SIZE = 280, 190  # pixels of a molecule
_SMALL = 140, 100  # pixels of a scaffold


@dataclass(frozen=True, eq=False)
class _Errors:
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


def molecules_sections(contents: Contents) -> dict[str, str]:
    """Return the sections by title; none for a run without SMILES or targets."""
    errors = _errors(contents)
    if errors is None:
        return {}
    known = _training_molecules(contents)
    return {
        "Errors by similarity to the training molecules": _similarity(contents, errors, known),
        "Errors by scaffold": _scaffolds(errors, contents.model.standardize),
        "The worst predictions": _worst(contents, errors, known),
    }


def _errors(contents: Contents) -> _Errors | None:
    smiles = contents.smiles("test")
    if smiles is None or not contents.targets:
        return None
    found = [contents.predicted("test", target) for target in contents.targets]
    predicted = [each for each in found if each is not None]
    errors = np.stack([each.errors for each in predicted], axis=1)
    if not np.isfinite(errors).any():
        return None
    return _Errors(smiles, predicted, relative_errors(errors, errors))


def _training_molecules(contents: Contents) -> tuple[list[str], np.ndarray] | None:
    """Return SMILES and fingerprints, uint8 [n, 256], of the training molecules; None if the folder
    has none that RDKit can read."""
    from molsepnorm.molecules.featurize.fingerprints import packed_morgan

    try:
        if contents.model.structures:
            found = contents.model.training_molecules()
            return list(found.smiles), found.fingerprints
        if (smiles := contents.smiles("train")) is not None and smiles:
            return smiles, packed_morgan(standardized(smiles, contents.model.standardize))
    except InvalidMolecule:
        return None
    return None


def _similarity(
    contents: Contents, errors: _Errors, known: tuple[list[str], np.ndarray] | None
) -> str:
    """Return the mean error of the test molecules by their similarity."""
    from molsepnorm.molecules.featurize.fingerprints import nearest_molecules

    domain = contents.metrics.get("domain") or {}
    bins = domain.get("bins", {}).get("test")
    meaning = domain.get("error", errors.meaning)
    if not bins and known is not None:
        rows = np.flatnonzero(np.isfinite(errors.mean))
        rows = drawn(rows, _MAX_COMPARED)
        forms = standardized([errors.smiles[row] for row in rows], contents.model.standardize)
        similarity = nearest_molecules(forms, *known)[1]
        bins, meaning = error_by_similarity(similarity, errors.mean[rows]), errors.meaning
    if not bins:
        return "<p>The run's folder has no training molecules to compare with.</p>"
    highest = max(each["error"] or 0.0 for each in bins)
    chart = Chart(
        "Mean error by similarity to the nearest training molecule",
        x="similarity to the training molecules",
        y="mean error",
        x_ends=(0.0, 1.0),
        y_ends=(0.0, highest * 1.08),
    )
    for each in bins:
        low, high, count = each["low"], each["high"], each["molecules"]
        text = f"similarity {low:.1f} to {high:.1f}: {each['error']:.3g}, {count:,} molecules"
        chart.bar(low + 0.008, high - 0.008, each["error"], "one", text)
    sides = ""
    if (threshold := domain.get("threshold")) is not None:
        ends = np.array(chart.y_ends)
        chart.line(np.full(2, float(threshold)), ends, "guide", f"threshold {threshold:.2f}")
        sides = (
            f" The dashed line is the limit of the model's domain, {threshold:.2f}: "
            f"{domain_errors(domain, 'test')}."
        )
    caption = f"Test molecules; the error is the {escape(meaning)}.{sides}"
    counts = ", ".join(f"{e['molecules']:,} ({e['low']:.1f}–{e['high']:.1f})" for e in bins)
    return (
        f'<div class="charts">{figure(chart, caption)}</div>'
        f'<p class="soft">Molecules by similarity: {counts}. A bar of few molecules is uncertain.'
        "</p>"
    )


def _scaffolds(errors: _Errors, level: Level) -> str:
    """Return the scaffolds with the most test molecules, and their mean errors."""
    from molsepnorm.molecules.featurize.scaffold import murcko_scaffold

    mean = errors.mean
    every = np.flatnonzero(np.isfinite(mean))
    rows = drawn(every, _MAX_COMPARED)
    forms = standardized([errors.smiles[row] for row in rows], level)
    sample = "" if len(rows) == len(every) else f" {len(rows):,} randomly drawn"
    groups: dict[str, dict[str, list[int]]] = {}  # the rows of each molecule
    for row, form in zip(rows.tolist(), forms, strict=True):
        try:
            own = groups.setdefault(murcko_scaffold(form), {})
        except InvalidMolecule:
            continue
        own.setdefault(molecule_key(form, "none"), []).append(row)
    ordered = sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))
    cards = [
        f'<div class="card">{_scaffold(text)}<div>{counted(len(own), "molecule")}</div>'
        f"<div>mean error <b>{mean[[*chain(*own.values())]].mean():.3g}</b></div></div>"
        for text, own in ordered[:_SCAFFOLDS]
    ]
    return (
        f"<p>The {len(cards)} most frequent of {len(groups):,} Bemis–Murcko scaffolds of{sample} "
        f"test rows. The error is the {escape(errors.meaning)}; over all test rows it is "
        f'{mean[every].mean():.3g}.</p><div class="cards scaffolds">{"".join(cards)}</div>'
    )


def _scaffold(smiles: str) -> str:
    if not smiles:
        return "<div>no ring</div>"
    return f"{_drawing(smiles, _SMALL)}<div>{code(smiles)}</div>"


def _worst(contents: Contents, errors: _Errors, known: tuple[list[str], np.ndarray] | None) -> str:
    """Return the test predictions with the largest errors, drawn."""
    from molsepnorm.molecules.featurize.fingerprints import nearest_molecules

    level = contents.model.standardize
    measured_rows = {} if known is None else _rows_of_known(contents, *known)
    order = np.argsort(-np.nan_to_num(errors.relative, nan=-1.0), axis=None, kind="stable")
    places = [divmod(int(each), errors.relative.shape[1]) for each in order[:_WORST]]
    places = [place for place in places if np.isfinite(errors.relative[place])]
    smiles = [errors.smiles[row] for row, _ in places]
    labels = {
        (split, each): contents.predicted(split, errors.predicted[each].target)
        for split in ("val", "train")
        for each in {column for _, column in places}
    }
    index, similarity = (
        (np.zeros(len(places), dtype=np.int64), np.full(len(places), np.nan))
        if known is None
        else nearest_molecules(standardized(smiles, level), *known, level)[:2]
    )
    cards = []
    for (row, column), text, near, share in zip(places, smiles, index, similarity, strict=True):
        found = errors.predicted[column]
        name = f"{escape(found.target.learned_name)}: "
        facts = (
            f"<div>{name if len(errors.predicted) > 1 else ''}measured <b>"
            f"{escape(found.truth(row))}</b>, predicted "
            f"<b>{escape(found.prediction(row))}</b></div>"
        )
        closest = "not known"
        if known is not None and np.isfinite(share):
            closest = f"similarity {share:.2f}, {code(known[0][near])}"
            truths = (
                trained.truth(place)
                for split, place in measured_rows.get(known[0][near], ())
                if (trained := labels[split, column]) is not None
                and np.isfinite(trained.labels[place])
            )
            if measured := [*dict.fromkeys(truths)]:
                shown = ", ".join(measured[:_MEASURED])
                closest += f", measured <b>{escape(shown)}</b>"
                closest += " and others" if len(measured) > _MEASURED else ""
        cards.append(
            f'<div class="card">{_drawing(text, _SIZE)}<div>{code(text)}</div>'
            f"{_conditions(contents, row)}{facts}"
            f'<div class="soft">nearest training molecule: {closest}</div></div>'
        )
    more = (
        " For several targets, errors are compared relative to the target's mean error."
        if len(errors.predicted) > 1
        else ""
    )
    return (
        f"<p>The {len(cards)} test predictions with the largest errors.{more} Look for a common "
        "structure, for labels that are wrong, for molecules unlike all training molecules, and "
        "for similar molecules with very different labels.</p>"
        f'<div class="cards">{"".join(cards)}</div>'
    )


def _rows_of_known(
    contents: Contents, smiles: Sequence[str], fingerprints: np.ndarray
) -> dict[str, list[tuple[str, int]]]:
    """Return where known molecules occur in the training and validation splits, as split and row,
    by SMILES. The model may be fitted to validation molecules, too."""
    from molsepnorm.molecules.featurize.fingerprints import fingerprints_of, with_one_text

    level = contents.model.standardize
    places = [
        (split, row, text)
        for split in ("train", "val")
        for row, text in enumerate(contents.smiles(split) or ())
    ]
    found = {*smiles}
    texts = [*smiles, *dict.fromkeys(text for *_, text in places if text not in found)]
    others = fingerprints_of(standardized(texts[len(smiles) :], level))[0]
    shared = with_one_text(texts, np.concatenate([fingerprints, others]), level)
    first = dict(zip(texts, shared, strict=True))
    rows: dict[str, list[tuple[str, int]]] = {}
    for split, row, text in places:
        rows.setdefault(first[text], []).append((split, row))
    return {text: rows[first[text]] for text in smiles if first[text] in rows}


def _conditions(contents: Contents, row: int) -> str:
    """Return the feature columns of a test row; nothing without any.

    They follow the SMILES in the table of predictions, where some have a longer name.
    """
    table, names = contents.tables["test"], contents.model.inputs.names
    first = table.columns.get_loc("smiles") + 1
    cells = (
        f"{escape(name)} <b>{escape(table.iloc[row, place])}</b>"
        for place, name in enumerate(names, start=first)
    )
    text = ", ".join(cells)
    return f"<div>{text}</div>" if text else ""


def _drawing(smiles: str, size: tuple[int, int]) -> str:
    picture = draw_structure(smiles, size)
    if picture is None:
        return '<p class="soft">not drawn</p>'
    return f'<div role="img" aria-label="structure of {escape(smiles)}">{picture}</div>'
