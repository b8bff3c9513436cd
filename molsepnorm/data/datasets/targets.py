"""Target columns of a table: those that the settings name, or the only column of numbers."""

from __future__ import annotations

import json
import re

import numpy as np

from molsepnorm.data.datasets.columns import Column, Columns
from molsepnorm.errors import ConfigError, OpenChoice, counted, separated
from molsepnorm.tasks.inputs import WITH_COMMA
from molsepnorm.tasks.metrics import four_digits

_SHOWN = 12
"""Maximum number of columns that a message lists."""
_NUMBERING = re.compile(
    r"(.*[_ ])?(id|index|row|number|num|no|nr|cid|sid|key|tag)|name|unnamed: ?\d+|.*id|molregno",
    re.IGNORECASE,
)
_COMPUTED = re.compile(
    "(exact|average|avg|mono(isotopic)?)?(mw|mol(ecular)?w(eigh)?t|(molecular)?(weight|mass))"
    "|[acmswx]?logp(crippen)?|[acmswx]logd|t?psa|(topological)?polarsurfacearea|mr|molarrefractivity"
    "|hb?[ad]|h(ydrogen)?bond(donor|acceptor)s?|donors?|acceptors?|n?rot(atable)?b(onds?)?"
    "|(aromatic)?rings?(count)?|heavyatoms?(count)?|fsp3|fractioncsp3|qed|(formal)?charge|sascore"
    "|lipinski.*|ro5.*|num.*|numberof.*|.*count|.*(predict|calculated|computed|estimated).*"
    "|calc|pred|.*degree"
)
"""Names, without spaces and signs, of properties that are computed from the structure."""
_MIN_DIFFERENT = 20
"""Minimum number of whole numbers that are identifiers because all are different."""
_YEARS = (1900, 2100)
_NAMED_SO, _ALL_DIFFERENT = "named like an identifier", "whole numbers, all different"


def choose_targets(table: Columns) -> tuple[tuple[str, ...], list[str]]:
    """Return the targets, and what to say about them if none are named.

    Without names, the only column of numbers is the target. Identifiers are left out: whole numbers
    that are named like them, or are all different beside another column of numbers.

    Raises:
        ConfigError: a column is missing, is named twice, or has another role.
        OpenChoice: there is not exactly one column of numbers. A target is recommended only if one
            column is left without years and properties that are computed from the structure.
    """
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
        if len(set(table.targets)) < len(table.targets):
            raise ConfigError(f"a target is named twice: {', '.join(table.targets)}")
        return table.targets, []
    columns = table.candidates()
    numeric = [each for each in columns if each.count and each.mostly_numbers]
    reasons = {each.name: _no_label(each) for each in numeric}
    labels = [each for each in numeric if reasons[each.name] is None]
    no_others = {*reasons.values()} <= {None, _NAMED_SO, _ALL_DIFFERENT}
    if len(numeric) == 1 and reasons[numeric[0].name] == _ALL_DIFFERENT:
        labels = numeric
    if len(labels) == 1 and no_others and labels[0].are_numbers:
        name = labels[0].name
        table.require(name)
        line = f"The target is '{name}', the only column of numbers; name others with --targets."
        left_out = [each.name for each in numeric if each.name != name]
        return (name,), [line, *[f"Identifiers: {separated(left_out)}."] * bool(left_out)]
    texts = [each.first_bad or "" for each in columns if not each.count]
    with_comma = next((text for text in texts if re.fullmatch(WITH_COMMA, text)), None)
    if not numeric and with_comma is not None:
        raise ConfigError(
            f"{table.source} has no column of numbers beside '{config.smiles_column}', but cells "
            f"such as '{with_comma}'. If the comma is a decimal mark: --decimal ,"
        )
    lines = [_line(each, reasons[each.name]) for each in numeric[:_SHOWN]]
    lines += [f"{len(numeric) - _SHOWN:,} more"] if len(numeric) > _SHOWN else []
    listed = "".join(f"\n  {line}" for line in lines)
    what = counted(len(numeric), "column") + " with numbers" if numeric else "no column of numbers"
    raise OpenChoice(
        f"{table.source} has {what} beside '{config.smiles_column}', and --targets does not say "
        f"what to predict.{listed or f' Columns: {separated(table.names)}.'}",
        [_option(labels[0].name)] if len(labels) == 1 else [],
    )


def _no_label(column: Column) -> str | None:
    """Return why the numbers of a column are hardly labels, or None."""
    numbers = column.distinct
    whole = column.are_numbers and column.are_whole
    if whole and not column.are_yes_no and _NUMBERING.fullmatch(column.name):
        return _NAMED_SO
    if whole and len(numbers) == column.count >= _MIN_DIFFERENT:
        return _ALL_DIFFERENT
    if whole and _YEARS[0] < numbers[0] and numbers[-1] < _YEARS[1]:
        return "years"
    if _COMPUTED.fullmatch(re.sub(r"[\W_]+", "", column.name).lower()):
        return "named like a computed property"
    return None


def _line(column: Column, reason: str | None) -> str:
    low, high = (four_digits(end(column.numbers)) for end in (np.nanmin, np.nanmax))
    line = f"{column.name}: {column.count:,} numbers from {low} to {high}"
    if column.first_bad is not None:
        line += f", and cells such as '{column.first_bad[:40]}'"
    return f"{line} ({reason})" if reason else line


def _option(name: str) -> list[str]:
    """Return the option that names this target; commas separate names."""
    if "," in name:
        return ["--set", f"data.targets={json.dumps([name], ensure_ascii=False)}"]
    return ["--targets", name]
