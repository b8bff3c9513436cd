"""The network against an independent implementation: Graphormer in transformers 4.57.6.

Its inputs are built by hand, since its own preprocessing wants Cython. The molecules have a single
shortest path between any two atoms, as the two networks choose differently among several.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from hf_graphormer import converted, reference_inputs
from molsepnorm.data.batching import GraphTensors
from molsepnorm.model import encoding_of
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import encode
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import Graphormer, GraphormerConfig

pytest.importorskip(
    "transformers.models.deprecated.graphormer",
    reason="transformers==4.57.6 is not installed (it is among the dev extra)",
)
from transformers.models.deprecated.graphormer import configuration_graphormer, modeling_graphormer

LENGTH = 4
SMILES = (
    "C",
    "CCO",
    "N#CC(F)(Cl)C=CCCCCCCBr",  # a chain longer than LENGTH
    "CC(C)(C)C(=O)N(CS)C(O)I",  # a tree
    "OC1CCCC1C1CC1P",  # odd rings
    "O=C1CCC2(CC2)C1",  # a spiro atom
    "CC(=O)[O-].C[NH3+]",  # a salt
)
SIZES = {"zinc": {"num_atoms": 31, "num_edges": 6}, "ogb": {"num_atoms": 4100, "num_edges": 1028}}


def make_hf(featurizer: str) -> nn.Module:
    """A small network with random parameters; its padding rows are zero."""
    torch.manual_seed(0)
    config = configuration_graphormer.GraphormerConfig(
        **SIZES[featurizer],
        num_in_degree=8,
        num_out_degree=9,
        num_edge_dis=6,
        multi_hop_max_dist=LENGTH,
        num_hidden_layers=3,
        embedding_dim=16,
        ffn_embedding_dim=24,
        num_attention_heads=4,
        pre_layernorm=True,
    )
    network = modeling_graphormer.GraphormerForGraphClassification(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
        for module in network.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.add_(1)
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    return network.eval()


class NoNorm(nn.Module):
    """Replaces our last norm, which the encoder of transformers does not have."""

    def forward(self, x: Tensor, *_: Tensor) -> Tensor:
        return x


class Tokens(nn.Module):
    """The graph token of our network after the last layer."""

    def __init__(self, config: GraphormerConfig) -> None:
        super().__init__()
        self.network = Graphormer(config).eval()
        self.network.last_norm = NoNorm()

    def forward(self, graphs: list[MolGraph]) -> Tensor:
        spec = encoding_of(self.network.config)
        batch = GraphTensors.of(encode(graphs, spec)).cut(list(range(len(graphs))), max_groups=2)
        return self.network.embed(batch)


def our_tokens(theirs: dict[str, Tensor], featurizer: str, graphs: list[MolGraph]) -> Tensor:
    """The graph tokens as a differentiable function of the weights of transformers."""
    config, state = converted(theirs, featurizer, LENGTH)
    weights = {f"network.{name}": value for name, value in state.items()}
    tokens = Tokens(config).to(state["embedding.atoms"].dtype)
    return functional_call(tokens, weights, (graphs,))


def their_tokens(network: nn.Module, graphs: list[MolGraph], featurizer: str) -> Tensor:
    inputs = reference_inputs(graphs, featurizer, LENGTH)
    inputs["attn_bias"] = inputs["attn_bias"].to(network.dtype)
    return network.encoder.graph_encoder(**inputs, last_state_only=True)[1]


def read(featurizer: str) -> list[MolGraph]:
    return [featurize.get(featurizer)(smiles) for smiles in SMILES]


@pytest.mark.claim(
    "Encoder outputs equal those of transformers 4.57.6 to 1e-5 in float32, and all gradients"
    " to 1e-9 in float64."
)
@pytest.mark.parametrize("featurizer", ["zinc", "ogb"])
def test_the_graph_token_equals_that_of_transformers(featurizer: str) -> None:
    """In one padded batch, to 1e-5."""
    network, graphs = make_hf(featurizer), read(featurizer)
    with torch.no_grad():
        expected = their_tokens(network, graphs, featurizer)
        ours = our_tokens(network.state_dict(), featurizer, graphs)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    assert expected.std(dim=0).min() > 0.05


@pytest.mark.parametrize("featurizer", ["zinc", "ogb"])
def test_gradients_equal_those_of_transformers(featurizer: str) -> None:
    """For every parameter of its encoder except the row that pads paths, which is never trained."""
    network, graphs = make_hf(featurizer).double(), read(featurizer)
    direction = torch.randn(len(graphs), 16, dtype=torch.float64)
    (their_tokens(network, graphs, featurizer) * direction).sum().backward()

    state = {name: value.clone().requires_grad_() for name, value in network.state_dict().items()}
    (our_tokens(state, featurizer, graphs) * direction).sum().backward()

    used = 0
    for name, parameter in network.named_parameters():
        expected, ours = parameter.grad, state[name].grad
        if expected is None:  # of the head
            assert ours is None, name
            continue
        if name.endswith(".edge_encoder.weight"):
            expected, ours = expected[1:], ours[1:]
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9, msg=name)
        assert expected.abs().max() > 1e-3 or name.endswith("k_proj.bias"), name
        used += 1
    assert used == 8 + 3 * 16


def reversed_atoms(graph: MolGraph) -> MolGraph:
    bonds = graph.num_atoms - 1 - graph.bonds
    return MolGraph(graph.atom_features[::-1].copy(), bonds, graph.bond_features)


@pytest.mark.parametrize(
    ("smiles", "even"), [("C=C1C=CC(=O)C(C#N)=C1", True), ("C=C1C=CC(=O)C1C#N", False)]
)
def test_in_even_rings_the_reference_depends_on_the_order_of_atoms(smiles: str, even: bool) -> None:
    """The order of the atoms decides between two shortest paths there; ours are canonical."""
    network, graph = make_hf("zinc"), featurize.get("zinc")(smiles)
    both: dict[str, Callable[[MolGraph], Tensor]] = {
        "ours": lambda each: our_tokens(network.state_dict(), "zinc", [each]),
        "theirs": lambda each: their_tokens(network, [each], "zinc"),
    }
    with torch.no_grad():
        gaps = {
            name: float((tokens(graph) - tokens(reversed_atoms(graph))).abs().max())
            for name, tokens in both.items()
        }
    assert gaps["ours"] < 1e-5
    assert gaps["theirs"] > 1e-3 if even else gaps["theirs"] < 1e-5
