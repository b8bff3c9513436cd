"""The learners that a model consists of."""

from collections.abc import Iterable

from molsepnorm.model.parts.forest import Forest
from molsepnorm.model.parts.kernel import KernelPart
from molsepnorm.model.parts.network import NetworkPart, are_equal, encoding_of, infer, read_out
from molsepnorm.model.parts.part import ExtraArrays, Inputs, Part, Predicted
from molsepnorm.nn.graphormer import Graphormer

PARTS: dict[str, type[Part]] = {each.kind: each for each in (NetworkPart, KernelPart, Forest)}
"""The classes of parts that a model folder may hold, by their kind."""


def networks_of(parts: Iterable[Part]) -> list[Graphormer]:
    """Return the networks that some parts read, each once."""
    return [*dict.fromkeys(part.network for part in parts if part.network is not None)]


def register_part(part: type[Part]) -> None:
    """Make a class of parts known, so that model folders can hold it."""
    PARTS[part.kind] = part


__all__ = [
    "PARTS",
    "ExtraArrays",
    "Forest",
    "Inputs",
    "KernelPart",
    "NetworkPart",
    "Part",
    "Predicted",
    "are_equal",
    "encoding_of",
    "infer",
    "networks_of",
    "read_out",
    "register_part",
]
