"""People's tables are read without an option, or the error names the option that they need."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from molsepnorm.data.checking.check import TableReport, check_table, scan_table
from molsepnorm.data.datasets.config import DataConfig
from molsepnorm.data.datasets.labels import Labels, read_labels
from molsepnorm.data.datasets.table import read_columns
from molsepnorm.errors import ConfigError, DataError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec

CASES = Path(os.environ.get("MOLSEPNORM_DATA", "none")).parent / "cases" / "tables"
pytestmark = [
    pytest.mark.skipif(not CASES.is_dir(), reason="the tables are not at hand"),
    pytest.mark.filterwarnings("ignore:.*is read as the column of SMILES"),
]


def _read(name: str, **settings) -> Labels:
    config = DataConfig(table=CASES / name, **settings)
    return read_labels(read_columns(config)).without_issues()


def _check(name: str) -> TableReport:
    config = DataConfig(table=CASES / name)
    bonds = featurize.SIZES[config.featurizer].bonds
    return check_table(scan_table(config, EncodingSpec(bonds, max_path_length=2)))


@pytest.mark.parametrize(
    ("name", "message", "cure"),
    [
        (
            "01_relation.csv",
            "--relation-column 'Qualifier'",
            {"relation_column": "Qualifier", "targets": ["IC50_uM"]},
        ),
        ("06_title.csv", "--header-row 2", {"header_row": 2}),
        ("f2_sentinel.csv", "--missing-values=-999", {"missing_values": ["-999"]}),
        ("f2_sentinel_one_of_20.csv", "--missing-values=-999", {"missing_values": ["-999"]}),
        ("f2_minus_one_for_missing.csv", "--missing-values=-1", {"missing_values": ["-1"]}),
    ],
)
def test_an_error_names_the_option_that_cures_it(name, message, cure):
    with pytest.raises((ConfigError, DataError), match=message):
        _read(name)
    assert np.isfinite(_read(name, **cure).values).any()


def test_labels_at_a_limit_of_the_assay_may_be_read_as_bounds():
    labels = _read("15_limit.csv")
    assert not labels.bounds.any()
    assert any(line.endswith("--limits log_CLint=0.68:") for line in labels.warnings)
    labels = _read("15_limit.csv", limits="log_CLint=0.68:1.9")
    assert labels.bounds[labels.values == 0.68].tolist() == [-1] * 8
    assert labels.bounds[labels.values == 1.9].tolist() == [1] * 2  # of 1.93 and 2.0
    assert np.count_nonzero(labels.bounds) == 10


def test_no_standardisation_is_offered_for_salts_of_other_labels():
    report = _check("04_salts.csv")
    (forms,) = (each for each in report.findings if each.kind == "forms")
    assert [len(group.places) for group in forms.groups] == [2, 2]  # acetates, and no sulfates
    assert not any("--standardize" in each.options for each in report.findings)


def test_the_reason_for_an_invalid_smiles_is_rdkits_whole_one():
    report = _check("12_kekule.csv")
    (group,) = report.problems[0].groups
    assert group.what.startswith("Can't kekulize mol. Unkekulized atoms: 16 17 18 19")
