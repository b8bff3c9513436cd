"""Replace the norms of an existing transformer by SepNorm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.batch_norm import contains_batch_norm
from molsepnorm.sepnorm.multi_token import MultiTokenSepNorm, Padding

NormFactory = Callable[[int], nn.Module]
Where = str | Iterable[str] | Callable[[str, nn.Module], bool]


class Rule(NamedTuple):
    """The sites of a network. Names are relative to it, as regular expressions."""

    norms: str
    """The norms of sequences with special tokens, so not those of heads, of queries and keys, of
    pooled vectors and of patches without special tokens."""
    first: str = ""
    """Those before the first layer."""
    special_tokens: int = 1
    batch_first: bool | None = True
    """None: unknown."""


_BERT = Rule(
    r"embeddings\.LayerNorm|encoder\.layer\.\d+\.((cross)?attention\.)?output\.LayerNorm",
    first=r"embeddings\.LayerNorm",
)
_VIT = Rule(  # the layers of transformers 4 and 5
    r"(encoder\.layer|layers)\.\d+\.layernorm_(before|after)|layernorm",
    first=r"(encoder\.layer|layers)\.0\.layernorm_before",
)
# The input of this decoder is the output of the encoder, so no norm is a first one.
_MAE_DECODER = Rule(r"decoder_layers\.\d+\.layernorm_(before|after)|decoder_norm")


def _timm(vit: Any) -> Rule:
    if not vit.num_prefix_tokens:
        raise ConfigError(
            f"{type(vit).__name__} has no class token (class_token=False) to normalise separately: "
            "make it with class_token=True, or with registers (reg_tokens=)"
        )
    norms = r"norm_pre|norm|blocks\.\d+\.(norm1|norm2|in_norm|(attns|ffns)\.\d+\.norm)"
    first = r"norm_pre|blocks\.0\.(norm1|in_norm|attns\.\d+\.norm)"
    if any(type(block).__name__ == "ResPostBlock" for block in vit.blocks[:1]):
        first = "norm_pre"  # a block's norms come after attention
    return Rule(norms, first, vit.num_prefix_tokens)


def _torch_layer(layer: Any) -> Rule:
    attention = getattr(layer, "self_attn", None)
    batch_first = attention.batch_first if isinstance(attention, nn.MultiheadAttention) else None
    first = "norm1" if getattr(layer, "norm_first", False) else ""
    return Rule("norm[12]", first, batch_first=batch_first)


def _torch_encoder(encoder: Any) -> Rule:
    layer = _torch_layer(encoder.layers[0])
    return layer._replace(norms=r"layers\.\d+\.norm[12]|norm", first=rf"layers\.0\.({layer.first})")


RULES: dict[str, Rule | Callable[[Any], Rule]] = {
    "transformers.models.bert.modeling_bert.BertModel": _BERT,
    "transformers.models.roberta.modeling_roberta.RobertaModel": _BERT,
    "transformers.models.vit.modeling_vit.ViTModel": _VIT,
    "transformers.models.vit_mae.modeling_vit_mae.ViTMAEModel": _VIT,
    "transformers.models.vit_mae.modeling_vit_mae.ViTMAEDecoder": _MAE_DECODER,
    "timm.models.vision_transformer.VisionTransformer": _timm,
    "torch.nn.modules.transformer.TransformerEncoder": _torch_encoder,
    "torch.nn.modules.transformer.TransformerEncoderLayer": _torch_layer,
}
"""Qualified name of a class, so that no library is imported -> rule, also for its subclasses."""

_LAYER = r"(encoder\.layer|decoder_layers|layers|blocks)\.\d+"
"""The names of the layers of all known networks."""


class Known(NamedTuple):
    """A module and its rule."""

    name: str
    module: nn.Module
    rule: Rule

    def inside(self, name: str, pattern: str = ".*") -> bool:
        """Return whether a module is inside, with a relative name that fits the pattern."""
        prefix = self.name and f"{self.name}."
        fits = re.fullmatch(pattern, name.removeprefix(prefix))
        return name.startswith(prefix) and fits is not None


def _find_known(model: nn.Module) -> list[Known]:
    """Return the outermost modules of known classes, in order, without decoders, whose first token
    attends only to itself."""
    known: list[Known] = []
    stacks: set[str] = set()
    for name, module in model.named_modules():
        classes = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(module).__mro__)
        rule = next((RULES[each] for each in classes if each in RULES), None)
        decodes = getattr(getattr(module, "config", None), "is_decoder", False)
        if rule is None or decodes or any(network.inside(name) for network in known):
            continue
        if any(getattr(part, "chunk_size_feed_forward", 0) for part in module.modules()):
            raise ConfigError(
                f"this {type(module).__name__} normalises sequences in pieces, and only the first "
                "piece begins with CLS: make it with config.chunk_size_feed_forward = 0"
            )
        stack = re.sub(r"\d+(?!.*\d)", "*", name)  # its last number
        follows = rule is _torch_layer and stack in stacks  # another layer
        stacks.add(stack)
        rule = rule if isinstance(rule, Rule) else rule(module)
        known.append(Known(name, module, rule._replace(first="") if follows else rule))
    return known


def _known_norms(model: nn.Module, known: list[Known]) -> dict[str, nn.Module]:
    """Return the norms of token sequences of known networks; refuse a layer without one."""
    modules = [each for each in model.named_modules() if not isinstance(each[1], nn.Identity)]
    norms = {
        name: module
        for name, module in modules
        if any(network.inside(name, network.rule.norms) for network in known)
    }
    for name, module in modules:
        is_layer = any(network.inside(name, _LAYER) for network in known)
        if is_layer and not any(norm.startswith(f"{name}.") for norm in norms):
            raise ConfigError(
                f"'{name}', a {type(module).__name__}, has no known norm: name all norms to "
                "replace by where="
            )
    if not norms:
        raise ConfigError(
            f"this {type(model).__name__} has no known norm of token sequences; known are "
            f"{', '.join(name.rpartition('.')[2] for name in RULES)}, but not as decoders, "
            "whose first token sees no other. For another transformer pass where=, such as "
            "where='*.layers.*.norm?', with special_tokens= and batch_first="
        )
    return norms


def _matching(modules: dict[str, nn.Module], rule: Where, argument: str) -> dict[str, nn.Module]:
    """Return the modules that a rule selects, at least one for each name."""
    rules: Any = [rule] if isinstance(rule, str) or callable(rule) else rule
    rules = [*rules] if isinstance(rules, Iterable) else []
    if not rules or any(
        isinstance(each, type) or not isinstance(each, str | Callable) for each in rules
    ):
        raise ConfigError(
            f"{argument}= must be a name such as 'layers.*.norm1', several of them, or a function "
            f"of a module's name and the module; got {rule!r}"
        )
    selected: set[str] = set()
    for each in rules:
        names = {
            name
            for name, module in modules.items()
            if (
                each(name, module)
                if callable(each)
                else fnmatchcase(name, each) and not isinstance(module, nn.Identity)
            )
        }
        if not names:
            norms = ", ".join(name for name, each in modules.items() if _width(each) is not None)
            raise ConfigError(
                f"{argument}={each!r} matches no module; the norms are: {norms or 'none'}"
            )
        selected |= names
    return {name: module for name, module in modules.items() if name in selected}


def _width(norm: nn.Module) -> int | None:
    """Return the number of channels of a norm of the last dimension; None for other modules."""
    of_others = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.PReLU)
    if isinstance(norm, of_others) or next(norm.children(), None) is not None:
        return None
    shape = getattr(norm, "normalized_shape", None)
    if shape is None and isinstance(weight := getattr(norm, "weight", None), torch.Tensor):
        shape = weight.shape
    return shape[0] if shape is not None and len(shape) == 1 else None


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
    factor itself, not as an addition to 1), and layer and RMS norms keep its ε. They can be trained
    even if the old one is frozen. Make the optimiser afterwards, or add the new parameters to it.

    A batch norm of the tokens does not count padding, which must be at the end, by the
    `attention_mask` or `src_key_padding_mask` of each call of the model. With gradient
    checkpointing call `backward` after each call.

    Args:
        model: changed in place; unchanged if an error is raised.
        cls_norm: makes the norm of a special token from the number of channels.
        tok_norm: makes the norm of the other tokens. None keeps the existing module, so that
            optimisers with its parameters stay valid.
        where: modules to replace: one or several names as in `model.named_modules()`, in which `*`
            matches anything, also dots; or a function of name and module.
        first_cls_norm: replaces `cls_norm` at sites before the first layer. A special token is the
            same vector in every sequence there, and a batch norm would amplify noise.
        first: these sites, in the form of `where`. None: those of the known network; outside of
            known networks the first site in the order of modules.
        special_tokens: number of special slots at the beginning of each sequence. None: that of the
            known network, else 1.
        batch_first: true for sequences (B, S, C), false for (S, B, C). None: as in the known
            network, else true.

    Raises:
        ConfigError: the model is already converted, wrapped by DDP, unknown or a causal decoder, or
            normalises sequences in pieces; nothing matches, or a match or a new module is no norm
            over the last dimension; or an argument is of the wrong type.

    Source: Chen et al., "On Separate Normalization in Self-supervised Transformers", NeurIPS 2023,
    arXiv 2309.12931, section 3, with MAE, SimCSE's BERT and RoBERTa, and Graphormer.
    """
    if not isinstance(model, nn.Module):
        raise ConfigError(f"only an nn.Module can be converted; got a {type(model).__name__}")
    for module in model.modules():
        if isinstance(module, DistributedDataParallel):
            raise ConfigError(
                "the model is wrapped by DistributedDataParallel, which would not train the new "
                "norms: convert it before wrapping"
            )
        if isinstance(module, MultiTokenSepNorm):
            raise ConfigError(
                f"this {type(model).__name__} is already converted: undo() that conversion first"
            )
    known = _find_known(model)
    outside = Known("", model, Rule(""))
    if where is None:
        chosen = _known_norms(model, known)
    else:
        modules = {name: module for name, module in model.named_modules() if name}
        chosen = _matching(modules, where, "where")
    homes = {name: next((each for each in known if each.inside(name)), outside) for name in chosen}
    if first is None:
        first_names = [name for name, home in homes.items() if home is outside][:1]
        first_names += [name for name, home in homes.items() if home.inside(name, home.rule.first)]
    else:
        first_names = [*_matching(chosen, first, "first")]
    paddings: dict[Known, Padding] = {}
    sites: list[Site] = []
    new: dict[nn.Module, MultiTokenSepNorm] = {}
    like = next(model.parameters(), None)
    for name, norm in chosen.items():
        home, is_first = homes[name], name in first_names
        if (width := _width(norm)) is None:
            raise ConfigError(
                f"'{name}' cannot be replaced by SepNorm: this {type(norm).__name__} is no norm "
                "over the last dimension only. Choose layer or RMS norms by where="
            )
        layout = home.rule.batch_first if batch_first is None else batch_first
        if layout is None:
            raise ConfigError(
                f"the layout of '{name}' is unknown, since its layer has no nn.MultiheadAttention: "
                "pass batch_first=True for sequences (batch, slots, channels), or False for "
                "(slots, batch, channels)"
            )
        make_like = partial(_make_norm_like, norm, next(norm.parameters(), like))
        sepnorm = new[norm] = MultiTokenSepNorm(
            width,
            partial(make_like, first_cls_norm if is_first else cls_norm),
            (lambda _: norm) if tok_norm is None else partial(make_like, tok_norm),  # noqa: B023
            special_tokens=home.rule.special_tokens if special_tokens is None else special_tokens,
            batch_first=layout,
        ).train(norm.training)
        sepnorm.padding = paddings.setdefault(home, sepnorm.padding)
        classes = type(sepnorm.cls_norms[0]).__name__, type(sepnorm.tok_norm).__name__
        sites.append(Site(name, width, len(sepnorm.cls_norms), layout, is_first, *classes))
    # no checks follow, so the model may be changed
    changes = _changes(model, new)
    for module, attribute, _, value in changes:
        setattr(module, attribute, value)
    needed = [norm.padding for norm in new.values() if contains_batch_norm(norm.tok_norm)]
    hooks: list[RemovableHandle] = []
    for home, padding in paddings.items():
        called = [home.module]
        if isinstance(home.module, nn.TransformerEncoder):
            called += home.module.layers  # which may be called one by one
        hooks += [padding.follow(module) for module in called if padding in needed]
    return Conversion(tuple(sites), changes, hooks)


