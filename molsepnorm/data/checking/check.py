"""Read a table as training does, and report its problems."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import Columns
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.data.datasets.duplicates import used_rows
from molsepnorm.data.datasets.labels import Labels
from molsepnorm.data.datasets.splits import SPLIT_OF_WORD, split_name, with_splits
from molsepnorm.data.datasets.splitters import read_times
from molsepnorm.data.datasets.table import Rows, attempt, read_columns
from molsepnorm.data.tables.formats import row_word
from molsepnorm.errors import InvalidMolecule, counted
from molsepnorm.molecules.encodings.encoding import EncodingSpec
from molsepnorm.molecules.featurize.standardize import LEVELS, Level, protomer_key, standardized
from molsepnorm.tasks.inputs import WITH_COMMA
from molsepnorm.tasks.metrics import four_digits
from molsepnorm.tasks.summary import TargetSummary
from molsepnorm.tasks.transforms import unit_in

_GROUPS, _PLACES = 10, 5  # groups listed for each finding, and rows for each group
_SAME = 1e-6  # numbers that agree differ by no more standard deviations of their column
_RANGE = 1000.0  # ratio of the largest to the smallest number spread over powers of ten
_AGREEING = 0.5  # share of the variance of all labels
_MOLAR = re.compile(r"M[)\] ]*$")  # ic50_nM, but not wavelength_nm
_WITH_UNIT = re.compile(r"\W*[\d.,]+(e[+-]?\d+)?\s*([pnuµμm]?M|[kmunµμ]?g|%|h|min)\b.*", re.I)
_CARBON = re.compile(r"C(?![adelmorsu])|(?<![STA])c")  # not Cl, Sc, …


@dataclass(frozen=True, eq=False)
class Scan:
    """The R rows of a table as molecules and labels."""

    rows: Rows
    """Invalid labels are missing."""
    dataset: Dataset
    """The molecules that can be read, with splits if there are any."""

    @staticmethod
    def of(table: Columns, encoding: EncodingSpec) -> Scan:
        """Read every row as training does, and collect errors in `rows.refusals`."""
        rows = Rows.read(table, np.float64)
        dataset = rows.encoded(encoding)
        if len(dataset.store):
            split = partial(with_splits, dataset, table)
            dataset = attempt(rows.refusals, "split", split, dataset)
        return Scan(rows, dataset)

    @property
    def config(self) -> DataConfig:
        return self.rows.table.config

    @property
    def frame(self) -> pd.DataFrame:  # [R, columns], text
        return self.rows.table.frame

    @property
    def labels(self) -> Labels:  # [R, T]; T is 0 if no target can be read
        return self.rows.labels

    @cached_property
    def smiles(self) -> list[str]:  # [R], as in the file
        return self.rows.table.cells(self.config.smiles_column)

    @property
    def readable(self) -> np.ndarray:  # int64
        """Rows with a readable SMILES."""
        return self.dataset.store.rows

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Rows (int64) of train, val and test; empty if there is no split."""
        return {name: self.readable[part] for name, part in self.dataset.splits.items()}

    @cached_property
    def molecules(self) -> pd.Series:
        """Number of each readable row's molecule, in the order of their first rows."""
        return pd.Series(pd.factorize(self.dataset.molecule_ids)[0], index=self.readable)

    def with_cells(self, columns: Iterable[str]) -> pd.Series:
        """Number of each readable row's molecule and cells of these columns; 25 equals 25.0."""
        keys = (self.rows.table.keys(name).iloc[self.readable] for name in columns)
        return _numbered([self.molecules, *(key.set_axis(self.readable) for key in keys)])

    @cached_property
    def conditions(self) -> pd.Series:
        """Number of each readable row's molecule, feature columns and time."""
        rows, name = self.with_cells(self.config.features), self.config.time_column
        if name is None:
            return rows
        times = read_times(self.frame[name].tolist(), self.config.time_format)[0]
        texts = self.frame[name].str.strip().where(np.isnan(times), times.astype(str))
        return _numbered([rows, texts.iloc[self.readable].set_axis(self.readable)])

    @cached_property
    def repeated(self) -> list[np.ndarray]:
        """Rows (int64, ascending) of each of the `conditions` that occur more than once, by split
        if splits are named."""
        keys = [self.conditions]
        if self.config.splits_column is not None:
            words = self.frame[self.config.splits_column].iloc[self.readable].str.strip()
            words = words.str.lower().map(lambda word: SPLIT_OF_WORD.get(word, word))
            keys.append(words.set_axis(self.readable))
        groups = pd.Series(self.readable).groupby(_numbered(keys).to_numpy())
        return [rows.to_numpy() for _, rows in groups if len(rows) > 1]

    @cached_property
    def merged(self) -> list[np.ndarray]:
        """The rows of each of `repeated` whose labels are merged, see `used_rows`."""
        is_labelled = ~np.isnan(self.labels.values).all(axis=1)
        return [used_rows(rows, is_labelled) for rows in self.repeated]

    @cached_property
    def exact(self) -> np.ndarray:  # float64 (R, T)
        """The labels without bounds, NaN where missing."""
        return np.where(self.labels.bounds, np.nan, self.labels.values)

    def location(self, row: int) -> str:
        """Return the position of a row in its file, such as "line 7"."""
        return f"{row_word(str(self.config.table))} {self.frame.index[row]}"


