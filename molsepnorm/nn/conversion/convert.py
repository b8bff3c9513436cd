"""SepNorm for a transformer that is there already: its norms on token sequences are replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch_norm import MaskedBatchNorm1d
from molsepnorm.nn.conversion.architectures import Known, find_known
from molsepnorm.nn.conversion.leading import LeadingSepNorm
from molsepnorm.nn.conversion.padding import PaddingContext, PaddingHook
from molsepnorm.nn.conversion.selection import Where, channels_of, chosen_norms

__all__ = ["Conversion", "Site", "convert_to_sepnorm"]

MakeNorm = Callable[[int], nn.Module]


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


class Conversion:
    """What `convert_to_sepnorm` did to a model: printed, it is a table; `undo` takes it back.

    A copy of the model has a conversion of its own if both are copied at once:
    `copy.deepcopy((model, conversion))`.
    """

    sites: tuple[Site, ...]
    """In the order of the model's modules."""

    def __init__(
        self,
        sites: tuple[Site, ...],
        places: list[_Place],
        settings: list[_Setting],
        hooks: list[RemovableHandle],
    ) -> None:
        self.sites = sites
        self._places, self._settings, self._hooks = places, settings, hooks

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
        for place in self._places:
            if place.old is not place.new.tok_norm:  # it has missed what happened to the model
                for beside in place.new.parameters():
                    place.old.to(beside.device)
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


def convert_to_sepnorm(
    model: nn.Module,
    cls_norm: MakeNorm = nn.BatchNorm1d,
    tok_norm: MakeNorm | None = None,
    where: Where | None = None,
    *,
    first_cls_norm: MakeNorm = nn.LayerNorm,
    special_tokens: int | None = None,
    batch_first: bool | None = None,
) -> Conversion:
    """Replace the norms that act on token sequences by SepNorm, in place.

    Known without `where`, by itself or inside `model`: BERT, RoBERTa, ViT and ViT-MAE of
    `transformers` (4.57 and 5), `VisionTransformer` of timm, `nn.TransformerEncoder` and its layer.
    Norms of queries and keys, of pooled vectors and of heads are left.

    Every new norm starts from the weights of the old one, where their shapes fit (a weight is taken
    for the factor itself, not for what is added to 1), and a layer or RMS norm takes its ε.
    So `cls_norm=nn.LayerNorm` changes no output until it is trained. New norms can be trained
    though the old one may be frozen. Make the optimiser afterwards, or give it the new parameters.

    Before the first layer a special token is the same vector in every sequence, so a batch norm
    would see no variance there: in training its output would be the bias or amplified dropout
    noise, in evaluation an amplified lag of the running mean. `first_cls_norm` is for these sites.

    Where the tokens' norm is a batch norm it must not count padding: the mask is read from each
    call of the model, from `attention_mask` or `src_key_padding_mask`. Special tokens come first,
    so padding must stand at the end.

    The fused inference path of `nn.TransformerEncoder`, which does not call the norms, is off
    until `undo`.

    Args:
        model: changed in place. It is left as it was if an error is raised.
        cls_norm: makes the norm of a special token from the number of channels.
        tok_norm: makes the norm of the other tokens. None keeps the very module that is there, so
            that optimisers which hold its parameters stay valid.
        where: which modules to replace, exactly: names as in `model.named_modules()`, one or
            several, in which `*` stands for anything, dots too; or a function of name and module.
            Sites inside a known network take from it what follows.
        first_cls_norm: in the place of `cls_norm` at sites before the first layer. In a model with
            no known network that is the first site in the order of modules.
        special_tokens: how many slots at the beginning of each sequence are special. None: as the
            known network says, else 1.
        batch_first: whether sequences are (B, S, C), or (S, B, C). None: as the known network
            says, else True.

    Raises:
        ConfigError: the model is converted already or unknown, nothing matches, a match is no norm
            over one dimension of channels, a maker makes no module, or there is no special token.

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers", NeurIPS 2023,
    arXiv 2309.12931, section 3; they train MAE, SimCSE's BERT and RoBERTa, and Graphormer so.

    >>> layer = nn.TransformerEncoderLayer(8, 2, batch_first=True, norm_first=True)
    >>> encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    >>> conversion = convert_to_sepnorm(encoder)
    >>> print(conversion)
    site            width  special  layout       cls_norm     tok_norm
    layers.0.norm1  8      1        batch first  LayerNorm *  LayerNorm
    layers.0.norm2  8      1        batch first  BatchNorm1d  LayerNorm
    * before the first layer: a special token is alike in all sequences there
    >>> encoder(torch.randn(4, 5, 8)).shape
    torch.Size([4, 5, 8])
    >>> conversion.undo()
    >>> encoder.layers[0].norm1
    LayerNorm((8,), eps=1e-05, elementwise_affine=True...)
    """
    known = find_known(model)
    chosen = chosen_norms(model, where, known)
    contexts: dict[str, PaddingContext] = {}  # name of what is called with the mask -> context
    sites: list[Site] = []
    replacements: dict[nn.Module, LeadingSepNorm] = {}
    for name, norm in chosen.items():
        home = next((each for each in known if each.contains(name)), None)
        is_first = home.is_first(name) if home else not known and not sites
        new = LeadingSepNorm(
            channels_of(name, norm),
            partial(_made_like, norm, first_cls_norm if is_first else cls_norm),
            partial(_kept, norm) if tok_norm is None else partial(_made_like, norm, tok_norm),
            special_tokens=_of(home, "special_tokens", special_tokens, 1),
            batch_first=_of(home, "batch_first", batch_first, True),
        )
        new.padding = contexts.setdefault(home.name if home else "", new.padding)
        replacements[norm] = new.train(norm.training)
        sites.append(_site(name, new, is_first))
    # all checks are done: from here on the model changes
    places = _replace(model, replacements)
    masked = {
        id(new.padding)
        for new in replacements.values()
        if isinstance(new.tok_norm, MaskedBatchNorm1d)
    }
    hooks = [
        _hook(model.get_submodule(name), padding)
        for name, padding in contexts.items()
        if id(padding) in masked
    ]
    return Conversion(tuple(sites), places, _leave_fast_path(model), hooks)


