"""Files of molecules without labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from molsepnorm.data import datasets
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.molecules.encodings import EncodingSpec

ENCODING = EncodingSpec(bond_sizes=(5, 6, 2), max_path_length=3)
CHAINS = ["C" * length + "O" for length in range(1, 9)]


@pytest.fixture
def files(tmp_path):
    """A CSV, a .smi with names, and a Parquet file, each with eight molecules."""
    pd.DataFrame({"id": range(8), "smiles": CHAINS}).to_csv(tmp_path / "a.csv", index=False)
    names = [f"{text.replace('O', 'N')} name-{row}\n" for row, text in enumerate(CHAINS)]
    (tmp_path / "b.smi").write_text("".join(names))
    fluorides = pd.DataFrame({"smiles": [text.replace("O", "F") for text in CHAINS]})
    fluorides.to_parquet(tmp_path / "c.parquet")
    return [tmp_path / name for name in ("a.csv", "b.smi", "c.parquet")]


def load(files, **settings):
    return datasets.load(DataConfig(structures=files, **settings), ENCODING)


def test_several_files_of_several_formats_are_one_set(files):
    dataset = load(files)
    ends = [text[:-1] + end for end in "ONF" for text in CHAINS]
    assert dataset.smiles == ends
    assert dataset.store.rows.tolist() == list(range(24))
    assert dataset.store.sizes.tolist() == [len(text) for text in ends]
    assert dataset.name == "a.csv + b.smi + c.parquet"
    assert (dataset.labels.shape, dataset.targets, dataset.rejected) == ((24, 0), (), ())
    everything = np.concatenate([*dataset.splits.values()])
    assert sorted(everything.tolist()) == list(range(24))
    assert [len(dataset.splits[name]) for name in datasets.SPLITS] == [19, 3, 2]


def test_invalid_smiles_are_listed_with_their_file_and_line_or_an_error(files, tmp_path):
    """Also when the encoded molecules come from the cache, and the files have other names."""
    (tmp_path / "bad.smi").write_text("CC\nC1CC\nCCC\nCCCC\n")
    for second in ("bad.smi", "renamed.smi"):
        if second == "renamed.smi":
            (tmp_path / "bad.smi").replace(tmp_path / second)
        dataset = load([files[0], tmp_path / second])
        assert dataset.store.rows.tolist() == [*range(8), 8, 10, 11]
        (entry,) = dataset.rejected
        assert entry[:2] == (9, "C1CC")
        assert entry.reason.startswith(f"{tmp_path / second}, line 2: RDKit cannot read 'C1CC'")
        with pytest.raises(DataError, match=r"\.smi, line 2: RDKit cannot read 'C1CC'.*Fix the"):
            load([files[0], tmp_path / second], on_invalid="fail")


def test_a_file_without_smiles_is_named(files, tmp_path):
    (tmp_path / "e.csv").write_text("smles\nCC\n")
    with pytest.raises(ConfigError, match=r"e\.csv has no column 'smiles'. Did you mean 'smles'"):
        load([files[0], tmp_path / "e.csv"])
