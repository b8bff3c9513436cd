"""The Triton kernels against the formula: on a GPU, or on the CPU by Triton's interpreter."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="Triton is not installed")

from molsepnorm.nn import PaddedGroup
from molsepnorm.nn.kernels import fused_attention as fused
from molsepnorm.nn.kernels.attention import FastSelfAttention
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.nn.kernels.fused_attention import fits, fused_attention
from molsepnorm.nn.pairs.tensors import PairTensors

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GROUPS = (
    PaddedGroup(2, 4),
    PaddedGroup(1, 39),
    PaddedGroup(2, 1),
    PaddedGroup(1, 66),
    PaddedGroup(1, 17),
)
SLOTS = sum(group.graphs * group.slots for group in GROUPS)
HEADS = 2
DROPPED, SCALE = 64, 256 / 192  # a quarter


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer uses the kernels on the CPU, too; unwritten outputs are NaN."""
    monkeypatch.setattr(fused, "DEVICES", {"cpu", "cuda"})
    y, gradients = fused._empty_like_output, fused._empty_like_inputs
    monkeypatch.setattr(fused, "_empty_like_output", lambda *of: y(*of).fill_(torch.nan))
    monkeypatch.setattr(
        fused, "_empty_like_inputs", lambda *of: [x.fill_(torch.nan) for x in gradients(*of)]
    )


def some_inputs(
    size: int = 10, groups: tuple[PaddedGroup, ...] = GROUPS, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, list[Tensor]]:
    """qkv for heads of some width, and the biases, with gradients."""
    torch.manual_seed(0)
    slots = sum(group.graphs * group.slots for group in groups)
    qkv = torch.randn(slots, 3 * HEADS * size, device=DEVICE).to(dtype)
    bias = [torch.randn(HEADS, g.graphs, g.slots, g.slots, device=DEVICE) for g in groups]
    return qkv.requires_grad_(), [part.requires_grad_() for part in bias]


def plain(qkv: Tensor, bias: list[Tensor], masks: list[Tensor] | None = None) -> Tensor:
    """The formula, in float64."""
    rows, start = [], 0
    for index, part in enumerate(bias):
        heads, graphs, queries, slots = part.shape
        own = qkv[start : start + graphs * slots].double()
        start += graphs * slots
        q, k, v = own.view(graphs, slots, 3, heads, -1).permute(2, 3, 0, 1, 4)  # (H, graphs, S, _)
        logits = q[:, :, :queries] @ k.transpose(2, 3) / q.shape[-1] ** 0.5 + part.double()
        weights = logits.softmax(-1)
        if masks is not None:
            weights = weights * masks[index] * SCALE
        rows.append((weights @ v).permute(1, 2, 0, 3).flatten(2).flatten(0, 1))
    return torch.cat(rows)


def assert_near(mine: Tensor, exact: Tensor, error: float = 5e-6) -> None:
    """The error is small relative to the norm of the whole tensor."""
    assert mine.isfinite().all()
    assert (mine.double() - exact.double()).norm() <= error * exact.double().norm() + 1e-12


def assert_same_values_and_gradients(
    mine: Tensor, exact: Tensor, inputs: list[Tensor], error: float = 5e-6
) -> None:
    assert_near(mine, exact, error)
    weight = torch.randn_like(exact).to(mine.dtype)
    gradients = torch.autograd.grad((mine * weight).sum(), inputs)
    expected = torch.autograd.grad((exact * weight).sum(), inputs)
    for one, other, of in zip(gradients, expected, inputs, strict=True):
        assert one.dtype == of.dtype
        assert_near(one, other, error)


