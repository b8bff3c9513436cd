"""SepNorm for a transformer that is there already: its norms on token sequences are replaced."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.batch_norm import MaskedBatchNorm1d
from molsepnorm.sepnorm.conversion.architectures import Known, find_known
from molsepnorm.sepnorm.conversion.multi_token import MultiTokenSepNorm
from molsepnorm.sepnorm.conversion.norm_factories import MakeNorm, check_maker, made_like
from molsepnorm.sepnorm.conversion.padding import PaddingContext, PaddingHook
from molsepnorm.sepnorm.conversion.result import Conversion, Place, Setting, Site
from molsepnorm.sepnorm.conversion.selection import Where, channels_of, chosen_norms, matching

__all__ = ["convert_to_sepnorm"]


def convert_to_sepnorm(
    model: nn.Module,
    cls_norm: MakeNorm = nn.BatchNorm1d,
    tok_norm: MakeNorm | None = None,
    where: Where | None = None,
    *,
    first_cls_norm: MakeNorm = nn.LayerNorm,
    first: Where | None = None,
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
    so padding must stand at the end. With gradient checkpointing call `backward` after each call.

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
        first_cls_norm: in the place of `cls_norm` at sites before the first layer.
        first: which these are, in the form of `where`. None: as the known network says; of sites
            outside of known networks the first in the order of modules.
        special_tokens: how many slots at the beginning of each sequence are special. None: as the
            known network says, else 1.
        batch_first: whether sequences are (B, S, C), or (S, B, C). None: as the known network
            says, else True.

    Raises:
        ConfigError: the model is converted already, wrapped by DDP, unknown or a causal decoder, or
            normalises sequences in pieces; nothing matches, a match is no norm over one dimension
            of channels, a maker makes no norm of (n, channels), there is no special token, or an
            argument is of the wrong kind.

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers", NeurIPS 2023,
    arXiv 2309.12931, section 3; they train MAE, SimCSE's BERT and RoBERTa, and Graphormer so.

    >>> import torch
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
    _check_arguments(model, cls_norm, tok_norm, first_cls_norm, special_tokens, batch_first)
    known = find_known(model)
    chosen = chosen_norms(model, where, known)
    homes = {name: next((each for each in known if each.contains(name)), None) for name in chosen}
    first_ones = _first_ones(homes) if first is None else matching(chosen, first, "first")
    contexts: dict[Known | None, PaddingContext] = {}
    sites: list[Site] = []
    replacements: dict[nn.Module, MultiTokenSepNorm] = {}
    like = next(model.parameters(), None)
    for name, norm in chosen.items():
        home, is_first = homes[name], name in first_ones
        if home:
            home.architecture.check(home.module)
        make_like = partial(made_like, norm, next(norm.parameters(), like))
        new = MultiTokenSepNorm(
            channels_of(name, norm),
            partial(make_like, first_cls_norm if is_first else cls_norm),
            partial(_kept, norm) if tok_norm is None else partial(make_like, tok_norm),
            special_tokens=_of(home, "special_tokens", special_tokens, 1),
            batch_first=_of(home, "batch_first", batch_first, True),
        )
        new.padding = contexts.setdefault(home, new.padding)
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
        module.register_forward_pre_hook(PaddingHook(module, padding), with_kwargs=True)
        for home, padding in contexts.items()
        if id(padding) in masked
        for module in (home.called_with_masks() if home else [model])
    ]
    return Conversion(model, tuple(sites), places, _leave_fast_path(model), hooks)


def _check_arguments(
    model: Any,
    cls_norm: Any,
    tok_norm: Any,
    first_cls_norm: Any,
    special_tokens: Any,
    batch_first: Any,
) -> None:
    """That each is of its kind."""
    if not isinstance(model, nn.Module):
        raise ConfigError(f"only an nn.Module can be converted; got a {type(model).__name__}")
    if any(isinstance(module, DistributedDataParallel) for module in model.modules()):
        raise ConfigError(
            "the model is wrapped by DistributedDataParallel, which would not know the new norms: "
            "convert before wrapping"
        )
    for argument, make in {"cls_norm": cls_norm, "first_cls_norm": first_cls_norm}.items():
        check_maker(argument, make)
    if tok_norm is not None:
        check_maker("tok_norm", tok_norm)
    if special_tokens is not None and type(special_tokens) is not int:
        raise ConfigError(f"special_tokens= must be an int or None; got {special_tokens!r}")
    if batch_first is not None and type(batch_first) is not bool:
        raise ConfigError(f"batch_first= must be True, False or None; got {batch_first!r}")


def _first_ones(homes: dict[str, Known | None]) -> list[str]:
    """The sites before the first layer: as known networks say, and the first outside of them."""
    outside = [name for name, home in homes.items() if home is None]
    return outside[:1] + [name for name, home in homes.items() if home and home.is_first(name)]


def _of(home: Known | None, fact: str, given: Any, otherwise: Any) -> Any:
    """What was given; else what is known of the network around; else the usual."""
    if given is not None:
        return given
    return otherwise if home is None else getattr(home.architecture, fact)(home.module)


def _kept(norm: nn.Module, width: int) -> nn.Module:
    return norm


def _site(name: str, norm: MultiTokenSepNorm, is_first: bool) -> Site:
    return Site(
        name=name,
        width=norm.hidden_size,
        special_tokens=len(norm.cls_norms),
        batch_first=norm.batch_first,
        is_first=is_first,
        cls_norm=type(norm.cls_norms[0]).__name__,
        tok_norm=type(norm.tok_norm).__name__,
    )


def _replace(model: nn.Module, new: dict[nn.Module, MultiTokenSepNorm]) -> list[Place]:
    """A module that is known by several names is replaced in all of these places."""
    places = [
        Place(parent, attribute, child, new[child])
        for parent in model.modules()
        for attribute, child in parent._modules.items()
        if child is not None and child in new
    ]
    for place in places:
        setattr(place.parent, place.attribute, place.new)
    return places


def _leave_fast_path(model: nn.Module) -> list[Setting]:
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
    settings = [Setting(module, name, getattr(module, name)) for module, name, _ in wanted]
    for module, name, value in wanted:
        setattr(module, name, value)
    return settings


def _has_sepnorm(module: nn.Module) -> bool:
    return any(isinstance(inner, MultiTokenSepNorm) for inner in module.modules())
