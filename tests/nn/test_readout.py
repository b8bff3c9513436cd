"""The read-out, plain and fast, against a loop over molecules."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphBatch, GraphormerConfig
from molsepnorm.nn.readout import FastReadout, Readout
from support import SMALL, batch_of, far_from_initial

SMILES = ("CC(C)(C)O", "C", "CC(=O)[O-].C[NH3+]", "c1ccccc1")


def some_batch(max_groups: int) -> GraphBatch:
    return batch_of(
        [featurize.get("zinc")(text) for text in SMILES], GraphormerConfig(), max_groups
    )


@pytest.mark.claim("Read-outs equal plain loops.")
@pytest.mark.parametrize("cls", [Readout, FastReadout])
@pytest.mark.parametrize("max_groups", [1, 3])
@pytest.mark.parametrize("kind", ["token", "mean", "sum", "token+mean", "token+sum"])
def test_readout_equals_a_loop_over_molecules(
    kind: str, max_groups: int, cls: type[Readout]
) -> None:
    """In the order of the molecules; padding is not read."""
    batch = some_batch(max_groups)
    x = torch.randn(len(batch.mask), 3)
    x[~batch.mask & ~torch.isin(torch.arange(len(x)), batch.graph_token)] = 1e6
    readout = cls(kind, 3)
    expected = []
    for token, size in zip(batch.graph_token.tolist(), (5, 1, 6, 6), strict=True):
        atoms = x[token + 1 : token + 1 + size]
        parts = {"token": x[token], "mean": atoms.mean(0), "sum": atoms.sum(0) / 16}
        expected.append(torch.cat([parts[part] for part in kind.split("+")]))
    found = readout(x, batch)
    assert found.shape == (len(SMILES), readout.width)
    torch.testing.assert_close(found, torch.stack(expected))


def test_layers_read_out_the_token_and_the_mean_after_every_layer() -> None:
    """The last layer is read as the head reads it; the first one is that of a hook."""
    config = GraphormerConfig(**{**SMALL, "readout": "token+sum"})
    network = far_from_initial(config)
    batch = batch_of([featurize.get("zinc")(text) for text in SMILES], config, 2)
    seen = []
    network.layers[0].register_forward_hook(lambda module, inputs, result: seen.append(result))
    with torch.no_grad():
        found, last = network.embed_layers(batch), network.embed(batch)
        some = [network.embed_layers(batch, channels) for channels in (1, 32, 33, 96)]
    assert found.shape == (len(SMILES), network.layers_width) == (len(SMILES), 3 * 2 * 16)
    assert torch.equal(found[:, -32:], last)
    assert [each.shape[1] for each in some] == [32, 32, 64, 96]
    assert all(torch.equal(each, found[:, -each.shape[1] :]) for each in some)
    torch.testing.assert_close(found[:, :32], Readout("token+mean", 16)(seen[0], batch))
