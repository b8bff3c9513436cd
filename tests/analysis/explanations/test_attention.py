"""The attention of the graph token, compared with the softmax of a layer by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from explained import DRUGS, network

from molsepnorm.analysis.explanations.attention import TokenAttention
from molsepnorm.data.batching.collate import GraphTensors
from molsepnorm.model import encoding_of
from molsepnorm.molecules.encodings.encoding import encode
from molsepnorm.molecules.featurize import get


@pytest.mark.parametrize("settings", [{}, {"readout": "token+mean"}], ids=str)
def test_weights_of_a_molecule_sum_to_one_and_ignore_padding(settings):
    """In a batch as alone."""
    model = network(**settings)
    graphs = [get("ogb")(text) for text in DRUGS]
    tensors = GraphTensors.of(encode(graphs, encoding_of(model.config)))
    attention = TokenAttention(model)
    together = attention(tensors.cut(np.arange(len(graphs))))
    for index, graph in enumerate(graphs):
        (alone,) = attention(tensors.cut([index]))
        size = graph.num_atoms + 1
        assert float(alone.sum()) == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(together[index, :size], alone, atol=1e-5, rtol=1e-4)
        assert not together[index, size:].any()
    assert together.std() > 0.01


def test_weights_equal_the_softmax_of_a_single_layer():
    model = network(layers=1, local="none", node_walks=0, pair_walks=0)
    graph = get("ogb")("CC(=O)Oc1ccccc1C(=O)O")
    batch = GraphTensors.of(encode([graph], encoding_of(model.config))).cut([0])
    layer, heads = model.layers[0], model.config.heads
    with torch.no_grad():
        x = layer.attention_norm(model.embedding(batch), batch.graph_token, batch.mask)
        q, k, _ = layer.attention.qkv(x).chunk(3, dim=1)
        pairs = model.pair_encoding(batch)
        width = model.config.width // heads
        expected = torch.zeros(len(x))
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            logits = k[:, part] @ q[0, part] / width**0.5 + pairs.bias[0][head, 0, 0, : len(x)]
            expected += torch.softmax(logits, dim=0) / heads
    torch.testing.assert_close(TokenAttention(model)(batch)[0], expected, atol=1e-6, rtol=1e-5)


def test_the_network_is_left_as_it_is():
    model = network()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = torch.random.get_rng_state()
    TokenAttention(model)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
