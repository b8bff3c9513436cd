"""Gradients of plain operations, which replace hand-written ones for higher derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def is_transformed(*tensors: Tensor) -> bool:
    """Return whether a transform of `torch.func` is active, or a tensor is a batch of gradients."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or any(
        torch._C._functorch.is_legacy_batchedtensor(each) for each in tensors
    )


def to_dense(constant: Tensor) -> Tensor:
    """Return a sparse tensor as a dense one, also within transforms of `torch.func`."""
    with torch._C._DisableFuncTorch():
        return constant.to_dense()


def differentiable_gradients(
    plain: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor
) -> list[Tensor | None]:
    """Return the gradients of plain(*inputs), None for inputs that need none.

    A hand-written `backward` returns them under `create_graph=True`, since its own results depend
    on tensors that `forward` computed without gradients.
    """
    with torch.enable_grad():
        # views, so that an input that depends on another one gets its own gradient only
        views = [tensor.view_as(tensor) for tensor in inputs]
        y = plain(*views)
    needed = [view for view in views if view.requires_grad]
    create_graph = torch.is_grad_enabled()
    gradients = iter(torch.autograd.grad(y, needed, grad, create_graph=create_graph))
    return [next(gradients) if view.requires_grad else None for view in views]