def _numbered(keys: list[pd.Series]) -> pd.Series:
    """Number the combinations of keys in the order of their first rows."""
    frame = pd.concat(keys, axis=1, keys=range(len(keys)))
    return frame.groupby(list(frame.columns), sort=False).ngroup()


def scan_table(config: DataConfig, encoding: EncodingSpec) -> Scan:
    """Return the scan of `config.table`. A missing column or file is a `ConfigError`, a file that
    is no table a `DataError`."""
    return Scan.of(read_columns(config.model_copy(update={"on_invalid": "skip"})), encoding)


@dataclass(frozen=True)
class Location:
    """A row, counted from 0 as in `splits.json`, and its position, such as "line 7"."""

    row: int
    where: str
    smiles: str


@dataclass(frozen=True)
class Group:
    """Rows that share a property."""

    what: str
    count: int  # of rows, molecules, labels or columns; see `Finding.text`
    places: tuple[Location, ...] = ()  # the first few rows


@dataclass(frozen=True)
class Finding:
    """A finding in a table."""

    kind: str
    """Identifier: unreadable, duplicates, conflicts, leak, …"""
    problem: bool
    """True if it stops training, or biases the model or its scores."""
    count: int
    """Number of rows, molecules, labels or columns; see `text`."""
    text: str
    groups: tuple[Group, ...] = ()
    """The largest groups, in descending order."""
    options: dict[str, str] = field(default_factory=dict, hash=False)
    """Options of training that resolve it, such as {"--transform": "ic50_nM=pic50"}."""


@dataclass(frozen=True)
class TableReport:
    """The result of `check_table`."""

    source: str
    rows: int
    readable: int
    """Rows with a readable SMILES, to which the following refer."""
    molecules: int
    atoms: int
    """Without implicit hydrogens."""
    warnings: tuple[str, ...]
    """Lines that training would print about the table."""
    targets: tuple[TargetSummary, ...]
    splits: dict[str, int]
    """Rows in train, val and test; empty without a split."""
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that should be resolved before training."""
        return tuple(finding for finding in self.findings if finding.problem)

    @property
    def information(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(finding for finding in self.findings if not finding.problem)


def check_table(scan: Scan) -> TableReport:
    """Return the report of a scanned table.

    Rows with the same canonical SMILES are one molecule. Its labels conflict if classes differ, or
    numbers by more than a millionth of their column's standard deviation.
    """
    labels = scan.labels.values[scan.readable].T, scan.exact[scan.readable].T
    checks = (_unreadable, _cells, _conflicts, _duplicates, _leaks, _constants)
    return TableReport(
        source=str(scan.config.table),
        rows=len(scan.frame),
        readable=len(scan.readable),
        molecules=scan.molecules.nunique(),
        atoms=int(scan.dataset.store.sizes.sum()),
        warnings=scan.dataset.warnings,
        targets=tuple(map(TargetSummary.of, scan.labels.targets, *labels)),
        splits={name: len(rows) for name, rows in scan.parts.items()},
        findings=tuple(f for check in (*checks, _decades, _mixtures, forms) for f in check(scan)),
    )


def _found(
    kind: str,
    problem: bool,
    groups: Sequence[Group],
    what: str,
    noun: str,
    more: str = "",
    count: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Yield a finding if `count`, by default the sum of the groups, is above 0."""
    count = sum(group.count for group in groups) if count is None else count
    if count:
        ordered = sorted(groups, key=lambda group: -group.count)[:_GROUPS]
        text = f"{what}: {counted(count, noun)}{more}"
        yield Finding(kind, problem, count, text, tuple(ordered), dict(options or {}))


