"""Labels of a table: the targets, the kind of each, and their numbers or classes."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import (
    YES_NO,
    Column,
    Columns,
    configured_kind,
    factors_to_nanomolar,
    unquoted,
    word_of,
)
from molsepnorm.data.datasets.config import NONE, DataConfig
from molsepnorm.data.tables.columns import require_clear_points
from molsepnorm.errors import (
    ConfigError,
    DataError,
    OpenChoice,
    counted,
    did_you_mean,
    first_of,
    listed,
    prefixed,
    separated,
)
from molsepnorm.files.tables import name_of_copy
from molsepnorm.molecules.featurize.further import refuse_molecules
from molsepnorm.tasks import FeatureColumn, Target
from molsepnorm.tasks.inputs import WITH_COMMA, too_close
from molsepnorm.tasks.label_errors import learned_errors
from molsepnorm.tasks.metrics import Kind, four_digits
from molsepnorm.tasks.transforms import NO_TRANSFORM, Transform, transform_of, unit_in

_SHOWN = 12  # columns that a message lists
_IDENTIFIER = re.compile(
    r"(.*[_ ])?(id|index|row|number|num|no|nr|cid|sid|key|tag)|name|unnamed: ?\d+|.*id|molregno",
    re.IGNORECASE,
)
_MIN_DIFFERENT = 20  # whole numbers that are identifiers because all are different
_YEARS = (1900, 2100)
MAX_CLASSES = 100  # a column with more distinct words holds names or notes
_FEW = 5  # a warning names the classes with fewer rows
_MAX_SHOWN = 5  # classes that a message names


class Issue(NamedTuple):
    """Cells of a target that are no labels, and a message about the first."""

    column: str
    rows: np.ndarray  # int64
    message: str


@dataclass(frozen=True)
class Labels:
    """The labels of every row of a table."""

    targets: tuple[Target, ...]
    """The T targets, without mean and scale."""
    values: np.ndarray
    """float64 or float32 [rows, T]: transformed numbers, 0 or 1, or the index of a class; NaN if
    missing or no label."""
    bounds: np.ndarray
    """int8 [rows, T]: 1 for lower bounds, -1 for upper bounds, 0 for exact labels."""
    issues: tuple[Issue, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: np.ndarray | None = None
    """Standard errors, like `values`; NaN for targets without a column of errors."""
    factors: np.ndarray | None = None
    """float64 [rows]: factors that converted the numbers of the table; None if none did."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(target.name for target in self.targets)


def read_labels(table: Columns, dtype: type[np.floating] = np.float64) -> Labels:
    """Return the labels of a table in numbers of this type.

    Raises:
        ConfigError: a column is missing or occurs twice, a setting does not fit its target, or the
            targets are open (`OpenChoice`).
        DataError: a column cannot be a target. Cells that do not fit their target are `issues`.
    """
    config = table.config
    names, warnings = choose_targets(table)
    if names:
        table.require_declared(names[0])
    both = zip(table.qualifiers, (config.relation_column, config.unit_column), strict=True)
    if recognised := [f"'{name}'" for name, given in both if name is not None and given is None]:
        warnings.append(
            f"Read as an export of ChEMBL, with {listed(recognised)}; other columns by "
            "--relation-column and --unit-column."
        )
    factors = without_unit = None
    if (unit := table.qualifiers.unit) is not None:
        units, smiles = [*map(unquoted, table.cells(unit))], table.cells(config.smiles_column)
        without_unit = np.array([not cell for cell in units])
        factors = factors_to_nanomolar(units, smiles, partial(table.cell, name=unit))
    values = np.empty((len(table.frame), len(names)), dtype=dtype)
    bounds = np.zeros(values.shape, dtype=np.int8)
    columns = _error_columns(names, config)
    errors = np.full(values.shape, np.nan, dtype=dtype)
    targets: list[Target] = []
    issues: list[Issue] = []
    few: list[str] = []
    for number, (name, given) in enumerate(_configured_kinds(names, config).items()):
        column, labels = table.column(name), values[:, number]
        kind, classes = _kind(table, column, given)
        transform, remarks = _transform_of(table, name, kind, factors is not None)
        if classes is not None:
            labels[:] = classes.labels
            warnings += classes.warnings
            unknown = f"is not one of its classes: {', '.join(classes.names)}"
            problems = _issue(table, column, classes.unknown, unknown)
        else:
            labels[:] = column.numbers
            advice = _advice(table, column)
            problems = _issue(table, column, column.bad_rows, "is not a number", advice)
            if kind == "binary":
                odd = "is neither 0 nor 1, neither yes nor no, which a binary target needs"
                problems += _issue(table, column, column.odd_rows, odd)
        if kind == "regression":
            bounds[:, number] = column.bounds
            warnings += _about_numbers(table, column, factors)
            if factors is not None:
                bare, remedy = without_unit & ~np.isnan(labels), "empty the cell, or add the unit"
                problems += _issue(table, column, np.flatnonzero(bare), "has no unit", remedy)
                labels *= factors
                warnings.append(f"{name}: the numbers are converted to nM by their units.")
        if name in config.limits:
            warnings.append(_limit(labels, bounds[:, number], name, kind, config))
        if transform is not None:
            problem = f"has no logarithm, which {transform.scale} needs"
            remedy = "use numbers above 0, or empty cells"
            problems += _issue(table, column, np.flatnonzero(labels <= 0), problem, remedy)
        for issue in problems:
            labels[issue.rows] = np.nan
        if transform is not None:
            labels[:] = transform.forward(labels)
            bounds[:, number] *= transform.sign
        elif kind == "regression" and given is None:
            few += [name] * column.are_few_whole_numbers
        warnings += remarks
        issues += problems
        names_of_classes = () if classes is None else classes.names
        transformed = NO_TRANSFORM if transform is None else transform.name
        targets.append(Target(name, kind, classes=names_of_classes, transform=transformed))
        if name in columns:
            own = _amounts(table, columns[name], "errors are numbers, or blank for the median")
            own = own if factors is None else own * factors
            with prefixed(f"{table.source}, column '{columns[name]}'"):
                errors[:, number], line = learned_errors(targets[-1], own, labels)
            warnings.append(line)
    if few:
        warnings.append(
            f"{', '.join(few)}: few whole numbers, treated as quantities. If they are classes: "
            f"{option('task_type', few[0], 'multiclass')}"
        )
    bounds[np.isnan(values)] = 0
    of_labels = errors if columns else None
    return Labels(
        tuple(targets), values, bounds, tuple(issues), tuple(warnings), of_labels, factors
    )


