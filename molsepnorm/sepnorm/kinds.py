"""The kinds of norm that a graph token or the atom tokens may have, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

from torch import nn

from molsepnorm.errors import ConfigError

NormKind = Literal["layer", "batch", "rms", "none"]

BATCH_KINDS: frozenset[NormKind] = frozenset({"batch"})
"""The kinds that read the whole batch in training. If all tokens share such a norm, the graph token
cannot be normalised without the atoms."""


def make_norm(kind: NormKind) -> Callable[[int], nn.Module]:
    """Return a function that makes a norm of a kind from a number of channels.

    Raises:
        ConfigError: the kind is unknown.

    >>> make_norm("batch")(80)
    BatchNorm1d(80, eps=1e-05, momentum=0.1, ...)
    """
    norms: dict[str, Callable[[int], nn.Module]] = {
        "layer": nn.LayerNorm,
        "batch": nn.BatchNorm1d,
        "rms": partial(nn.RMSNorm, eps=1e-5),  # Zhang and Sennrich, NeurIPS 2019, arXiv 1910.07467
        "none": nn.Identity,
    }
    if kind not in norms:
        raise ConfigError(f"a norm must be one of {', '.join(get_args(NormKind))}; got '{kind}'")
    return norms[kind]
