"""What a network is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from molsepnorm.errors import ConfigError
from molsepnorm.nn.readout import ReadoutKind
from molsepnorm.sepnorm.kinds import BATCH_KINDS, NormKind

__all__ = ["NORMS", "GraphormerConfig", "NormName", "Norms"]

NormName = Literal["sep", "sep-ln", "sep-bn", "sep-ln-bn", "sep-rms-bn", "shared", "shared-bn"]

NORMS: dict[NormName, tuple[NormKind | None, NormKind]] = {
    "sep": ("batch", "layer"),
    "sep-ln": ("layer", "layer"),
    "sep-bn": ("batch", "batch"),
    "sep-ln-bn": ("layer", "batch"),
    "sep-rms-bn": ("rms", "batch"),
    "shared": (None, "layer"),
    "shared-bn": (None, "batch"),
}
"""The norms of the graph token and of the atoms; None where the token shares that of the atoms."""


class Norms(NamedTuple):
    """The kinds of norm at every site."""

    shared: bool
    """Whether all tokens share one norm, of the atoms' kind; the others are not used then."""
    nodes: NormKind
    graph: NormKind
    first_graph: NormKind
    last_graph: NormKind


@dataclass(frozen=True)
class GraphormerConfig:
    """The architecture; the defaults are Graphormer-SLIM with SepNorm, on ZINC's features.

    Raises:
        ConfigError: a value is out of range, or two do not fit each other.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read where a YAML file is checked

    layers: int = 12
    width: int = 80
    """C, channels of every token."""
    ffn_width: int = 80
    heads: int = 8

    dropout: float = 0.1
    """Of what attention and feed-forward add to the residual stream, and of the input."""
    attention_dropout: float = 0.1
    activation_dropout: float = 0.0
    drop_path: float = 0.0
    """Stochastic depth: how often the last layer leaves a graph's branch out; the first layer
    never does, and those between rise linearly."""

    init: Literal["v1", "xavier"] = "v1"
    """v1: N(0, 0.02 / √layers) for linear layers and N(0, 0.02) for embeddings, as the reference,
    whose runs take hundreds of thousands of steps. xavier: Xavier-uniform and N(0, 0.5), with which
    the first thousand steps learn several times as much."""

    norm: NormName = "sep"
    """What normalises the tokens, by name: `NORMS` says what a name stands for. sep is the
    published SepNorm, shared one layer norm for all tokens."""
    graph_norm: NormKind | None = None
    """Another norm of the graph token than the name says."""
    node_norm: NormKind | None = None
    """Another norm of the atom tokens; of all tokens where they share one."""
    first_graph_norm: NormKind | None = None
    """Another norm of the graph token at the first site. There the token is the same in every
    graph, and what reads the batch would see no variance and amplify noise: by default a layer norm
    in its place, and otherwise the graph token's norm."""
    last_graph_norm: NormKind | None = None
    """Another norm of the graph token at the last site, before the read-out."""
    norm_momentum: float = 0.1
    """How fast running statistics of batch norms move."""
    norm_order: Literal["pre", "post"] = "pre"
    """pre: branches read normalised tokens, and one more norm comes before the read-out. post:
    tokens are normalised after each branch was added."""

    local: Literal["none", "gine"] = "none"
    """gine: a branch of messages along bonds, beside attention (`molsepnorm.nn.local.GINE`)."""
    node_walks: int = 0
    """Steps of random walks whose return probabilities are added to the atoms (RWSE); 0: none."""
    pair_walks: int = 0
    """Steps of random walks whose probabilities become a bias (RRWP); 0: none."""
    resistance_kernels: int = 0
    """Gaussian kernels of resistance distances that become a bias; 0: none."""
    pair_hidden: int = 32
    """Hidden width of the map from these to a bias; 0: a linear map."""
    urpe: bool = False
    """URPE: attention weights are multiplied by a learned matrix of the distance, and of the
    resistance kernels where there are any."""
    degree_scaler: bool = False
    """GRIT's: what attention gives an atom is scaled by a learned function of its degree."""
    pair_width: int = 0
    """E, width of vectors of slot pairs, which every layer reads and updates (GRIT); 0: none."""

    readout: ReadoutKind = "token"
    """What the outputs are computed from: the graph token, the atoms' mean or sum, or two."""
    head: Literal["linear", "mlp"] = "linear"
    """How: by one linear map, or by two with a GELU between them."""

    atom_sizes: tuple[int, ...] = (28,)
    """How many values each atom feature has (ZINC: one feature)."""
    bond_sizes: tuple[int, ...] = (3,)
    """How many values each bond feature has."""
    max_degree: int = 15
    """Largest degree with an embedding of its own."""
    max_distance: int = 39
    """Largest hop distance with a bias of its own."""
    max_path_length: int = 20
    """L, how many bonds of a shortest path are told apart."""
    molecule_features: int = 0
    """F, number of molecule-level features that are concatenated to the input of the head."""
    outputs: int = 1
    """Numbers that the read-out gives per molecule."""

    @property
    def norms(self) -> Norms:
        """The kinds of norm that the name and what differs from it come to."""
        graph, nodes = NORMS[self.norm]
        kind = self.graph_norm or graph or nodes
        return Norms(
            shared=graph is None,
            nodes=self.node_norm or nodes,
            graph=kind,
            first_graph=self.first_graph_norm or ("layer" if kind in BATCH_KINDS else kind),
            last_graph=self.last_graph_norm or kind,
        )

    @property
    def _weights(self) -> int:
        """Parameters of the linear maps in all layers, about."""
        of_tokens = self.width * (4 * self.width + 2 * self.ffn_width)
        return self.layers * (of_tokens + 2 * self.pair_width * (self.pair_width + self.width))

    def __post_init__(self) -> None:
        for name in ("atom_sizes", "bond_sizes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        sizes = {
            name: getattr(self, name)
            for name in ("layers", "width", "ffn_width", "heads", "max_degree", "outputs")
        }
        sizes |= {"atom_sizes": min(self.atom_sizes, default=0)}
        sizes |= {"bond_sizes": min(self.bond_sizes, default=0)}
        for name, size in sizes.items():
            if size < 1:
                raise ConfigError(f"model.{name} must be at least 1; got {size}")
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                got = str(getattr(self, name))[:20]
                raise ConfigError(f"model.{name} must be at most {most:,}; got {got}")
        for name in _OPTIONAL:
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"model.{name} must be 0, which is none, or more; got {getattr(self, name)}"
                )
        if self.width % self.heads:
            raise ConfigError(
                f"model.width must be a multiple of model.heads; got width={self.width}, "
                f"heads={self.heads}. Try width={self.width - self.width % self.heads + self.heads}"
            )
        if self._weights > _MOST_WEIGHTS:
            raise ConfigError(
                f"the network would have about {self._weights:,} parameters in its layers; at most "
                f"{_MOST_WEIGHTS:,} are supported. Lower model.width, model.ffn_width, "
                "model.pair_width or model.layers"
            )
        if not 1 <= self.max_path_length <= self.max_distance:
            raise ConfigError(
                "model.max_path_length must lie in 1 … model.max_distance; got "
                f"max_path_length={self.max_path_length}, max_distance={self.max_distance}"
            )
        for name in ("dropout", "attention_dropout", "activation_dropout", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"model.{name} must lie in 0 ≤ p < 1; got {getattr(self, name)}")
        if self.urpe and self.pair_width:
            raise ConfigError(
                "model.urpe multiplies the weights of the usual attention, which model.pair_width "
                f"replaces; got urpe={self.urpe}, pair_width={self.pair_width}. Leave one out"
            )
        if not 0 < self.norm_momentum <= 1:
            raise ConfigError(
                f"model.norm_momentum must lie in 0 < m ≤ 1; got {self.norm_momentum}"
            )
        hints = get_type_hints(type(self))
        for name, hint in hints.items():
            known = [value for value in _values_of(hint) if isinstance(value, str)]
            value = getattr(self, name, None)
            if known and value is not None and value not in known:
                raise ConfigError(f"model.{name} must be one of {', '.join(known)}; got '{value}'")


_MOST = {
    "layers": 256,
    "width": 16_384,
    "ffn_width": 65_536,
    "heads": 1024,
    "outputs": 1_000_000,
    "max_degree": 255,
    "max_distance": 255,
    "node_walks": 256,
    "pair_walks": 256,
    "resistance_kernels": 1024,
    "pair_hidden": 16_384,
    "pair_width": 4096,
    "molecule_features": 1_000_000,
}
_MOST_WEIGHTS = 1 << 30
_OPTIONAL = (
    *("node_walks", "pair_walks", "resistance_kernels", "pair_hidden", "pair_width"),
    "molecule_features",
)


def _values_of(hint: Any) -> tuple[Any, ...]:
    """The values of a literal type, also where it may be None."""
    return tuple(v for each in get_args(hint) for v in (get_args(each) or (each,)))
