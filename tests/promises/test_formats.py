"""A table keeps its molecules, labels and splits; other formats are compared with a CSV in
tests/data/datasets/test_ways_to_write.py."""

from __future__ import annotations

import numpy as np

from molsepnorm import load_config
from molsepnorm.data import datasets
from molsepnorm.model import encoding_of
from molsepnorm.training.recipes import architecture
from support import of_targets

from .conftest import TARGETS


def test_a_table(table, golden):
    config = load_config(str(table), overrides={"data.targets": TARGETS.split(",")})
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
