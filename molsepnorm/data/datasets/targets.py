"""Target columns of a table: those that are named, or those that can be guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from pathlib import Path

import numpy as np
import pandas as pd

from molsepnorm.data.datasets.columns import Columns, ParsedColumn
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.errors import ConfigError, InvalidMolecule, OpenChoice, counted, first_of, separated

_SHOWN = 12
"""Maximum number of columns that a message lists."""
_COMPUTED = re.compile(
    "(exact|average|avg|mono(isotopic)?)?(mw|mol(ecular)?w(eigh)?t|(molecular)?(weight|mass))"
    "|[acmswx]?logp(crippen)?|[acmswx]logd|t?psa|(topological)?polarsurfacearea|mr|molarrefractivity"
    "|hb?[ad]|h(ydrogen)?bond(donor|acceptor)s?|donors?|acceptors?|n?rot(atable)?b(onds?)?"
    "|(aromatic)?rings?(count)?|heavyatoms?(count)?|fsp3|fractioncsp3|qed|(formal)?charge|sascore"
    "|lipinski.*|ro5.*|num.*|numberof.*|.*count|.*(predicted|calculated|computed|estimated).*"
    "|calc|pred|.*degree"
)
"""Names, without spaces and signs, of properties that are computed from the structure."""
_ACCOMPANYING = re.compile(
    "fold|split|set|part|group|cluster|weights?|sd|std|stdev|sem|error|n|count|replicates?|year"
    "|date|batch|plate|temperature|ph|conc(entration)?"
)
"""Names of numbers that accompany a measured property."""
_IDENTIFYING = re.compile(
    ".*(id|ids|name|names|index|key|code|no|nr|number|split|set|fold|smiles|inchi|formula)"
    "|.*(compound|molecule|drug|structure|source|reference|doi|title|link|url|iupac|cas|comments?|notes?|remarks?)"
    "|mol|row|unnamed[0-9]*"
)
"""Names of columns of words that tables of labels have besides the labels."""
_CHECKED = 20
"""Number of molecules whose descriptors are compared with a column."""
_MAX_PAIRED = 20
"""Maximum number of columns that are compared with each other."""
_MIN_PAIRED = 10
"""Minimum number of different values of columns that are compared with each other."""
_SAME_ORDER = 0.999
"""Minimum rank correlation of a column and another one that was computed from it and rounded."""


def choose_targets(
    table: Columns, config: DataConfig, strict: bool = True
) -> tuple[tuple[str, ...], list[str]]:
    """Return the targets, and what to say about them if they were guessed.

    Without names, the only column of numbers is the target. Several are targets if the table has
    nothing but SMILES, identifiers and numbers, and none of these looks as if it was computed from
    the structure or from another one. In other tables the choice is open.

    Args:
        table: the columns.
        config: the roles of the columns.
        strict: raise an error if the choice is open; otherwise return all columns of numbers.

    Raises:
        ConfigError: a column is missing, is named twice, or has another role; or there is none of
            numbers.
        OpenChoice: several columns could be targets.
    """
    for name in config.ignore_columns:
        table.require(name, once=False)
    taken = config.columns_with_roles(but="targets")
    if config.targets:
        for name in config.targets:
            table.require(name)
            if name in taken:
                raise ConfigError(f"column '{name}' cannot be a target and something else as well")
        if len(set(config.targets)) < len(config.targets):
            raise ConfigError(f"a target is named twice: {', '.join(config.targets)}")
        return tuple(config.targets), []
    candidates = [table.parsed[number] for number in sorted(table.parsed)]
    candidates = [each for each in candidates if each.name not in taken]
    named = {*config.classes, *config.transform}
    named |= {*(config.task_type if isinstance(config.task_type, dict) else ())}
    numeric = [each for each in candidates if each.name in named or each.all_numbers()]
    for each in numeric:
        table.require(each.name)
    numbering = [
        each.name for each in numeric if each.name not in named and each.look_like_numbering()
    ]
    names = [each.name for each in numeric if each.name not in numbering]
    rest = [each for each in candidates if each not in numeric]
    nearly = [each for each in rest if each.mostly_numbers() or each.numbers_with_units()]
    left_out = []
    if numbering:
        numbers = separated(numbering)
        left_out.append(f"Not used as targets: {numbers} (they look like identifiers).")
    if nearly:
        left_out.append(f"Not used as targets: {_with_words(nearly)}.")
    if not names:
        raise ConfigError(
            f"{table.source} has no column of numbers to predict beside "
            f"'{config.smiles_column}'. Columns: {separated(table.names)}. Name one with "
            + " ".join(["--targets.", *left_out]).rstrip(".")
        )
    if isinstance(table.source, Path):
        words = [each.name for each in rest if each.bad and each not in nearly]
        words = [name for name in words if not _IDENTIFYING.fullmatch(_plain(name))]
        unsure = [each for each in numeric if each.name in names and each.name not in named]
        if (error := _open_choice(table, config, unsure, nearly, words, names)) is not None:
            if strict:
                raise error
            return tuple(names), left_out
    guess = "The targets are all columns of numbers; name others with --targets."
    return tuple(names), [guess, *left_out]


def _open_choice(
    table: Columns,
    config: DataConfig,
    unsure: Sequence[ParsedColumn],
    nearly: Sequence[ParsedColumn],
    words: Sequence[str],
    names: Sequence[str],
) -> OpenChoice | None:
    """Return why the targets cannot be guessed, or None if they can.

    Args:
        table: the columns.
        config: the roles of the columns.
        unsure: columns of numbers whose kind or classes are not configured.
        nearly: columns of numbers with some words or with units.
        words: columns of words that are no identifiers.
        names: all columns that would be targets.
    """
    nearly = [each for each in nearly if not _is_detail(each)]
    several = len(names) + len(nearly) > 1
    if not unsure or not (several or words):
        return None
    odd = {}
    for each in unsure if several else ():
        if _COMPUTED.fullmatch(_plain(each.name)):
            odd[each.name] = "named like properties that are computed from the structure"
        elif _ACCOMPANYING.fullmatch(_plain(each.name)) or each.named_like_numbering:
            odd[each.name] = "named like details of the experiment or the table"
    odd |= {
        name: f"equal to RDKit's descriptor {descriptor}"
        for name, descriptor in _descriptors(table, config, unsure)
    }
    by_reason: dict[str, list[str]] = {}
    for name, reason in odd.items():
        by_reason.setdefault(reason, []).append(name)
    reasons = [f"{first_of(columns, _SHOWN)}: {reason}" for reason, columns in by_reason.items()]
    reasons += [
        f"{one}, {other}: the same order of molecules, as if one was computed from the other"
        for one, other in _same_order(config, [each for each in unsure if each.name not in odd])
    ]
    reasons += [_with_words(nearly)] if nearly else []
    reasons += [f"{first_of(words, _SHOWN)}: words"] if words and (several or odd) else []
    if not reasons:
        return None
    found = [*names, *(each.name for each in nearly)]
    likely = [name for name in (found if several else words) if name not in odd] or found
    choices = [likely]
    if 1 < len(likely) <= 3:
        choices = [*([name] for name in likely), likely]
    return OpenChoice(
        f"{table.source} has {counted(len(found), 'column')} of numbers or yes/no "
        f"({first_of(found, _SHOWN)}), and --targets does not say what to predict. "
        f"{'; '.join(reasons[:4])}",
        [_option(choice) for choice in choices],
    )


def _is_detail(column: ParsedColumn) -> bool:
    """Return whether a column of numbers with words or units is named like row numbers, or like a
    temperature of the experiment."""
    accompanies = _ACCOMPANYING.fullmatch(_plain(column.name)) is not None
    return column.named_like_numbering or (accompanies and column.numbers_with_units())


def _option(names: Sequence[str]) -> list[str]:
    """Return the option that names these targets."""
    if len(names) > _SHOWN:
        return ["--targets", "COLUMN,COLUMN"]
    if any("," in name for name in names):
        return ["--set", f"data.targets={json.dumps([*names], ensure_ascii=False)}"]
    return ["--targets", ",".join(names)]


def _descriptors(
    table: Columns, config: DataConfig, columns: Sequence[ParsedColumn]
) -> Iterator[tuple[str, str]]:
    """Yield each column that equals a descriptor of RDKit, and the name of the descriptor.

    The first molecules that can be read are compared. Values may be rounded to three digits. A
    column needs five different values, since small integers agree by chance.
    """
    from molsepnorm.molecules.featurize.descriptors import DESCRIPTORS, structure_inputs

    if config.task_type == "multiclass":  # such columns are read as texts
        return
    values: list[np.ndarray] = []
    rows: list[int] = []
    for row, text in islice(enumerate(table.smiles), 10 * _CHECKED):
        try:
            values.append(structure_inputs([text], False, DESCRIPTORS)[0])
        except InvalidMolecule:
            continue
        rows.append(row)
        if len(rows) == _CHECKED:
            break
    if not rows:
        return
    computed = np.stack(values)  # (n, D)
    for column in columns:
        own = column.numbers()[rows].astype(np.float64)[:, None]
        known = ~np.isnan(own[:, 0])
        if len(np.unique(own[known])) < 5:
            continue
        same = np.isclose(computed[known], own[known], rtol=1e-3, atol=0.02).all(axis=0)
        same &= np.ptp(computed[known], axis=0) > 0.2
        if same.any():
            yield column.name, DESCRIPTORS[int(same.argmax())]


def _same_order(config: DataConfig, columns: Sequence[ParsedColumn]) -> Iterator[tuple[str, str]]:
    """Yield the names of two columns with the same or the reverse order, such as IC50 and pIC50."""
    if config.task_type == "multiclass" or len(columns) > _MAX_PAIRED:
        return
    for one, other in combinations(columns, 2):
        pair = pd.DataFrame({0: one.numbers(), 1: other.numbers()}).dropna()
        if pair.nunique().min() >= _MIN_PAIRED:
            correlation = pair.corr("spearman").loc[0, 1]
            if abs(correlation) > _SAME_ORDER:
                yield one.name, other.name


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _with_words(columns: Sequence[ParsedColumn]) -> str:
    assert columns[0].first_bad is not None
    names = first_of([each.name for each in columns], _SHOWN)
    return f"{names}: some cells are not numbers, such as '{columns[0].first_bad[1]}'"