def _group(
    scan: Scan, what: str, rows: Sequence[int] | np.ndarray, count: int | None = None
) -> Group:
    """Return a group with the first few of these rows."""
    first = [int(row) for row in rows[:_PLACES]]
    places = tuple(Location(row, scan.location(row), scan.smiles[row]) for row in first)
    return Group(what, len(rows) if count is None else count, places)


def _some(cells: Iterable[str]) -> str:
    """Return the first few distinct cells."""
    distinct = list(dict.fromkeys(cell.strip() for cell in cells))
    return ", ".join(f"'{cell}'" for cell in distinct[:3]) + ", …" * (len(distinct) > 3)


def _unreadable(scan: Scan) -> Iterator[Finding]:
    """Group by reason, whatever the numbers in it."""
    rows: dict[str, list[int]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for entry in scan.dataset.rejected:
        reason = entry.reason.partition("': ")[2] or entry.reason  # without the SMILES
        key = re.sub(r"\d+", "0", reason)
        reasons.setdefault(key, reason)
        rows[key].append(entry.row)
    groups = [_group(scan, reasons[key], rows[key]) for key in rows]
    more = "; training skips such rows"
    yield from _found("unreadable", True, groups, "invalid SMILES", "row", more)


def _cells(scan: Scan) -> Iterator[Finding]:
    """Find errors about a whole column, and cells that are no labels."""
    for what, error in scan.rows.refusals:
        lines = "; ".join(map(str.strip, error.lines))
        yield Finding(what, True, 1, f"training would stop with an error: {lines}")
    groups, cells = [], list[str]()
    for issue in scan.labels.issues:
        bad = scan.frame[issue.column].iloc[issue.rows].tolist()
        groups.append(_group(scan, f"{issue.column}: {_some(bad)}", issue.rows))
        cells += bad
    text = ". Training would stop with an error; --fix empties them"
    if any(map(_WITH_UNIT.fullmatch, cells)):
        text += ". Some cells have a unit: convert them to the unit of the column first"
    if scan.config.decimal is None and any(re.fullmatch(WITH_COMMA, cell) for cell in cells):
        text += ". If their commas are decimal marks: --decimal ,"
    yield from _found("invalid-labels", True, groups, "invalid labels", "cell", text)


def _conflicts(scan: Scan) -> Iterator[Finding]:
    """Show for each target the molecule whose labels differ most."""
    groups, conflicting = [], np.zeros(len(scan.merged), dtype=bool)
    molecule = np.repeat(np.arange(len(scan.merged)), list(map(len, scan.merged)))
    for i, target in enumerate(scan.labels.targets if scan.merged else ()):
        values = pd.Series(scan.exact[np.concatenate(scan.merged), i]).groupby(molecule)
        spread = (values.max() - values.min()).to_numpy()
        is_number, labels = target.kind == "regression", scan.exact[scan.readable, i]
        sd = np.nanstd(labels) if not np.isnan(labels).all() else 0.0
        apart = spread > (_SAME * sd if is_number else 0)
        if apart.any():
            worst = int(np.nanargmax(spread))
            rows = scan.merged[worst]
            rows = rows[~np.isnan(scan.exact[rows, i])]
            what = f"{target.name}, such as {_some(scan.frame[target.name].iloc[rows])}"
            what += f", {spread[worst] / sd:.2g} sd apart" * is_number
            groups.append(_group(scan, what, rows, int(apart.sum())))
            conflicting |= apart
    text = " with different labels in several rows"
    if not scan.config.features and scan.frame.shape[1] > 2:
        text += ". If a column has the conditions of the measurement: --feature-columns NAME"
    kept, count = scan.config.duplicates == "keep", int(conflicting.sum())
    yield from _found("conflicts", kept, groups, "conflicting labels", "molecule", text, count)


def _duplicates(scan: Scan) -> Iterator[Finding]:
    largest = sorted(scan.repeated, key=len, reverse=True)[:_GROUPS]
    groups = [_group(scan, scan.smiles[rows[0]].strip(), rows) for rows in largest]
    unlike = sum(len({scan.smiles[row].strip() for row in rows}) > 1 for rows in scan.repeated)
    columns = (scan.config.features, scan.config.time_column, scan.config.splits_column)
    names = ("feature columns", "times", "splits")
    equal = " and ".join(name for name, column in zip(names, columns, strict=True) if column)
    text = f" in {sum(map(len, scan.repeated)):,} rows{f' with equal {equal}' * bool(equal)}"
    text += f"; {unlike:,} with different SMILES"
    if not (kept := scan.config.duplicates == "keep"):
        text += "; training merges them (--duplicates mean)"
    count = len(scan.repeated)
    yield from _found("duplicates", kept, groups, "duplicates", "molecule", text, count)


def _leaks(scan: Scan) -> Iterator[Finding]:
    every = scan.with_cells(scan.config.leak_columns)
    inside = {name: every.loc[rows].unique() for name, rows in scan.parts.items()}
    groups, shared = [], set()
    for one, other in combinations(inside, 2):
        both = np.intersect1d(inside[one], inside[other])
        if len(both):
            rows = np.union1d(scan.parts[one], scan.parts[other])
            rows = rows[every.loc[rows] == both[0]]
            groups.append(_group(scan, f"{one} and {other}", rows, len(both)))
            shared.update(both.tolist())
    # splits that are drawn, but for those by time or by a column, keep the rows of a molecule
    what = f"train/test leakage ({split_name(scan.config)})"
    text = " in more than one split; the scores would be too optimistic"
    yield from _found("leak", True, groups, what, "molecule", text, len(shared))


def _constants(scan: Scan) -> Iterator[Finding]:
    """Find targets whose labels, or those of the training split, are all equal or missing."""
    groups = []
    for target, exact in zip(scan.labels.targets, scan.exact.T, strict=True):
        places = {"": scan.readable, " in train": scan.parts.get("train", scan.readable)}
        for where, rows in places.items():
            labels = exact[rows][~np.isnan(exact[rows])]
            if len(np.unique(labels)) < 2:
                what = f"all {len(labels):,} labels equal" if len(labels) else "no label"
                groups.append(Group(f"{target.name}: {what}{where}", 1))
                break
    text = ". Training would stop with an error: leave them out with --targets or --targets-except"
    yield from _found("constant", True, groups, "constant targets", "target", text)


def _decades(scan: Scan) -> Iterator[Finding]:
    """Recommend pic50 for concentrations, and log10 for other numbers over powers of ten."""
    groups, pairs = [], []
    for i, target in enumerate(scan.labels.targets):
        name, labels = target.name, scan.labels.values[scan.readable, i]
        exact = scan.exact[scan.readable, i]
        if target.kind != "regression" or name in scan.config.transform or np.isnan(exact).all():
            continue
        low, high = np.nanmin(exact), np.nanmax(exact)
        in_nanomolar = scan.labels.factors is not None
        is_molar = in_nanomolar or (unit_in(name) and _MOLAR.search(name))
        scale = "pic50" if is_molar else "log10"
        transform = f"{scale}:nM" if in_nanomolar else scale
        is_free = f"{name}_{scale}" not in scan.frame.columns  # of predictions on both scales
        if np.nanmin(labels) > 0 and high >= _RANGE * low and is_free:
            groups.append(Group(f"{name}: {four_digits(low)} to {four_digits(high)}", 1))
            pairs += [f"{name}={transform}"] * ("," not in name and name == name.strip())
    what = "positive numbers over three or more powers of ten"
    text = ". Their logarithm is easier to learn"
    options = {"--transform": ",".join(pairs)} if pairs else {}
    text += f": --transform {shlex.quote(options['--transform'])}" if pairs else ""
    yield from _found("decades", False, groups, what, "target", text, options=options)


def _mixtures(scan: Scan) -> Iterator[Finding]:
    fragments: dict[int, list[int]] = defaultdict(list)
    standard = scan.dataset.smiles or ()
    for row in scan.readable.tolist():
        smiles, *_ = standard[row].split()  # an extension of CXSMILES may follow
        fragments[smiles.count(".") + 1].append(row)
    groups = [_group(scan, f"{n} fragments", rows) for n, rows in fragments.items() if n > 1]
    text = ". The model reads all fragments"
    yield from _found("mixtures", False, groups, "salts and mixtures", "row", text)


def forms(scan: Scan) -> Iterator[Finding]:
    """Find salts and free forms, charged and neutral forms, and tautomers of one compound.

    Candidates have the same `protomer_key`; they are a compound if their standardised SMILES is the
    same and has carbon. A level is recommended if it and those below merge molecules whose labels
    agree.
    """
    levels = LEVELS[LEVELS.index(scan.config.standardize) + 1 :]
    standard = scan.dataset.smiles or ()
    candidates: dict[str, list[int]] = defaultdict(list)
    for row in scan.molecules.drop_duplicates().index if levels else ():
        with suppress(InvalidMolecule):
            candidates[protomer_key(standard[row])].append(row)
    compounds: dict[Level, list[list[int]]] = {level: [] for level in levels}
    for apart in candidates.values():
        for level in levels:
            if len(apart) < 2:
                break
            same: dict[str, list[int]] = defaultdict(list)
            texts = standardized([scan.smiles[row] for row in apart], level)
            for row, text in zip(apart, texts, strict=True):
                same[text or f"{row} cannot be standardised"].append(row)
            equal = [rows for text, rows in same.items() if _CARBON.search(text)]
            compounds[level] += [rows for rows in equal if len(rows) > 1]
            apart = [rows[0] for rows in same.values()]
    names = {"salts": "salts", "parent": "charged forms", "tautomer": "tautomers"}
    groups = [
        _group(scan, f"{names[level]}, equal with --standardize {level}", rows)
        for level, merged in compounds.items()
        for rows in merged
    ]
    text = ": salts, charged forms or tautomers that the model predicts as different molecules"
    options = {}
    for level in filter(compounds.get, levels):
        if not _agree(scan, compounds[level]):
            break  # a higher level merges these, too
        options = {"--standardize": level}
    if not options:
        text += ". No --standardize is recommended, because their labels are not known to agree"
    what, count = "forms of one compound", len(groups)
    yield from _found("forms", False, groups, what, "case", text, count, options)


def _agree(scan: Scan, groups: list[list[int]]) -> bool:
    """Return whether the variance of the labels in these groups of rows is below half of that of
    the table, on average over the targets; classes are columns of ones and zeros."""
    shares = []
    for target, column in zip(scan.labels.targets, scan.exact.T, strict=True):
        present = np.intersect1d(scan.readable, np.flatnonzero(~np.isnan(column)))
        values = column[:, None]
        if target.kind != "regression":
            values = (values == np.unique(column[present])).astype(float)
        within = [values[np.intersect1d(rows, present)] for rows in groups]
        within = [part for part in within if len(part) > 1]
        if within and (variance := values[present].var(axis=0).sum()):
            squares = sum(((part - part.mean(axis=0)) ** 2).sum() for part in within)
            shares.append(squares / sum(len(part) - 1 for part in within) / variance)
    return bool(shares) and float(np.mean(shares)) < _AGREEING
