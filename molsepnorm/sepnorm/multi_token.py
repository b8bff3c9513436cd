"""SepNorm for sequences that begin with several special tokens, batch first or slots first."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.batch_norm import counts_rows, mask_aware, normalize_real
from molsepnorm.sepnorm.sepnorm import DropIn, normalize_special

_MASKS = {
    "attention_mask": "positive at real tokens and 0 at padding",  # as in transformers
    "src_key_padding_mask": "True at padding",  # as in torch, or a number added to scores
}
"""Names of padding masks -> the meaning of their values."""

_PADDING = -1000.0
"""Highest number at padding in a mask that is added to attention scores; the softmax is 0 there."""


class Padding:
    """The padding mask of the last call of a network, for its norms.

    The mask is kept until the next call, because gradient checkpointing runs layers again in
    `backward`.

    >>> padding = Padding()
    >>> layer = nn.TransformerEncoderLayer(4, 2, batch_first=True)
    >>> hook = padding.follow(layer)
    >>> _ = layer(torch.randn(1, 3, 4), src_key_padding_mask=torch.tensor([[False, False, True]]))
    >>> padding.real
    tensor([[ True,  True, False]])
    """

    real: Tensor | None = None
    """bool (B, S), or (S,) for a single sequence: true at real tokens. None: the call has no mask,
    so every slot counts."""
    unreadable: str | None = None
    """Error message if the mask of the call cannot be used; raised by norms that need the mask."""

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a copy of a network does not contain its last batch

    def follow(self, module: nn.Module) -> RemovableHandle:
        parameters = inspect.signature(module.forward).parameters.values()
        names = [each.name for each in parameters if each.kind <= each.POSITIONAL_OR_KEYWORD]
        positions = {name: names.index(name) for name in _MASKS if name in names}
        # no closure, so that networks with hooks can be copied and pickled
        return module.register_forward_pre_hook(partial(self._read, positions), with_kwargs=True)

    def _read(
        self, positions: dict[str, int], module: nn.Module, args: tuple, kwargs: dict[str, Any]
    ) -> None:
        self.real = self.unreadable = None
        masks = {name: args[i] for name, i in positions.items() if i < len(args)} | kwargs
        name = next((name for name in _MASKS if masks.get(name) is not None), None)
        if name is None:
            return
        mask = masks[name]
        added = isinstance(mask, Tensor) and mask.is_floating_point()  # to attention scores
        if (
            not isinstance(mask, Tensor)
            or mask.dim() not in (1, 2)
            or (name == "attention_mask" and added and (mask < 0).any())
        ):
            got = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
            self.unreadable = (
                f"a batch norm of the tokens needs the padding: {name} must be of shape (batch, "
                f"slots), {_MASKS[name]}; got {got}. Pass such a mask, or convert with another "
                "tok_norm"
            )
        elif name == "attention_mask":
            self.real = mask != 0
        else:
            self.real = mask > _PADDING if added else mask == 0


class MultiTokenSepNorm(DropIn):
    r"""Normalise each of k leading special tokens by its own layer, and all others by one layer.

    .. math::

        y_i = \mathrm{norm_{cls,i}}(x_i) \quad (i < k), \qquad
        y_i = \mathrm{norm_{tok}}(x_i) \quad (i \ge k)

    Special tokens are CLS, distillation tokens and registers. With a single one and the batch
    first, it equals `SepNorm`. In a converted network it is called with the sequences only, and
    reads the padding mask from `padding`.

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers", NeurIPS 2023,
    arXiv 2309.12931, section 3, for a single special token.

    Args:
        hidden_size: number of channels, C.
        cls_norm: makes the norm of a special token; called once for each.
        tok_norm: makes the norm of all other slots. A batch norm of torch becomes a
            `MaskedBatchNorm1d`.
        special_tokens: number of special slots at the beginning, k.
        batch_first: true for sequences (B, S, C), false for (S, B, C).

    Raises:
        ConfigError: there is no special token, or an argument is of the wrong type.

    >>> norm = MultiTokenSepNorm(4, special_tokens=2)
    >>> norm(torch.randn(8, 5, 4)).shape
    torch.Size([8, 5, 4])
    """

    published_names: ClassVar = {"cls_norm_layer": "cls_norms.0", "tok_norm_layer": "tok_norm"}

    def __init__(
        self,
        hidden_size: int,
        cls_norm: Callable[[int], nn.Module] = nn.BatchNorm1d,
        tok_norm: Callable[[int], nn.Module] = nn.LayerNorm,
        *,
        special_tokens: int = 1,
        batch_first: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(special_tokens, int) or special_tokens < 1:
            raise ConfigError(
                f"SepNorm needs at least one special token; got special_tokens={special_tokens!r}"
            )
        if not isinstance(batch_first, bool):
            raise ConfigError(f"batch_first= must be True or False; got {batch_first!r}")
        self.hidden_size = hidden_size
        self.cls_norms = nn.ModuleList(cls_norm(hidden_size) for _ in range(special_tokens))
        self.tok_norm = mask_aware(tok_norm(hidden_size))
        self.batch_first = batch_first
        self.padding = Padding()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # same shape as x
        """Normalise.

        Args:
            x: (B, S, C), or (S, B, C) if `batch_first` is false; or one sequence, (S, C).
            mask: bool (B, S) in both layouts, or (S,) for one sequence: true at real tokens. It is
                read by a batch norm of the tokens. Without it the mask of `padding` is used, and
                without that all slots count.

        Raises:
            ValueError: x has another number of dimensions or too few slots, the mask another shape;
                or in training a batch norm of a special token gets a single sequence.
        """
        if x.dim() == 2:
            batch = 0 if self.batch_first else 1
            return self(x.unsqueeze(batch), mask).squeeze(batch)
        slots = 1 if self.batch_first else 0
        self._check_shape(x, slots)
        real = self._real(x, mask) if counts_rows(self.tok_norm) else None
        special = len(self.cls_norms)
        others = (slice(None), slice(special, None)) if self.batch_first else slice(special, None)
        y = normalize_real(self.tok_norm, x[others], None if real is None else real[others])
        tokens = [
            normalize_special(norm, x.select(slots, slot)).to(y.dtype).unsqueeze(slots)
            for slot, norm in enumerate(self.cls_norms)
        ]
        return torch.cat([*tokens, y], dim=slots)

    def _check_shape(self, x: Tensor, slots: int) -> None:
        if x.is_nested:
            raise ValueError("SepNorm takes padded sequences, not a nested tensor")
        layout = "(batch, slots, channels)" if self.batch_first else "(slots, batch, channels)"
        if x.dim() != 3:
            raise ValueError(f"SepNorm expects {layout} or (slots, channels); got {tuple(x.shape)}")
        if x.shape[slots] < len(self.cls_norms):
            raise ValueError(
                f"SepNorm was made for {len(self.cls_norms)} special tokens, and got "
                f"{x.shape[slots]} slots: x is {tuple(x.shape)}, read as {layout}. Check "
                "special_tokens= and batch_first="
            )

    def _real(self, x: Tensor, mask: Tensor | None) -> Tensor | None:  # x's first two dimensions
        """Return the mask of real tokens in the layout of x."""
        if mask is None:
            if self.padding.unreadable:
                raise ValueError(self.padding.unreadable)
            if (mask := self.padding.real) is None:
                return None
        real = mask.unsqueeze(0) if mask.dim() == 1 else mask
        real = real if self.batch_first else real.transpose(0, 1)
        if real.shape != x.shape[:2]:
            raise ValueError(
                f"a padding mask of shape {tuple(mask.shape)} does not fit sequences of shape "
                f"{tuple(x.shape)}: it must be (batch, slots). Check batch_first=, and whether the "
                "norm sees the same slots as the mask"
            )
        return real.to(x.device)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Load weights, also those of a network that was not converted: each norm gets the weights
        of the old one, and keeps its running statistics."""
        old = {name: state_dict.pop(prefix + name, None) for name in ("weight", "bias")}
        if any(value is not None for value in old.values()):
            for name, current in self.state_dict().items():
                value = old.get(name.rpartition(".")[2])
                if value is not None and value.shape == current.shape:
                    state_dict.setdefault(prefix + name, value.clone())
                elif not current.is_meta:
                    state_dict.setdefault(prefix + name, current)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
