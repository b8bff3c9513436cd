"""The padding mask of a call, for norms inside a network."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

__all__ = ["PaddingContext", "PaddingHook"]


class PaddingContext:
    """The padding mask that a `PaddingHook` writes and the norms of a network read.

    The mask is kept until the next call, because gradient checkpointing runs layers again in
    `backward`. With gradient checkpointing call `backward` before the next call of the network.
    """

    real: Tensor | None = None
    """bool (B, S), or (S,) for a single sequence: true at real tokens. None: the call has no mask,
    so every slot counts."""

    unreadable: str | None = None
    """Error message if the mask of the call cannot be used."""

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a copy of a network does not contain its last batch


class PaddingHook:
    """A forward pre-hook that stores the padding mask of a call in a context.

    ======================  =================================================================
    `attention_mask`        (B, S), 0 at padding (as in `transformers`)
    `src_key_padding_mask`  (B, S) or (S,), True or a number of −1,000 or less at padding
                            (as in `torch.nn`, whose float masks are added to attention scores)
    ======================  =================================================================

    It is an object, not a closure, so that networks with hooks can be copied and pickled.

    >>> import torch
    >>> padding = PaddingContext()
    >>> layer = nn.TransformerEncoderLayer(4, 2, batch_first=True)
    >>> hook = layer.register_forward_pre_hook(PaddingHook(layer, padding), with_kwargs=True)
    >>> _ = layer(torch.randn(1, 3, 4), src_key_padding_mask=torch.tensor([[False, False, True]]))
    >>> padding.real
    tensor([[ True,  True, False]])
    """

    def __init__(self, module: nn.Module, padding: PaddingContext) -> None:
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(module.forward).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind in positional]
        self.positions = {name: names.index(name) for name in _VALUES if name in names}
        self.padding = padding

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Store the mask of a call of `module`."""
        self.padding.real = self.padding.unreadable = None
        for name in _VALUES:
            position = self.positions.get(name, len(args))
            mask = args[position] if position < len(args) else kwargs.get(name)
            if mask is not None:
                try:
                    self.padding.real = _real_tokens(name, mask)
                except ValueError as error:  # raised by norms that need the mask
                    self.padding.unreadable = str(error)
                return


_VALUES = {
    "attention_mask": "nonzero for real tokens",
    "src_key_padding_mask": "True at padding",
}
"""Names of padding masks -> the meaning of their values."""
_PADDING = -1000.0
"""Highest number at padding in a mask that is added to attention scores. The softmax is 0 there in
float32. Usual numbers are −∞, the lowest number, −1e9 and −1e4."""


def _real_tokens(name: str, mask: Any) -> Tensor:  # bool, of the mask's shape
    dimensions = (2,) if name == "attention_mask" else (1, 2)
    if not isinstance(mask, Tensor):
        got = type(mask).__name__
    elif mask.dim() not in dimensions:
        got = f"shape {tuple(mask.shape)}"
    elif name == "src_key_padding_mask":
        return mask > _PADDING if mask.is_floating_point() else mask == 0
    elif mask.is_floating_point() and (mask < 0).any():  # added to attention scores
        got = "negative numbers"
    else:
        return mask != 0
    raise ValueError(
        f"a batch norm of the tokens needs the padding: {name} must be of shape (batch, slots), "
        f"{_VALUES[name]}; got {got}. Pass such a mask, or convert with another tok_norm"
    )
