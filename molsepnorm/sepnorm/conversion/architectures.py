"""The norms and special tokens of known transformers.

Classes are recognised by module and name, so that none of these libraries is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from molsepnorm.errors import ConfigError

__all__ = ["ARCHITECTURES", "Architecture", "Known", "find_known"]


@dataclass(frozen=True)
class Architecture:
    """The norms and the sequences of a class of networks.

    Patterns are names of modules relative to an instance; `*` matches anything between two dots.
    """

    classes: tuple[str, ...]
    """Qualified names; subclasses are recognised, too."""
    norms: tuple[str, ...]
    """Patterns of the norms of sequences with special tokens. Not included are norms of patches
    without special tokens, of queries and keys, of pooled vectors and of heads."""
    first: Callable[[Any], tuple[str, ...]] = lambda module: ()
    """Patterns of the norms that are called before the first layer. A special token is the same
    vector in every sequence there (except for dropout), and a batch norm would see no variance."""
    special_tokens: Callable[[Any], int] = lambda module: 1
    """Number of special tokens at the beginning of a sequence."""
    batch_first: Callable[[Any], bool] = lambda module: True
    """True for sequences (B, S, C), false for (S, B, C)."""
    masked: tuple[str, ...] = ("",)
    """Patterns of the modules that are called with a padding mask; "" is the instance itself."""
    causal: Callable[[Any], bool] = lambda module: False
    """True if attention is causal. The first slot then attends only to itself, so it is no CLS and
    the instance is not recognised."""
    check: Callable[[Any], None] = lambda module: None
    """Raises ConfigError if an instance cannot be converted."""
    stacked: bool = False
    """True if instances whose names differ only by a number are layers of one stack. Only the first
    of them has norms before the first layer."""


@dataclass(frozen=True)
class Known:
    """A module of a known class inside a network."""

    name: str
    """Qualified name, "" for the network itself."""

    module: nn.Module
    architecture: Architecture
    begins: bool
    """True if it is the first layer of its stack."""

    def norms(self) -> dict[str, nn.Module]:
        """Return its norms of token sequences: qualified name -> module. Identities are no norms.

        Raises:
            ConfigError: a layer has no norm.
        """
        norms = {
            name: module
            for name, module in self.module.named_modules()
            if not isinstance(module, nn.Identity)
            and any(_fits(name, pattern) for pattern in self.architecture.norms)
        }
        patterns = (pattern.partition(".*") for pattern in self.architecture.norms)
        stacks = {stack for stack, star, _ in patterns if star}
        for name, layer in self.module.named_modules():
            is_layer = name.rpartition(".")[0] in stacks and not isinstance(layer, nn.Identity)
            if is_layer and not any(norm.startswith(f"{name}.") for norm in norms):
                raise ConfigError(
                    f"'{self._qualified(name)}', a {type(layer).__name__}, has no known norm: name "
                    "all norms to replace by where="
                )
        return {self._qualified(name): module for name, module in norms.items()}

    def called_with_masks(self) -> list[nn.Module]:
        """Return the modules, itself included, that may be called with a padding mask."""
        return [
            module
            for name, module in self.module.named_modules()
            if any(_fits(name, pattern) for pattern in self.architecture.masked)
        ]

    def is_first(self, name: str) -> bool:
        """Return whether the norm of that qualified name is called before the first layer."""
        patterns = self.architecture.first(self.module) if self.begins else ()
        return any(_fits(name, self._qualified(pattern)) for pattern in patterns)

    def contains(self, name: str) -> bool:
        """Return whether the module of that qualified name is inside this one."""
        return not self.name or name.startswith(f"{self.name}.")

    def _qualified(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name


def find_known(network: nn.Module) -> list[Known]:
    """Return the modules of known classes, in order, without nested and causal ones.

    >>> layer = nn.TransformerEncoderLayer(4, 2)
    >>> encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    >>> [known] = find_known(nn.Sequential(nn.Linear(4, 4), encoder))
    >>> known.name, len(known.norms())
    ('1', 4)
    """
    found: list[Known] = []
    stacks: set[str] = set()
    for name, module in network.named_modules():
        architecture = _architecture_of(module)
        if architecture is None or any(known.contains(name) for known in found):
            continue
        if architecture.causal(module):
            continue
        stack = re.sub(r"\d+(?!.*\d)", "*", name)  # its last number
        begins = not (architecture.stacked and stack in stacks)
        stacks.add(stack)
        found.append(Known(name, module, architecture, begins))
    return found


def _architecture_of(module: nn.Module) -> Architecture | None:
    for kind in type(module).__mro__:
        if architecture := _BY_CLASS.get(f"{kind.__module__}.{kind.__qualname__}"):
            return architecture
    return None


def _fits(name: str, pattern: str) -> bool:
    parts, patterns = name.split("."), pattern.split(".")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


# --- transformers: the layers of a ViT are in encoder.layer (version 4) or layers (version 5) ---


def _in_one_piece(bert: Any) -> None:
    if any(getattr(module, "chunk_size_feed_forward", 0) for module in bert.modules()):
        raise ConfigError(
            f"this {type(bert).__name__} normalises sequences in pieces, and only the first piece "
            "begins with CLS: make it with config.chunk_size_feed_forward = 0"
        )


_BERT = Architecture(
    classes=(
        "transformers.models.bert.modeling_bert.BertModel",
        "transformers.models.roberta.modeling_roberta.RobertaModel",
    ),
    norms=(
        "embeddings.LayerNorm",
        "encoder.layer.*.attention.output.LayerNorm",
        "encoder.layer.*.crossattention.output.LayerNorm",
        "encoder.layer.*.output.LayerNorm",
    ),
    first=lambda model: ("embeddings.LayerNorm",),
    causal=lambda model: bool(model.config.is_decoder),
    check=_in_one_piece,
)

_VIT = Architecture(
    classes=(
        "transformers.models.vit.modeling_vit.ViTModel",
        "transformers.models.vit_mae.modeling_vit_mae.ViTMAEModel",
    ),
    norms=(
        "encoder.layer.*.layernorm_before",
        "encoder.layer.*.layernorm_after",
        "layers.*.layernorm_before",
        "layers.*.layernorm_after",
        "layernorm",
    ),
    first=lambda model: ("encoder.layer.0.layernorm_before", "layers.0.layernorm_before"),
)

_MAE_DECODER = Architecture(  # its input is the encoder's output, so no norm is a first one
    classes=("transformers.models.vit_mae.modeling_vit_mae.ViTMAEDecoder",),
    norms=(
        "decoder_layers.*.layernorm_before",
        "decoder_layers.*.layernorm_after",
        "decoder_norm",
    ),
)

# --- timm ---------------------------------------------------------------------------------------


def _first_of_timm(vit: Any) -> tuple[str, ...]:
    if any(type(block).__name__ == "ResPostBlock" for block in vit.blocks[:1]):
        return ("norm_pre",)  # a block's norms come after attention
    return ("norm_pre", "blocks.0.norm1", "blocks.0.in_norm", "blocks.0.attns.*.norm")


def _prefix_of_timm(vit: Any) -> int:
    if not vit.num_prefix_tokens:
        raise ConfigError(
            f"{type(vit).__name__} has no class token (class_token=False) to normalise separately: "
            "make it with class_token=True, or with registers (reg_tokens=)"
        )
    return vit.num_prefix_tokens


_TIMM = Architecture(
    classes=("timm.models.vision_transformer.VisionTransformer",),
    norms=(
        "norm_pre",
        "blocks.*.norm1",
        "blocks.*.norm2",
        "blocks.*.in_norm",  # of parallel attention and feed-forward
        "blocks.*.attns.*.norm",  # of several branches side by side
        "blocks.*.ffns.*.norm",
        "norm",
    ),
    first=_first_of_timm,
    special_tokens=_prefix_of_timm,
)

# --- torch --------------------------------------------------------------------------------------


def _layout_of_torch(layer: Any) -> bool:
    attention = getattr(layer, "self_attn", None)
    if not isinstance(attention, nn.MultiheadAttention):
        raise ConfigError(
            f"the layout of {type(layer).__name__} inside a TransformerEncoder is unknown: pass "
            "batch_first=True for sequences (batch, slots, channels), or False for (slots, batch, "
            "channels)"
        )
    return attention.batch_first


def _first_of_torch(layer: Any, name: str = "norm1") -> tuple[str, ...]:
    return (name,) if getattr(layer, "norm_first", False) else ()


_TORCH_ENCODER = Architecture(
    classes=("torch.nn.modules.transformer.TransformerEncoder",),
    norms=("layers.*.norm1", "layers.*.norm2", "norm"),
    first=lambda encoder: _first_of_torch(encoder.layers[0], "layers.0.norm1"),
    batch_first=lambda encoder: _layout_of_torch(encoder.layers[0]),
    masked=("", "layers.*"),
)

_TORCH_LAYER = Architecture(
    classes=("torch.nn.modules.transformer.TransformerEncoderLayer",),
    norms=("norm1", "norm2"),
    first=_first_of_torch,
    batch_first=_layout_of_torch,
    stacked=True,
)

ARCHITECTURES = (_BERT, _VIT, _MAE_DECODER, _TIMM, _TORCH_ENCODER, _TORCH_LAYER)

_BY_CLASS = {name: architecture for architecture in ARCHITECTURES for name in architecture.classes}
