"""`compare`: scores of models on tables of MoleculeACE with simulated labels."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pandas as pd

TABLES = "CHEMBL1862_Ki", "CHEMBL2034_Ki", "CHEMBL238_Ki", "CHEMBL287_Ki"


def compare(scores: Callable[..., dict[str, float]], about: str) -> None:
    """Print the scores of each table and seed, and their means, for the options of the command.

    Args:
        scores: returns the scores for a table, a seed, a folder for its files, and settings.
        about: help of the command.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    settings = {} if options.epochs is None else {"run.epochs": options.epochs}
    rows = []
    tables = {name: pd.read_csv(options.folder / f"{name}.csv") for name in options.tables}
    for seed, (name, table) in product(range(options.seeds), tables.items()):
        with tempfile.TemporaryDirectory() as folder:
            found = scores(table, seed, Path(folder), settings)
        rows.append({"table": name, "seed": seed, **found})
        print(rows[-1], flush=True)
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    print(pd.DataFrame(rows).drop(columns="seed").groupby("table").mean().round(3))
