"""What is read off a molecule."""

from __future__ import annotations

import pytest
import torch
from support import batch_of

from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphormerConfig
from molsepnorm.nn.readout import Pooling

SMILES = ("CC(C)(C)O", "C", "CC(=O)[O-].C[NH3+]", "c1ccccc1")


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("kind", ["token", "mean", "sum", "token+mean", "token+sum"])
def test_equals_a_plain_loop(kind: str, blocks: int) -> None:
    """Molecule by molecule, in the order asked for; padding is never read."""
    batch = batch_of([featurize.get("zinc")(text) for text in SMILES], GraphormerConfig(), blocks)
    x = torch.randn(len(batch.mask), 3)
    x[~batch.mask & ~torch.isin(torch.arange(len(x)), batch.graph_token)] = 1e6
    pooling = Pooling(kind, 3)
    expected = []
    for token, size in zip(batch.graph_token.tolist(), (5, 1, 6, 6), strict=True):
        atoms = x[token + 1 : token + 1 + size]
        parts = {"token": x[token], "mean": atoms.mean(0), "sum": atoms.sum(0) / 16}
        expected.append(torch.cat([parts[part] for part in kind.split("+")]))
    found = pooling(x, batch)
    assert found.shape == (len(SMILES), pooling.width)
    torch.testing.assert_close(found, torch.stack(expected))
