"""The columns of a table: their roles, and their cells as numbers, bounds and words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.config import NONE, DataConfig
from molsepnorm.data.tables.columns import names_in_file, require_column, with_points
from molsepnorm.data.tables.formats import locate
from molsepnorm.errors import ConfigError, DataError, InvalidMolecule, listed
from molsepnorm.tasks.inputs import MISSING, WITH_COMMA
from molsepnorm.tasks.metrics import Kind

YES_NO = {
    **dict.fromkeys(("yes", "true", "active", "positive"), "1"),
    **dict.fromkeys(("no", "false", "inactive", "negative"), "0"),
}
"""Words that are labels of a binary target, in lower case."""
_ABBREVIATED = {"y": "yes", "1": "yes", "n": "no", "0": "no"}
_BETWEEN_LETTERS = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W\d_])")
_BOUND = re.compile(r"(>=?|≥|<=?|≤)\s*(.+)")
_MINUS = "\u2212"  # the sign of mathematics, which Excel and Word may write
_IDENTIFIER = re.compile(r"(.*[_ -])?(id|cid|name|code)", re.IGNORECASE)
_BADLY_WRITTEN = (
    rf"[<>≤≥]?=?\s*({WITH_COMMA}|[-+]?[\d.]+\s*%|(.*\s)?\d+:\d\d:\d\d[\d.]*)"
    r"|\d*\.\d+\s*[-–]\s*\d*\.\d+|\d{4}-\d\d-\d\d.*"
)
"""Quantities that are no numbers: percentages, times, ranges such as 2.2-2.4, and dates."""
_MAX_CODES = 10  # distinct numbers that may be class codes rather than quantities
_MIN_SHARE = 0.02
_MIN_DISTINCT = 5  # numbers, among which one may be far from the others
_MIN_LIMITED, _MAX_BEYOND = 0.1, 0.01
"""Shares of the labels that are equal to a limit of the assay, and beyond it."""
_FAR = 10  # ranges of the other numbers
_SENTINELS = {1 - 10.0**digits for digits in range(2, 7)}
"""-99, -999, …: numbers that stand for missing values even if they occur once."""
_RELATIONS = {"": "", "=": "", "==": "", "~": "", ">": ">", ">>": ">", "<": "<", "<<": "<"}
_RELATIONS |= {">=": ">=", "≥": ">=", "<=": "<=", "≤": "<="}
"""Relations, without quotation marks, and the sign that a number gets."""
_MAX_WORDS = 20  # of a column of relations or units
_NANOMOLAR = {"pM": 1e-3, "nM": 1.0, "uM": 1e3, "µM": 1e3, "μM": 1e3, "mM": 1e6, "M": 1e9}
_GRAMS = {"ng/mL": 1e3, "ug/mL": 1e6, "µg/mL": 1e6, "ug.mL-1": 1e6, "mg/mL": 1e9}
"""Units, and the number of nM in one of them; of mass units, times the molar mass in g/mol."""


class Qualifiers(NamedTuple):
    """The columns of relations such as >, and of units such as nM, that belong to the target."""

    relation: str | None = None
    unit: str | None = None


_CHEMBL = {
    "Standard Value": Qualifiers("Standard Relation", "Standard Units"),
    "standard_value": Qualifiers("standard_relation", "standard_units"),
}
"""Columns of exports of ChEMBL, by the exact name of the target."""


def with_relations(cells: pd.Series, relations: pd.Series, source: Path | str) -> pd.Series:
    """Return the cells of a target after the signs of a column of relations.

    >>> with_relations(pd.Series(["5", "50", ""]), pd.Series(["=", "'>'", ">"]), "my.csv").tolist()
    ['5', '>50', '']
    """
    signs = relations.map(unquoted).map(_RELATIONS)
    if signs.isna().any():
        odd = int(signs.isna().to_numpy().argmax())
        raise DataError(
            f"{locate(source, relations.index[odd])}, column '{relations.name}': "
            f"'{relations.iloc[odd]}' is no relation. Expected are "
            f"{', '.join(filter(None, _RELATIONS))}, or a blank for ="
        )
    return (signs + cells.str.strip()).where(cells.str.strip() != "", "")


def factors_to_nanomolar(
    units: Sequence[str], smiles: Sequence[str], where: Callable[[int], str]
) -> np.ndarray | None:
    """Return the factors that convert the rows to nM, float64 (rows,), NaN without a unit; None if
    the only unit is another one, such as mV. Units of mass need the SMILES. An unknown one of
    several units is a `DataError`, with `where` of its row."""
    distinct = {*units} - {""}
    unknown = sorted(distinct.difference(_NANOMOLAR, _GRAMS))
    if unknown and len(distinct) == 1:
        return None
    if unknown:
        raise DataError(
            f"{where(units.index(unknown[0]))}: the unit '{unknown[0]}' cannot be converted "
            f"beside others ({listed(sorted(distinct))}): known are "
            f"{', '.join((*_NANOMOLAR, *_GRAMS))}. Convert these numbers, or leave such rows out"
        )
    factors = np.array([_NANOMOLAR.get(unit, np.nan) for unit in units])
    for row, unit in enumerate(units):
        if unit in _GRAMS:
            factors[row] = _GRAMS[unit] / _molar_mass(smiles[row])
    return factors


def _molar_mass(smiles: str) -> float:
    from molsepnorm.molecules.featurize.descriptors import structure_inputs

    try:
        return float(structure_inputs([smiles], False, ("MolWt",), False)[1][0, 0])
    except InvalidMolecule:  # the row is left out
        return np.nan


def unquoted(cell: str) -> str:
    """Return a cell without spaces and quotation marks around it."""
    return cell.strip().strip("'\"").strip()


def word_of(cell: str) -> str:
    """Return a text that is the same for two spellings of a word.

    >>> word_of("In-active") == word_of("inactive"), word_of("Y") == word_of("yes")
    (True, True)
    """
    plain = " ".join(_BETWEEN_LETTERS.sub("", cell.casefold()).split())
    return _ABBREVIATED.get(plain, plain)


def plain_numbers(cells: pd.Series, decimal: Literal[".", ","] | None = None) -> np.ndarray:
    """Return the numbers of cells, float64 (n,); NaN for other text, and for numbers that are not
    finite in single precision."""
    if decimal == ",":
        cells = with_points(cells.astype(str), decimal)
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, copy=True)
    with np.errstate(over="ignore"):
        numbers[~np.isfinite(numbers.astype(np.float32))] = np.nan
    return numbers


class Column:
    """The cells of a column. Each is a number, a bound such as >10, a word such as "yes", missing,
    or bad."""

    def __init__(self, name: str, cells: pd.Series, config: DataConfig) -> None:
        self.name = name
        self.codes, distinct = pd.factorize(cells.to_numpy(dtype=object), use_na_sentinel=False)
        """Index of each row's text."""
        self.texts = [cell.strip() if isinstance(cell, str) else f"{cell:g}" for cell in distinct]
        """Distinct texts, without outer spaces."""
        numbers = plain_numbers(pd.Series(distinct, dtype=object), config.decimal)
        others = np.flatnonzero(np.isnan(numbers))
        plain = [self.texts[i].replace(_MINUS, "-") for i in others]
        signs = [_BOUND.fullmatch(text) for text in plain]
        bare = [s[2] if s else YES_NO.get(p.lower(), p) for s, p in zip(signs, plain, strict=True)]
        numbers[others] = plain_numbers(pd.Series(bare, dtype=object), config.decimal)
        bounds, words = np.zeros(len(numbers), dtype=np.int8), np.zeros(len(numbers), dtype=bool)
        bounds[others] = [0 if s is None else 1 if s[1][0] in ">≥" else -1 for s in signs]
        words[others] = [text.lower() in YES_NO for text in plain]

        missing = {*MISSING} - {*config.classes.get(name, ())}
        blank = np.array([text in missing for text in self.texts], dtype=bool)
        if name != config.weight_column:
            blank |= np.isin(numbers, config.missing_numbers) & (bounds == 0) & ~words
        self.is_blank = blank  # bool, for each text
        bad = ~blank & np.isnan(numbers)
        numbers[blank | bad], bounds[blank | bad] = np.nan, 0
        odd = ~np.isnan(numbers) & ((bounds != 0) | ~np.isin(numbers, (0, 1)))
        self.has_words = bool((words & ~blank).any())
        self.has_exact = bool((~np.isnan(numbers) & ~words & (bounds == 0)).any())
        if odd.any() and configured_kind(name, config) != "binary":
            bad |= ~blank & words
            numbers[words] = np.nan
        self.odd_rows = np.flatnonzero(odd[self.codes])
        """Rows, int64, of bounds and of numbers other than 0 and 1."""
        self.bad_rows = np.flatnonzero(bad[self.codes])
        """Rows, int64, of bad cells; "yes" is bad beside numbers other than 0 and 1."""
        self.numbers = numbers[self.codes]
        """float64 (rows,): the number, also of a bound; 1 or 0 for words such as "yes", or NaN."""
        self.bounds = bounds[self.codes]
        """int8 (rows,): 1 for lower bounds such as ">10", -1 for upper bounds, 0 for others."""
        self.count = int(np.count_nonzero(~np.isnan(self.numbers)))  # bounds included
        self.bounded = int(np.count_nonzero(self.bounds))

    @cached_property
    def _counted(self) -> tuple[np.ndarray, np.ndarray]:
        exact = self.numbers[self.bounds == 0]
        return np.unique(exact[~np.isnan(exact)], return_counts=True)

    @property
    def distinct(self) -> np.ndarray:
        """The distinct exact numbers."""
        return self._counted[0]

    def text(self, row: int) -> str:
        return self.texts[self.codes[row]]

    @property
    def first_bad(self) -> str | None:
        return self.text(self.bad_rows[0]) if len(self.bad_rows) else None

    @property
    def first_bound(self) -> str:
        return self.text(int((self.bounds != 0).argmax()))

    @property
    def are_whole(self) -> bool:
        """True if all numbers are whole, and none is a bound."""
        return not self.bounded and bool((self.distinct == np.rint(self.distinct)).all())

    @property
    def are_few_whole_numbers(self) -> bool:
        """True if there are at most ten distinct numbers, all whole."""
        return self.are_whole and len(self.distinct) <= _MAX_CODES

    @property
    def look_like_classes(self) -> bool:
        """True if there are only words, ten or fewer, or each twice on average, unlike names of
        molecules, and no quantities that are written in another way. Beside a word such as "active"
        there is one other word."""
        if self.bounded or self.has_exact or not len(self.bad_rows):
            return False
        texts = {text for text, blank in zip(self.texts, self.is_blank, strict=True) if not blank}
        if any(re.fullmatch(_BADLY_WRITTEN, text) for text in texts):
            return False
        return len(texts) <= (2 if self.has_words else max(10, len(self.bad_rows) // 2))

    def assay_limits(
        self, factors: np.ndarray | None
    ) -> dict[Literal["smaller", "larger"], tuple[float, int]]:
        """Return the numbers that may be a limit of the assay, with their counts: many labels equal
        such a number, and hardly any is smaller, or larger. `factors` (rows,) convert the rows."""
        exact = self.numbers if factors is None else self.numbers * factors
        exact = exact[(self.bounds == 0) & ~np.isnan(exact)]
        numbers, counts = np.unique(exact, return_counts=True)
        limits: dict[Literal["smaller", "larger"], tuple[float, int]] = {}
        if len(numbers) < _MIN_DISTINCT:
            return limits
        usual = np.sort(counts)[-3]
        for i in np.flatnonzero(counts > max(_MIN_LIMITED * counts.sum(), 3 * usual)).tolist():
            if counts[:i].sum() <= _MAX_BEYOND * counts.sum():
                limits["smaller"] = float(numbers[i]), int(counts[i])
            elif counts[i + 1 :].sum() <= _MAX_BEYOND * counts.sum():
                limits["larger"] = float(numbers[i]), int(counts[i])
        return limits

    def stands_for_missing(self) -> tuple[float, int] | None:
        """Return a number far from all others that may stand for a missing value, such as -999, and
        its count."""
        numbers, counts = self._counted
        if numbers.tolist() == [-1, 0, 1]:
            return -1.0, int(counts[0])
        if len(numbers) < _MIN_DISTINCT:
            return None
        for end, rest in ((0, numbers[1:]), (-1, numbers[:-1])):
            apart = np.abs(numbers[end] - rest).min() > _FAR * np.ptp(rest)
            several = counts[end] > max(1, _MIN_SHARE * counts.sum())
            if apart and (several or float(numbers[end]) in _SENTINELS):
                return float(numbers[end]), int(counts[end])
        return None


@dataclass(frozen=True, eq=False)
class Columns:
    """A table, and the roles of its columns."""

    frame: pd.DataFrame
    """Text, or numbers for labels in memory, indexed by the position of each row, see `locate`; by
    the file and the position for structures."""
    config: DataConfig
    targets: tuple[str, ...] | None
    """The targets that the settings name; None if they name none."""
    qualifiers: Qualifiers
    """The columns of relations and units that belong to the target."""

    @staticmethod
    def of(frame: pd.DataFrame, config: DataConfig) -> Columns:
        """Return a table with the roles of its columns. It is a `ConfigError` if a column of the
        settings that is no target is missing or occurs twice, or if relations or units are named
        without exactly one target."""
        names, declared = list(frame.columns), (config.relation_column, config.unit_column)
        exports = {name: own for name, own in _CHEMBL.items() if {name, *own} <= {*names}}
        targets = () if config.structures else _named_targets(names, config)
        if targets is None and exports:
            targets = tuple(exports)[:1]
        target = targets[0] if targets is not None and len(targets) == 1 else ""
        if not target and {*declared} - {None, NONE}:
            raise ConfigError(
                "data.relation_column and data.unit_column need one target: name it (--targets)"
            )
        of_export = exports.get(target, Qualifiers())
        chosen = (name or known for name, known in zip(declared, of_export, strict=True))
        qualifiers = Qualifiers(*(None if name == NONE else name for name in chosen))
        table = Columns(frame, config, targets, qualifiers)
        for role, needed in config.columns_by_role.items():
            for name in needed if role not in ("targets", "targets_except") else ():
                table.require(name)
        return table

    @property
    def source(self) -> Path | str:
        """The file, or the files of structures; "y" for labels in memory."""
        return self.config.table or " + ".join(map(str, self.config.structures)) or "y"

    @property
    def names(self) -> list[str]:
        """Names of all columns; several may have the same name."""
        return list(self.frame.columns)

    def require(self, name: str, *, once: bool = True) -> None:
        in_file = names_in_file(self.frame)
        require_column(self.names, name, self.source, once=once, in_file=in_file)

    def cells(self, name: str) -> list[str]:
        """Return the cells of the first column of this name, those of features with points."""
        cells = self.frame.iloc[:, self.names.index(name)]
        decimal = self.config.decimal if name in self.config.features else None
        return with_points(cells, decimal).tolist()

    def keys(self, name: str) -> pd.Series:
        """Return the cells of a column as texts, equal for equal numbers, words and molecules."""
        cells = pd.Series(self.cells(name), dtype=object).str.strip()
        numbers = plain_numbers(cells, None)
        cells = cells.where(np.isnan(numbers), numbers.astype(str))
        if name in self.config.molecules:
            from molsepnorm.molecules.featurize.further import standard_cells

            cells = cells.map(standard_cells(name, cells, self.config.standardize)).map(str)
        return cells

    def column(self, name: str) -> Column:
        """Return the first column of this name as numbers, with its relations."""
        cells = self.frame.iloc[:, self.names.index(name)]
        relation = self.qualifiers.relation
        if relation is not None and name in (self.targets or ()):
            cells = with_relations(cells, self.frame[relation], self.source)
        return Column(name, cells, self.config)

    def candidates(self) -> list[Column]:
        """Return the columns that may be targets."""
        taken = self.config.columns_with_roles(but="targets")
        taken |= {*matching(self.names, self.config.targets_except)}
        return [self.column(name) for name in dict.fromkeys(self.names) if name not in taken]

    @property
    def identifiers(self) -> list[str]:
        """Columns named like identifiers, such as compound_id, that the settings do not name."""
        used = self.config.columns_with_roles(but="targets_except") | {*(self.targets or ())}
        return [name for name in self.names if name not in used and _IDENTIFIER.fullmatch(name)]

    def words(self) -> dict[str, set[str]]:
        """Return the distinct cells of each unused column with a unique name and few of them."""
        taken = {*self.config.columns_with_roles(), *self.qualifiers, *(self.targets or ())}
        free = [name for name, times in Counter(self.names).items() if times == 1]
        words = {}
        for name in (name for name in free if name not in taken):
            # the first rows of most columns have many
            if self.frame[name].head(_MAX_WORDS * 10).nunique() <= _MAX_WORDS:
                words[name] = {*self.frame[name].unique()}
        return {name: cells for name, cells in words.items() if 0 < len(cells) <= _MAX_WORDS}

    def require_declared(self, target: str) -> None:
        """Raise a `DataError` if one of the unused `words` holds relations other than =, or several
        units, and the settings do not say `none`."""
        config = self.config
        for name, cells in self.words().items():
            plain = {unquoted(cell) for cell in cells}
            signs = {_RELATIONS.get(cell) for cell in plain}
            if config.relation_column is None and None not in signs and signs - {""}:
                raise DataError(
                    f"{self.source}: the column '{name}' holds relations such as '{max(plain)}'. "
                    f"If they belong to '{target}', its numbers are bounds: --relation-column "
                    f"'{name}'. Otherwise: --relation-column {NONE}"
                )
            units = plain - {""}
            if config.unit_column is None and len(units) > 1 and units <= {*_NANOMOLAR, *_GRAMS}:
                raise DataError(
                    f"{self.source}: the column '{name}' holds the units {listed(sorted(units))}. "
                    f"If they belong to '{target}', its numbers are converted to nM: --unit-column "
                    f"'{name}'. Otherwise: --unit-column {NONE}"
                )

    def where(self, row: int) -> str:
        """Return the position of a row, for an error message."""
        place = self.frame.index[row]
        if self.config.structures:
            return str(place)
        path = self.config.table
        return f"molecule {place}" if path is None else locate(path, place)

    def cell(self, row: int, name: str) -> str:
        """Return the position of a cell, for an error message."""
        return f"{self.where(row)}, column '{name}'"


def configured_kind(name: str, config: DataConfig) -> Kind | None:
    kinds = config.task_type
    return kinds.get(name) if isinstance(kinds, dict) else kinds


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match patterns such as pIC50*, in the order of the patterns. A pattern
    without a match stands for itself."""
    chosen: list[str] = []
    for pattern in patterns:
        matches = [name for name in names if fnmatchcase(name, pattern)]
        chosen += [pattern] if pattern in names or not matches else matches
    return list(dict.fromkeys(chosen))


def _named_targets(names: list[str], config: DataConfig) -> tuple[str, ...] | None:
    if config.targets is None:
        kinds = config.task_type if isinstance(config.task_type, dict) else {}
        named = dict.fromkeys((*kinds, *config.classes, *config.transform, *config.limits))
        return tuple(named) or None
    taken = config.columns_with_roles(but="targets") | {*matching(names, config.targets_except)}
    chosen = matching(names, config.targets)
    return tuple(name for name in chosen if name in config.targets or name not in taken) or None