@pytest.mark.parametrize("size", [5, 10, 16, 24])
def test_fused_attention_equals_the_formula(size: int) -> None:
    """Values and gradients, for groups of different shapes; one has graphs of a single slot."""
    qkv, bias = some_inputs(size)
    assert_same_values_and_gradients(
        fused_attention(qkv, bias), plain(qkv, bias), [qkv, bias[0], bias[1], bias[3], bias[4]]
    )
    # the gradient of a sum is an expanded tensor, which is not contiguous
    mine, exact = (y(qkv, bias).sum() for y in (fused_attention, plain))
    assert_near(*(torch.autograd.grad(y, qkv)[0] for y in (mine, exact)))
    assert not torch.autograd.grad(fused_attention(qkv, bias).sum(), bias[2])[0].any()


def test_groups_of_the_maximum_size_are_supported() -> None:
    qkv, bias = some_inputs(4, (PaddedGroup(1, fused.FUSED_SLOTS),))
    assert_same_values_and_gradients(fused_attention(qkv, bias), plain(qkv, bias), [qkv, *bias])


def test_queries_of_graph_tokens_equal_the_formula() -> None:
    """Q is 1, with a slice of the whole bias. The gradients of other queries are written as 0."""
    qkv, bias = some_inputs()
    first_rows = [part[:, :, :1] for part in bias]
    inputs = [qkv, bias[0], bias[1], bias[3], bias[4]]
    y = fused_attention(qkv, first_rows)
    assert y.shape == (7, qkv.shape[1] // 3)
    assert_same_values_and_gradients(y, plain(qkv, first_rows), inputs)


def test_a_transposed_bias_equals_the_formula() -> None:
    qkv, bias = some_inputs()
    turned = [part.transpose(2, 3) for part in bias]
    inputs = [qkv, bias[1], bias[3]]
    assert_same_values_and_gradients(fused_attention(qkv, turned), plain(qkv, turned), inputs)


def test_padding_keys_have_no_weight_and_no_gradient() -> None:
    groups = (PaddedGroup(2, 5), PaddedGroup(1, 40))
    qkv, bias = some_inputs(10, groups)
    real = torch.ones(50, dtype=torch.bool, device=DEVICE)
    for last in (4, 9, 48, 49):
        real[last] = False
    padded = [part.detach().clone() for part in bias]
    padded[0][..., 4:], padded[1][..., 38:] = -torch.inf, -torch.inf
    padded = [part.requires_grad_() for part in padded]
    y = fused_attention(qkv, padded)
    gradients = torch.autograd.grad(y[real].square().sum(), (qkv, *padded))
    assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients)
    assert not gradients[0][~real].any()
    assert not gradients[1][..., 4:].any() and not gradients[2][..., 38:].any()
    other = qkv.detach().clone()
    other[~real] = 100.0
    assert torch.equal(fused_attention(other, padded)[real], y[real])


def test_rows_without_a_key_give_zeros() -> None:
    """A graph that fills a fixed batch may have such rows."""
    qkv, bias = some_inputs(10, (PaddedGroup(2, 3),))
    empty = bias[0].detach().clone()
    empty[:, 1] = -torch.inf
    empty.requires_grad_()
    y = fused_attention(qkv, [empty], DROPPED, SCALE)
    assert y[:3].any() and not y[3:].any()
    for gradient in torch.autograd.grad(y.square().sum(), (qkv, empty)):
        assert gradient.isfinite().all() and gradient.any()