def _error_columns(names: Sequence[str], config: DataConfig) -> dict[str, str]:
    """Return the column of errors of each target that has one."""
    columns = config.errors
    if "" in columns and len(names) != 1:
        raise ConfigError(
            f"data.error_column names '{columns['']}', and there are {len(names)} targets "
            f"({first_of(names, _MAX_SHOWN)}): {option('error_column', names[0], columns[''])}"
        )
    return {name or names[0]: column for name, column in columns.items()}


def _amounts(table: Columns, name: str, remedy: str) -> np.ndarray:  # (rows,)
    """Return the numbers of a column of weights or errors, NaN for a blank. A cell that is no
    number or negative is a `DataError` with the remedy."""
    require_clear_points(table.frame, name, table.config.decimal, table.source)
    column = table.column(name)
    odd = np.union1d(column.bad_rows, np.flatnonzero(column.bounds))
    odd = np.union1d(odd, np.flatnonzero(column.numbers < 0))
    if len(odd):
        problem = "is not a number of 0 or more"
        raise DataError(_issue(table, column, odd, problem, remedy)[0].message)
    return column.numbers


def read_weights(table: Columns) -> np.ndarray | None:  # (rows,)
    """Return the weight of each row in the loss, 1 for a blank; None without such a column. A
    weight that is no number or negative is a `DataError`, as are weights that are all 0."""
    name = table.config.weight_column
    if name is None:
        return None
    weights = np.nan_to_num(_amounts(table, name, "weights are numbers, or blank for 1"), nan=1)
    if not weights.any():
        raise DataError(f"{table.source}, column '{name}': all weights are 0: set some above 0")
    return weights


def about_features(table: Columns) -> list[str]:
    """Return a line about each feature column; a `DataError` if a model cannot be trained with it,
    see `FeatureColumn.fit`."""
    lines = []
    for name, kind in table.config.features.items():
        cells = table.cells(name)
        if kind != "molecule":
            require_clear_points(table.frame, name, table.config.decimal, table.source)
        column = FeatureColumn.fit(name, cells, partial(table.cell, name=name), kind)
        if kind is None:
            refuse_molecules(column.words, name, table.source)
        lines.append(f"The input '{name}' is read as {column}{column.about_missing(cells)}.")
    return lines


