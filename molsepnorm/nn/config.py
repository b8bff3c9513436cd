"""The architecture of a network."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from molsepnorm.errors import ConfigError

NormKind = Literal["layer", "batch", "rms", "none"]

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
"""Name -> norm of the graph token (None: it shares the norm of the atoms) and norm of the atoms."""

FROM_DATA = ("atom_sizes", "bond_sizes", "molecule_features", "columns", "outputs")
"""Fields of `GraphormerConfig` that follow from the data and cannot be set."""


class Norms(NamedTuple):
    """The kinds of norm at every site."""

    shared: bool
    """True if all tokens share one norm, of the kind `nodes`; the other kinds are then unused."""
    nodes: NormKind
    graph: NormKind
    first_graph: NormKind
    """At the first site the graph token is the same vector in every molecule. A batch norm would
    amplify noise there, so a layer norm replaces it."""


_Positive = Annotated[int, Field(ge=1)]
_MAX_WEIGHTS = 1 << 30
_SIZE = Field(default=0, ge=0, le=1_000_000)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class GraphormerConfig:
    """The architecture. The defaults are Graphormer-SLIM with SepNorm, for ZINC's features.

    Raises:
        pydantic.ValidationError: a value is out of range, or two values contradict each other.
    """

    layers: Annotated[int, "--layers"] = Field(default=12, ge=1, le=256)
    """Number of layers."""
    width: int = Field(default=80, ge=1, le=16_384)
    """Number of channels of every token (C)."""
    ffn_width: int = Field(default=80, ge=1, le=65_536)
    """Hidden width of the feed-forward blocks."""
    heads: int = Field(default=8, ge=1, le=1024)
    """Number of attention heads (H); divides the width."""

    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout of the input embeddings and of the outputs of attention and feed-forward blocks."""
    attention_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout of the attention weights."""
    activation_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of the hidden activations of the feed-forward blocks."""

    init: Literal["v1", "xavier"] = "v1"
    """Initial weights. v1 is the reference's: N(0, 0.02 / √layers) for linear layers and N(0, 0.02)
    for embeddings, meant for runs of hundreds of thousands of steps. xavier: Xavier-uniform and
    N(0, 0.5), which learns several times as much in the first thousand steps."""

    norm: Annotated[NormName, "--norm"] = "sep"
    """Norms of the graph token and the atoms: shared is one layer norm for both, sep is the
    published SepNorm (batch norm for the token, layer norm for the atoms).

    The other names give the norm of the token and then that of the atoms; sep-ln and sep-bn use one
    kind for both, with separate weights."""

    local: Literal["none", "gine"] = "none"
    """gine adds message passing along bonds beside attention (`molsepnorm.nn.local.GINE`)."""
    node_walks: int = Field(default=0, ge=0, le=256)
    """Number of random-walk steps whose return probabilities are added to the atoms (RWSE); 0 for
    none."""
    pair_walks: int = Field(default=0, ge=0, le=256)
    """Number of random-walk steps whose probabilities become an attention bias (RRWP); 0 for
    none."""

    readout: ReadoutKind = "token"
    """Input of the head: the graph token, the mean or sum of the atoms, or the token and one of
    them."""

    atom_sizes: tuple[_Positive, ...] = Field(default=(28,), min_length=1)
    """Number of values of each atom feature (ZINC has one feature)."""
    bond_sizes: tuple[_Positive, ...] = Field(default=(3,), min_length=1)
    """Number of values of each bond feature."""
    max_degree: int = Field(default=15, ge=1, le=255)
    """Largest degree with its own embedding; larger degrees share the last one."""
    max_distance: int = Field(default=39, ge=1, le=255)
    """Largest hop distance with its own bias; larger distances share the last one."""
    max_path_length: int = Field(default=20, ge=1)
    """Number of bonds of a shortest path that are encoded (L)."""
    molecule_features: int = _SIZE
    """Number of molecule-level features, which are concatenated to the input of the head (F)."""
    columns: int = _SIZE
    """Number of the molecule-level features that are feature columns of the table; they are the
    last ones. The weights of the head depend on them (`molsepnorm.nn.parts`)."""
    outputs: int = Field(default=1, ge=0, le=1_000_000)
    """Number of outputs per molecule; 0 for a network that was pre-trained without targets."""

    @property
    def norms(self) -> Norms:
        token, nodes = NORMS[self.norm]
        graph = token or nodes
        first = "layer" if graph == "batch" else graph
        return Norms(shared=token is None, nodes=nodes, graph=graph, first_graph=first)

    @property
    def walks(self) -> int:
        """Steps of the random walks that the network reads."""
        return max(self.node_walks, self.pair_walks)

    @property
    def last_layer_is_token_only(self) -> bool:
        """True if the last layer computes queries and feed-forward for the graph token only.

        A batch norm that all tokens share counts the atoms, so they are computed for it.
        """
        needs_atoms = self.norms.shared and self.norms.nodes == "batch"
        return self.readout == "token" and not needs_atoms

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ConfigError(
                f"model.width must be a multiple of model.heads; got width={self.width}, "
                f"heads={self.heads}. Try width={self.width - self.width % self.heads + self.heads}"
            )
        weights = self.layers * self.width * (4 * self.width + 2 * self.ffn_width)
        if weights > _MAX_WEIGHTS:
            raise ConfigError(
                f"the network would have about {weights:,} parameters in its layers; at most "
                f"{_MAX_WEIGHTS:,} are supported. Lower model.width, model.ffn_width or "
                "model.layers"
            )
        if self.max_path_length > self.max_distance:
            raise ConfigError(
                "model.max_path_length is at most model.max_distance; got "
                f"max_path_length={self.max_path_length}, max_distance={self.max_distance}"
            )
        if self.max_distance == 1 and (self.local != "none" or self.walks):
            raise ConfigError(
                "model.max_distance: 1 makes all atoms of a fragment neighbours, and model.local, "
                "node_walks and pair_walks read the bonds: use 2 or more"
            )
