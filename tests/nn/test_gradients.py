"""Second derivatives, transforms of `torch.func`, and modules put in place of linear layers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp

from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.nn.parts import FAST, PLAIN
from support import SMALL, batch_of, far_from_initial

SMILES = ("CCO", "c1ccccc1C=O", "CC(N)C(=O)O", "CC(=O)[O-].C[NH3+]")
ALL = {"local": "gine", "pair_walks": 3}
DROPOUT = {"dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.1}
SEP = {"norm": "sep"}  # a batch norm of the graph token
settings = pytest.mark.parametrize(
    "options", [{}, ALL, ALL | DROPOUT, SEP], ids=["", "all", "dropout", "sep"]
)


def some_network(options: dict) -> tuple[Graphormer, GraphBatch]:
    """A float64 network and a batch of molecules of several sizes."""
    off = dict.fromkeys(DROPOUT, 0.0)
    settings = SMALL | {"layers": 2, "norm": "sep-ln"} | off | options
    config = GraphormerConfig(**settings)
    graphs = [featurize.get("zinc")(text) for text in SMILES]
    return far_from_initial(config).double(), batch_of(graphs, config, max_groups=2)


def gradients(network: nn.Module, loss: Tensor, create_graph: bool = False) -> Tensor:
    """The gradients of all trained parameters, as one vector."""
    trained = [each for each in network.parameters() if each.requires_grad]
    return torch.cat(
        [
            each.flatten()
            for each in torch.autograd.grad(
                loss, trained, create_graph=create_graph, materialize_grads=True
            )
        ]
    )


def loss_of(network: nn.Module, batch: GraphBatch) -> Tensor:
    torch.manual_seed(3)  # of the dropout masks
    return network(batch).square().mean()


@settings
def test_second_derivatives_equal_central_differences(options: dict) -> None:
    """Hessian-vector products by `create_graph=True`; the first gradients are unchanged."""
    network, batch = some_network(options)
    network.train()
    first = gradients(network, loss_of(network, batch), create_graph=True)
    torch.testing.assert_close(first.detach(), gradients(network, loss_of(network, batch)))
    direction = torch.randn_like(first)
    found = gradients(network, (first * direction).sum())
    sides, step = [], 1e-7
    for sign in (step, -step):
        moved = copy.deepcopy(network)
        start = 0
        with torch.no_grad():
            for each in (each for each in moved.parameters() if each.requires_grad):
                each += sign * direction[start : start + each.numel()].view_as(each)
                start += each.numel()
        sides.append(gradients(moved, loss_of(moved, batch)))
    right = (sides[0] - sides[1]) / (2 * step)
    assert (found - right).norm() < 1e-6 * right.norm()


@pytest.mark.parametrize("options", [{}, ALL], ids=["", "all"])
@pytest.mark.parametrize("parts", [FAST, PLAIN], ids=["fast", "plain"])
def test_gradients_of_each_molecule_equal_one_backward_pass_each(parts, options: dict) -> None:
    """By `torch.func.jacrev`, by `is_grads_batched=True`, and along a direction by `jvp`."""
    source, batch = some_network(options)
    network = Graphormer(source.config, parts).double()
    network.load_state_dict(source.state_dict())
    trained = {name: each for name, each in network.named_parameters() if each.requires_grad}
    outputs = network(batch)[:, 0]
    keep = {"retain_graph": True, "materialize_grads": True}
    rows = [torch.autograd.grad(each, list(trained.values()), **keep) for each in outputs]
    expected = [torch.stack(each) for each in zip(*rows, strict=True)]

    def function(weights: dict[str, Tensor]) -> Tensor:
        return functional_call(network, weights, (batch,))[:, 0]

    weights = {name: each.detach() for name, each in trained.items()}
    by_function = jacrev(function)(weights)
    torch.testing.assert_close(list(by_function.values()), expected)
    used = {name: each for name, each in trained.items() if by_function[name].any()}
    batched = torch.autograd.grad(
        outputs, list(used.values()), torch.eye(len(outputs)).double(), is_grads_batched=True
    )
    torch.testing.assert_close(list(batched), [by_function[name] for name in used])
    directions = {name: torch.randn_like(each) for name, each in weights.items()}
    rows_of = {name: each.reshape(len(batch), -1) for name, each in by_function.items()}
    along = sum(rows_of[name] @ each.flatten() for name, each in directions.items())
    torch.testing.assert_close(jvp(function, (weights,), (directions,))[1], along)


class _Adapted(nn.Module):
    """A frozen linear layer and a trained addition of low rank, as adapters are."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.added = nn.Linear(base.in_features, base.out_features).to(base.weight)
        self.weight, self.bias = base.weight, base.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.added(x)


def test_a_module_in_place_of_any_linear_layer_is_called() -> None:
    """Outputs equal those of a network with the sum of both weights; hooks are called; the addition
    has a gradient."""
    network, batch = some_network(ALL)
    adapted, merged = copy.deepcopy(network), copy.deepcopy(network)
    called: set[str] = set()
    linear = [name for name, each in network.named_modules() if type(each) is nn.Linear]
    assert {name.rpartition(".")[2] for name in linear} >= {"qkv", "outer", "mlp_in"}
    for name in linear:
        network.get_submodule(name).register_forward_hook(lambda *_, name=name: called.add(name))
        own = _Adapted(adapted.get_submodule(name))
        adapted.set_submodule(name, own)
        with torch.no_grad():
            for one, other in zip(
                merged.get_submodule(name).parameters(), own.added.parameters(), strict=True
            ):
                one += other
    network(batch)
    assert called == set(linear)
    outputs = adapted(batch)
    torch.testing.assert_close(outputs, merged(batch))
    outputs.square().sum().backward()
    for name in linear:
        assert adapted.get_submodule(name).added.weight.grad.any(), name