def _configured_kinds(names: Sequence[str], config: DataConfig) -> dict[str, Kind | None]:
    """Return the configured kind of each target, None if it is inferred."""
    for setting in ("task_type", "classes", "transform", "limits", "error_column"):
        by_target = getattr(config, setting)
        for name in by_target if isinstance(by_target, dict) else ():
            if name not in names:
                known = did_you_mean(name, names)
                raise ConfigError(f"data.{setting} names '{name}', which is not a target. {known}")
    kinds = {name: configured_kind(name, config) for name in names}
    for name in config.classes:
        if kinds[name] == "regression":
            raise ConfigError(
                f"data.classes lists the classes of '{name}', but data.task_type makes it "
                "regression: keep one"
            )
    return kinds


def _kind(table: Columns, column: Column, given: Kind | None) -> tuple[Kind, Classes | None]:
    """Return the kind of a target, and its classes if they are words."""
    name, config = column.name, table.config
    words = given != "regression" and column.look_like_classes
    if given == "multiclass" or name in config.classes or words:
        classes = read_classes(table, column, given, config.classes.get(name, ()))
        return classes.kind, classes
    if given != "regression" and 0 < column.bounded == column.count + len(column.bad_rows):
        raise DataError(
            f"{table.source}, column '{name}': all labels are bounds, such as "
            f"'{column.first_bound}', and a regression needs exact numbers, too. If these are "
            f"classes: {option('task_type', name, 'multiclass')}"
        )
    return given or ("regression" if len(column.odd_rows) else "binary"), None


def _about_numbers(table: Columns, column: Column, factors: np.ndarray | None) -> list[str]:
    """Check that numbers have one meaning, and return lines about their bounds; limits are those of
    the numbers that `factors` (rows,) convert."""
    where, config = f"{table.source}, column '{column.name}'", table.config
    require_clear_points(table.frame, column.name, config.decimal, table.source)
    suspect = None if config.missing_values else column.stands_for_missing()
    if suspect is not None:
        number, count = suspect
        raise DataError(
            f"{where}: {counted(count, 'label')} of {number:g}, far from all others. If it stands "
            f"for a missing value: --missing-values={number:g}. If it is a limit of the assay, "
            "write it as a bound, such as >100. Otherwise: --missing-values none"
        )
    if len(numbers := column.distinct):
        rounding = float(np.abs(numbers - numbers.astype(np.float32)).max())
        if problem := too_close("labels", float(numbers[0]), float(numbers[-1]), rounding):
            raise DataError(f"{where}: {problem}")
    lines = []
    if column.bounded:
        lines.append(
            f"{column.bounded:,} of {column.count:,} labels of {column.name} are bounds, such as "
            f"'{column.first_bound}'."
        )
    if column.name not in config.limits and (limits := column.assay_limits(factors)):
        what = [f"{n:,} are {number:g}, and hardly any is {w}" for w, (number, n) in limits.items()]
        ends = [f"{limits[w][0]:.7g}" if w in limits else "" for w in ("smaller", "larger")]
        lines.append(
            f"{column.name}: of {column.count:,} labels {listed(what)}. If the assay has such a "
            f"limit, make them bounds: {option('limits', column.name, ':'.join(ends))}"
        )
    return lines


def _limit(
    values: np.ndarray, bounds: np.ndarray, name: str, kind: Kind, config: DataConfig
) -> str:
    """Turn the labels (rows,) at the limits of the assay or beyond into bounds; return a line."""
    if kind != "regression":
        raise ConfigError(f"data.limits are for regression targets, and '{name}' is {kind}")
    low, high = config.limits[name]
    exact, count = bounds == 0, 0
    for end, sign, beyond in ((low, -1, np.less_equal), (high, 1, np.greater_equal)):
        if end is not None:
            at = exact & beyond(values, end)
            bounds[at], values[at] = sign, end
            count += int(at.sum())
    return f"{count:,} labels of {name} are at a limit of the assay, and count as bounds."


def _issue(
    table: Columns, column: Column, rows: np.ndarray, problem: str, remedy: str = ""
) -> list[Issue]:
    if not len(rows):
        return []
    first = int(rows[0])
    message = f"{table.cell(first, column.name)}: '{column.text(first)}' {problem}"
    if remedy:
        message += f". {counted(len(rows), 'such cell')} in this column; {remedy}"
    return [Issue(column.name, rows, message)]


def _advice(table: Columns, column: Column) -> str:
    name, first, config = column.name, column.first_bad or "", table.config
    advice = "labels are numbers, yes/no, or a few class names, not mixed, or blank if missing"
    if column.are_few_whole_numbers and len(column.texts) <= MAX_CLASSES:
        advice += f". If these are classes: {option('task_type', name, 'multiclass')}"
    if first.endswith("%"):
        advice += f". Write percentages without the % sign, such as {first.rstrip('% ')}"
    if re.fullmatch(WITH_COMMA, first) and config.decimal is None:
        advice += ". If the comma is a decimal mark: --decimal ,"
    if "," not in name and isinstance(table.source, Path) and column.has_exact:
        words = ["molsepnorm", "data", "check", str(table.source), "--targets", name]
        command = shlex.join([*words, "--fix", name_of_copy(table.source)])
        advice += f". A copy in which these cells are empty (with your other options): {command}"
    return advice