def _of(home: Known | None, fact: str, given: Any, otherwise: Any) -> Any:
    """What was given; else what is known of the network around; else the usual."""
    if given is not None:
        return given
    return otherwise if home is None else getattr(home.architecture, fact)(home.module)


def _kept(norm: nn.Module, width: int) -> nn.Module:
    return norm


@torch.no_grad()
def _made_like(old: nn.Module, make: MakeNorm, width: int) -> nn.Module:
    """A norm with the weights of another, on its device, in float32 or more."""
    eps = getattr(old, "eps", getattr(old, "variance_epsilon", None))
    takes_eps = make in (nn.LayerNorm, nn.RMSNorm) and eps is not None
    new = make(width, eps=eps) if takes_eps else make(width)  # type: ignore[call-arg]
    if not isinstance(new, nn.Module):
        raise ConfigError(
            "cls_norm, tok_norm and first_cls_norm must make a module from a number of channels, "
            f"as nn.LayerNorm does; got a {type(new).__name__}"
        )
    beside = next(old.parameters(), None)
    if beside is not None:
        double = beside.dtype == torch.float64
        new = new.to(beside.device, torch.float64 if double else torch.float32)
    for name in ("weight", "bias"):
        source, target = getattr(old, name, None), getattr(new, name, None)
        if source is not None and target is not None and source.shape == target.shape:
            target.copy_(source)
    return new


def _site(name: str, norm: LeadingSepNorm, is_first: bool) -> Site:
    return Site(
        name=name,
        width=norm.hidden_size,
        special_tokens=len(norm.cls_norms),
        batch_first=norm.batch_first,
        is_first=is_first,
        cls_norm=type(norm.cls_norms[0]).__name__,
        tok_norm=type(norm.tok_norm).__name__,
    )


@dataclass(frozen=True)
class _Place:
    parent: nn.Module
    attribute: str
    old: nn.Module
    new: LeadingSepNorm


@dataclass(frozen=True)
class _Setting:
    module: nn.Module
    attribute: str
    old: Any


def _replace(model: nn.Module, new: dict[nn.Module, LeadingSepNorm]) -> list[_Place]:
    """A module that is known by several names is replaced in all of these places."""
    places = [
        _Place(parent, attribute, child, new[child])
        for parent in model.modules()
        for attribute, child in parent._modules.items()
        if child is not None and child in new
    ]
    for place in places:
        setattr(place.parent, place.attribute, place.new)
    return places


def _hook(module: nn.Module, padding: PaddingContext) -> RemovableHandle:
    return module.register_forward_pre_hook(PaddingHook(module, padding), with_kwargs=True)


def _leave_fast_path(model: nn.Module) -> list[_Setting]:
    """Keep torch's encoders from their fused path, which reads the norms' weights and never calls
    them. Both `forward` look at an attribute each before they look at the norms (so in torch 2.4
    to 2.13): the layer at its kind of activation, which it needs for nothing else, the encoder at
    `use_nested_tensor`. Both go along with copies and pickles."""
    wanted: list[tuple[nn.Module, str, Any]] = []
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and _has_sepnorm(module.layers):
            wanted.append((module, "use_nested_tensor", False))
        elif isinstance(module, nn.TransformerEncoderLayer) and _has_sepnorm(module):
            wanted.append((module, "activation_relu_or_gelu", 0))
    settings = [_Setting(module, name, getattr(module, name)) for module, name, _ in wanted]
    for module, name, value in wanted:
        setattr(module, name, value)
    return settings


def _has_sepnorm(module: nn.Module) -> bool:
    return any(isinstance(inner, LeadingSepNorm) for inner in module.modules())
