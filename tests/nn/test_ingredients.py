"""Whatever can be added to the network keeps what the network promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import batch_of, far_from_initial, renumbered
from torch import nn

from molsepnorm import featurize
from molsepnorm.errors import ConfigError
from molsepnorm.molecule import MolGraph
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.nn.dropout import StochasticDepth

SMILES = (
    "C1CC2CCC1C2",  # norbornane: bridged
    "C12C3C4C1C5C2C3C45",  # cubane: many shortest paths
    "C=C1C=CC(=O)C(C#N)=C1",  # an even ring whose two sides differ
    "CC(=O)[O-].C[NH3+]",  # a salt
    "CCCCCCCCC(C)(C)O",  # longer than the largest distance below
    "C",
)
SMALL = {
    "layers": 3,
    "width": 16,
    "ffn_width": 24,
    "heads": 4,
    "max_degree": 3,
    "max_distance": 6,
    "max_path_length": 4,
    "outputs": 2,
}
INGREDIENTS: dict[str, dict] = {
    "GINE": {"local": "gine"},
    "RWSE": {"node_walks": 6},
    "RRWP": {"pair_walks": 6},
    "RRWP, linear": {"pair_walks": 6, "pair_hidden": 0},
    "resistance": {"resistance_kernels": 5},
    "resistance and RRWP": {"resistance_kernels": 5, "pair_walks": 3, "node_walks": 6},
    "URPE": {"urpe": True},
    "URPE and resistance": {"urpe": True, "resistance_kernels": 5},
    "degree scaler": {"degree_scaler": True, "node_norm": "batch"},
    "pair vectors": {"pair_width": 8},
    "pair vectors of RRWP": {"pair_width": 8, "pair_walks": 5, "readout": "token+sum"},
    "mean": {"readout": "mean"},
    "sum": {"readout": "sum", "head": "mlp"},
    "token and mean": {"readout": "token+mean", "norm": "shared"},
    "post-norm": {"norm_order": "post"},
    "post-norm, local": {"norm_order": "post", "local": "gine", "readout": "token+sum"},
    "RMS norm": {"graph_norm": "rms", "node_norm": "rms"},
    "mixed norm": {"graph_norm": "mix", "first_graph_norm": "mix"},
    "batch renorm": {"graph_norm": "renorm"},
    "no norm of the token": {"graph_norm": "none"},
    "batch norm at the end": {"graph_norm": "layer", "last_graph_norm": "batch"},
    "stochastic depth": {"drop_path": 0.3},
}
each_ingredient = pytest.mark.parametrize("options", INGREDIENTS.values(), ids=INGREDIENTS)


def graphs() -> list[MolGraph]:
    return [featurize.get("zinc")(text) for text in SMILES]


def network(options: dict) -> Graphormer:
    return far_from_initial(GraphormerConfig(**SMALL | options)).double()


@each_ingredient
def test_numbering_does_not_matter(options: dict) -> None:
    """The same molecules with their atoms in another order have the same outputs."""
    model, rng = network(options), np.random.default_rng(0)
    others = [renumbered(graph, rng) for graph in graphs()]
    expected = model(batch_of(graphs(), model.config))
    found = model(batch_of(others, model.config, blocks=3))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert expected.std(0).min() > 1e-3


@each_ingredient
def test_company_does_not_matter(options: dict) -> None:
    """A molecule's output is the same alone as among others, padded to the largest."""
    model = network(options)
    expected = torch.cat([model(batch_of([graph], model.config)) for graph in graphs()])
    found = model(batch_of(graphs(), model.config, blocks=1))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@each_ingredient
def test_every_parameter_learns(options: dict) -> None:
    """Each gets a gradient, which DistributedDataParallel waits for; but where atoms alone are
    read out, the graph token's last norms get a zero."""
    model = network(options | {"drop_path": 0.0}).train()  # which might leave out the only salt
    model(batch_of(graphs(), model.config, blocks=2)).square().sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            unread = not model.pooling.token and "cls_norm" in name
            assert parameter.grad.any() or unread, name


