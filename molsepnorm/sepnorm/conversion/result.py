"""The result of a conversion, which can be printed and undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.conversion.multi_token import MultiTokenSepNorm

__all__ = ["ChangedAttribute", "Conversion", "Site"]


@dataclass(frozen=True)
class Site:
    """A norm that was replaced."""

    name: str
    """Qualified name of the module."""
    width: int
    """Channels."""
    special_tokens: int
    """Number of slots at the beginning of each sequence with norms of their own."""
    batch_first: bool
    """True for sequences (B, S, C), false for (S, B, C)."""
    is_first: bool
    """True if no layer has mixed the tokens before, so that `first_cls_norm` was used."""
    cls_norm: str
    """Class of the norms of the special tokens."""
    tok_norm: str
    """Class of the norm of the other tokens."""


@dataclass(frozen=True)
class ChangedAttribute:
    """An attribute of a module that holds a new value: a SepNorm, or a setting of an encoder."""

    module: nn.Module
    name: str
    old: Any
    new: Any


class Conversion:
    """The result of `convert_to_sepnorm`. It prints as a table, and `undo` reverts it.

    To copy a model with its conversion, copy both at once: `copy.deepcopy((model, conversion))`.
    """

    sites: tuple[Site, ...]
    """The replaced norms, in the order of the model's modules."""

    def __init__(
        self,
        model: nn.Module,
        sites: tuple[Site, ...],
        changes: list[ChangedAttribute],
        hooks: list[RemovableHandle],
    ) -> None:
        self.sites = sites
        self._changes, self._hooks = changes, hooks
        self._model, self._dtype = model, _dtype_beside_norms(model)

    def undo(self) -> None:
        """Restore the old norms, in place. A second call does nothing.

        If `tok_norm` was None, the norm of the tokens is the old norm itself and keeps what it has
        learned. Otherwise the old norm is restored unchanged. The weights of the special tokens'
        norms are lost.

        Raises:
            ConfigError: a converted norm has been replaced since; nothing is changed.
        """
        replaced = [each for each in self._changes if isinstance(each.new, MultiTokenSepNorm)]
        for each in replaced:
            if getattr(each.module, each.name, None) is not each.new:
                raise ConfigError(
                    f"cannot undo the conversion: '{each.name}' of a {type(each.module).__name__} "
                    "is no longer the SepNorm of the conversion"
                )
        dtype = _dtype_beside_norms(self._model)
        for each in replaced:
            if each.old is not each.new.tok_norm:  # the model may have been moved or cast since
                for beside in each.new.parameters():
                    each.old.to(beside.device)
                each.old.to(None if dtype == self._dtype else dtype)
            each.old.train(each.new.training)
        for each in self._changes:
            setattr(each.module, each.name, each.old)
        for hook in self._hooks:
            hook.remove()
        self._changes, self._hooks = [], []

    def __str__(self) -> str:
        head = ("site", "width", "special", "layout", "cls_norm", "tok_norm")
        rows = [head]
        for site in self.sites:
            layout = "batch first" if site.batch_first else "sequence first"
            cls_norm = site.cls_norm + " *" * site.is_first
            size = str(site.width), str(site.special_tokens)
            rows.append((site.name, *size, layout, cls_norm, site.tok_norm))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if any(site.is_first for site in self.sites):
            lines.append(
                "* before the first layer, where a special token is the same in all sequences"
            )
        return "\n".join(lines)


def _dtype_beside_norms(model: nn.Module) -> torch.dtype | None:
    """Return the type of the first floating-point parameter outside of SepNorm."""
    norms = [module for module in model.modules() if isinstance(module, MultiTokenSepNorm)]
    inside = {id(parameter) for norm in norms for parameter in norm.parameters()}
    others = (each for each in model.parameters() if id(each) not in inside)
    return next((each.dtype for each in others if each.is_floating_point()), None)