def _transform_of(
    table: Columns, name: str, kind: Kind, is_converted: bool
) -> tuple[Transform | None, list[str]]:
    """Return the transform of a target, and lines about it; `is_converted` is whether a column of
    units converts its numbers to nM."""
    transform = transform_of(table.config.transform.get(name, NO_TRANSFORM), name)
    if transform is None:
        return None, []
    if kind != "regression":
        raise ConfigError(
            f"data.transform: {transform.scale} is for regression targets, and '{name}' is {kind}. "
            f"If its labels are numbers: {option('task_type', name, 'regression')}"
        )
    if is_converted and transform.unit not in ("", "nM"):
        raise ConfigError(
            f"data.transform: the column '{table.qualifiers.unit}' converts the numbers of "
            f"'{name}' to nM, and {transform.name} reads {transform.unit}. Write "
            f"{option('transform', name, 'pic50:nM')}, or for numbers that are all in "
            f"{transform.unit}: --unit-column {NONE}"
        )
    if f"{name}_{transform.scale}" in table.names:
        raise ConfigError(
            f"data.transform: predictions of '{name}' would be named {name}_{transform.scale}, as "
            "another column is: rename that column"
        )
    warnings = [f"{name} is learned and scored as {transform}."]
    unit = unit_in(name)
    if transform.unit and not is_converted and unit not in (None, transform.unit):
        warnings.append(
            f"{name}: the name of the column has the unit {unit}, but --transform reads its "
            f"numbers in {transform.unit}. If they are in {unit}: "
            f"{option('transform', name, 'pic50')}"
        )
    return transform, warnings


def choose_targets(table: Columns) -> tuple[tuple[str, ...], list[str]]:
    """Return the targets, by default the only column of numbers beside identifiers and years, and
    lines about them. A column that is missing, occurs twice or has another role is a `ConfigError`;
    an `OpenChoice` lists the columns if none or several have numbers."""
    config = table.config
    for name in config.targets_except:
        if not any(sign in name for sign in "*?["):
            table.require(name, once=False)
    if table.targets is not None:
        taken = config.columns_with_roles(but="targets")
        for name in table.targets:
            table.require(name)
            if name in taken:
                raise ConfigError(f"column '{name}' cannot be a target and something else as well")
        return table.targets, []
    columns = table.candidates()
    numeric = [column for column in columns if column.count > len(column.bad_rows)]
    labels = [column for column in numeric if not _is_no_label(column, alone=len(numeric) == 1)]
    if len(labels) == 1 and not len(labels[0].bad_rows):
        name = labels[0].name
        table.require(name)
        lines = [f"The target is '{name}', the only column of numbers; name others with --targets."]
        if left_out := [column.name for column in numeric if column.name != name]:
            lines.append(f"Identifiers or years: {separated(left_out)}.")
        return (name,), lines
    what = counted(len(numeric), "column") + " with numbers" if numeric else "no column of numbers"
    lines = [_line(column) for column in (numeric or columns)[:_SHOWN]]
    if (more := len(numeric or columns) - _SHOWN) > 0:
        lines.append(f"{more:,} more")
    raise OpenChoice(
        f"{table.source} has {what} beside '{config.smiles_column}', and --targets does not say "
        "what to predict.",
        *(f"  {line}" for line in lines),
    )


def _is_no_label(column: Column, alone: bool) -> bool:
    """Return whether a column has identifiers or years: whole numbers with such a name, all
    different beside another column of numbers, or all between 1900 and 2100."""
    numbers = column.distinct
    if len(column.bad_rows) or not (len(numbers) and column.are_whole):
        return False
    named = len(column.odd_rows) > 0 and _IDENTIFIER.fullmatch(column.name) is not None
    different = not alone and len(numbers) == column.count >= _MIN_DIFFERENT
    return named or different or bool(_YEARS[0] < numbers[0] and numbers[-1] < _YEARS[1])


def _line(column: Column) -> str:
    """Describe the numbers of a column, with an example of other cells."""
    parts = []
    if column.count:
        low, high = (four_digits(end(column.numbers)) for end in (np.nanmin, np.nanmax))
        parts.append(f"{column.count:,} numbers from {low} to {high}")
    if (bad := column.first_bad) is not None:
        comma = re.fullmatch(WITH_COMMA, bad) is not None
        hint = " (if the comma is a decimal mark: --decimal ,)" * comma
        parts.append(f"cells such as '{bad[:40]}'{hint}")
    return f"{column.name}: {', and '.join(parts) or 'empty'}"


