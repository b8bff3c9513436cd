"""Fingerprints that runs of earlier versions recorded are computed from today's data."""

from __future__ import annotations

import pytest

from molsepnorm import load_config
from molsepnorm.data.datasets import load
from molsepnorm.data.legacy import legacy_fingerprints
from molsepnorm.molecules.encodings import EncodingSpec

SPEC = EncodingSpec((5, 6, 2), max_distance=5, max_path_length=3)
RECORDED = {
    None: (
        "2b0f825caa95669f6949478f1c7fcc63c4d4628a2ec310cdc0dd35a0d61db522",
        "80edbf3aa97c6f729a6ae391",
    ),
    "w": ("f33d8bae235063d28d8f0da8", "29084a563209d87577d3ade8"),
}
"""Weight column -> what earlier versions computed for the table below."""


@pytest.mark.parametrize("weights", RECORDED)
def test_legacy_fingerprints_are_those_that_earlier_versions_computed(tmp_path, weights):
    rows = "".join(f"{'C' * (k + 1)},{k % 3},{k / 4}\n" for k in range(20)) + "C1CC,1,1\n"
    (tmp_path / "data.csv").write_text(f"smiles,y,w\n{rows}")
    settings = {"data.targets": ["y"], "data.weight_column": weights}
    dataset = load(load_config(tmp_path / "data.csv", overrides=settings).data, SPEC)
    assert legacy_fingerprints(dataset) == RECORDED[weights]
