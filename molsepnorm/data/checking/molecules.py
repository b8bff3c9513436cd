"""Find salts, charged molecules, several forms of a compound, rare elements, large molecules."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from molsepnorm.data.checking.scan import Finding, Group, Scan, found, group
from molsepnorm.errors import InvalidMolecule, counted
from molsepnorm.molecules.featurize.standardize import LEVELS, Level, protomer_key, standardized

_LARGEST = 3  # molecules listed
_AGREEING = 0.5  # share of the variance of all labels
_USUAL = {"H", "B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I"}
_BRACKET = re.compile(r"\[\d*(se|as|te|si|[A-Z][a-z]?|[bcnops*])")
_CLEARED = {"isotopes": re.compile(r"\[\d"), "atom-map numbers": re.compile(r":\d+\]")}
_SIGNED = re.compile(r"([+-])(\d*)\]")
_PROTONATED = re.compile(r"\[[Nn]H\d?\+\]")


def molecules(scan: Scan) -> Iterator[Finding]:
    """Yield findings about single structures."""
    fragments, elements, cleared = defaultdict(list), defaultdict(list), defaultdict(list)
    charged = []
    standard = scan.dataset.smiles
    assert standard is not None
    for row in scan.readable.tolist():
        text, written = standard[row], scan.smiles[row]
        if "." in text:
            fragments[f"{text.count('.') + 1} fragments"].append(row)
        if "[" in text or "*" in text:
            symbols = {element.capitalize() for element in _BRACKET.findall(text)}
            for element in sorted((symbols | {"*"} & set(text)) - _USUAL):
                elements[element].append(row)
            if _is_charged(max(text.split("."), key=len)):
                charged.append(row)
        if "[" in written:
            for what, pattern in _CLEARED.items():
                if pattern.search(written):
                    cleared[what].append(row)
    for kind, what, members, text in (
        ("mixtures", "salts and mixtures", fragments, ". The model reads all fragments"),
        (
            *("charged", "charged molecules", {"": charged} if charged else {}),
            ". The model reads the charges as they are written",
        ),
        ("elements", "rare elements in organic molecules", elements, " (* is any)"),
        ("cleared", "isotopes or atom-map numbers", cleared, ". The model ignores them"),
    ):
        count = len({row for rows in members.values() for row in rows})
        groups = [group(scan, each, rows) for each, rows in members.items()]
        yield from found(kind, False, groups, what, "row", text, count)
    if scan.labels.names:
        bare = scan.readable[np.isnan(scan.labels.values[scan.readable]).all(axis=1)]
        what = "no label" if scan.weights is None else "no label or the weight 0"
        text = "; training does not use such rows"
        yield from found("unlabelled", False, [group(scan, "", bare)], what, "row", text)


def forms(scan: Scan) -> Iterator[Finding]:
    """Find compounds that are present as salt and free form, with and without charges, or as
    several tautomers, which the model reads as different molecules.

    Candidates have the same `protomer_key`; they are a compound if their standardised SMILES is the
    same, and has carbon. A level of standardisation is recommended if it and those below it merge
    molecules whose labels agree.
    """
    levels, standard = LEVELS[LEVELS.index(scan.config.standardize) + 1 :], scan.dataset.smiles
    assert standard is not None
    if not levels or not len(scan.readable):
        return
    candidates: dict[str, list[int]] = defaultdict(list)
    for row in scan.molecules.drop_duplicates().index:
        try:
            candidates[protomer_key(standard[row])].append(row)
        except InvalidMolecule:
            continue
    compounds: dict[Level, list[list[int]]] = defaultdict(list)
    for rows in candidates.values():
        apart = [rows] if len(rows) > 1 else []
        for level in levels:
            rest = []
            for several in apart:
                same: dict[str, list[int]] = defaultdict(list)
                texts = [scan.smiles[row] for row in several]
                for row, text in zip(several, standardized(texts, level), strict=True):
                    same[text or f"{row} cannot be standardised"].append(row)
                for text, each in same.items():
                    if len(each) > 1 and _has_carbon(text):
                        compounds[level].append(each)
                rest.append([each[0] for each in same.values()])
            apart = [each for each in rest if len(each) > 1]
    groups: list[Group] = []
    for level, found_there in compounds.items():
        what = {"salts": "salts", "parent": "charged forms", "tautomer": "tautomers"}[level]
        for rows in found_there:
            groups.append(group(scan, f"{what}, equal with --standardize {level}", rows))
    text = (
        " in which the model reads a salt, a charged form or a tautomer as another molecule, with "
        "another prediction"
    )
    options = {}
    for level in filter(compounds.get, levels):
        if not _agree(scan, compounds[level]):
            break  # a higher level merges these, too
        options = {"--standardize": level}
    if not options:
        text += ". No --standardize is recommended, because their labels are not known to agree"
    what, count = "forms of one compound", len(groups)
    yield from found("forms", False, groups, what, "case", text, count, options)


def _has_carbon(smiles: str) -> bool:
    outside = re.sub(r"\[[^]]*\]", "", smiles)
    return not {"C", "c"}.isdisjoint(_BRACKET.findall(smiles)) or bool(
        re.search("C(?!l)|c", outside)
    )


def _agree(scan: Scan, groups: list[list[int]]) -> bool:
    """Return whether labels vary less than half as much in these groups of rows as in the table,
    on average over the targets."""
    shares = []
    for number, target in enumerate(scan.labels.targets):
        column = scan.exact[:, number]
        values = column[:, None] if target.kind == "regression" else _indicators(column)
        within = [values[rows][~np.isnan(column[rows])] for rows in groups]
        within = [each for each in within if len(each) > 1]
        if within and (variance := np.nanvar(values[scan.readable], axis=0).sum()):
            squares = sum(((each - each.mean(axis=0)) ** 2).sum() for each in within)
            shares.append(squares / sum(len(each) - 1 for each in within) / variance)
    return bool(shares) and float(np.mean(shares)) < _AGREEING


def _indicators(classes: np.ndarray) -> np.ndarray:
    """Return a column of ones and zeros for each class (rows,), NaN where it is missing."""
    present = np.unique(classes[~np.isnan(classes)])
    return np.where(np.isnan(classes)[:, None], np.nan, classes[:, None] == present)


def largest(scan: Scan) -> Iterator[Finding]:
    """Yield single atoms, and the largest molecules."""
    sizes = scan.sizes
    single = sizes.index[sizes == 1]
    yield from found("single-atoms", False, [group(scan, "", single)], "single atoms", "row")
    if not len(scan.readable):
        return
    different = sizes[scan.molecules.drop_duplicates().index]
    largest = different.sort_values(ascending=False, kind="stable").head(_LARGEST)
    groups = tuple(group(scan, counted(n, "atom"), [row], 1) for row, n in largest.items())
    text = f"atoms: median {sizes.median():g}, maximum {sizes.max()}"
    yield Finding("largest", False, len(groups), text, groups)


def _is_charged(text: str) -> bool:
    """Return whether a fragment has a net charge, or a proton on a basic nitrogen."""
    signs = _SIGNED.findall(text)
    net = sum(int(number or 1) * (1 if sign == "+" else -1) for sign, number in signs)
    return net != 0 or _PROTONATED.search(text) is not None
