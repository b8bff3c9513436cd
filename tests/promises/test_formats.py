"""A table is the same data set in every format."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

from molsepnorm import load_config
from molsepnorm.data import datasets
from molsepnorm.model import encoding_of
from molsepnorm.training.recipes import architecture
from support import of_targets

from .conftest import TARGETS


def write(rows: pd.DataFrame, path: Path) -> Path:
    """Write the rows in the format of the file's name."""
    if path.suffix == ".parquet":
        rows.to_parquet(path, index=False)
    elif path.suffix == ".xlsx":
        rows.to_excel(path, index=False)
    elif path.suffix == ".sdf":
        with Chem.SDWriter(str(path)) as writer:
            for row in rows.to_dict("records"):
                mol = Chem.MolFromSmiles(row.pop("smiles"))
                for name, value in row.items():
                    mol.SetProp(name, "" if pd.isna(value) else str(value))
                writer.write(mol)
    else:
        separator = "\t" if ".tsv" in path.name else ","
        text = rows.to_csv(index=False, sep=separator)
        content = text.encode("utf-16" if "utf16" in path.name else "utf-8")
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.parquet", "a.xlsx", "a.sdf"])
def test_a_format(table, tmp_path, golden, name):
    path = write(pd.read_csv(table), tmp_path / name)
    config = load_config(str(path), overrides={"data.targets": TARGETS.split(",")})
    found = datasets.load(config.data, encoding_of(architecture(config)))
    assert of_targets(found, "kind") == ("regression", "binary")
    labels = np.asarray(found.labels, dtype=np.float64)
    summary = {
        "molecules": len(found.store),
        "splits": {split: len(rows) for split, rows in found.splits.items()},
        "sum": np.nansum(labels, axis=0).tolist(),
        "missing": np.isnan(labels).sum(axis=0).tolist(),
        "encoded": found.store.digest,
    }
    golden("dataset", summary, 1e-6)
