"""The architecture of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.kinds import BATCH_KINDS, NormKind

__all__ = ["NORMS", "GraphormerConfig", "NormName", "Norms", "ReadoutKind"]

ReadoutKind = Literal["token", "mean", "sum", "token+mean", "token+sum"]

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
"""The norms of the graph token and of the atoms; None if the token shares that of the atoms."""


class Norms(NamedTuple):
    """The kinds of norm at every site."""

    shared: bool
    """True if all tokens share one norm, of the kind `nodes`. The other kinds are not used then."""
    nodes: NormKind
    graph: NormKind
    first_graph: NormKind
    last_graph: NormKind


@dataclass(frozen=True)
class GraphormerConfig:
    """The architecture. The defaults are Graphormer-SLIM with SepNorm for ZINC's features.

    Raises:
        ConfigError: a value is out of range, or two values contradict each other.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - for the check of YAML files

    layers: int = 12
    width: int = 80
    """C, number of channels of every token."""
    ffn_width: int = 80
    heads: int = 8

    dropout: float = 0.1
    """Dropout of the input, and of the outputs of attention and feed-forward blocks."""
    attention_dropout: float = 0.1
    """Dropout of the attention weights."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward block."""
    drop_path: float = 0.0
    """Stochastic depth: probability that the last layer drops a graph's branch. It rises linearly
    from 0 in the first layer."""

    init: Literal["v1", "xavier"] = "v1"
    """Initial weights. v1: N(0, 0.02 / √layers) for linear layers and N(0, 0.02) for embeddings, as
    in the reference, whose runs take hundreds of thousands of steps. xavier: Xavier-uniform and
    N(0, 0.5); the loss falls several times as fast in the first thousand steps."""

    norm: NormName = "sep"
    """The kinds of norms, by name; see `NORMS`. sep is the published SepNorm, and shared is one
    layer norm for all tokens."""
    graph_norm: NormKind | None = None
    """Norm of the graph token, if not that of `norm`."""
    node_norm: NormKind | None = None
    """Norm of the atom tokens, if not that of `norm`; of all tokens if they share one."""
    first_graph_norm: NormKind | None = None
    """Norm of the graph token at the first site. The token is the same in every graph there, so a
    batch norm would see no variance and amplify noise. By default a batch norm is replaced by a
    layer norm, and any other norm of the graph token is kept."""
    last_graph_norm: NormKind | None = None
    """Norm of the graph token before the read-out, if not that of the other sites."""
    norm_momentum: float = 0.1
    """Weight of a batch in the running statistics of batch norms."""
    norm_order: Literal["pre", "post"] = "pre"
    """pre: norms at the input of each branch, and one before the read-out. post: norms after each
    residual connection."""

    local: Literal["none", "gine"] = "none"
    """gine: messages along bonds are added to attention (`molsepnorm.nn.local.GINE`)."""
    node_walks: int = 0
    """Steps of random walks whose return probabilities encode the atoms (RWSE); 0: none."""
    pair_walks: int = 0
    """Steps of random walks whose probabilities are mapped to a bias (RRWP); 0: none."""
    resistance_kernels: int = 0
    """Number of Gaussian kernels of resistance distances that are mapped to a bias; 0: none."""
    pair_hidden: int = 32
    """Hidden width of the map from walks and resistances to a bias; 0: a linear map."""
    urpe: bool = False
    """URPE: attention weights are multiplied by a learned function of the distance, and of the
    resistance kernels if there are any."""
    degree_scaler: bool = False
    """The attention output of an atom is scaled by a learned function of its degree (GRIT)."""
    pair_width: int = 0
    """E, width of pair vectors, which every layer reads and updates (GRIT); 0: none."""

    readout: ReadoutKind = "token"
    """Input of the head: the graph token, the mean or sum of the atoms, or the token and one."""
    head: Literal["linear", "mlp"] = "linear"
    """linear: one linear layer. mlp: two layers with a GELU."""

    atom_sizes: tuple[int, ...] = (28,)
    """Number of values of each atom feature (ZINC: one feature)."""
    bond_sizes: tuple[int, ...] = (3,)
    """Number of values of each bond feature."""
    max_degree: int = 15
    """Largest degree with an embedding of its own."""
    max_distance: int = 39
    """Largest hop distance with a bias of its own."""
    max_path_length: int = 20
    """L, number of bonds of a shortest path that are encoded."""
    molecule_features: int = 0
    """F, number of molecule-level features, which are concatenated to the input of the head."""
    outputs: int = 1
    """Number of outputs per molecule."""

    @property
    def norms(self) -> Norms:
        """The kinds of norm after `norm` and the settings that override it."""
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
    def walks(self) -> int:
        """Steps of the random walks that the network reads."""
        return max(self.node_walks, self.pair_walks)

    @property
    def last_layer_is_token_only(self) -> bool:
        """True if the last layer computes queries and feed-forward for the graph token only.

        A batch norm that all tokens share counts the atoms, so they are computed for it.
        """
        needs_atoms = self.norms.shared and self.norms.nodes in BATCH_KINDS
        return self.readout == "token" and not needs_atoms

    @property
    def _weights(self) -> int:
        """Approximate number of parameters of the linear maps in all layers."""
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
        for name, largest in _MAX.items():
            if getattr(self, name) > largest:
                got = str(getattr(self, name))[:20]
                raise ConfigError(f"model.{name} must be at most {largest:,}; got {got}")
        for name in _OPTIONAL:
            if getattr(self, name) < 0:
                raise ConfigError(
                    f"model.{name} must be 0 (none) or more; got {getattr(self, name)}"
                )
        if self.width % self.heads:
            raise ConfigError(
                f"model.width must be a multiple of model.heads; got width={self.width}, "
                f"heads={self.heads}. Try width={self.width - self.width % self.heads + self.heads}"
            )
        if self._weights > _MAX_WEIGHTS:
            raise ConfigError(
                f"the network would have about {self._weights:,} parameters in its layers; at most "
                f"{_MAX_WEIGHTS:,} are supported. Lower model.width, model.ffn_width, "
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
                "model.urpe cannot be combined with model.pair_width: attention with pair vectors "
                f"has no gates; got urpe={self.urpe}, pair_width={self.pair_width}. Leave one out"
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


_MAX = {
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
_MAX_WEIGHTS = 1 << 30
_OPTIONAL = (
    *("node_walks", "pair_walks", "resistance_kernels", "pair_hidden", "pair_width"),
    "molecule_features",
)


def _values_of(hint: Any) -> tuple[Any, ...]:
    """Return the values of a literal type, which may be optional."""
    return tuple(v for each in get_args(hint) for v in (get_args(each) or (each,)))
