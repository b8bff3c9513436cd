"""The whole network: invariances, sizes, errors and training."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import support
from molsepnorm.errors import ConfigError
from molsepnorm.molecules import featurize
from molsepnorm.molecules.molecule import MolGraph
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig
from molsepnorm.nn.layer import (
    GraphormerLayer,
    GraphTokenLayer,
)
from molsepnorm.nn.norms import GraphTokenSepNorm, GraphTokenSharedNorm
from molsepnorm.nn.parts import FAST, PLAIN, Parts
from molsepnorm.nn.readout import Readout
from molsepnorm.sepnorm import SepNorm, SharedNorm
from molsepnorm.training.step import estimate_statistics
from support import SMALL, batch_of

SMILES = (
    "C1CC2CCC1C2",  # norbornane: bridged
    "C12C3C4C1C5C2C3C45",  # cubane: many shortest paths
    "c1ccc2ccccc2c1",  # naphthalene: fused even rings, Kekulé structure
    "C=C1C=CC(=O)C(C#N)=C1",  # an even ring whose two sides differ
    "CC(=O)[O-].C[NH3+]",  # a salt
    "CCCCCCCCC(C)(C)O",  # longer than the largest distance below
    "C",
    "O",
)
NORMS = [
    {"norm": "sep"},
    {"norm": "sep-bn"},
    {"norm": "sep-ln-bn"},
    {"norm": "sep-rms-bn"},
    {"norm": "shared"},
    {"norm": "shared-bn"},
]


def zinc_graphs(smiles: tuple[str, ...] = SMILES) -> list[MolGraph]:
    return [featurize.get("zinc")(text) for text in smiles]


def far_from_initial(**options: object) -> Graphormer:
    """A small network with random weights."""
    return support.far_from_initial(GraphormerConfig(**SMALL | options))


# --- invariances ---------------------------------------------------------------------------------


@pytest.mark.claim(
    "In training mode, outputs, gradients and statistics do not depend on the order of "
    "molecules or on padding groups: 1e-8."
)
@pytest.mark.parametrize("options", NORMS[:2] + NORMS[-1:], ids=str)
def test_training_does_not_depend_on_groups_and_order(options: dict) -> None:
    """Without dropout, outputs, gradients and statistics are the same for any order and grouping of
    a batch."""
    results = []
    graphs = zinc_graphs()
    for order, max_groups in ((list(range(8)), 1), ([3, 1, 0, 7, 5, 2, 6, 4], 4)):
        model = far_from_initial(**options, dropout=0.0, attention_dropout=0.0).double().train()
        outputs = model(batch_of([graphs[i] for i in order], model.config, max_groups))
        outputs = outputs[np.argsort(order)]
        (outputs * torch.arange(16).view(8, 2)).sum().backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        results.append((outputs, gradients, dict(model.named_buffers())))
    torch.testing.assert_close(results[0], results[1], rtol=1e-8, atol=1e-8)


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "of_last_layer"),
    [
        ({}, False),
        ({"layers": 1}, False),
        ({"readout": "token+mean"}, True),
        ({"readout": "mean"}, True),
        ({"norm": "shared-bn"}, True),
    ],
    ids=str,
)
def test_vectors_of_the_slots_equal_a_loop_over_the_layers(
    options: dict, of_last_layer: bool
) -> None:
    """They are the last norm's output, or the last layer's input if it has the token only. `embed`
    returns the same vectors of molecules bit by bit."""
    model = far_from_initial(**options)
    batch = batch_of(zinc_graphs(), model.config, max_groups=3)
    x, pairs = model.embedding(batch), model.pair_encoding(batch)
    after = [x]
    for layer in model.layers:
        x = layer(x, pairs, batch)
        after.append(x)
    normalised = model.last_norm(x, batch.graph_token, batch.mask)
    molecules, slots = model.embed_with_atoms(batch)
    assert torch.equal(slots, normalised if of_last_layer else after[-2])
    assert slots.shape == (len(batch.mask), 16)
    assert torch.equal(molecules, model.embed(batch))


LAYER, BATCH, MASKED, RMS = "LayerNorm", "BatchNorm1d", "MaskedBatchNorm1d", "RMSNorm"


@pytest.mark.parametrize(
    ("options", "first", "later", "last"),
    [
        ({"norm": "shared"}, [LAYER], [LAYER], [LAYER]),
        ({"norm": "shared-bn"}, [MASKED], [MASKED], [MASKED]),
        ({"norm": "sep"}, [LAYER, LAYER], [BATCH, LAYER], [BATCH, "Identity"]),
        ({"norm": "sep-ln"}, [LAYER, LAYER], [LAYER, LAYER], [LAYER, "Identity"]),
        ({"norm": "sep-bn"}, [LAYER, MASKED], [BATCH, MASKED], [BATCH, "Identity"]),
        ({"norm": "sep-ln-bn"}, [LAYER, MASKED], [LAYER, MASKED], [LAYER, "Identity"]),
        ({"norm": "sep-rms-bn"}, [RMS, MASKED], [RMS, MASKED], [RMS, "Identity"]),
        ({"norm": "sep", "readout": "mean"}, [LAYER, LAYER], [BATCH, LAYER], [BATCH, LAYER]),
    ],
    ids=str,
)
def test_norms_follow_from_the_name(
    options: dict, first: list[str], later: list[str], last: list[str]
) -> None:
    """The graph token has no batch norm at the first site."""
    model = Graphormer(GraphormerConfig(layers=2, **options))

    def kinds(site: nn.Module) -> list[str]:
        norms = [site.norm] if isinstance(site, SharedNorm) else [site.cls_norm, site.tok_norm]
        return [type(norm).__name__ for norm in norms]

    assert kinds(model.layers[0].attention_norm) == first
    for site in (model.layers[0].ffn_norm, model.layers[1].attention_norm):
        assert kinds(site) == later
    assert kinds(model.last_norm) == last


@pytest.mark.parametrize("layers", [3, 12])
@pytest.mark.parametrize("init", ["v1", "xavier"])
def test_reset_parameters(layers: int, init: str) -> None:
    """v1: linear weights N(0, 0.02 / √layers), embeddings N(0, 0.02); xavier: variance
    2 / (in + out), embeddings N(0, 0.5). Norms are the identity again, running statistics too."""
    model = Graphormer(GraphormerConfig(layers=layers, norm="sep-bn", init=init))
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.fill_(7.0)
    torch.manual_seed(0)
    model.reset_parameters()
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            weight = module.weight.detach()
            std = 0.02 / layers**0.5 if init == "v1" else (2 / sum(weight.shape)) ** 0.5
            bound = 5 * (2 * weight.numel()) ** -0.5  # five deviations of an estimated deviation
            assert abs(float(weight.std()) / std - 1) < bound, name
            assert abs(float(weight.mean())) < 5 * std * weight.numel() ** -0.5, name
            assert not module.bias.any(), name
        if isinstance(module, nn.LayerNorm | nn.BatchNorm1d):
            assert (module.weight == 1).all(), name
            assert not module.bias.any(), name
        if isinstance(module, nn.BatchNorm1d):
            assert (module.running_var == 1).all(), name
            assert not module.running_mean.any(), name
    std = 0.02 if init == "v1" else 0.5
    for part in (model.embedding, model.pair_encoding.bias):
        for name, table in part.named_parameters():
            bound = 5 * (2 * table.numel()) ** -0.5
            assert abs(float(table.detach().std()) / std - 1) < bound, name


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        *({"max_path_length": 6, "max_distance": 5}, {"activation_dropout": float("nan")}),
        *({"bond_sizes": (3, 0)}, {"outputs": -1}, {"norm": "group"}, {"layrs": 3}),
    ],
    ids=str,
)
def test_an_invalid_setting_is_refused_by_its_name(settings: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        GraphormerConfig(**settings)


def test_other_inputs_than_batches_are_refused() -> None:
    with pytest.raises(ConfigError, match="reads a GraphBatch; got Tensor. .*Collate"):
        Graphormer(GraphormerConfig(**SMALL))(torch.zeros(2, 3))


# --- training ------------------------------------------------------------------------------------

TOY = tuple(
    "".join(parts)
    for head in ("C", "CC", "N", "OC", "FC")
    for ring in ("C1CC1", "C1CCCC1", "C1CCCCC1", "c1ccccc1")
    for parts in ((head, ring), (head, "C(=O)", ring), (head, "C", ring, "O"))
)


def toy_config(**options: object) -> GraphormerConfig:
    settings = {"layers": 3, "width": 16, "ffn_width": 16, "heads": 4, "max_distance": 10}
    settings |= {"max_path_length": 5, "dropout": 0.0, "attention_dropout": 0.0}
    return GraphormerConfig(**settings | options)


def train_toy(
    model: Graphormer, batch: GraphBatch, steps: int, lr: float = 3e-3, decay: bool = True
) -> list[float]:
    """Fit the number of bonds minus that of oxygens, and return the losses."""
    graphs = zinc_graphs(TOY)
    target = torch.tensor([[float(g.num_bonds - (g.atom_features == 1).sum())] for g in graphs])
    target = (target - target.mean()) / target.std()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    losses = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = lr * (1 - step / steps) if decay else lr
        loss = (model(batch) - target).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def gap_between_modes(model: Graphormer, batch: GraphBatch) -> float:
    """Largest difference of the outputs in training and evaluation, in standard deviations."""
    with torch.no_grad():
        evaluated = model.eval()(batch)
        trained = model.train()(batch)
    return float((evaluated - trained).abs().max() / trained.std())


@pytest.mark.claim(
    "After training, training and evaluation mode agree to a tenth of the outputs' standard "
    "deviation (the remainder is the factor n / (n − 1)), and exactly at the first norm."
)
@pytest.mark.parametrize("steps", [5, 60, 200])
def test_training_and_evaluation_mode_agree_after_training(steps: int) -> None:
    """Without dropout they agree to a tenth of a standard deviation, also after a few steps, once
    the statistics are estimated as before a validation. The rest is the factor n / (n − 1) of the
    variance. The running averages differ much more in the beginning."""
    torch.manual_seed(0)
    model = Graphormer(toy_config())
    batch = batch_of(zinc_graphs(TOY), model.config, max_groups=2)
    losses = train_toy(model, batch, steps)
    if steps == 60:
        assert losses[-1] < 0.1 * losses[0]
        assert gap_between_modes(copy.deepcopy(model), batch) > 0.5
    estimate_statistics(model, [batch])
    assert gap_between_modes(model, batch) < 0.1


def test_why_the_first_norm_of_the_graph_token_is_no_batch_norm() -> None:
    """The token has no variance at the first site. While the weights change, a batch norm turns the
    lag of its running mean into an error of the order of one. A layer norm has no such error."""
    gaps = {}
    for first in ("layer", "batch"):
        torch.manual_seed(1)
        model = Graphormer(toy_config())
        if first == "batch":
            model.layers[0].attention_norm.cls_norm = nn.BatchNorm1d(model.config.width)
        batch = batch_of(zinc_graphs(TOY), model.config, max_groups=2)
        train_toy(model, batch, steps=150, lr=1e-3, decay=False)
        site, x = model.layers[0].attention_norm, model.embedding(batch)
        with torch.no_grad():
            evaluated = site.eval()(x, batch.graph_token, batch.mask)
            trained = site.train()(x, batch.graph_token, batch.mask)
        gaps[first] = float((evaluated - trained).abs().max())
    assert gaps["layer"] == 0
    assert gaps["batch"] > 0.5


def test_equal_seeds_give_equal_bits() -> None:
    """Two training steps with dropout and the same seed give the same parameters, bit by bit."""
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        config = toy_config(dropout=0.1, attention_dropout=0.1, activation_dropout=0.1)
        model = Graphormer(config)
        train_toy(model, batch_of(zinc_graphs(TOY), config, max_groups=3), steps=2)
        states.append(model.state_dict())
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name
    assert not torch.equal(states[0]["head.weight"], states[2]["head.weight"])


@pytest.mark.parametrize("parts", [FAST, PLAIN], ids=["fast", "plain"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "shared", "readout": "token+mean"},
        {"local": "gine", "node_walks": 3, "pair_walks": 3},
    ],
    ids=str,
)
def test_networks_of_low_precision_are_near_float32(
    options: dict, dtype: torch.dtype, parts: Parts
) -> None:
    """They also train on a CPU, whose sparse products are float32."""
    model = Graphormer(GraphormerConfig(**SMALL | options), parts).eval()
    model.load_state_dict(far_from_initial(**options).state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.7)  # with larger logits rounding errors grow
    batch = batch_of(zinc_graphs(), model.config)
    expected = model(batch)
    low = copy.deepcopy(model).to(dtype)
    found = low(batch)
    assert found.dtype == dtype
    error = 5 * torch.finfo(dtype).eps
    torch.testing.assert_close(found.float(), expected, rtol=error, atol=error)
    if dtype == torch.bfloat16:  # training in float16 needs a scaled loss
        low.train()(batch).square().sum().backward()
        assert all(each.grad is None or each.grad.isfinite().all() for each in low.parameters())


def unread_parameters(layers: int) -> set[str]:
    """SepNorm's norm of atoms before the last feed-forward block, which computes the token only."""
    return {f"layers.{layers - 1}.ffn_norm.tok_norm.{kind}" for kind in ("weight", "bias")}