@pytest.mark.parametrize("shift", [-2000.0, 2000.0])
def test_a_constant_added_to_all_logits_changes_nothing(shift: float) -> None:
    """Except for the precision of the bias."""
    qkv, bias = some_inputs(10, GROUPS[:2])
    shifted = [part.detach() + shift for part in bias]
    assert_near(fused_attention(qkv, shifted), plain(qkv, bias), 3e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_accurate_to_its_rounding(dtype: torch.dtype) -> None:
    qkv, bias = some_inputs(10, GROUPS[:2], dtype)
    y = fused_attention(qkv, bias)
    assert y.dtype == dtype
    error = 4 * torch.finfo(dtype).eps
    assert_same_values_and_gradients(y, plain(qkv, bias), [qkv, *bias], error)


# Dropout


def some_masks(groups: tuple[PaddedGroup, ...], seed: int, dropped: int = DROPPED) -> list[Tensor]:
    """The dropout masks for a seed, measured with equal weights and v = 1 in one slot at a time."""
    width = 32
    _, bias = some_inputs(width, groups)
    bias = [torch.zeros_like(part) for part in bias]
    masks = [torch.zeros_like(part) for part in bias]
    for first in range(0, max(group.slots for group in groups), width):
        v = [
            torch.eye(group.slots, first + width, device=DEVICE)[:, first:].repeat(group.graphs, 1)
            for group in groups
        ]
        qkv = torch.cat(v).repeat(1, 3 * HEADS)
        qkv[:, : 2 * HEADS * width] = 0
        torch.manual_seed(seed)
        y = fused_attention(qkv, bias, dropped, 1.0)
        start = 0
        for group, mask in zip(groups, masks, strict=True):
            own = y[start : start + group.graphs * group.slots] * group.slots
            start += group.graphs * group.slots
            seen = own.view(group.graphs, group.slots, HEADS, width).permute(2, 0, 1, 3)
            mask[..., first : first + width] = seen[..., : max(group.slots - first, 0)]
    for mask in masks:
        torch.testing.assert_close(mask, mask.round())
    return [mask.round() for mask in masks]


def test_dropout_is_the_same_forward_and_backward() -> None:
    """Values and gradients equal the formula with the measured mask."""
    groups = (PaddedGroup(2, 7), PaddedGroup(1, 33), PaddedGroup(1, 66))
    masks = some_masks(groups, seed=3)
    qkv, bias = some_inputs(10, groups)
    torch.manual_seed(3)
    y = fused_attention(qkv, bias, DROPPED, SCALE)
    assert_same_values_and_gradients(y, plain(qkv, bias, masks), [qkv, *bias])


def test_the_dropout_mask_of_graph_tokens_is_that_of_all_slots() -> None:
    """For tiles of any size."""
    groups = (PaddedGroup(3, 20), PaddedGroup(1, 40))
    masks = [mask[:, :, :1] for mask in some_masks(groups, seed=4)]
    qkv, bias = some_inputs(10, groups)
    torch.manual_seed(4)
    first_rows = [part[:, :, :1] for part in bias]
    y = fused_attention(qkv, first_rows, DROPPED, SCALE)
    assert_same_values_and_gradients(y, plain(qkv, first_rows, masks), [qkv, *bias])


@pytest.mark.parametrize("dropped", [1, 26, 128, 255])
def test_the_rate_of_dropped_weights(dropped: int) -> None:
    """In total and in each column, which uses a certain byte of the random words."""
    masks = torch.stack(
        some_masks((PaddedGroup(3, 32), PaddedGroup(3, 32)), 5, dropped)
    )  # (2, H, 3, 32, 32)
    share = 1 - dropped / 256
    for mean, count in ((masks.mean(), masks.numel()), (masks.mean((0, 1, 2, 3)), 2 * 6 * 32)):
        deviation = (share * (1 - share) / count) ** 0.5
        assert (mean - share).abs().max() < 4.5 * deviation + 1e-6
    assert masks.view(-1, 4).any(0).all()  # 255 occurs at every byte of a word


def test_dropout_masks_are_independent() -> None:
    """Between heads, graphs, groups, rows and calls."""
    groups = (PaddedGroup(2, 32), PaddedGroup(2, 32))
    both = torch.stack([torch.stack(some_masks(groups, seed, 128)) for seed in (6, 7)])
    rows, columns = both.flatten(0, 3).transpose(0, 1).flatten(1), both.flatten(0, 4).T
    for masks in (both.view(16, -1), rows, columns):
        for one, other in itertools.combinations(masks, 2):
            assert abs(float((one == other).float().mean()) - 0.5) < 5 * 0.5 / len(one) ** 0.5


def test_dropout_follows_the_seed_of_pytorch() -> None:
    """Values and gradients repeat bit by bit, and the next call differs."""
    qkv, bias = some_inputs(10, GROUPS[:2])
    results = []
    for _ in range(2):
        torch.manual_seed(8)
        y = fused_attention(qkv, bias, DROPPED, SCALE)
        results.append((y, *torch.autograd.grad(y.square().sum(), (qkv, *bias))))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert not torch.equal(fused_attention(qkv, bias, DROPPED, SCALE), results[0][0])


def test_dropout_keeps_the_mean() -> None:
    qkv, bias = some_inputs(10, (PaddedGroup(1, 5),))
    torch.manual_seed(9)
    mean = torch.stack([fused_attention(qkv, bias, DROPPED, SCALE) for _ in range(40)]).mean(0)
    assert_near(mean, fused_attention(qkv, bias), 0.15)


@pytest.mark.skipif(DEVICE == "cpu", reason="CUDA graphs need a GPU")
def test_replays_of_a_cuda_graph_draw_new_masks() -> None:
    """Each replay has gradients that fit its own mask: v's sum to the weights that stayed."""
    qkv, bias = some_inputs(10, GROUPS[:2])

    def step() -> tuple[Tensor, Tensor]:
        y = fused_attention(qkv, bias, DROPPED, SCALE)
        return y.detach(), torch.autograd.grad(y.square().sum(), qkv)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, gradient = step()
    seen = []
    for _ in range(2):
        graph.replay()
        # Σ v·∂v of a loss that is quadratic in y, which is linear in v
        v, grad_v = (x[:, 2 * x.shape[1] // 3 :] for x in (qkv.detach(), gradient))
        torch.testing.assert_close((v * grad_v).sum(), 2 * y.square().sum(), rtol=1e-4, atol=0)
        seen.append(y.clone())
    assert not torch.equal(*seen)


# The layer


@pytest.mark.parametrize("tokens_only", [False, True])
def test_the_layer_is_equal_with_and_without_kernels(
    tokens_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, and gradients of input, biases and weights."""
    _, bias = some_inputs()
    layer = FastSelfAttention(20, HEADS, ByteDropout(0.0)).to(DEVICE)
    x = torch.randn(SLOTS, 20, device=DEVICE, requires_grad=True)
    assert fits(x, GROUPS, HEADS)
    pairs = PairTensors(bias).first_query() if tokens_only else PairTensors(bias)
    y = layer(x, pairs, GROUPS)
    monkeypatch.setattr(fused, "DEVICES", set())
    expected = layer(x, pairs, GROUPS)
    inputs = [x, bias[0], bias[1], bias[3], layer.qkv.weight, layer.out.weight, layer.out.bias]
    assert_same_values_and_gradients(y, expected, inputs, 1e-5)


def test_the_layer_applies_dropout_in_training_only() -> None:
    _, bias = some_inputs(10, GROUPS[:2])
    layer = FastSelfAttention(20, HEADS, ByteDropout(0.5)).to(DEVICE)
    x = torch.randn(47, 20, device=DEVICE)
    assert not torch.allclose(
        layer(x, PairTensors(bias), GROUPS[:2]), layer(x, PairTensors(bias), GROUPS[:2])
    )
    expected = layer.out(plain(layer.qkv(x), bias).float())
    assert_near(layer.eval()(x, PairTensors(bias), GROUPS[:2]), expected)


def test_the_layer_under_autocast() -> None:
    """The projections are bfloat16, and gradients are float32."""
    _, bias = some_inputs(10, GROUPS[:2])
    layer = FastSelfAttention(20, HEADS, ByteDropout(0.0)).to(DEVICE)
    x = torch.randn(47, 20, device=DEVICE, requires_grad=True)
    with torch.autocast(DEVICE, torch.bfloat16):
        y = layer(x, PairTensors(bias), GROUPS[:2])
    exact = layer.out(plain(layer.qkv(x), bias).float())
    assert_same_values_and_gradients(y.float(), exact, [x, *bias, layer.qkv.weight], 0.03)


@pytest.mark.parametrize(
    "dtype, width, group",
    [
        (torch.float64, 20, PaddedGroup(1, 3)),
        (torch.float32, 20, PaddedGroup(1, fused.FUSED_SLOTS + 1)),
        (torch.float32, HEADS * (fused.FUSED_WIDTH + 1), PaddedGroup(1, 3)),
    ],
)
def test_unsupported_inputs_do_not_use_the_kernels(
    dtype: torch.dtype, width: int, group: PaddedGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(fused, "_launch")
    layer = FastSelfAttention(width, HEADS, ByteDropout(0.1)).to(DEVICE, dtype)
    x = torch.randn(group.slots, width, device=DEVICE, dtype=dtype)
    bias = [torch.zeros(HEADS, 1, group.slots, group.slots, device=DEVICE, dtype=dtype)]
    assert not fits(x, (group,), HEADS)
    assert layer(x, PairTensors(bias), (group,)).isfinite().all()


def test_gates_do_not_use_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates of 1 change nothing, and gates of 2 double the output."""
    _, bias = some_inputs(10, GROUPS[:2])
    layer = FastSelfAttention(20, HEADS, ByteDropout(0.0)).to(DEVICE)
    torch.nn.init.zeros_(layer.out.bias)
    x = torch.randn(47, 20, device=DEVICE)
    assert fits(x, GROUPS[:2], HEADS)
    expected = layer(x, PairTensors(bias), GROUPS[:2])
    monkeypatch.delattr(fused, "_launch")
    for factor in (1.0, 2.0):
        gates = [torch.full_like(part, factor) for part in bias]
        assert_near(layer(x, PairTensors(bias, gates), GROUPS[:2]), factor * expected)


def test_a_machine_without_triton_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer works without Triton, or without the C compiler that it calls."""

    def no_compiler(*_: object) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(fused, "_launch", no_compiler)
    x = torch.zeros(3, 20, device=DEVICE)
    fused._runs_on.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"does not run on .*RuntimeError: no C compiler"):
            assert not fits(x, (PaddedGroup(1, 3),), HEADS)
        assert not fits(x, (PaddedGroup(1, 3),), HEADS)  # a warning here would be an error
    finally:
        fused._runs_on.cache_clear()


def test_a_bias_with_another_number_of_slots_is_refused() -> None:
    qkv, bias = some_inputs(10, (PaddedGroup(2, 3),))
    with pytest.raises(ValueError, match=r"\(2, 2, 3, 3\) hold 6 slots, but qkv has 5 rows"):
        fused_attention(qkv[:5], bias)


def test_the_operation_is_registered_correctly() -> None:
    """Its schema, gradient and the shapes for torch.compile."""
    qkv, bias = some_inputs(10, GROUPS[:1])
    seeds = torch.tensor([5], device=DEVICE)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for inputs in ((qkv, bias, None, 0, 1.0), (qkv, bias, seeds, DROPPED, SCALE)):
        torch.library.opcheck(fused._attend, inputs, test_utils=tests)


def test_tf32_follows_the_setting_of_pytorch() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        for setting, precision in (("highest", "ieee"), ("high", "tf32")):
            torch.set_float32_matmul_precision(setting)
            assert fused.constants(3, 3, 2, 10, 0, torch.float32)["PRECISION"] == precision
    finally:
        torch.set_float32_matmul_precision(before)


def test_importing_the_network_does_not_import_triton_and_the_compiler() -> None:
    """Their import takes a second."""
    code = "import sys, molsepnorm.nn; print({'triton', 'torch._dynamo'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_no_kernel_of_slim_spills_on_hopper(tmp_path: Path) -> None:
    """Compiled ahead of time, which needs no GPU."""
    tool = Path(__file__).parents[3] / "benchmarks" / "gpu" / "compile.py"
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(tool), "--slots", "24,39", "--dropped", "26"],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    head, *rows = (line.split() for line in done.stdout.splitlines())
    assert len(rows) == 12
    assert all(row[head.index("spilled")] == "0" for row in rows)
