"""The table of targets has the numbers of the labels, by target and split."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.data.datasets import DataConfig, load
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.training.run_folder.folder import targets_table


def test_every_target_has_a_row_for_each_split(tmp_path):
    """Bounds are labels, but not among the numbers that are averaged."""
    parts = ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    y = ["1", "2", ">9", "6", "", "3", "1", "2", "3", "4", "<5", "6"]
    colour = ["a", "b", "a", "", *"abababab"]
    rows = zip(("C" * n for n in range(2, 14)), y, colour, parts, strict=True)
    path = tmp_path / "my.csv"
    path.write_text("smiles,y,colour,part\n" + "".join(f"{','.join(row)}\n" for row in rows))
    spec = EncodingSpec(bond_sizes=featurize.SIZES["ogb"].bonds, max_path_length=2)
    config = DataConfig(table=path, targets=["y", "colour"], splits_column="part")
    table = targets_table(load(config, spec))
    assert table["target"].tolist() == ["y"] * 3 + ["colour"] * 3
    assert table["split"].tolist() == ["train", "val", "test"] * 2
    assert table["rows"].tolist() == [6, 3, 3] * 2
    assert table["labels"].tolist() == [5, 3, 3, 5, 3, 3]
    assert table["bounds"].tolist() == [1, 0, 1, 0, 0, 0]
    assert table["missing"].tolist() == [1, 0, 0, 1, 0, 0]
    train = table.iloc[0]
    assert (train["mean"], train["min"], train["max"]) == (3, 1, 6)
    assert train["sd"] == pytest.approx(np.std([1, 2, 6, 3]))
    assert table["classes"].tolist()[3:] == ["a: 3; b: 2", "a: 2; b: 1", "a: 1; b: 2"]
    assert table["classes"].isna().tolist() == [True] * 3 + [False] * 3