@torch.no_grad()
def _make_norm_like(
    old: nn.Module, beside: nn.Parameter | None, factory: NormFactory, width: int
) -> nn.Module:
    """Return a new norm with the weights of `old`, on the device of `beside`, at least float32."""
    eps = getattr(old, "eps", getattr(old, "variance_epsilon", None))
    takes_eps = factory in (nn.LayerNorm, nn.RMSNorm) and eps is not None
    try:
        new = factory(width, eps=eps) if takes_eps else factory(width)  # type: ignore[call-arg]
        shape = new.eval()(next(new.parameters(), torch.empty(0)).new_zeros(2, width)).shape
        problem = "" if shape == (2, width) else f"a shape of {tuple(shape)} for (2, {width})"
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        raise ConfigError(
            "cls_norm, tok_norm and first_cls_norm must make, from a number of channels, a module "
            f"that normalises (n, channels), as nn.LayerNorm does; got {factory!r}: {problem}"
        )
    if beside is not None:
        double = beside.dtype == torch.float64
        new = new.to(beside.device, torch.float64 if double else torch.float32)
    for name in ("weight", "bias"):
        source, target = getattr(old, name, None), getattr(new, name, None)
        if source is not None and target is not None and source.shape == target.shape:
            target.copy_(source)
    return new


