"""The Triton kernels of `fused_attention`; one program computes one graph and one head."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from functools import partial
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    # without Triton the module can be imported, but its kernels do not run
    jit: Any = lambda function: function  # noqa: E731
else:
    # these numbers differ between batches; kernels specialised for them are not faster
    jit = partial(
        triton.jit,
        do_not_specialize=(
            *("group", "first_slot", "first_row", "rows", "slots"),
            *("bias_head", "bias_graph", "bias_row", "scale"),
        ),
    )

__all__ = ["backward", "forward"]


@jit
def forward(
    qkv, bias, seeds, y,
    group, first_slot, first_row, rows, slots, bias_head, bias_graph, bias_row, scale,
    HEADS: tl.constexpr, SIZE: tl.constexpr,
    CHUNKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    DROPPED: tl.constexpr, FACTOR: tl.constexpr,
    PRODUCTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the outputs of one graph and head, a few rows at a time."""
    program = tl.program_id(0)
    graph, head = (program // HEADS).to(tl.int64), (program % HEADS).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    step, part = 3 * HEADS * SIZE, HEADS * SIZE  # of qkv: from slot to slot, from q to k to v
    qkv += (first_slot + graph * slots) * step + head * SIZE
    k = _load(qkv + part, column, slots, step, SIZE, WIDTH, PRODUCTS)
    v = _load(qkv + 2 * part, column, slots, step, SIZE, WIDTH, PRODUCTS)
    bias += head * bias_head + graph * bias_graph
    y += (first_row + graph * rows) * part + head * SIZE
    for chunk in range(CHUNKS):
        row = chunk * ROWS + tl.arange(0, ROWS)
        q = _load(qkv, row, rows, step, SIZE, WIDTH, PRODUCTS)
        weights = _weights(q, k, bias, bias_row, row, rows, column, slots, FACTOR, PRECISION)
        if DROPPED > 0:
            mask = _dropout_mask(seeds + group, program, row, DROPPED, COLUMNS)
            weights = tl.where(mask, weights, 0.0)
        attended = scale * tl.dot(weights.to(PRODUCTS), v, input_precision=PRECISION)
        _store(y, attended, row, rows, part, SIZE, WIDTH)


@jit
def backward(
    qkv, bias, seeds, grad, grad_qkv, grad_bias,
    group, first_slot, first_row, rows, slots, bias_head, bias_graph, bias_row, scale,
    HEADS: tl.constexpr, SIZE: tl.constexpr,
    CHUNKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    DROPPED: tl.constexpr, FACTOR: tl.constexpr,
    PRODUCTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of one graph and head: ∂q, ∂k and ∂v, parts of ∂qkv, and ∂b."""
    program = tl.program_id(0)
    graph, head = (program // HEADS).to(tl.int64), (program % HEADS).to(tl.int64)
    column = tl.arange(0, COLUMNS)
    step, part = 3 * HEADS * SIZE, HEADS * SIZE
    offset = (first_slot + graph * slots) * step + head * SIZE
    qkv, grad_qkv = qkv + offset, grad_qkv + offset
    k = _load(qkv + part, column, slots, step, SIZE, WIDTH, PRODUCTS)
    v = _load(qkv + 2 * part, column, slots, step, SIZE, WIDTH, PRODUCTS)
    bias += head * bias_head + graph * bias_graph
    grad += (first_row + graph * rows) * part + head * SIZE
    grad_bias += (head * (tl.num_programs(0) // HEADS) + graph) * rows * slots
    grad_k = tl.zeros((COLUMNS, WIDTH), tl.float32)
    grad_v = tl.zeros((COLUMNS, WIDTH), tl.float32)
    for chunk in range(CHUNKS):
        row = chunk * ROWS + tl.arange(0, ROWS)
        q = _load(qkv, row, rows, step, SIZE, WIDTH, PRODUCTS)
        grad_y = _load(grad, row, rows, part, SIZE, WIDTH, PRODUCTS)
        grad_y = (scale * grad_y).to(PRODUCTS)
        weights = _weights(q, k, bias, bias_row, row, rows, column, slots, FACTOR, PRECISION)
        grad_weights = tl.dot(grad_y, tl.trans(v), input_precision=PRECISION)
        dropped = weights
        if DROPPED > 0:
            mask = _dropout_mask(seeds + group, program, row, DROPPED, COLUMNS)
            dropped = tl.where(mask, weights, 0.0)
            grad_weights = tl.where(mask, grad_weights, 0.0)
        grad_v = tl.dot(tl.trans(dropped.to(PRODUCTS)), grad_y, grad_v, input_precision=PRECISION)
        along = tl.sum(weights * grad_weights, 1)
        grad_logits = weights * (grad_weights - along[:, None])
        pairs = row[:, None] * slots + column[None, :]
        inside = (row < rows)[:, None] & (column < slots)[None, :]
        tl.store(grad_bias + pairs, grad_logits.to(grad_bias.dtype.element_ty), mask=inside)
        lowered = grad_logits.to(PRODUCTS)
        grad_k = tl.dot(tl.trans(lowered), q, grad_k, input_precision=PRECISION)
        grad_q = FACTOR * tl.dot(lowered, k, input_precision=PRECISION)
        _store(grad_qkv, grad_q, row, slots, step, SIZE, WIDTH)  # 0 in slots without a query
    _store(grad_qkv + part, FACTOR * grad_k, column, slots, step, SIZE, WIDTH)
    _store(grad_qkv + 2 * part, grad_v, column, slots, step, SIZE, WIDTH)
    if rows < slots:
        zero = tl.zeros((COLUMNS, WIDTH), tl.float32)
        _store(grad_qkv, zero, CHUNKS * ROWS + column, slots, step, SIZE, WIDTH)


@jit
def _weights(
    q, k, bias, bias_row, row, rows, column, slots,
    FACTOR: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the softmax of the logits; 0 outside the rectangle and in rows that are all −∞."""
    LOG2_E: tl.constexpr = 1.4426950408889634
    inside = (row < rows)[:, None] & (column < slots)[None, :]
    added = tl.load(
        bias + row[:, None] * bias_row + column[None, :], mask=inside, other=float("-inf")
    )
    logits = FACTOR * tl.dot(q, tl.trans(k), input_precision=PRECISION) + added.to(tl.float32)
    largest = tl.max(logits, 1)
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    exponentials = tl.exp2(logits * LOG2_E - (largest * LOG2_E)[:, None])
    total = tl.sum(exponentials, 1)
    return exponentials * (1.0 / tl.where(total == 0.0, 1.0, total))[:, None]


@jit
def _dropout_mask(seed, program, row, DROPPED: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the dropout mask: one random byte for each weight, sixteen from each draw."""
    draw = row[:, None] * (COLUMNS // 16) + tl.arange(0, COLUMNS // 16)[None, :]
    zero = draw * 0
    first, second, third, fourth = tl.philox(tl.load(seed), draw, zero + program, zero, zero)
    words = tl.join(tl.join(first, second), tl.join(third, fourth))
    words = tl.reshape(words, (row.shape[0], COLUMNS // 4))
    low = tl.join((words & 255) >= DROPPED, ((words >> 8) & 255) >= DROPPED)
    high = tl.join(((words >> 16) & 255) >= DROPPED, (words >> 24) >= DROPPED)
    return tl.reshape(tl.join(low, high), (row.shape[0], COLUMNS))


@jit
def _load(
    start, slot, slots, step, SIZE: tl.constexpr, WIDTH: tl.constexpr, PRODUCTS: tl.constexpr
):
    """Load the channels of a head for some slots; 0 outside."""
    channel = tl.arange(0, WIDTH)
    inside = (slot < slots)[:, None] & (channel < SIZE)[None, :]
    offset = slot[:, None] * step + channel[None, :]
    return tl.load(start + offset, mask=inside, other=0.0).to(PRODUCTS)


@jit
def _store(start, x, slot, slots, step, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    channel = tl.arange(0, WIDTH)
    inside = (slot < slots)[:, None] & (channel < SIZE)[None, :]
    offset = slot[:, None] * step + channel[None, :]
    tl.store(start + offset, x.to(start.dtype.element_ty), mask=inside)
