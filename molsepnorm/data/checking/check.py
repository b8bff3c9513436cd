"""`check_table`: find problems in a table before training."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
import pandas as pd

from molsepnorm.data.checking.scan import (
    GROUPS,
    Finding,
    Group,
    Scan,
    TableReport,
    found,
    group,
    some,
)
from molsepnorm.data.datasets.columns import word_of
from molsepnorm.data.datasets.dataset import TargetSummary
from molsepnorm.data.datasets.labels import Issue
from molsepnorm.data.datasets.splits import assigns_splits, split_name
from molsepnorm.errors import ConfigError, InvalidMolecule, OpenChoice, counted
from molsepnorm.molecules.featurize.standardize import LEVELS, Level, protomer_key, standardized
from molsepnorm.tasks.inputs import MISSING
from molsepnorm.tasks.metrics import four_digits
from molsepnorm.tasks.transforms import transform_of

_SAME = 1e-6
"""Numbers that differ by no more than this share of their column's standard deviation agree."""
_RANGE = 1000.0
"""Positive numbers whose largest is this many times the smallest are spread over powers of ten."""

_MOLAR = re.compile(r"M[)\] ]*$")  # ic50_nM, but not wavelength_nm
_POTENCY = re.compile(r"(IC|EC|AC|DC|CC|GI|XC)_?50|K[id](?![a-z])|conc|activity|potency", re.I)
_WITH_UNIT = re.compile(r"\W*[\d.,]+(e[+-]?\d+)?\s*([pnuµμm]?M|[kmunµμ]?g|%|h|min)\b.*", re.I)
_OUTLIER = 6.0  # robust standard deviations from the median
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""  # as repr writes it
_QUOTED = re.compile(
    rf"^RDKit cannot read (?:its canonical form )?{_TEXT}: (.*)"  # RDKit writes Can't
    rf"|^({_TEXT})(?= in ['\"])"  # an invalid character
    rf"|(?: in )?{_TEXT}(?:;.*|:?)"
)
"""The SMILES in a reason; the groups match what remains."""
_LARGEST = 3  # molecules listed
_AGREEING = 0.5  # share of the variance of all labels
_USUAL = {"H", "B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I"}
_BRACKET = re.compile(r"\[\d*(se|as|te|si|[A-Z][a-z]?|[bcnops*])")
_CLEARED = {"isotopes": re.compile(r"\[\d"), "atom-map numbers": re.compile(r":\d+\]")}
_SIGNED = re.compile(r"([+-])(\d*)\]")
_PROTONATED = re.compile(r"\[[Nn]H\d?\+\]")


def check_table(scan: Scan) -> TableReport:
    """Return the report of a scanned table.

    Two rows are the same molecule if their canonical SMILES without isotopes and atom-map numbers
    are equal, after structures are standardised, since a model reads the same graph. Labels of a
    molecule conflict if classes differ, or numbers differ by more than a millionth of their
    column's standard deviation.
    """
    labels = scan.labels.values[scan.readable].T
    return TableReport(
        source=str(scan.config.table),
        rows=len(scan.table),
        readable=len(scan.readable),
        molecules=scan.molecules.nunique(),
        atoms=int(scan.sizes.sum()),
        warnings=scan.dataset.warnings,
        targets=tuple(map(TargetSummary.of, scan.labels.targets, labels, scan.columns)),
        splits={name: len(rows) for name, rows in scan.parts.items()},
        findings=tuple(_findings(scan)),
    )


def _findings(scan: Scan) -> Iterator[Finding]:
    """Yield all findings, the most serious first."""
    yield from _unreadable(scan)
    yield from _cells(scan)
    yield from _spellings(scan)
    yield from _conflicts(scan)
    yield from _duplicates(scan)
    yield from _leaks(scan)
    yield from _constants(scan)
    yield from _decades(scan)
    yield from _bounds(scan)
    yield from _outliers(scan)
    yield from molecules(scan)
    yield from forms(scan)
    yield from largest(scan)
    yield from _unused(scan)


