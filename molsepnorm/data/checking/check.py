"""`check_table`: check a table before training."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from molsepnorm.data.checking.findings import find
from molsepnorm.data.checking.report import TableReport, TargetSummary
from molsepnorm.data.checking.scan import Scan, scan_table
from molsepnorm.data.datasets.config import DataConfig

__all__ = ["check_table", "report_of"]

_ATOM = re.compile(r"\[[^\]]*\]|Br?|Cl?|[NOPSFI*bcnops]")


def check_table(config: DataConfig) -> TableReport:
    """Check `config.table`; nothing is written.

    Two rows are the same molecule if their canonical SMILES without isotopes and atom-map numbers
    are equal, since a model reads the same graph. Labels of a molecule conflict if classes differ,
    or numbers differ by more than a millionth of their column's standard deviation.

    >>> from pathlib import Path
    >>> report = check_table(DataConfig(table=Path("data/demo.csv")))
    >>> report.rows == report.readable, [finding.kind for finding in report.problems]
    (True, [])

    Raises an error of `scan_table` if the file is not a table of the columns in the settings.
    """
    return report_of(scan_table(config))


def report_of(scan: Scan) -> TableReport:
    """Return the report of a scanned table."""
    sizes = np.array([len(_ATOM.findall(text or "")) for text in scan.canonical])
    return TableReport(
        source=str(scan.config.table),
        rows=len(scan.canonical),
        readable=len(scan.readable),
        molecules=int(scan.molecules.max()) + 1,
        atoms=int(sizes.sum()),
        warnings=scan.labels.warnings,
        targets=tuple(_summaries(scan)),
        splits={name: len(rows) for name, rows in scan.parts.items()},
        findings=tuple(find(scan, sizes)),
    )


def _summaries(scan: Scan) -> Iterator[TargetSummary]:
    labels = scan.labels
    for name, kind, classes, column in zip(
        labels.names, labels.kinds, labels.classes, scan.columns, strict=True
    ):
        present = column[~np.isnan(column)]
        measured = kind == "regression" and len(present) > 0
        names = {"regression": (), "binary": ("0", "1"), "multiclass": classes}[kind]
        yield TargetSummary(
            name,
            kind,
            labels=len(present),
            missing=len(column) - len(present),
            mean=float(present.mean()) if measured else None,
            sd=float(present.std()) if measured else None,
            median=float(np.median(present)) if measured else None,
            min=float(present.min()) if measured else None,
            max=float(present.max()) if measured else None,
            classes={each: int((present == i).sum()) for i, each in enumerate(names)},
        )
