"""What a conversion did: told, and taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.conversion.multi_token import MultiTokenSepNorm

__all__ = ["Conversion", "Place", "Setting", "Site"]


@dataclass(frozen=True)
class Site:
    """A norm that was replaced."""

    name: str
    """Qualified name of the module."""

    width: int
    """Channels."""

    special_tokens: int
    """How many slots at the beginning of each sequence have a norm of their own."""

    batch_first: bool
    """Whether sequences are (B, S, C), or (S, B, C)."""

    is_first: bool
    """Whether no layer has mixed the tokens before: it took `first_cls_norm`."""

    cls_norm: str
    """Class of the norms of the special tokens."""

    tok_norm: str
    """Class of the norm of the other tokens."""


@dataclass(frozen=True)
class Place:
    """Where a norm was replaced."""

    parent: nn.Module
    attribute: str
    old: nn.Module
    new: MultiTokenSepNorm


@dataclass(frozen=True)
class Setting:
    """An attribute that was changed besides."""

    module: nn.Module
    attribute: str
    old: Any


class Conversion:
    """What `convert_to_sepnorm` did to a model: printed, it is a table; `undo` takes it back.

    A copy of the model has a conversion of its own if both are copied at once:
    `copy.deepcopy((model, conversion))`.
    """

    sites: tuple[Site, ...]
    """In the order of the model's modules."""

    def __init__(
        self,
        model: nn.Module,
        sites: tuple[Site, ...],
        places: list[Place],
        settings: list[Setting],
        hooks: list[RemovableHandle],
    ) -> None:
        self.sites = sites
        self._places, self._settings, self._hooks = places, settings, hooks
        self._model, self._dtype = model, _dtype_beside_norms(model)

    def undo(self) -> None:
        """Put the old norms back, in place; a second time does nothing.

        Where `tok_norm` was None the norm of the tokens is the old norm itself, so it keeps what
        it has learned since; otherwise the old norm returns as it was. What the special tokens'
        norms have learned is gone.

        Raises:
            ConfigError: something else has taken the place of a converted norm; nothing is changed.
        """
        for place in self._places:
            if getattr(place.parent, place.attribute, None) is not place.new:
                raise ConfigError(
                    f"cannot undo the conversion: '{place.attribute}' of a "
                    f"{type(place.parent).__name__} is no longer the SepNorm that was put there"
                )
        dtype = _dtype_beside_norms(self._model)
        for place in self._places:
            if place.old is not place.new.tok_norm:  # it has missed what happened to the model
                for beside in place.new.parameters():
                    place.old.to(beside.device)
                place.old.to(None if dtype == self._dtype else dtype)
            setattr(place.parent, place.attribute, place.old.train(place.new.training))
        for setting in self._settings:
            setattr(setting.module, setting.attribute, setting.old)
        for hook in self._hooks:
            hook.remove()
        self._places, self._settings, self._hooks = [], [], []

    def __str__(self) -> str:
        head = ("site", "width", "special", "layout", "cls_norm", "tok_norm")
        rows = [head] + [
            (
                site.name,
                str(site.width),
                str(site.special_tokens),
                "batch first" if site.batch_first else "sequence first",
                site.cls_norm + (" *" if site.is_first else ""),
                site.tok_norm,
            )
            for site in self.sites
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        if any(site.is_first for site in self.sites):
            lines.append(
                "* before the first layer: a special token is alike in all sequences there"
            )
        return "\n".join(lines)


def _dtype_beside_norms(model: nn.Module) -> torch.dtype | None:
    """Of the first parameter of floats that is in no SepNorm."""
    norms = [module for module in model.modules() if isinstance(module, MultiTokenSepNorm)]
    inside = {id(parameter) for norm in norms for parameter in norm.parameters()}
    others = (each for each in model.parameters() if id(each) not in inside)
    return next((each.dtype for each in others if each.is_floating_point()), None)
