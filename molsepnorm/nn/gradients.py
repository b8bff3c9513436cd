"""Gradients of plain operations, which replace hand-written ones under `create_graph=True`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def is_transformed(*tensors: Tensor) -> bool:
    """Return whether a transform of `torch.func` is active or a tensor is a batch of gradients."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or any(
        torch._C._functorch.is_legacy_batchedtensor(each) for each in tensors
    )


def to_dense(constant: Tensor) -> Tensor:
    """Return a sparse tensor as a dense one; transforms of `torch.func` do not accept sparse
    ones."""
    with torch._C._DisableFuncTorch():
        return constant.to_dense()


def differentiable_gradients(
    plain: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor
) -> list[Tensor | None]:
    """Return the gradients of plain(*inputs), None for inputs that need none, with derivatives.

    A hand-written `backward` returns them under `create_graph=True`, since its own results depend
    on tensors that `forward` computed without gradients.
    """
    with torch.enable_grad():
        # views, so that an input that depends on another one gets its own gradient only
        views = [each.view_as(each) for each in inputs]
        y = plain(*views)
    needed = [each for each in views if each.requires_grad]
    create_graph = torch.is_grad_enabled()
    found = iter(torch.autograd.grad(y, needed, grad, create_graph=create_graph))
    return [next(found) if each.requires_grad else None for each in views]