@each_ingredient
def test_it_changes_something(options: dict) -> None:
    """With it the network computes something else than without, from the same weights."""
    if options == {"graph_norm": "renorm"}:
        pytest.skip("at first, and in evaluation, a batch norm: see test_norms.py")
    model, plain = network(options), network({})
    own = plain.state_dict()
    shared = {
        name: weight
        for name, weight in model.state_dict().items()
        if name in own and own[name].shape == weight.shape
    }
    plain.load_state_dict(own | shared)
    batch = batch_of(graphs(), model.config)
    if "drop_path" in options:
        model.train()
        plain.train()
    assert not torch.allclose(model(batch), plain(batch), rtol=1e-3)


@pytest.mark.parametrize("init", ["v1", "xavier"])
def test_gates_and_scalers_begin_as_if_they_were_not_there(init: str) -> None:
    """URPE and the degree scaler multiply by 1 at first, whatever the initialisation."""
    torch.manual_seed(0)
    options = SMALL | {"init": init}
    model = Graphormer(GraphormerConfig(**options, urpe=True, degree_scaler=True)).eval()
    plain = Graphormer(GraphormerConfig(**options)).eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    batch = batch_of(graphs(), model.config)
    torch.testing.assert_close(model(batch), plain(batch))


@pytest.mark.parametrize("init", ["v1", "xavier"])
def test_all_is_drawn(init: str) -> None:
    """No parameter keeps what happened to be in memory."""
    options = {"local": "gine", "node_walks": 4, "pair_walks": 4, "resistance_kernels": 4}
    options |= {"urpe": True, "pair_width": 8, "degree_scaler": True, "head": "mlp", "init": init}
    first, second = [], []
    for found in (first, second):
        torch.manual_seed(0)
        model = Graphormer(GraphormerConfig(**SMALL | options))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(float("nan"))
        torch.manual_seed(0)
        model.reset_parameters()
        found += [parameter.detach().clone() for parameter in model.parameters()]
    for one, other in zip(first, second, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)


def test_stochastic_depth_leaves_out_whole_graphs() -> None:
    """Every graph's rows are scaled alike, by 0 or by 1 / (1 − p); on average by 1."""
    batch = batch_of(graphs() * 40, GraphormerConfig(), blocks=3)
    torch.manual_seed(0)
    layer = StochasticDepth(0.25).train()
    y = layer(torch.ones(len(batch.mask), 2), batch.blocks)
    first, kept = 0, []
    for block in batch.blocks:
        rows = y[first : first + block.graphs * block.slots].view(block.graphs, -1)
        assert (rows == rows[:, :1]).all()
        kept.append(rows[:, 0])
        first += block.graphs * block.slots
    values = torch.cat(kept)
    torch.testing.assert_close(values.unique(), torch.tensor([0, 4 / 3]))
    assert abs(values.mean() - 1) < 0.15
    tokens = layer(torch.ones(len(batch), 2), batch.blocks)
    torch.testing.assert_close(tokens.unique(), torch.tensor([0, 4 / 3]))
    layer.eval()
    assert (layer(torch.ones(len(batch.mask), 2), batch.blocks) == 1).all()


def test_stochastic_depth_rises_over_the_layers() -> None:
    """The first layer keeps all; the last leaves out as often as the setting says."""
    model = Graphormer(GraphormerConfig(**SMALL, drop_path=0.3))
    assert [layer.drop_path.p for layer in model.layers] == [0, 0.15, 0.3]


@pytest.mark.parametrize(
    "name", ["node_walks", "pair_walks", "resistance_kernels", "pair_hidden", "pair_width"]
)
def test_negative_sizes(name: str) -> None:
    """0 is none; less is a mistake."""
    with pytest.raises(ConfigError, match=rf"model\.{name} must be 0, which is none, or more"):
        GraphormerConfig(**{name: -1})


@pytest.mark.parametrize("momentum", [0.0, 1.5, float("nan")])
def test_momentum(momentum: float) -> None:
    """It is the share of the newest batch."""
    with pytest.raises(ConfigError, match=r"model\.norm_momentum must lie in 0 < m ≤ 1"):
        GraphormerConfig(norm_momentum=momentum)


def test_the_momentum_reaches_every_batch_norm() -> None:
    """Of the graph token's and of the atoms'."""
    model = Graphormer(GraphormerConfig(**SMALL, node_norm="batch", norm_momentum=0.02))
    norms = [each for each in model.modules() if isinstance(each, nn.BatchNorm1d)]
    assert len(norms) > 5
    assert {norm.momentum for norm in norms} == {0.02}
