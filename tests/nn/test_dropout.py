"""ByteDropout: rate, scale and independence of its masks."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from molsepnorm.molecules import featurize
from molsepnorm.nn import GraphormerConfig
from molsepnorm.nn.dropout import ByteDropout, dropout_alone
from support import SMALL, batch_of, far_from_initial

GRAPHS = [featurize.get("zinc")(text) for text in ("CCO", "c1ccccc1", "CC(=O)N", "C", "C1CC1O")]
MANY = 1 << 20
SIGMAS = 5  # of a normal deviate: one false alarm in two million, and the seeds are fixed


def rounded(p: float) -> float:
    return round(256 * p) / 256


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dropout_returns_its_input_at_p_0_and_in_evaluation(dtype: torch.dtype) -> None:
    x = torch.randn(3, 5, dtype=dtype)
    residual = torch.randn(3, 5, dtype=dtype)
    for layer in (ByteDropout(0.0), ByteDropout(0.5).eval()):
        assert layer(x) is x
        assert layer.dropout_mask(x) is None
        torch.testing.assert_close(layer.add(residual, x), residual + x, rtol=0, atol=0)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.25, 0.5, 0.9])
def test_rate_and_expectation(p: float) -> None:
    """Elements are dropped with probability round(256 p) / 256, and the expectation is kept."""
    torch.manual_seed(0)
    layer = ByteDropout(p)
    y = layer(torch.ones(MANY))
    dropped = y == 0
    deviation = (rounded(p) * (1 - rounded(p)) / MANY) ** 0.5
    assert abs(dropped.double().mean() - rounded(p)) < SIGMAS * deviation
    assert abs(y.double().mean() - 1) < SIGMAS * deviation / (1 - rounded(p))
    assert layer.scale == pytest.approx(1 / (1 - rounded(p)), rel=1e-12)
    torch.testing.assert_close(
        y[~dropped], torch.full_like(y[~dropped], layer.scale), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_all_bytes_of_a_word_have_the_same_rate(p: float) -> None:
    """No bit of the random words is constant."""
    torch.manual_seed(1)
    mask = ByteDropout(p).dropout_mask(torch.empty(MANY))
    assert mask is not None
    rates = 1 - mask.view(-1, 8).double().mean(0)
    deviation = (rounded(p) * (1 - rounded(p)) / (MANY / 8)) ** 0.5
    assert (rates - rounded(p)).abs().max() < SIGMAS * deviation


def test_neighbouring_elements_are_uncorrelated() -> None:
    """Masks of elements at distances 1 to 16, and of two calls, have no correlation."""
    torch.manual_seed(2)
    layer = ByteDropout(0.3)
    first, second = (layer.dropout_mask(torch.empty(MANY)).double() for _ in range(2))
    centred = (first - first.mean()) / first.std()
    bound = SIGMAS / MANY**0.5
    for lag in range(1, 17):
        assert abs((centred[:-lag] * centred[lag:]).mean()) < bound, lag
    other = (second - second.mean()) / second.std()
    assert abs((centred * other).mean()) < bound


def test_add_is_residual_plus_dropout() -> None:
    """Outputs and gradients; `add` draws the same mask as a call."""
    layer = ByteDropout(0.4)
    residual = torch.randn(7, 11, requires_grad=True)
    x = torch.randn(7, 11, requires_grad=True)
    weight = torch.randn(7, 11)
    gradients = []
    results = []
    for compute in (lambda: layer.add(residual, x), lambda: residual + layer(x)):
        torch.manual_seed(3)
        results.append(compute())
        gradients.append(torch.autograd.grad((results[-1] * weight).sum(), (residual, x)))
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*gradients)
    assert (gradients[0][1] == 0).any()


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_a_probability_out_of_range_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="0 ≤ p < 1"):
        ByteDropout(p)


@pytest.mark.parametrize("p", [0.1, 0.6])
def test_gradcheck(p: float) -> None:
    """Gradients of a call and of `add`, with a fixed mask, equal finite differences."""
    layer = ByteDropout(p)
    torch.manual_seed(8)
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    residual = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)

    def call(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(9)
        return layer(x)

    def add(residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(9)
        return layer.add(residual, x)

    assert torch.autograd.gradcheck(call, (x,))
    assert torch.autograd.gradcheck(add, (residual, x))
    zeros = call(x) == 0
    assert zeros.any()
    assert not zeros.all()


@pytest.mark.parametrize("training", [False, True])
def test_dropout_alone_leaves_norms_and_modes_as_they_are(training):
    config = GraphormerConfig(**{**SMALL, "norm": "sep-bn", "dropout": 0.3})
    network, batch = far_from_initial(config), batch_of(GRAPHS, config)
    network.train(training)
    modes = [module.training for module in network.modules()]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    one = batch_of(GRAPHS[:1], network.config)  # a batch norm could not train on it
    with dropout_alone(network), torch.no_grad():
        first, second = network.embed(one), network.embed(one)
        averages = torch.stack([network.embed(batch) for _ in range(30)]).mean(0)
    assert not torch.equal(first, second)
    assert [module.training for module in network.modules()] == modes
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    with torch.no_grad():
        plain = network.eval().embed(batch)
    assert F.cosine_similarity(averages, plain).min() > 0.5
