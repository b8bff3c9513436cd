"""The embeddings of molecules, layer by layer."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.analysis.observe import embedding_sites, layer_embeddings
from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphormerConfig
from support import SMALL, batch_of, far_from_initial


@pytest.mark.claim(
    "molsepnorm analyze measures the embeddings that the network computes, layer by layer and"
    " molecule by molecule."
)
@pytest.mark.parametrize(
    "settings",
    [{}, {"readout": "token+mean"}, {"readout": "mean"}, {"norm": "shared-bn", "local": "gine"}],
)
def test_layer_embeddings_equal_the_outputs_of_the_layers(settings) -> None:
    """Compared atom by atom with a loop over the layers, and at the end with the read-out."""
    config = GraphormerConfig(**SMALL, **settings)
    model = far_from_initial(config)
    zinc = featurize.get("zinc")
    graphs = [zinc(text) for text in ("CC(C)CO", "C", "c1ccccc1", "CCO")]
    batch = batch_of(graphs, config, max_groups=2)
    seen = []
    with torch.no_grad():
        found = layer_embeddings(model, batch)
        end = model.embed(batch)
        x, pairs = model.embedding(batch), model.pair_encoding(batch)
        for layer in model.layers:
            x = layer(x, pairs, batch)
            seen.append(x)
    sites = embedding_sites(model)
    assert sites == ("layer 1", "layer 2", "layer 3", "last norm")
    assert found.shape == (4, 2, len(sites), config.width)
    tokens_only = config.readout == "token" and config.norm == "sep"
    for site, x in enumerate(seen[:-1] if tokens_only else seen):
        for index, token in enumerate(batch.graph_token.tolist()):
            atoms = x[token + 1 : token + 1 + graphs[index].num_atoms]
            torch.testing.assert_close(found[index, 0, site], x[token])
            torch.testing.assert_close(found[index, 1, site], atoms.mean(0))
    assert found[:, 1, 2:].isnan().any() == tokens_only
    assert not found[:, :, :2].isnan().any() and not found[:, 0].isnan().any()
    read = {"token": found[:, 0, -1], "mean": found[:, 1, -1]}
    parts = [read[kind] for kind in config.readout.split("+")]
    torch.testing.assert_close(torch.cat(parts, dim=1), end)