@pytest.mark.parametrize("norm", ["sep-ln", "shared"])
def test_every_parameter_that_is_read_has_a_gradient(norm: str) -> None:
    """With layer norms, since a batch norm cancels the biases before it. Not read is SepNorm's norm
    of atoms before the last feed-forward block."""
    model = far_from_initial(norm=norm, dropout=0.0).double().train()
    (model(batch_of(zinc_graphs(), model.config)) ** 3).sum().backward()
    unused = set()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            unused.add(name)
            continue
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 1e-9, name
    assert unused == (unread_parameters(layers=3) if norm == "sep-ln" else set())


def with_a_full_last_layer(model: Graphormer) -> Graphormer:
    """A copy that computes all slots in its last layer, with the same weights."""
    full = copy.deepcopy(model)
    layer = full.layers[-1]
    if type(layer) is GraphTokenLayer:
        layer.__class__ = GraphormerLayer
    kinds = {GraphTokenSepNorm: SepNorm, GraphTokenSharedNorm: SharedNorm}
    for norm in (layer.attention_norm, layer.ffn_norm, full.last_norm):
        norm.__class__ = kinds.get(type(norm), type(norm))
    full.readout = Readout("token", full.config.width)
    return full


@pytest.mark.parametrize("options", NORMS, ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_a_last_layer_for_graph_tokens_equals_a_full_layer(options: dict, training: bool) -> None:
    """Outputs and gradients, in evaluation and (without dropout) in training."""
    still = {"dropout": 0.0, "attention_dropout": 0.0}
    model = far_from_initial(**options, **still).double().train(training)
    batch, found = batch_of(zinc_graphs(), model.config, max_groups=3), []
    for network in (model, with_a_full_last_layer(model)):
        outputs = network(batch)
        (outputs**3).sum().backward()
        gradients = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
        found.append((outputs, gradients))
    (outputs, gradients), (expected, expected_gradients) = found
    torch.testing.assert_close(outputs, expected, rtol=1e-10, atol=1e-10)
    assert set(expected_gradients) == set(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient, expected_gradients[name], rtol=1e-8, atol=1e-9, msg=name
        )


def test_autocast_trains_near_float32() -> None:
    """A step under bfloat16 autocast works with dropout; statistics stay float32."""
    model = Graphormer(toy_config(dropout=0.1, attention_dropout=0.1))
    batch = batch_of(zinc_graphs(TOY), model.config)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(batch)
    outputs.float().square().sum().backward()
    for name, parameter in model.named_parameters():
        if name not in unread_parameters(model.config.layers):
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
    assert model.last_norm.cls_norm.running_var.dtype == torch.float32
