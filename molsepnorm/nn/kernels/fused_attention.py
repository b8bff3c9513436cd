"""Attention of short sequences with an additive bias, as two Triton kernels for GPUs.

One program computes one graph and head: a molecule's attention weights fit into its registers. The
only tensor of shape (S, S) that is written is the gradient of the bias. The backward kernel
computes the weights again, with the same dropout mask from the same seed.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from molsepnorm.nn.batch import PaddedGroup

__all__ = [
    "FUSED_SLOTS",
    "FUSED_WIDTH",
    "constants",
    "fits",
    "fused_attention",
    "warps",
    "without_kernels",
]

FUSED_SLOTS = 128
"""Maximum number of slots of a padded group."""

FUSED_WIDTH = 32
"""Maximum width of a head."""

DEVICES = {"cuda"}
"""Types of devices that use the kernels. Tests add the CPU, on which Triton interprets them."""

_TYPES = (torch.float32, torch.bfloat16, torch.float16)

_MIN_TILE = 16  # smallest factor of a matrix product


def fused_attention(
    qkv: Tensor,  # (M, 3C): q of every head, then k, then v
    bias: Sequence[Tensor],  # for each group (H, graphs, Q, S); Q is S, or 1: graph tokens only
    dropped: int = 0,
    scale: float = 1.0,
) -> Tensor:  # (ΣQ, C), of qkv's type
    r"""Return softmax(Q Kᵀ / √(C/H) + b) V within each graph, with dropout of the weights.

    Sums and the softmax are computed in float32 for any type of qkv. Products of float32 numbers
    are float32, or TF32 if PyTorch's settings allow it. Results repeat bit by bit with PyTorch's
    seed. A row whose logits are all −∞ gives zeros.

    Args:
        qkv: float32, bfloat16 or float16.
        bias: −∞ if the key is padding.
        dropped: weights are dropped with the probability dropped / 256.
        scale: factor of the other weights.

    Raises:
        ValueError: the number of slots of the bias is not the number of rows of qkv.
    """
    slots = sum(part.shape[1] * part.shape[3] for part in bias)
    if slots != len(qkv):
        shapes = ", ".join(str(tuple(part.shape)) for part in bias)
        raise ValueError(
            f"biases (H, graphs, Q, S) of shapes {shapes} hold {slots} slots, but qkv has "
            f"{len(qkv)} rows; expected as many"
        )
    # drawn on the device, so that every replay of a CUDA graph draws new ones
    seeds = torch.randint(2**62, (len(bias),), device=qkv.device) if dropped else None
    y: Tensor = _attend(qkv, list(bias), seeds, dropped, scale)
    return y


def fits(x: Tensor, groups: Sequence[PaddedGroup], heads: int) -> bool:
    """Return whether `fused_attention` supports x (M, C), its device and the padded groups."""
    return (
        x.device.type in DEVICES
        and x.dtype in _TYPES
        and x.shape[1] <= FUSED_WIDTH * heads
        and all(group.slots <= FUSED_SLOTS for group in groups)
        and (torch.compiler.is_compiling() or _runs_on(x.device))  # compilers need Triton too
    )


@contextmanager
def without_kernels(off: bool = True) -> Iterator[None]:
    """Compute attention without the kernels on every device, if `off`."""
    before = set(DEVICES)
    if off:
        DEVICES.clear()
    try:
        yield
    finally:
        DEVICES.update(before)


@functools.cache
def _runs_on(device: torch.device) -> bool:
    """Try it once: Triton, or the C compiler that it calls, may be missing or incompatible."""
    try:
        with torch.no_grad():
            fused_attention(
                torch.zeros(1, 3, device=device, dtype=torch.float32),
                [torch.zeros(1, 1, 1, 1, device=device, dtype=torch.float32)],
            )
    except Exception as error:
        warnings.warn(
            f"the fused attention does not run on {device}, so the slower one without Triton is "
            f"used: {type(error).__name__}: {error}",
            stacklevel=2,
        )
        return False
    return True


# The operations are opaque to torch.compile, which does not change the kernels.


@torch.library.custom_op(
    "molsepnorm::attend",
    mutates_args=(),
    schema="(Tensor qkv, Tensor[] bias, Tensor? seeds, int dropped, float scale) -> Tensor",
)
def _attend(
    qkv: Tensor, bias: list[Tensor], seeds: Tensor | None, dropped: int, scale: float
) -> Tensor:
    y = _empty_like_output(qkv, bias)
    _launch("forward", qkv, bias, seeds, dropped, scale, [(y,)] * len(bias))
    return y


@torch.library.custom_op(
    "molsepnorm::attend_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor qkv, Tensor[] bias, Tensor? seeds, int dropped, float scale)"
    " -> Tensor[]",
)
def _attend_backward(
    grad: Tensor,
    qkv: Tensor,
    bias: list[Tensor],
    seeds: Tensor | None,
    dropped: int,
    scale: float,
) -> list[Tensor]:  # the gradients of qkv and of every group's bias
    gradients = _empty_like_inputs(qkv, bias)
    grad = grad.contiguous()
    outputs = [(grad, gradients[0], grad_bias) for grad_bias in gradients[1:]]
    _launch("backward", qkv, bias, seeds, dropped, scale, outputs)
    return gradients


def _empty_like_output(qkv: Tensor, bias: list[Tensor], *_: Any) -> Tensor:
    return qkv.new_empty(sum(part.shape[1] * part.shape[2] for part in bias), qkv.shape[1] // 3)


def _empty_like_inputs(qkv: Tensor, bias: list[Tensor], *_: Any) -> list[Tensor]:
    return [part.new_empty(part.shape) for part in (qkv, *bias)]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    qkv, bias, seeds, ctx.dropped, ctx.scale = inputs
    ctx.save_for_backward(qkv, seeds, *bias)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    qkv, seeds, *bias = ctx.saved_tensors
    gradients = _attend_backward(grad, qkv, bias, seeds, ctx.dropped, ctx.scale)
    return gradients[0], gradients[1:], None, None, None


_attend.register_fake(_empty_like_output)
_attend_backward.register_fake(lambda grad, *inputs: _empty_like_inputs(*inputs))
_attend.register_autograd(_differentiate, setup_context=_remember)


def _launch(
    name: str,
    qkv: Tensor,
    bias: list[Tensor],
    seeds: Tensor | None,
    dropped: int,
    scale: float,
    others: Sequence[tuple[Tensor, ...]],  # for each group
) -> None:
    """Start a kernel for every group, with a program for each graph and head."""
    from molsepnorm.nn.kernels import triton_kernels

    kernel = getattr(triton_kernels, name)
    qkv, heads = qkv.contiguous(), len(bias[0])
    size = qkv.shape[1] // 3 // heads
    first_slot = first_row = 0
    with torch.cuda.device_of(qkv):
        for group, (part, tensors) in enumerate(zip(bias, others, strict=True)):
            part = part if part.stride(3) == 1 else part.contiguous()
            _, graphs, rows, slots = part.shape
            compiled_for = constants(rows, slots, heads, size, dropped, qkv.dtype)
            kernel[(graphs * heads,)](
                *(qkv, part, qkv if seeds is None else seeds, *tensors),
                *(group, first_slot, first_row, rows, slots, *part.stride()[:3], scale),
                **compiled_for,
                num_warps=warps(slots, qkv.dtype),
                num_stages=1,
            )
            first_slot, first_row = first_slot + graphs * slots, first_row + graphs * rows


def constants(
    rows: int, slots: int, heads: int, size: int, dropped: int, dtype: torch.dtype
) -> dict[str, Any]:
    """Return the constants of the kernels. Both need the same, or their dropout masks differ."""
    import triton

    from molsepnorm.nn.kernels import triton_kernels

    tile = _tile(rows) if _tile(slots) <= 32 else _MIN_TILE  # more rows would spill registers
    interpreted = not isinstance(triton_kernels.forward, triton.runtime.JITFunction)
    return {
        "HEADS": heads,
        "SIZE": size,
        "CHUNKS": -(-rows // tile),
        "ROWS": tile,
        "COLUMNS": _tile(slots),
        "WIDTH": _tile(size),
        "DROPPED": dropped,
        "FACTOR": size**-0.5,
        "PRODUCTS": getattr(
            triton.language, "float32" if interpreted else str(dtype).removeprefix("torch.")
        ),
        "PRECISION": "tf32" if _allows_tf32() else "ieee",
    }


def warps(slots: int, dtype: torch.dtype) -> int:
    """Return the smallest number of warps whose registers hold a program's tile.

    benchmarks/gpu/compile.py prints the registers and memory in use.
    """
    columns = _tile(slots)
    return columns // 32 if columns > 32 and dtype != torch.float32 else columns // 16


def _tile(length: int) -> int:
    return max(_MIN_TILE, 1 << (length - 1).bit_length())


def _allows_tf32() -> bool:
    """Return whether PyTorch may use TF32 for float32 products, by its new or its old setting."""
    precision = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    if precision is None:
        return torch.get_float32_matmul_precision() != "highest"
    return bool(precision == "tf32")
