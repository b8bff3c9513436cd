"""Find bounds, numbers with a unit, and numbers whose logarithm should be learned."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import numpy as np

from molsepnorm.data.checking.findings import found, group, some
from molsepnorm.data.checking.report import Finding, Group
from molsepnorm.data.checking.scan import Scan
from molsepnorm.data.datasets.cells import parse_cells
from molsepnorm.errors import ConfigError, counted
from molsepnorm.tasks.metrics import four_digits
from molsepnorm.tasks.transforms import transform_of

_RANGE = 1000.0
"""Positive numbers whose largest is this many times the smallest are spread over powers of ten."""

_MOLAR = re.compile(r"M[)\] ]*$")  # ic50_nM, but not wavelength_nm
_POTENCY = re.compile(r"(IC|EC|AC|DC|CC|GI|XC)_?50|K[id](?![a-z])|conc|activity|potency", re.I)


def measurements(scan: Scan) -> Iterator[Finding]:
    """Yield findings about bounds and scales."""
    yield from _only_bounds(scan)
    yield from _decades(scan)
    yield from _bounds(scan)


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


def _only_bounds(scan: Scan) -> Iterator[Finding]:
    """Find columns of bounds without a number, which cannot be learned as numbers."""
    config, groups = scan.config, []
    used = config.columns_with_roles(but="targets")
    names = list(scan.table.columns)
    for name in config.targets or [each for each in names if names.count(each) == 1]:
        if name in used:
            continue
        numbers, bounds, bad = parse_cells(scan.table[name])
        rows = np.flatnonzero(bounds)
        if len(rows) and not bad.any() and not (np.isfinite(numbers) & (bounds == 0)).any():
            groups.append(group(scan, f"{name}: {some(scan.table[name].iloc[rows])}", rows))
    text = (
        f"only bounds: {counted(len(groups), 'column')} without any exact number. A regression "
        "cannot be learned from bounds alone: add exact numbers, or replace the bounds by yes/no"
    )
    yield from found("only-bounds", True, len(groups), text, groups)


def _decades(scan: Scan) -> Iterator[Finding]:
    labels, groups, pairs = scan.labels, [], []
    transforms = dict(zip(labels.names, labels.transforms or (), strict=False))
    for i, (name, kind) in enumerate(zip(labels.names, labels.kinds, strict=True)):
        values = labels.values[scan.readable, i]
        exact = scan.columns[i][~np.isnan(scan.columns[i])]
        chosen = transforms.get(name) not in (None, "none") or name in scan.config.transform
        if kind != "regression" or chosen or not len(exact) or np.nanmin(values) <= 0:
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
    text = (
        "positive numbers over three or more powers of ten: "
        f"{counted(len(groups), 'target')}. Their logarithm is easier to learn"
    )
    options = {"--transform": ",".join(pairs)} if pairs else {}
    yield from found("decades", False, len(groups), text, groups, options)


def _bounds(scan: Scan) -> Iterator[Finding]:
    groups = []
    for i, name in enumerate(scan.labels.names):
        rows = scan.readable[scan.bounds[scan.readable, i] != 0]
        if len(rows):
            groups.append(group(scan, f"{name}: {some(scan.table[name].iloc[rows])}", rows))
    count = sum(each.count for each in groups)
    text = (
        f"bounds: {counted(count, 'label')}. Training uses them without any option: for the "
        "network a prediction beyond a bound has no loss, the kernel regression and the forest "
        "read a bound as the number, and scores use exact labels only"
    )
    yield from found("bounds", False, count, text, groups)
