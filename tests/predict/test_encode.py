"""Encoding of rows: the counts and descriptors of a row are those of its SMILES."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from molsepnorm.model import encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.featurize import smiles as reading
from molsepnorm.molecules.featurize.descriptors import DESCRIPTORS, structure_inputs
from molsepnorm.nn import GraphormerConfig
from molsepnorm.predict.encode import Prepare
from molsepnorm.tasks.inputs import ExtraInputs

SMILES = ["CCO", "not one", "C[C@H](N)C(=O)O", "", "c1ccc2c(c1)[nH]c1ccccc12", "C/C=C/C", "CCO"]
VALID = [text for text in SMILES if text not in ("not one", "")]


def prepare(featurizer: str, descriptors: tuple[str, ...] = DESCRIPTORS) -> Prepare:
    made = featurize.get(featurizer)
    config = GraphormerConfig(atom_sizes=made.atom_sizes, bond_sizes=made.bond_sizes)
    model: Any = SimpleNamespace(
        featurizer=featurizer,
        standardize="none",
        inputs=ExtraInputs((), 2048, descriptors, pairs=2048),
        encoding=encoding_of(config),
        network=SimpleNamespace(config=config),
        molecules=None,
    )
    return Prepare(model, torch.device("cpu"))


@pytest.mark.parametrize("together", [1, 3, 256])
def test_rows_have_the_counts_and_descriptors_of_their_smiles(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between invalid SMILES, however many molecules are read together."""
    reading._oriented.cache_clear()
    expected = {}
    for text in VALID:
        expected[text] = np.hstack(structure_inputs([text], True, DESCRIPTORS, True))[0]
        reading._oriented.cache_clear()  # no other function has used this RDKit molecule
    monkeypatch.setattr(reading, "RECENT", together)
    prepared = prepare("ogb")([(text,) for text in SMILES])
    assert [error is None for error in prepared.errors] == [text in VALID for text in SMILES]
    found = {}
    for rows, _, extra in prepared.groups:
        found |= dict(zip(rows.tolist(), np.hstack(extra), strict=True))
    assert sorted(found) == [row for row, text in enumerate(SMILES) if text in VALID]
    for row, values in found.items():
        np.testing.assert_array_equal(values, expected[SMILES[row]])
