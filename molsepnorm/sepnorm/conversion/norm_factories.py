"""Norms made for a site: with the weights of the one that was there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from molsepnorm.errors import ConfigError

__all__ = ["MakeNorm", "check_maker", "made_like"]

MakeNorm = Callable[[int], nn.Module]
"""Makes a norm from a number of channels."""


def check_maker(argument: str, make: Any) -> None:
    """That the argument of that name can be called to make a norm.

    Raises:
        ConfigError: it cannot.
    """
    if not callable(make) or isinstance(make, nn.Module):
        raise ConfigError(
            f"{argument}= must make a norm from a number of channels, as nn.LayerNorm does; "
            f"got {make!r}"
        )


@torch.no_grad()
def made_like(old: nn.Module, beside: nn.Parameter | None, make: MakeNorm, width: int) -> nn.Module:
    """A norm with the weights of another, on the device of `beside`, in float32 or more."""
    eps = getattr(old, "eps", getattr(old, "variance_epsilon", None))
    takes_eps = make in (nn.LayerNorm, nn.RMSNorm) and eps is not None
    new = make(width, eps=eps) if takes_eps else make(width)  # type: ignore[call-arg]
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
    """That it is a module that takes (n, width) to the same, by trying."""
    made = f"a {type(norm).__name__}"
    if isinstance(norm, nn.Module):
        training = norm.training
        beside = next(norm.parameters(), torch.empty(0))
        try:
            y = norm.eval()(beside.new_zeros(2, width))
            if isinstance(y, torch.Tensor) and y.shape == (2, width):
                return
            made += f" that makes {tuple(y.shape)} of (2, {width})"
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            made += f", which says of an input (2, {width}): {error}"
        finally:
            norm.train(training)
    raise ConfigError(
        "cls_norm, tok_norm and first_cls_norm must make a module that normalises (n, channels), "
        f"as nn.LayerNorm does; got {made}"
    )
