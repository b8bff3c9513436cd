"""Replace the norms of an existing transformer by SepNorm."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.batch_norm import contains_batch_norm
from molsepnorm.sepnorm.conversion.architectures import Known, find_known
from molsepnorm.sepnorm.conversion.multi_token import MultiTokenSepNorm
from molsepnorm.sepnorm.conversion.norm_factories import NormFactory, make_norm_like
from molsepnorm.sepnorm.conversion.padding import PaddingContext, PaddingHook
from molsepnorm.sepnorm.conversion.result import ChangedAttribute, Conversion, Site
from molsepnorm.sepnorm.conversion.selection import Where, channels_of, chosen_norms, matching

__all__ = ["convert_to_sepnorm"]


def convert_to_sepnorm(
    model: nn.Module,
    cls_norm: NormFactory = nn.BatchNorm1d,
    tok_norm: NormFactory | None = None,
    where: Where | None = None,
    *,
    first_cls_norm: NormFactory = nn.LayerNorm,
    first: Where | None = None,
    special_tokens: int | None = None,
    batch_first: bool | None = None,
) -> Conversion:
    """Replace the norms that act on token sequences by SepNorm, in place.

    BERT, RoBERTa, ViT and ViT-MAE of `transformers`, `VisionTransformer` of timm and
    `nn.TransformerEncoder` and its layer need no `where`, alone or inside `model`.

    New norms start with the weights of the old one if their shapes fit (a weight is read as the
    factor itself, not as an addition to 1), and layer and RMS norms keep its ε. Therefore
    `cls_norm=nn.LayerNorm` changes no output before training. New norms can be trained even if the
    old one is frozen. Make the optimiser afterwards, or add the new parameters to it.

    Before the first layer a special token is the same vector in every sequence, and a batch norm
    would amplify noise. These sites get `first_cls_norm` instead.

    A batch norm of the tokens does not count padding. The mask is read from each call of the model,
    from `attention_mask` or `src_key_padding_mask`. Special tokens come first, so padding must be
    at the end. With gradient checkpointing call `backward` after each call.

    Args:
        model: changed in place; unchanged if an error is raised.
        cls_norm: makes the norm of a special token from the number of channels.
        tok_norm: makes the norm of the other tokens. None keeps the existing module, so that
            optimisers with its parameters stay valid.
        where: modules to replace: one or several names as in `model.named_modules()`, in which `*`
            matches anything, also dots; or a function of name and module. Inside a known network
            the defaults of the arguments below are those of the network.
        first_cls_norm: replaces `cls_norm` at sites before the first layer.
        first: these sites, in the form of `where`. None: those of the known network; outside of
            known networks the first site in the order of modules.
        special_tokens: number of special slots at the beginning of each sequence. None: that of the
            known network, else 1.
        batch_first: true for sequences (B, S, C), false for (S, B, C). None: as in the known
            network, else true.

    Raises:
        ConfigError: the model is already converted, wrapped by DDP, unknown or a causal decoder, or
            normalises sequences in pieces; nothing matches, a match is no norm over the last
            dimension, a function makes no norm of (n, channels), there is no special token, or an
            argument is of the wrong type.

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers", NeurIPS 2023,
    arXiv 2309.12931, section 3, with MAE, SimCSE's BERT and RoBERTa, and Graphormer.

    >>> import torch
    >>> layer = nn.TransformerEncoderLayer(8, 2, batch_first=True, norm_first=True)
    >>> encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    >>> conversion = convert_to_sepnorm(encoder)
    >>> print(conversion)
    site            width  special  layout       cls_norm     tok_norm
    layers.0.norm1  8      1        batch first  LayerNorm *  LayerNorm
    layers.0.norm2  8      1        batch first  BatchNorm1d  LayerNorm
    * before the first layer, where a special token is the same in all sequences
    >>> encoder(torch.randn(4, 5, 8)).shape
    torch.Size([4, 5, 8])
    >>> conversion.undo()
    >>> encoder.layers[0].norm1
    LayerNorm((8,), eps=1e-05, elementwise_affine=True...)
    """
    factories = {"cls_norm": cls_norm, "first_cls_norm": first_cls_norm}
    _check_arguments(model, factories if tok_norm is None else {**factories, "tok_norm": tok_norm})
    if special_tokens is not None and type(special_tokens) is not int:
        raise ConfigError(f"special_tokens= must be an int or None; got {special_tokens!r}")
    if batch_first is not None and type(batch_first) is not bool:
        raise ConfigError(f"batch_first= must be True, False or None; got {batch_first!r}")
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
        make_like = partial(make_norm_like, norm, next(norm.parameters(), like))
        new = MultiTokenSepNorm(
            channels_of(name, norm),
            partial(make_like, first_cls_norm if is_first else cls_norm),
            partial(_keep, norm) if tok_norm is None else partial(make_like, tok_norm),
            special_tokens=_setting(home, "special_tokens", special_tokens, 1),
            batch_first=_setting(home, "batch_first", batch_first, True),
        )
        new.padding = contexts.setdefault(home, new.padding)
        replacements[norm] = new.train(norm.training)
        classes = type(new.cls_norms[0]).__name__, type(new.tok_norm).__name__
        layout = len(new.cls_norms), new.batch_first
        sites.append(Site(name, new.hidden_size, *layout, is_first, *classes))
    # no checks follow, so the model may be changed
    changes = _changes(model, replacements)
    for each in changes:
        setattr(each.module, each.name, each.new)
    read_masks = [new.padding for new in replacements.values() if contains_batch_norm(new.tok_norm)]
    hooks = [
        module.register_forward_pre_hook(PaddingHook(module, padding), with_kwargs=True)
        for home, padding in contexts.items()
        if padding in read_masks
        for module in (home.called_with_masks() if home else [model])
    ]
    return Conversion(model, tuple(sites), changes, hooks)


def _check_arguments(model: Any, factories: dict[str, Any]) -> None:
    """Check the model and the functions that make norms, by the names of their arguments."""
    if not isinstance(model, nn.Module):
        raise ConfigError(f"only an nn.Module can be converted; got a {type(model).__name__}")
    if any(isinstance(module, DistributedDataParallel) for module in model.modules()):
        raise ConfigError(
            "the model is wrapped by DistributedDataParallel, which would not train the new norms: "
            "convert it before wrapping"
        )
    for argument, factory in factories.items():
        if not callable(factory) or isinstance(factory, nn.Module):
            raise ConfigError(
                f"{argument}= must make a norm from a number of channels, as nn.LayerNorm does; "
                f"got {factory!r}"
            )


def _first_ones(homes: dict[str, Known | None]) -> list[str]:
    """Return the sites before the first layer of known networks, and the first other site."""
    outside = [name for name, home in homes.items() if home is None]
    return outside[:1] + [name for name, home in homes.items() if home and home.is_first(name)]


def _setting(home: Known | None, name: str, given: Any, default: Any) -> Any:
    """Return the given value, else that of the known network, else the default."""
    if given is not None:
        return given
    return default if home is None else getattr(home.architecture, name)(home.module)


def _keep(norm: nn.Module, width: int) -> nn.Module:
    return norm


def _changes(model: nn.Module, new: dict[nn.Module, MultiTokenSepNorm]) -> list[ChangedAttribute]:
    """Return the attributes to change: those that hold a norm, and `use_nested_tensor`.

    An `nn.TransformerEncoder` packs padded sequences into a nested tensor if its first layer is
    fused. In torch 2.4 to 2.13 it reads this attribute first, which is part of copies and pickles.
    """
    changes = [
        ChangedAttribute(parent, attribute, child, new[child])
        for parent in model.modules()
        for attribute, child in parent._modules.items()
        if child is not None and child in new
    ]
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and not new.keys().isdisjoint(
            module.layers.modules()
        ):
            changes.append(
                ChangedAttribute(module, "use_nested_tensor", module.use_nested_tensor, False)
            )
    return changes
