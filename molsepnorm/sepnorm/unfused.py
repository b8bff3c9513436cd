"""Keep torch's fused encoder layer from replacing a norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Unfused"]


class _NotFused(Tensor):
    """A subclass of tensors; torch's fused encoder layer does not run with subclasses."""


class Unfused:
    """A mixin that makes torch's `nn.TransformerEncoderLayer` call a norm in evaluation.

    In evaluation `nn.TransformerEncoderLayer` and `nn.TransformerEncoder` do not call their norms,
    but compute layer norms from the attributes `eps`, `weight` and `bias`. They do so only if the
    `eps` of both norms are equal and no weight is a subclass of a tensor.
    """

    tok_norm: nn.Module

    @property
    def eps(self) -> float:
        """NaN, which is not equal to anything."""
        return torch.nan

    @property
    def weight(self) -> Tensor:
        """The weight of the tokens' norm as a subclass of a tensor."""
        return self._not_fused("weight")

    @property
    def bias(self) -> Tensor:
        """The bias of the tokens' norm as a subclass of a tensor."""
        return self._not_fused("bias")

    def _not_fused(self, name: str) -> Tensor:
        value = getattr(self.tok_norm, name, None)
        return (torch.empty(0) if value is None else value).as_subclass(_NotFused)
