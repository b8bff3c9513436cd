"""Selection of the modules that a conversion replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.conversion.architectures import ARCHITECTURES, Known
from molsepnorm.sepnorm.conversion.multi_token import MultiTokenSepNorm

__all__ = ["Where", "channels_of", "chosen_norms", "matching"]

Where = str | Iterable[str] | Callable[[str, nn.Module], bool]
"""Names, in which `*` stands for anything, or a function of name and module."""


def chosen_norms(model: nn.Module, where: Where | None, known: list[Known]) -> dict[str, nn.Module]:
    """Return the modules to replace in the order of the model: qualified name -> module.

    Raises:
        ConfigError: the model is already converted or of an unknown class, or nothing matches.
    """
    modules = {name: module for name, module in model.named_modules() if name}
    if any(isinstance(module, MultiTokenSepNorm) for module in model.modules()):
        raise ConfigError(
            f"this {type(model).__name__} is already converted: undo() that conversion first"
        )
    if where is not None:
        return matching(modules, where, "where")
    norms = {name: norm for each in known for name, norm in each.norms().items()}
    if not norms:
        classes = sorted(name.rpartition(".")[2] for each in ARCHITECTURES for name in each.classes)
        raise ConfigError(
            f"this {type(model).__name__} has no known norm of token sequences; known are "
            f"{', '.join(classes)}, but not as decoders, whose first token sees no other. For "
            "another transformer pass where=, such as where='*.layers.*.norm?', with "
            "special_tokens= and batch_first="
        )
    return {name: module for name, module in modules.items() if name in norms}


def matching(modules: dict[str, nn.Module], rule: Where, argument: str) -> dict[str, nn.Module]:
    """Return the modules that a rule selects, in order; patterns do not match identities.

    Raises:
        ConfigError: the rule, which is the given argument, is of the wrong type or matches nothing.
    """
    if callable(rule) and not isinstance(rule, type):
        chosen = {name: module for name, module in modules.items() if rule(name, module)}
        if not chosen:
            raise ConfigError(f"{argument}= is a function that is true for no module of the model")
        return chosen
    patterns: Any = [rule] if isinstance(rule, str) else rule
    patterns = list(patterns) if isinstance(patterns, Iterable) else []
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise ConfigError(
            f"{argument}= must be a name such as 'layers.*.norm1', several of them, or a function "
            f"of a module's name and the module; got {rule!r}"
        )
    norms = {name: each for name, each in modules.items() if not isinstance(each, nn.Identity)}
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in norms):
            known = ", ".join(name for name, each in modules.items() if _width(each) is not None)
            raise ConfigError(
                f"{argument}='{pattern}' matches no module; the norms are: {known or 'none'}"
            )
    return {
        name: module
        for name, module in norms.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


_OTHER_CHANNELS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.PReLU)
"""Norms and activations with one-dimensional weights whose channels are not the last dimension."""


def _width(norm: nn.Module) -> int | None:
    """Return the number of channels of a norm; None if it does not normalise the last dimension."""
    if isinstance(norm, _OTHER_CHANNELS) or next(norm.children(), None) is not None:
        return None
    shape = getattr(norm, "normalized_shape", None)
    if shape is None and isinstance(weight := getattr(norm, "weight", None), torch.Tensor):
        shape = weight.shape
    return shape[0] if shape is not None and len(shape) == 1 else None


def channels_of(name: str, norm: nn.Module) -> int:
    """Return the number of channels of the norm of that name.

    Raises:
        ConfigError: it is not a norm over the last dimension only.
    """
    width = _width(norm)
    if width is None:
        raise ConfigError(
            f"'{name}' cannot be replaced by SepNorm: this {type(norm).__name__} is no norm over "
            "the last dimension only. Choose layer or RMS norms by where="
        )
    return width
