"""New norms with the weights of the norm that they replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from molsepnorm.errors import ConfigError

__all__ = ["NormFactory", "make_norm_like"]

NormFactory = Callable[[int], nn.Module]
"""A function that makes a norm from a number of channels."""


@torch.no_grad()
def make_norm_like(
    old: nn.Module, beside: nn.Parameter | None, factory: NormFactory, width: int
) -> nn.Module:
    """Return a new norm with the weights of `old`, on the device of `beside`, at least float32."""
    eps = getattr(old, "eps", getattr(old, "variance_epsilon", None))
    takes_eps = factory in (nn.LayerNorm, nn.RMSNorm) and eps is not None
    new = factory(width, eps=eps) if takes_eps else factory(width)  # type: ignore[call-arg]
    _check_norm(new, width)
    if beside is not None:
        double = beside.dtype == torch.float64
        new = new.to(beside.device, torch.float64 if double else torch.float32)
    for name in ("weight", "bias"):
        source, target = getattr(old, name, None), getattr(new, name, None)
        if source is not None and target is not None and source.shape == target.shape:
            target.copy_(source)
    return new


def _check_norm(norm: Any, width: int) -> None:
    """Check, by a call, that a module maps (n, width) to the same shape."""
    made = f"a {type(norm).__name__}"
    if isinstance(norm, nn.Module):
        training = norm.training
        beside = next(norm.parameters(), torch.empty(0))
        try:
            y = norm.eval()(beside.new_zeros(2, width))
            if isinstance(y, torch.Tensor) and y.shape == (2, width):
                return
            made += f" that returns {tuple(y.shape)} for (2, {width})"
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            made += f", which fails for an input (2, {width}): {error}"
        finally:
            norm.train(training)
    raise ConfigError(
        "cls_norm, tok_norm and first_cls_norm must make a module that normalises (n, channels), "
        f"as nn.LayerNorm does; got {made}"
    )