def _unreadable(scan: Scan) -> Iterator[Finding]:
    """Group by reason; reasons that differ only in numbers, such as positions, are one."""
    rows: dict[str, list[int]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for entry in scan.dataset.rejected:
        reason = " ".join(_QUOTED.sub(r"\1\2", entry.reason).split())
        key = re.sub(r"\d+", "0", reason)
        reasons.setdefault(key, reason)
        rows[key].append(entry.row)
    groups = [group(scan, reasons[key], rows[key]) for key in rows]
    yield from found(
        "unreadable", True, groups, "invalid SMILES", "row", "; training skips such rows"
    )


def _cells(scan: Scan) -> Iterator[Finding]:
    for what, error in scan.refusals:
        options: dict[str, str] = {}
        if isinstance(error, OpenChoice):
            options.update((option, value) for option, value in error.options)
        lines = [*map(str.strip, error.lines)]
        lines += [f"Name the targets, such as {shlex.join(each)}" for each in options.items()]
        text = f"training would stop with an error: {'; '.join(lines)}"
        yield Finding(what, True, 1, text, options=options)
    groups = [
        group(scan, f"{issue.column}: {some(_cells_of(scan, issue))}", issue.rows)
        for issue in scan.labels.issues
    ]
    text = ". Training would stop with an error; --fix empties them"
    bad = chain.from_iterable(_cells_of(scan, issue) for issue in scan.labels.issues)
    if any(map(_WITH_UNIT.fullmatch, bad)):
        text += ". Some cells have a unit: convert them to the unit of the column first"
    yield from found("invalid-labels", True, groups, "invalid labels", "cell", text)


def _cells_of(scan: Scan, issue: Issue) -> list[str]:
    return scan.table[issue.column].iloc[issue.rows].tolist()


def _spellings(scan: Scan) -> Iterator[Finding]:
    """Find spellings of one word in feature columns; those of classes are errors."""
    groups = []
    for name in scan.config.features:
        written: dict[str, set[str]] = defaultdict(set)
        cells = scan.table[name].str.strip()
        for cell in cells[~cells.isin(MISSING)].unique():
            written[word_of(cell)].add(cell)
        for words in written.values():
            if len(words) > 1:
                rows = np.flatnonzero(cells.isin(words))
                groups.append(group(scan, f"{name}: {some(sorted(words))}", rows))
    text = (
        " written in several ways, which training reads as different words. Write each in one way"
    )
    yield from found("spellings", True, groups, "spellings", "word", text, len(groups))


def _conflicts(scan: Scan) -> Iterator[Finding]:
    """Show for each target the molecule whose labels differ most."""
    groups, conflicting = [], np.zeros(len(scan.merged), dtype=bool)
    molecule = np.repeat(np.arange(len(scan.merged)), list(map(len, scan.merged)))
    for i, target in enumerate(scan.labels.targets if scan.merged else ()):
        values = pd.Series(scan.exact[np.concatenate(scan.merged), i]).groupby(molecule)
        spread = (values.max() - values.min()).to_numpy()
        is_number, present = target.kind == "regression", ~np.isnan(scan.columns[i])
        sd = scan.columns[i][present].std() if present.any() else 0.0
        apart = spread > (_SAME * sd if is_number else 0)
        if apart.any():
            worst = int(np.nanargmax(spread))
            rows = scan.merged[worst]
            rows = rows[~np.isnan(scan.exact[rows, i])]
            what = f"{target.name}, such as {some(scan.table[target.name].iloc[rows])}"
            what += f", {spread[worst] / sd:.2g} sd apart" * is_number
            groups.append(group(scan, what, rows, int(apart.sum())))
            conflicting |= apart
    text = " with different labels in several rows"
    if not scan.config.features and scan.table.shape[1] > 2:
        text += ". If a column has the conditions of the measurement: --feature-columns NAME"
    kept, count = scan.config.duplicates == "keep", int(conflicting.sum())
    yield from found("conflicts", kept, groups, "conflicting labels", "molecule", text, count)


def _duplicates(scan: Scan) -> Iterator[Finding]:
    largest = sorted(scan.repeated, key=len, reverse=True)[:GROUPS]
    groups = [group(scan, scan.smiles[rows[0]].strip(), rows) for rows in largest]
    count = len(scan.repeated)
    unlike = sum(len({scan.smiles[row].strip() for row in rows}) > 1 for rows in scan.repeated)
    equal = ["feature columns"] * bool(scan.config.features)
    equal += ["times"] * (scan.config.time_column is not None)
    equal += ["splits"] * (scan.config.splits_column is not None)
    text = (
        f" in {sum(map(len, scan.repeated)):,} rows"
        f"{' with equal ' * bool(equal)}{' and '.join(equal)}; {unlike:,} with different SMILES"
    )
    if not (kept := scan.config.duplicates == "keep"):
        text += "; training merges them (--duplicates mean)"
    yield from found("duplicates", kept, groups, "duplicates", "molecule", text, count)


def _leaks(scan: Scan) -> Iterator[Finding]:
    inside = {name: scan.molecules.loc[rows].unique() for name, rows in scan.parts.items()}
    groups, shared = [], set()
    for one, other in combinations(inside, 2):
        both = np.intersect1d(inside[one], inside[other])
        if len(both):
            rows = np.union1d(scan.parts[one], scan.parts[other])
            rows = rows[scan.molecules.loc[rows] == both[0]]
            groups.append(group(scan, f"{one} and {other}", rows, len(both)))
            shared.update(both.tolist())
    # splits that are drawn, but for those by time, keep the rows of a molecule
    what = f"train/test leakage ({split_name(scan.config)})"
    text = " in more than one split; the scores would be too optimistic"
    yield from found("leak", True, groups, what, "molecule", text, len(shared))


def _constants(scan: Scan) -> Iterator[Finding]:
    """Find targets whose labels are all equal or missing, in the table or in a split."""
    constant, unscored = [], []
    for i, target in enumerate(scan.labels.targets):
        if what := _constant(scan.columns[i]):
            constant.append(Group(f"{target.name}: {what}", 1, ()))
            continue
        for part, rows in scan.parts.items():
            column = scan.exact[rows, i]
            if len(rows) and (what := _constant(column)):
                group = Group(f"{target.name}: {what} in {part}", 1, ())
                if part == "train":
                    constant.append(group)
                elif target.kind != "regression" or np.isnan(column).all():
                    unscored.append(group)
    text = (
        ". Training would stop with an error: leave such columns out with --targets or "
        "--targets-except"
    )
    yield from found("constant", True, constant, "constant targets", "target", text)
    what = "undefined scores, because all labels of a split are equal or missing"
    yield from found("unscored", False, unscored, what, "case")


def suggested_transform(name: str) -> str:
    """Return the transform for a column of positive numbers over three or more powers of ten.

    >>> suggested_transform("IC50 (uM)"), suggested_transform("ki_nm")
    ('pic50', 'pic50')
    >>> suggested_transform("IC50"), suggested_transform("wavelength_nm")
    ('log10', 'log10')
    """
    try:
        transform_of("pic50", name)
    except ConfigError:  # there is no unit in the name
        return "log10"
    return "pic50" if _MOLAR.search(name) or _POTENCY.search(name) else "log10"


def _decades(scan: Scan) -> Iterator[Finding]:
    labels, groups, pairs = scan.labels, [], []
    for i, target in enumerate(labels.targets):
        name = target.name
        values = labels.values[scan.readable, i]
        exact = scan.columns[i][~np.isnan(scan.columns[i])]
        chosen = target.transformation is not None or name in scan.config.transform
        if target.kind != "regression" or chosen or not len(exact) or np.nanmin(values) <= 0:
            continue
        if exact.max() < _RANGE * exact.min():
            continue
        transform = suggested_transform(name)
        if f"{name}_{transform}" in scan.table.columns:
            continue  # predictions on both scales would have the name of this column
        what = f"{name}: {four_digits(exact.min())} to {four_digits(exact.max())}"
        fits = "," not in name and name == name.strip()
        if fits:
            pairs.append(f"{name}={transform}")
            what += f"; --transform {shlex.quote(pairs[-1])}"
        if fits and transform == "log10" and _POTENCY.search(name):
            what += f", or {shlex.quote(f'{name}=pic50:nM')} if these are concentrations in nM"
        groups.append(Group(what, 1, ()))
    what = "positive numbers over three or more powers of ten"
    text = ". Their logarithm is easier to learn"
    options = {"--transform": ",".join(pairs)} if pairs else {}
    yield from found("decades", False, groups, what, "target", text, options=options)


def _bounds(scan: Scan) -> Iterator[Finding]:
    groups = []
    for i, name in enumerate(scan.labels.names):
        rows = scan.readable[scan.labels.bounds[scan.readable, i] != 0]
        if len(rows):
            groups.append(group(scan, f"{name}: {some(scan.table[name].iloc[rows])}", rows))
    text = (
        ". Training uses them without any option: for the network a prediction beyond a bound has "
        "no loss, the kernel regression and the forest read a bound as the number, and scores use "
        "exact labels only"
    )
    yield from found("bounds", False, groups, "bounds", "label", text)


def _outliers(scan: Scan) -> Iterator[Finding]:
    groups = []
    for i, target in enumerate(scan.labels.targets):
        column = scan.columns[i]
        if target.kind != "regression" or np.isnan(column).all():
            continue
        away = np.abs(column - np.nanmedian(column))
        low, high = np.nanpercentile(column, (5, 95))
        robust = (high - low) / 3.29  # the standard deviation of normal labels
        if robust and (far := np.flatnonzero(away > _OUTLIER * robust)).size:
            far = far[np.argsort(-away[far], kind="stable")]
            values = ", ".join(four_digits(value) for value in column[far[:3]])
            middle = four_digits(np.nanmedian(column))
            what = f"{target.name}: {values}{', …' * (len(far) > 3)} (median {middle})"
            groups.append(group(scan, what, scan.readable[far]))
    text = f" more than {_OUTLIER:g} robust standard deviations from the median"
    yield from found("outliers", False, groups, "outliers", "label", text)


def _unused(scan: Scan) -> Iterator[Finding]:
    """Find columns that name splits and are not used."""
    groups = [
        Group(f"{name}: --splits-column {shlex.quote(name)}", 1, ())
        for name, column in scan.table.items()
        if not scan.config.names_rows and assigns_splits(column.unique())
    ]
    text = " that could assign rows to the training, validation and test split"
    yield from found("unused-split", False, groups, "unused split", "column", text)


def _constant(column: np.ndarray) -> str | None:
    """Describe labels that are all equal or missing; None for others."""
    present = column[~np.isnan(column)]
    if not len(present):
        return "no label"
    return f"all {len(present):,} labels equal" if (present == present[0]).all() else None


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
