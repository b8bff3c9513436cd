"""The behaviour of SepNorm in code that replaces norms, reads attributes or loads states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from molsepnorm.sepnorm.batch_norm import MaskedBatchNorm1d, mask_aware


class _NotFused(Tensor):
    """A subclass of tensors; torch's fused encoder layer does not run with subclasses."""


class DropIn(nn.Module):
    """A norm of token sequences in the place of another norm.

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

    def add_module(self, name: str, module: nn.Module | None) -> None:
        """Add a child. One that replaces a norm that reads a mask reads it, too.

        `nn.SyncBatchNorm.convert_sync_batchnorm` replaces norms by this method.
        """
        if module is not None and isinstance(self._modules.get(name), MaskedBatchNorm1d):
            module = mask_aware(module)
        super().add_module(name, module)


def rename_keys(state_dict: dict[str, Any], prefix: str, names: dict[str, str]) -> None:
    """Rename modules in the keys of a state dict, old name -> new name, in place."""
    for old, new in names.items():
        for key in [key for key in state_dict if key.startswith(f"{prefix}{old}.")]:
            state_dict[f"{prefix}{new}.{key[len(prefix) + len(old) + 1 :]}"] = state_dict.pop(key)
