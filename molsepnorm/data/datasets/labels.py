"""Labels of a table: which columns are targets, the kind of each, and the numbers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.cells import YES_NO, blank_classes, word_of
from molsepnorm.data.datasets.columns import Cell, Columns, ParsedColumn, configured_kind
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.dataset import BOUNDS, Dataset
from molsepnorm.data.datasets.qualifiers import factors_to_nanomolar, require_declared
from molsepnorm.data.datasets.targets import choose_targets
from molsepnorm.data.store import GraphStore
from molsepnorm.data.tables import unclear
from molsepnorm.errors import ConfigError, DataError, counted, did_you_mean, first_of
from molsepnorm.files.tables import name_of_copy
from molsepnorm.tasks import FeatureColumn
from molsepnorm.tasks.inputs import WITH_COMMA
from molsepnorm.tasks.metrics import Kind
from molsepnorm.tasks.rounding import too_close
from molsepnorm.tasks.transforms import NO_TRANSFORM, Transform, transform_of, unit_in

MAX_CLASSES = 100
"""A column with more distinct words holds names or notes, not classes."""
_FEW = 5
"""A warning names the classes with fewer rows."""
_MAX_SHOWN = 5
"""Maximum number of classes that the warning names."""


@dataclass(frozen=True)
class Labels:
    """The labels of every row of a table."""

    names: tuple[str, ...]
    """Columns of the T targets."""
    kinds: tuple[Kind, ...]
    """Kind of each target."""
    classes: tuple[tuple[str, ...], ...]
    """Class names of each target; empty for numbers, and for a binary target of 0 and 1 or yes and
    no."""
    values: np.ndarray
    """float64 or float32 [rows, T]: numbers (transformed), 0 or 1, or the index of a class; NaN if
    missing."""
    warnings: tuple[str, ...] = ()
    """Guesses about the table, for the user."""
    transforms: tuple[str, ...] = ()
    """Transform of each target; () if there is none."""
    bounds: np.ndarray | None = None
    """int8 [rows, T]: 1 where the value is at least the label, -1 where it is at most the label, 0
    where it equals the label; None if there are no bounds."""
    factors: np.ndarray | None = None
    """float64 [rows]: by what the numbers of the table were multiplied; None if by nothing."""

    @property
    def bound_signs(self) -> np.ndarray:
        """int8 [rows, T]: `bounds`, or 0 everywhere if there are none."""
        return np.zeros(self.values.shape, np.int8) if self.bounds is None else self.bounds

    def without_weight_0(self, weights: np.ndarray | None) -> Labels:
        """Return the labels without those of rows of weight 0, which do not count.

        Args:
            weights: (rows,); None for equal weights.
        """
        if weights is None or weights.all():
            return self
        out = weights == 0
        values, bounds = self.values.copy(), None if self.bounds is None else self.bounds.copy()
        values[out] = np.nan
        if bounds is not None:
            bounds[out] = 0
        return replace(self, values=values, bounds=bounds)

    def dataset(
        self,
        name: str,
        store: GraphStore,
        weights: np.ndarray | None,  # (rows,)
        smiles: Sequence[str] | None,
        features: Mapping[str, Sequence[str]],  # (rows,) each
    ) -> Dataset:
        """Return the data set of the molecules in a store, without splits."""
        bounds = None if self.bounds is None else self.bounds[store.rows]
        return Dataset(
            name=name,
            store=store,
            labels=self.values[store.rows].astype(np.float32),
            targets=self.names,
            kinds=self.kinds,
            classes=self.classes,
            splits={},
            weights=None if weights is None else weights[store.rows].astype(np.float32),
            rejected=store.rejected,
            smiles=smiles,
            columns={name: [cells[r] for r in store.rows] for name, cells in features.items()},
            warnings=self.warnings,
            transforms=self.transforms,
            arrays={} if bounds is None else {BOUNDS: bounds},
        )


def read_labels(
    table: Columns, config: DataConfig, invalid: dict[str, np.ndarray] | None = None
) -> Labels:
    """Return the labels of a table of text, as configured or as they look.

    Args:
        table: what `parse_columns` returned.
        config: the roles of the columns.
        invalid: receives the rows of cells that do not fit their target, which then count as
            missing; without it they are errors.

    Raises:
        ConfigError: a column is missing or named twice; no target is named, and there is not
            exactly one column of numbers (`OpenChoice`); or a transform is for a target that is not
            a number.
        DataError: a cell does not fit its target, or cannot be transformed.
    """
    names, warnings = choose_targets(table, config)
    warnings += table.notes
    if names:
        declared = config.relation_column, config.unit_column
        require_declared(table.words, *declared, names[0], table.source)
    factors = None
    if (unit_column := table.qualifiers.unit) is not None:
        where = partial(table.cell, name=unit_column)
        factors = factors_to_nanomolar(table.units, table.smiles, where)
    configured = _configured_kinds(names, config)
    kinds: list[Kind] = []
    classes: list[tuple[str, ...]] = []
    values = np.empty((len(table.index), len(names)), dtype=table.dtype)
    bounds = None
    few = []
    for number, (name, given) in enumerate(configured.items()):
        kind, values[:, number], of_column = _column(table, name, given, config, invalid)
        kinds.append(kind)
        classes.append(of_column)
        if name not in config.classes:
            warnings += _rare_classes(name, values[:, number], of_column)
            if kind == "binary" and of_column:
                negative, positive = of_column
                warnings.append(
                    f"{name} is predicted as the probability of '{positive}'. For that of "
                    f"'{negative}': {_option_of_classes(name, [positive, negative])}"
                )
        column = table.column(name)
        if kind == "regression" and (offset := column.offset) is not None:
            raise DataError(
                f"{table.source}, column '{name}': {too_close('labels', f'{offset:.9g}')}"
            )
        if kind == "regression" and column.bounded:
            bounds = np.zeros(values.shape, dtype=np.int8) if bounds is None else bounds
            bounds[:, number] = column.bounds()
            assert column.first_bound is not None
            warnings.append(
                f"{column.bounded:,} of {np.isfinite(values[:, number]).sum():,} labels of {name} "
                f"are bounds, such as '{column.first_bound[1].strip()}'."
            )
        if factors is not None and kind == "regression":
            _require_units(table, name, factors, values[:, number], invalid)
            values[:, number] *= factors
            warnings.append(f"{name}: the numbers are converted to nM by their units.")
        if (transform := transform_of(config.transform.get(name, NO_TRANSFORM), name)) is not None:
            _transform(table, name, kind, transform, values[:, number], invalid)
            if bounds is not None:
                bounds[:, number] *= transform.sign
            warnings.append(f"{name} is learned and scored as {transform}.")
            if transform.unit and (unit := unit_in(name)) not in (None, transform.unit):
                warnings.append(
                    f"{name}: the name of the column has the unit {unit}, but --transform reads "
                    f"its numbers in {transform.unit}. If they are in {unit}: "
                    f"{_option('transform', name, 'pic50')}"
                )
        elif given is None and kind == "regression":
            few += [name] * column.are_few_whole_numbers()
    if few:
        warnings.append(
            f"{', '.join(few)}: few whole numbers, treated as quantities. If they are classes: "
            f"{option_of_kind(few[0], 'multiclass')}"
        )
    if bounds is not None:
        bounds[np.isnan(values)] = 0  # of cells that do not fit
    transforms = tuple(config.transform.get(name, NO_TRANSFORM) for name in names)
    return Labels(
        *(names, tuple(kinds), tuple(classes), values, tuple(warnings)),
        transforms=transforms if {*transforms} != {NO_TRANSFORM} else (),
        bounds=bounds,
        factors=factors,
    )


def read_weights(table: Columns, config: DataConfig) -> np.ndarray | None:  # (rows,)
    """Return the weight of each row in the loss, 1 for a blank; None without such a column.

    Raises:
        ConfigError: the column is missing.
        DataError: a weight is not a number, or negative, or all are 0.
    """
    name = config.weight_column
    if name is None:
        return None
    table.require(name)
    column = table.column(name)
    bound = column.first_bound
    if (odd := min(filter(None, (column.first_bad, bound)), default=None)) is not None:
        raise _not_a_number(table, name, odd, column, "weights are numbers, or blank for 1")
    weights = np.nan_to_num(column.numbers(), nan=1)
    if (weights < 0).any():
        row = int((weights < 0).argmax())
        raise DataError(
            f"{table.cell(row, name)}: the weight {weights[row]:g} is negative; weights are 0 or "
            "more"
        )
    if not weights.any():
        raise DataError(
            f"{table.source}, column '{name}': all weights are 0, so no row would count"
        )
    return weights


def read_features(table: Columns, config: DataConfig, check: bool = True) -> dict[str, list[str]]:
    """Return the cells of the feature columns, by name.

    Args:
        table: what `parse_columns` returned.
        config: the roles of the columns.
        check: require columns that a model can be trained with, see `FeatureColumn.fit`.

    Raises:
        ConfigError: a column is missing.
        DataError: a column cannot be an input.
    """
    for name, cells in table.features.items():
        table.require(name)
        if check:
            FeatureColumn.fit(name, cells, partial(table.cell, name=name))
    return table.features


_Column = tuple[Kind, np.ndarray, tuple[str, ...]]  # kind, labels (rows,), classes


def _configured_kinds(names: Sequence[str], config: DataConfig) -> dict[str, Kind | None]:
    """Return the configured kind of each target, None for those to guess."""
    kinds = config.task_type
    for option, keys in (
        ("task_type", kinds if isinstance(kinds, dict) else {}),
        ("classes", config.classes),
        ("transform", config.transform),
    ):
        for name in keys:
            if name not in names:
                raise ConfigError(
                    f"data.{option} names '{name}', which is not a target. "
                    f"{did_you_mean(name, names)}"
                )
    found = {name: configured_kind(name, config) for name in names}
    for name in config.classes:
        if found[name] == "regression":
            raise ConfigError(
                f"data.classes lists the classes of '{name}', but data.task_type makes it "
                "regression: keep one"
            )
    return found


def _column(
    table: Columns,
    name: str,
    kind: Kind | None,
    config: DataConfig,
    invalid: dict[str, np.ndarray] | None,
) -> _Column:
    column = table.column(name)
    words = kind != "regression" and column.look_like_classes()
    if kind == "multiclass" or name in config.classes or words:
        return _classes(table, name, kind, config, invalid)
    if kind != "regression" and column.only_bounds():
        assert column.first_bound is not None
        raise DataError(
            f"{table.source}, column '{name}': all labels are bounds, such as "
            f"'{column.first_bound[1].strip()}', and a regression needs exact numbers, too. If "
            f"these are classes: {option_of_kind(name, 'multiclass')}"
        )
    if kind is None:
        kind = "binary" if column.are_yes_no() else "regression"
    if column.has_unclear_points:
        assert column.first_unclear is not None
        row, text = column.first_unclear
        raise unclear(text, table.cell(row, name))
    suspect = None if config.missing_values else column.stands_for_missing()
    if kind == "regression" and suspect is not None:
        number, count = suspect
        raise DataError(
            f"{table.source}, column '{name}': {counted(count, 'label')} of {number:g}, far from "
            f"all others. If it stands for a missing value: --missing-values={number:g}. If it is "
            "a limit of the assay, write it as a bound, such as >100. Otherwise: --missing-values "
            "none"
        )
    values = column.numbers()
    if (bad := column.first_bad) is not None:
        _set_aside(
            column.bad_rows(),
            name,
            invalid,
            lambda: _not_a_number(table, name, bad, column, _advice(table, name, config)),
        )
    if kind == "binary" and (first_odd := column.first_odd) is not None:
        odd = (column.bounds() != 0) | ~(np.isnan(values) | (values == 0) | (values == 1))
        _set_aside(
            np.flatnonzero(odd),
            name,
            invalid,
            lambda: DataError(
                f"{table.cell(first_odd[0], name)}: '{first_odd[1]}' is neither 0 nor 1, neither "
                "yes nor no, as a label of a binary target must be"
            ),
        )
        values[odd] = np.nan
    return kind, values, ()


def _set_aside(
    rows: np.ndarray,
    name: str,
    invalid: dict[str, np.ndarray] | None,
    error: Callable[[], DataError],
) -> None:
    """Add rows of cells that do not fit a target to `invalid`, or raise the error without it."""
    if len(rows) and invalid is None:
        raise error()
    if len(rows) and invalid is not None:
        invalid[name] = np.union1d(invalid.get(name, rows), rows)


def option_of_kind(name: str, kind: Kind) -> str:
    """Return the option that sets the kind of a target."""
    return _option("task_type", name, kind)


def _option(setting: Literal["task_type", "transform"], name: str, value: str) -> str:
    """Return the option that sets the kind or the transform of a target."""
    if "," in name:  # separates targets in the other option
        pair = json.dumps({name: value}, ensure_ascii=False)
        return shlex.join(["--set", f"data.{setting}={pair}"])
    return shlex.join([f"--{setting.replace('_', '-')}", f"{name}={value}"])


def _advice(table: Columns, name: str, config: DataConfig) -> str:
    """Return what labels are, and what to do about other cells."""
    column = table.column(name)
    advice = "labels are numbers, yes/no, or a few class names, not mixed, or blank if missing"
    if column.could_be_classes(MAX_CLASSES):
        advice += f". If these are classes: {option_of_kind(name, 'multiclass')}"
    first = "" if column.first_bad is None else column.first_bad[1].strip()
    if first.endswith("%"):
        advice += f". Write percentages without the % sign, such as {first.rstrip('% ')}"
    if re.fullmatch(WITH_COMMA, first) and config.decimal is None:
        advice += ". If the comma is a decimal mark: --decimal ,"
    if "," not in name and isinstance(table.source, Path) and column.first_number is not None:
        words = ["molsepnorm", "data", "check", str(table.source)]
        if config.smiles_column != "smiles":
            words += ["--smiles-column", config.smiles_column]
        kind = configured_kind(name, config)
        words += ["--targets", name, *(["--task-type", kind] if kind else [])]
        transform = config.transform.get(name)
        words += ["--transform", f"{name}={transform}"] if transform else []
        words += ["--fix", name_of_copy(table.source)]
        advice += f". A copy in which these cells are empty: {shlex.join(words)}"
    return advice


def _require_units(
    table: Columns,
    name: str,
    factors: np.ndarray,
    values: np.ndarray,
    invalid: dict[str, np.ndarray] | None,
) -> None:
    """Check that each number (rows,) has a unit."""
    bare = np.array([not unit.strip() for unit in table.units])
    rows = np.flatnonzero(bare & ~np.isnan(values))
    _set_aside(
        rows,
        name,
        invalid,
        lambda: DataError(
            f"{table.cell(int(rows[0]), name)}: the number has no unit. "
            f"{counted(len(rows), 'such cell')} in this column; empty the cell, or add the unit"
        ),
    )


def _transform(
    table: Columns,
    name: str,
    kind: Kind,
    transform: Transform,
    values: np.ndarray,
    invalid: dict[str, np.ndarray] | None,
) -> None:
    """Transform the labels (rows,) of a target in place."""
    if kind != "regression":
        raise ConfigError(
            f"data.transform: {transform.scale} is for regression targets, and '{name}' is {kind}. "
            f"If its labels are numbers: {option_of_kind(name, 'regression')}"
        )
    if f"{name}_{transform.scale}" in table.names:
        raise ConfigError(
            f"data.transform: predictions of '{name}' would be named {name}_{transform.scale}, as "
            "another column is: rename that column"
        )
    rows = np.flatnonzero(values <= 0)
    _set_aside(
        rows,
        name,
        invalid,
        lambda: DataError(
            f"{table.cell(int(rows[0]), name)}: {values[rows[0]]:g} has no logarithm, which "
            f"{transform.scale} needs. {counted(len(rows), 'such cell')} in this column; use "
            "numbers above 0, or empty cells"
        ),
    )
    values[rows] = np.nan
    values[:] = transform.forward(values)


def _classes(
    table: Columns,
    name: str,
    kind: Kind | None,
    config: DataConfig,
    invalid: dict[str, np.ndarray] | None,
) -> _Column:
    """Return a column of classes: binary if there are two, unless its kind is given."""
    codes, text = table.column(name).texts()
    text = whole(text.str.strip())
    blank = blank_classes(text).to_numpy()
    found = text[~blank].unique().tolist()
    named = whole(pd.Series(config.classes.get(name, ()), dtype=object)).tolist()
    classes = tuple(named or sorted(found, key=_sort_key(found)))
    if kind != "multiclass" and len(found) == 2 and not named:
        classes = _negative_first(*classes)
    if len(classes) > MAX_CLASSES:
        raise DataError(
            f"{table.source}, column '{name}': {len(classes):,} different values, such as "
            f"'{classes[0]}'; a multi-class target has at most {MAX_CLASSES} classes"
        )
    if kind is None:
        kind = "binary" if len(classes) == 2 else "multiclass"
    if kind == "binary" and len(classes) > 2:
        raise DataError(
            f"{table.source}, column '{name}': a binary target has two classes, found "
            f"{first_of(classes, _MAX_SHOWN)}. If all are classes: "
            f"{option_of_kind(name, 'multiclass')}"
        )
    if len(classes) < 2:
        raise DataError(
            f"{table.source}, column '{name}': a multi-class target needs two classes or more, "
            f"found {', '.join(classes) or 'none'}"
        )
    first: dict[str, str] = {}
    for each in () if named else found:
        if (other := first.setdefault(word_of(each), each)) != each:
            row = int((codes == (text == each).argmax()).argmax())
            raise DataError(
                f"{table.cell(row, name)}: '{each}' and '{other}' would be two classes, and look "
                "like one. Write each class in one way, or list the classes if all are different: "
                + _option_of_classes(name, classes)
            )
    unknown = np.flatnonzero(~blank & ~text.isin(classes).to_numpy())
    rows = np.flatnonzero(np.isin(codes, unknown))
    _set_aside(
        rows,
        name,
        invalid,
        lambda: DataError(
            f"{table.cell(int(rows[0]), name)}: '{text[codes[rows[0]]]}' is not one of its "
            f"classes: {', '.join(classes)}"
        ),
    )
    index = {each: float(number) for number, each in enumerate(classes)}
    return kind, text.map(index).to_numpy(dtype=np.float64)[codes], classes


def _negative_first(one: str, other: str) -> tuple[str, str]:
    """Return two classes in the order negative, positive, which does not depend on their numbers.

    A word such as "active" is positive, and one that negates the other is negative. Of other words,
    the first one in alphabetical order is negative.

    >>> _negative_first("active", "decoy"), _negative_first("stable", "unstable")
    (('decoy', 'active'), ('unstable', 'stable'))
    """
    words = word_of(one), word_of(other)
    known = [YES_NO.get(word, "") for word in words]
    swap = known[0] == "1" or known[1] == "0" or words[1].endswith(words[0])
    return (other, one) if swap else (one, other)


def _option_of_classes(name: str, classes: Sequence[str]) -> str:
    listed = json.dumps({name: [*classes]}, ensure_ascii=False)
    return shlex.join(["--set", f"data.classes={listed}"])


def whole(text: pd.Series) -> pd.Series:
    """Return the texts with 1 in place of 1.0, as pandas writes whole numbers among blanks."""
    return text.str.replace(r"^([+-]?\d+)\.0+$", r"\1", regex=True)


def _rare_classes(name: str, labels: np.ndarray, classes: Sequence[str]) -> list[str]:
    """Return a warning about the classes (none unless the target is multi-class) with few of the
    labels (rows,); [] if there are none."""
    counts = {each: int((labels == i).sum()) for i, each in enumerate(classes)}
    rare = [f"{each} ({count})" for each, count in counts.items() if count < _FEW]
    if not rare:
        return []
    return [
        f"{name}: classes with fewer than {_FEW} rows: {first_of(rare, _MAX_SHOWN)}. "
        "A model hardly learns them: correct wrong spellings, or merge classes."
    ]


def _sort_key(values: Sequence[str]) -> Callable[[str], float | str]:
    """Return the sort key of classes: by value if all are numbers, otherwise by text."""
    try:
        [float(value) for value in values]
    except ValueError:
        return str
    return float


def _not_a_number(
    table: Columns, name: str, cell: Cell, column: ParsedColumn, expected: str
) -> DataError:
    row, text = cell
    count = max(len(column.bad_rows()), 1)
    return DataError(
        f"{table.cell(row, name)}: '{text}' is not a number. {counted(count, 'such cell')} in this "
        f"column; {expected}"
    )
