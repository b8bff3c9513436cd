"""ByteDropout: rate, scale and independence of its masks."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.nn.dropout import ByteDropout

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


def test_equal_seeds_give_equal_masks() -> None:
    """Two draws in a row differ."""
    layer = ByteDropout(0.5)
    x = torch.ones(1000)
    torch.manual_seed(4)
    first, second = layer(x), layer(x)
    torch.manual_seed(4)
    torch.testing.assert_close(layer(x), first, rtol=0, atol=0)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("shape", [(), (7,), (9,), (0, 4), (2, 3, 5, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_size_and_dtype(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Also sizes that are no multiple of eight; shape and dtype are kept."""
    torch.manual_seed(5)
    layer = ByteDropout(0.5)
    x = torch.ones(shape, dtype=dtype)
    y = layer(x)
    assert (y.shape, y.dtype) == (x.shape, dtype)
    assert set(y.flatten().tolist()) <= {0.0, 2.0}
    assert torch.equal(x, torch.ones(shape, dtype=dtype))  # the input is not changed


def test_transposed_input() -> None:
    """Survivors of an input that is not contiguous keep their values."""
    torch.manual_seed(6)
    x = torch.randn(5, 9).T
    y = ByteDropout(0.5)(x)
    kept = y != 0
    torch.testing.assert_close(y[kept], 2 * x[kept])
    assert kept.any()
    assert not kept.all()


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


def test_compiled_dropout_accepts_batches_of_several_shapes() -> None:
    """The rate is as without compilation."""
    torch._dynamo.reset()
    compiled = torch.compile(ByteDropout(0.25), backend="aot_eager", fullgraph=True)
    for shape in ((4, 3), (13, 3), (301, 40), (1, 3)):
        y = compiled(torch.ones(shape))
        assert y.shape == shape
        assert set(y.flatten().tolist()) <= {0.0, torch.tensor(4 / 3).item()}
    assert 0.2 < (compiled(torch.ones(301, 40)) == 0).double().mean() < 0.3


def test_a_changed_probability_is_used() -> None:
    """Also by `add`; tools for uncertainty set `p` of every dropout."""
    layer, x = ByteDropout(0.1), torch.ones(MANY)
    layer.p = 0.5
    torch.manual_seed(10)
    for y in (layer(x), layer.add(torch.zeros(MANY), x)):
        assert set(y.unique().tolist()) == {0.0, 2.0}
        assert 0.49 < (y == 0).double().mean() < 0.51
