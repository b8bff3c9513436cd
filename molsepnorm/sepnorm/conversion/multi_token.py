"""SepNorm for sequences that begin with several special tokens, in both layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.batch_norm import counts_rows, mask_aware, normalize_real
from molsepnorm.sepnorm.conversion.padding import PaddingContext
from molsepnorm.sepnorm.drop_in import DropIn, rename_keys
from molsepnorm.sepnorm.sepnorm import normalize_special

__all__ = ["MultiTokenSepNorm"]


class MultiTokenSepNorm(DropIn):
    r"""Normalise each of k leading special tokens by its own layer, and all others by one layer.

    .. math::

        y_i = \mathrm{norm_{cls,i}}(x_i) \quad (i < k), \qquad
        y_i = \mathrm{norm_{tok}}(x_i) \quad (i \ge k)

    Special tokens are CLS, distillation tokens and registers. With a single one and the batch
    first, it equals `SepNorm`. `convert_to_sepnorm` puts it in place of norms that are called with
    the sequences only, so a padding mask is read from `padding`.

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers", NeurIPS 2023,
    arXiv 2309.12931, section 3, for a single special token.

    >>> norm = MultiTokenSepNorm(4, special_tokens=2)
    >>> norm(torch.randn(8, 5, 4)).shape
    torch.Size([8, 5, 4])
    """

    def __init__(
        self,
        hidden_size: int,
        cls_norm: Callable[[int], nn.Module] = nn.BatchNorm1d,
        tok_norm: Callable[[int], nn.Module] = nn.LayerNorm,
        *,
        special_tokens: int = 1,
        batch_first: bool = True,
    ) -> None:
        """Make the norms.

        Args:
            hidden_size: number of channels, C.
            cls_norm: makes the norm of a special token; called once for each.
            tok_norm: makes the norm of all other slots. A batch norm of torch becomes a
                `MaskedBatchNorm1d`.
            special_tokens: number of special slots at the beginning, k.
            batch_first: true for sequences (B, S, C), false for (S, B, C).

        Raises:
            ConfigError: there is no special token.
        """
        super().__init__()
        if special_tokens < 1:
            raise ConfigError(
                f"SepNorm needs at least one special token; got special_tokens={special_tokens}"
            )
        self.hidden_size = hidden_size
        self.cls_norms = nn.ModuleList(cls_norm(hidden_size) for _ in range(special_tokens))
        self.tok_norm = mask_aware(tok_norm(hidden_size))
        self.batch_first = batch_first
        self.padding = PaddingContext()

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
        y = normalize_real(
            self.tok_norm, self._others(x), None if real is None else self._others(real)
        )
        tokens = [
            normalize_special(norm, x.select(slots, slot)).to(y.dtype).unsqueeze(slots)
            for slot, norm in enumerate(self.cls_norms)
        ]
        return torch.cat([*tokens, y], dim=slots)

    def _others(self, x: Tensor) -> Tensor:
        """Return all slots but the special ones."""
        special = len(self.cls_norms)
        return x[:, special:] if self.batch_first else x[special:]

    def _check_shape(self, x: Tensor, slots: int) -> None:
        if x.is_nested:
            raise ValueError("SepNorm takes padded sequences, not a nested tensor")
        layout = "(batch, slots, channels)" if self.batch_first else "(slots, batch, channels)"
        if x.dim() != 3:
            raise ValueError(f"SepNorm expects {layout} or (slots, channels); got {tuple(x.shape)}")
        if x.shape[slots] < len(self.cls_norms):
            raise ValueError(
                f"SepNorm was made for {len(self.cls_norms)} special tokens at the beginning of "
                f"each sequence, and got {x.shape[slots]} slots: x is {tuple(x.shape)}, read as "
                f"{layout}. Check special_tokens= and batch_first="
            )

    def _real(self, x: Tensor, mask: Tensor | None) -> Tensor | None:  # x's first two dimensions
        """Return the mask of real tokens."""
        if mask is None and self.padding.unreadable:
            raise ValueError(self.padding.unreadable)
        mask = self.padding.real if mask is None else mask
        if mask is None:
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
        """Load weights, also those of a network that was not converted, or of the published module.

        Each norm then gets a copy of the weights of the single norm, and keeps its own running
        statistics.
        """
        names = {"cls_norm_layer": "cls_norms.0", "tok_norm_layer": "tok_norm"}
        rename_keys(state_dict, prefix, names)
        old = {name: state_dict.pop(prefix + name, None) for name in ("weight", "bias")}
        if any(value is not None for value in old.values()):
            for name, own in self.state_dict().items():
                value = old.get(name.rpartition(".")[2])
                if value is not None and value.shape == own.shape:
                    state_dict.setdefault(prefix + name, value.clone())
                elif not own.is_meta:
                    state_dict.setdefault(prefix + name, own)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