class Classes(NamedTuple):
    """A column as classes."""

    kind: Kind
    names: tuple[str, ...]
    labels: np.ndarray
    """float64 (rows,): index of the class; NaN if missing or unknown."""
    unknown: np.ndarray
    """Rows, int64, of cells that are none of the classes that the settings list."""
    warnings: list[str]


def read_classes(
    table: Columns, column: Column, kind: Kind | None, listed: Sequence[str]
) -> Classes:
    """Return a column as classes: binary if there are two, unless its kind is given. `listed` are
    the classes of the settings. Fewer than two classes, too many, or two spellings of one are a
    `DataError`."""
    name = column.name
    text = whole(pd.Series(column.texts, dtype=object)).mask(column.is_blank)
    named = whole(pd.Series(listed, dtype=object)).tolist()
    classes = tuple(named or _in_order(text.dropna().unique().tolist()))
    if kind != "multiclass" and len(classes) == 2 and not named:
        classes = _negative_first(*classes)
    if kind is None:
        kind = "binary" if len(classes) == 2 else "multiclass"
    most = 2 if kind == "binary" else MAX_CLASSES
    if not 2 <= len(classes) <= most:
        other = f". If all are classes: {option('task_type', name, 'multiclass')}"
        shown = f"{counted(len(classes), 'class')} ({first_of(classes, _MAX_SHOWN) or 'none'})"
        raise DataError(
            f"{table.source}, column '{name}': {shown}, and a {kind} target has 2 to {most}"
            f"{other * (2 < len(classes) <= MAX_CLASSES)}"
        )
    first: dict[str, str] = {}
    for code, word in text.dropna().items():
        other = first.setdefault(word_of(word), word)
        if other != word and not named:
            row = int((column.codes == code).argmax())
            raise DataError(
                f"{table.cell(row, name)}: '{word}' and '{other}' would be two classes, and look "
                "like one. Write each class in one way, or list the classes if all are different: "
                f"{option('classes', name, [*classes])}"
            )
    index = {word: float(number) for number, word in enumerate(classes)}
    labels = text.map(index).to_numpy(dtype=np.float64)[column.codes]
    unknown = np.flatnonzero(np.isnan(labels) & ~column.is_blank[column.codes])
    warnings = []
    counts = {word: int((labels == i).sum()) for i, word in enumerate(classes)}
    rare = [f"{word} ({count})" for word, count in counts.items() if count < _FEW]
    if rare and not named:
        warnings.append(
            f"{name}: classes with fewer than {_FEW} rows: {first_of(rare, _MAX_SHOWN)}. "
            "A model hardly learns them: correct wrong spellings, or merge classes."
        )
    if kind == "binary" and not named:
        negative, positive = classes
        warnings.append(
            f"{name} is predicted as the probability of '{positive}'. For that of '{negative}': "
            f"{option('classes', name, [positive, negative])}"
        )
    return Classes(kind, classes, labels, unknown, warnings)


def _negative_first(one: str, other: str) -> tuple[str, str]:
    """Return two classes as negative, positive: "active" is positive, a word that negates the other
    is negative, as is - beside +, and otherwise the first in alphabetical order is negative.

    >>> _negative_first("active", "decoy"), _negative_first("stable", "unstable")
    (('decoy', 'active'), ('unstable', 'stable'))
    """
    words = word_of(one), word_of(other)
    known = ["1" if word == "+" else YES_NO.get(word, "") for word in words]
    swap = known[0] == "1" or known[1] == "0" or words[1].endswith(words[0])
    return (other, one) if swap else (one, other)


def option(setting: str, name: str, value: Any) -> str:
    """Return the command-line option for a setting of a target: --set if the name has a comma, or
    the value is no text."""
    if "," in name or not isinstance(value, str):
        pair = json.dumps({name: value}, ensure_ascii=False)
        return shlex.join(["--set", f"data.{setting}={pair}"])
    return shlex.join([f"--{setting.replace('_', '-')}", f"{name}={value}"])


def whole(text: pd.Series) -> pd.Series:
    """Return the texts with 1 for 1.0, as pandas writes whole numbers among blanks."""
    return text.str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)


def _in_order(classes: Sequence[str]) -> list[str]:
    try:
        return sorted(classes, key=float)
    except ValueError:
        return sorted(classes)
