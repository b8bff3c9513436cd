"""Whether cost per molecule and memory stay the same from ten thousand rows to a million."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
from commands import OURS, Usage, measured, script
from molecules import zinc_table
from settings import Settings
from turns import Asked, Row

from stages.models import slim

__all__ = ["scaling"]

_PREPARE = """
import sys
from molsepnorm import datasets
from molsepnorm.data.datasets import DataConfig
from molsepnorm.molecules.encodings import EncodingSpec

config = DataConfig(table=sys.argv[1], targets=("y",), featurizer="zinc")
datasets.load(config, EncodingSpec((3,)))
"""


def scaling(settings: Settings) -> list[Row]:
    """`predict` and preparing a table, each at three sizes, once; the start, measured on two
    hundred rows, is taken off the time."""
    sizes = (500, 1_000) if settings.quick else (10_000, 100_000, 1_000_000)
    rows = []
    for what, work in (("predict", _predict), ("prepare a table", _prepare)):
        start = work(settings, 200)
        usages = {size: work(settings, size) for size in sizes}
        costs = {size: (usages[size].seconds - start.seconds) / (size - 200) for size in sizes}
        first = sizes[0]
        for size in sizes:
            remark = f"{usages[size].seconds:,.0f} s in all"
            for label, unit, value, at_first in (
                ("", "µs a molecule", 1e6 * costs[size], 1e6 * costs[first]),
                (": peak memory", "GiB", usages[size].memory, usages[first].memory),
            ):
                rows.append(
                    Row(
                        "scaling",
                        f"{what}, {size:,} rows{label}",
                        unit,
                        [value],
                        [at_first] if size != first else (),
                        f"ours at {first:,} rows",
                        asked=Asked("growth", 0.1) if size != first else None,
                        remark=remark,
                    )
                )
    return rows


def _table(settings: Settings, rows: int) -> Path:
    """ZINC's validation molecules over and over."""
    path = settings.folder("scaling") / f"{rows}.csv"
    if not path.exists():
        part = zinc_table(settings, "val")
        repeated = pd.concat([part] * (rows // len(part) + 1), ignore_index=True)
        repeated[:rows].to_csv(path, index=False)
    return path


def _predict(settings: Settings, rows: int) -> Usage:
    table, folder = _table(settings, rows), settings.folder("scaling")
    files = ["--model", str(slim(settings)), "--input", str(table), "--output", "predicted.csv"]
    return measured([OURS, "predict", *files], folder)


def _prepare(settings: Settings, rows: int) -> Usage:
    table, folder = _table(settings, rows), settings.folder("scaling")
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    return measured([*script(_PREPARE), str(table)], folder, MOLSEPNORM_CACHE=str(cache))