Change = tuple[nn.Module, str, Any, Any]  # module, name of an attribute, old and new value


def _changes(model: nn.Module, new: dict[nn.Module, MultiTokenSepNorm]) -> list[Change]:
    """Return the attributes to change: those that hold a norm, and `use_nested_tensor`.

    An `nn.TransformerEncoder` packs padded sequences into a nested tensor if its first layer is
    fused. In torch 2.4 to 2.13 it reads this attribute first, which is part of copies and pickles.
    """
    changes: list[Change] = []
    for module in model.modules():
        for attribute, child in module._modules.items():
            if child is not None and child in new:
                changes.append((module, attribute, child, new[child]))
        if isinstance(module, nn.TransformerEncoder) and not new.keys().isdisjoint(
            module.layers.modules()
        ):
            changes.append((module, "use_nested_tensor", module.use_nested_tensor, False))
    return changes


@dataclass(frozen=True)
class Site:
    """A norm that was replaced."""

    name: str
    """Qualified name of the module."""
    width: int
    special_tokens: int
    batch_first: bool
    is_first: bool
    """True if no layer has mixed the tokens before, so that `first_cls_norm` was used."""
    cls_norm: str
    """Class of the norms of the special tokens."""
    tok_norm: str


class Conversion:
    """The result of `convert_to_sepnorm`. It prints as a table, and `undo` reverts it.

    To copy a model with its conversion, copy both at once: `copy.deepcopy((model, conversion))`.
    """

    sites: tuple[Site, ...]
    """The replaced norms, in the order of the model's modules."""

    def __init__(
        self, sites: tuple[Site, ...], changes: list[Change], hooks: list[RemovableHandle]
    ) -> None:
        self.sites = sites
        self._changes, self._hooks = changes, hooks

    def undo(self) -> None:
        """Restore the old norms, in place. A second call does nothing.

        If `tok_norm` was None, the old norm has normalised the tokens and keeps what it learned.
        The weights of the new norms are lost.

        Raises:
            ConfigError: a converted norm has been replaced since; nothing is changed.
        """
        for module, name, _, new in self._changes:
            if isinstance(new, nn.Module) and getattr(module, name, None) is not new:
                raise ConfigError(
                    f"cannot undo the conversion: '{name}' of a {type(module).__name__} is no "
                    "longer the SepNorm of the conversion"
                )
        for module, name, old, new in self._changes:
            if isinstance(new, MultiTokenSepNorm):
                for parameter in new.parameters():
                    old.to(parameter.device)  # the model may have been moved since
                old.train(new.training)
            setattr(module, name, old)
        for hook in self._hooks:
            hook.remove()
        self._changes, self._hooks = [], []

    def __str__(self) -> str:
        rows = [("site", "width", "special", "layout", "cls_norm", "tok_norm")]
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
