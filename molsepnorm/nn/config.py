"""The architecture of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from molsepnorm.errors import ConfigError
from molsepnorm.sepnorm.kinds import BATCH_KINDS, NormKind

__all__ = ["FROM_DATA", "NORMS", "GraphormerConfig", "NormName", "Norms", "ReadoutKind"]

ReadoutKind = Literal["token", "mean", "sum", "token+mean", "token+sum", "layers"]

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


class Range(NamedTuple):
    """The bounds of an integer field, as part of its annotation."""

    ge: int
    le: int


FROM_DATA = (
    "atom_sizes",
    "bond_sizes",
    "molecule_features",
    "centers",
    "columns",
    "counts",
    "compares_counts",
    "descriptors",
    "pairs",
    "outputs",
)
"""Fields of `GraphormerConfig` that follow from the data and cannot be set."""


class Norms(NamedTuple):
    """The kinds of norm at every site."""

    shared: bool
    """True if all tokens share one norm, of the kind `nodes`; the other kinds are then unused."""
    nodes: NormKind
    graph: NormKind
    first_graph: NormKind
    last_graph: NormKind


@dataclass(frozen=True)
class GraphormerConfig:
    """The architecture. The defaults are Graphormer-SLIM with SepNorm, for ZINC's features.

    Raises:
        ConfigError: a value is out of range, or two values contradict each other.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - for the check of YAML files

    layers: Annotated[int, Range(1, 256), "--layers"] = 12
    """Number of layers."""
    width: Annotated[int, Range(1, 16_384)] = 80
    """Number of channels of every token (C)."""
    ffn_width: Annotated[int, Range(1, 65_536)] = 80
    """Hidden width of the feed-forward blocks."""
    heads: Annotated[int, Range(1, 1024)] = 8
    """Number of attention heads (H); divides the width."""

    dropout: float = 0.1
    """Dropout of the input embeddings and of the outputs of attention and feed-forward blocks."""
    attention_dropout: float = 0.1
    """Dropout of the attention weights."""
    activation_dropout: float = 0.0
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
    graph_norm: NormKind | None = None
    """Norm of the graph token, if it differs from the one that `norm` names."""
    node_norm: NormKind | None = None
    """Norm of the atoms (of all tokens where `norm` is shared), if it differs from the one that
    `norm` names."""
    first_graph_norm: NormKind | None = None
    """Norm of the graph token at the first site. The token is the same vector in every molecule
    there, so a batch norm would amplify noise: by default a layer norm replaces a batch norm."""
    last_graph_norm: NormKind | None = None
    """Norm of the graph token at the last site, before the read-out."""
    norm_momentum: float = 0.1
    """Weight of a new batch in the running statistics of batch norms."""
    norm_order: Literal["pre", "post"] = "pre"
    """pre normalises the input of each branch, and the output of the last layer. post normalises
    after each residual addition."""

    local: Literal["none", "gine"] = "none"
    """gine adds message passing along bonds beside attention (`molsepnorm.nn.local.GINE`)."""
    node_walks: Annotated[int, Range(0, 256)] = 0
    """Number of random-walk steps whose return probabilities are added to the atoms (RWSE); 0 for
    none."""
    pair_walks: Annotated[int, Range(0, 256)] = 0
    """Number of random-walk steps whose probabilities become an attention bias (RRWP); 0 for
    none."""
    resistance_kernels: Annotated[int, Range(0, 1024)] = 0
    """Number of Gaussian kernels of the resistance distance that become an attention bias; 0 for
    none."""
    pair_hidden: Annotated[int, Range(0, 16_384)] = 32
    """Hidden width of the map from walks and resistances to the bias; 0 for a linear map."""
    urpe: bool = False
    """Multiply attention weights by a learned matrix of the distance (URPE), and of the resistance
    kernels if there are any."""

    readout: ReadoutKind = "token"
    """Input of the head: the graph token, the mean or sum of the atoms, or the token and one of
    them. layers is the token and the mean after every layer."""
    head: Literal["linear", "mlp", "kernel"] = "linear"
    """Output head: one linear map, or two with a GELU in between. A kernel head compares a molecule
    with training molecules; fine-tuning makes it."""

    atom_sizes: tuple[int, ...] = (28,)
    """Number of values of each atom feature (ZINC has one feature)."""
    bond_sizes: tuple[int, ...] = (3,)
    """Number of values of each bond feature."""
    max_degree: Annotated[int, Range(1, 255)] = 15
    """Largest degree with its own embedding; larger degrees share the last one."""
    max_distance: Annotated[int, Range(1, 255)] = 39
    """Largest hop distance with its own bias; larger distances share the last one."""
    max_path_length: int = 20
    """Number of bonds of a shortest path that are encoded (L)."""
    molecule_features: Annotated[int, Range(0, 1_000_000)] = 0
    """Number of molecule-level features, which are concatenated to the input of the head (F)."""
    centers: Annotated[int, Range(0, 1_000_000)] = 0
    """Number of training molecules in a kernel head."""
    columns: tuple[int, ...] = ()
    """Number of the molecule-level features that belong to each feature column of the table; they
    are the last ones but the counts, descriptors and pairs. The weights of a linear head depend on
    them (`molsepnorm.nn.conditional`), and a kernel head has a factor for each."""
    counts: Annotated[int, Range(0, 1_000_000)] = 0
    """Number of the molecule-level features that are Morgan counts; they are the last ones but the
    descriptors and pairs."""
    compares_counts: bool = True
    """False if a kernel head leaves its Morgan counts out."""
    descriptors: Annotated[int, Range(0, 1_000_000)] = 0
    """Number of the molecule-level features that are descriptors; they are the last ones but the
    pairs."""
    pairs: Annotated[int, Range(0, 1_000_000)] = 0
    """Number of the molecule-level features that are atom-pair counts, which only a kernel head
    reads; they are the last ones."""
    outputs: Annotated[int, Range(0, 1_000_000)] = 1
    """Number of outputs per molecule; 0 for a network that was pre-trained without targets."""

    @property
    def compared_features(self) -> int:
        """Number of the molecule-level features that a kernel head compares; 0 for other heads."""
        compared = sum(self.columns) + self.counts + self.descriptors + self.pairs
        return compared if self.head == "kernel" else 0

    def with_linear_head(self) -> GraphormerConfig:
        """Return the configuration with a linear head, without the features of a kernel head."""
        return replace(
            self,
            head="linear",
            centers=0,
            columns=(),
            counts=0,
            compares_counts=True,
            descriptors=0,
            pairs=0,
            molecule_features=self.molecule_features - self.compared_features,
        )

    @property
    def norms(self) -> Norms:
        """The kind of norm at every site, from `norm` and the settings that change it."""
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
        """Approximate number of weights in the linear maps of all layers."""
        return self.layers * self.width * (4 * self.width + 2 * self.ffn_width)

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            self._check(name, hint)
        for name in ("atom_sizes", "bond_sizes", "columns"):
            sizes = tuple(getattr(self, name))
            object.__setattr__(self, name, sizes)
            smallest = min(sizes, default=int(name == "columns"))
            if smallest < 1:
                raise ConfigError(f"model.{name} must be at least 1; got {smallest}")
        if self.width % self.heads:
            raise ConfigError(
                f"model.width must be a multiple of model.heads; got width={self.width}, "
                f"heads={self.heads}. Try width={self.width - self.width % self.heads + self.heads}"
            )
        if self._weights > _MAX_WEIGHTS:
            raise ConfigError(
                f"the network would have about {self._weights:,} parameters in its layers; at most "
                f"{_MAX_WEIGHTS:,} are supported. Lower model.width, model.ffn_width or "
                "model.layers"
            )
        if not 1 <= self.max_path_length <= self.max_distance:
            raise ConfigError(
                "model.max_path_length must lie in 1 … model.max_distance; got "
                f"max_path_length={self.max_path_length}, max_distance={self.max_distance}"
            )
        for name in ("graph_norm", "first_graph_norm", "last_graph_norm"):
            if self.norms.shared and getattr(self, name) is not None:
                raise ConfigError(
                    f"model.{name} has no effect, because model.norm: {self.norm} is one norm for "
                    "all tokens: leave it out, or choose separate norms, such as sep-ln"
                )
        needs_bonds = self.local != "none" or self.walks or self.resistance_kernels
        if self.max_distance == 1 and needs_bonds:
            raise ConfigError(
                "model.max_distance: 1 makes all atoms of a fragment neighbours, and model.local, "
                "node_walks, pair_walks and resistance_kernels read the bonds: use 2 or more"
            )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"model.{name} must lie in 0 ≤ p < 1; got {getattr(self, name)}")
        if (self.head == "kernel") != (self.centers > 0):
            raise ConfigError(
                "model.head: kernel cannot be trained: fine-tuning makes it if finetune.probe is on"
            )
        if not 0 < self.norm_momentum <= 1:
            raise ConfigError(
                f"model.norm_momentum must lie in 0 < m ≤ 1; got {self.norm_momentum}"
            )

    def _check(self, name: str, hint: Any) -> None:
        """Check one field against the bounds or the values in its annotation."""
        value, metadata = getattr(self, name), getattr(hint, "__metadata__", ())
        for bounds in metadata:
            if isinstance(bounds, Range) and not bounds.ge <= value <= bounds.le:
                limit = f"least {bounds.ge}" if value < bounds.ge else f"most {bounds.le:,}"
                raise ConfigError(f"model.{name} must be at {limit}; got {str(value)[:20]}")
        values = _values_of(hint.__origin__ if metadata else hint)
        known = [each for each in values if isinstance(each, str)]
        if known and value is not None and value not in known:
            raise ConfigError(f"model.{name} must be one of {', '.join(known)}; got '{value}'")


_MAX_WEIGHTS = 1 << 30


def _values_of(hint: Any) -> tuple[Any, ...]:
    """The values of a literal type, optional or not."""
    return tuple(v for each in get_args(hint) for v in (get_args(each) or (each,)))
