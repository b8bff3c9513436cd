"""Graphormer with SepNorm: the model, from a batch to one row of outputs per molecule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args, get_type_hints

from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.bias import AttentionBias
from molsepnorm.nn.block import GraphormerLayer
from molsepnorm.nn.dropout import ByteDropout
from molsepnorm.nn.embedding import AtomEmbedding
from molsepnorm.nn.sepnorm import SepNorm, SharedNorm

__all__ = ["Graphormer", "GraphormerConfig"]

NormKind = Literal["layer", "batch"]
_NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d}


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

    init: Literal["v1", "xavier"] = "v1"
    """v1: N(0, 0.02 / √layers) for linear layers and N(0, 0.02) for embeddings, as the reference,
    whose runs take hundreds of thousands of steps. xavier: Xavier-uniform and N(0, 0.5), with which
    the first thousand steps learn several times as much."""

    norm: Literal["sep", "shared"] = "sep"
    """sep: SepNorm at every site. shared: one norm of the kind `node_norm` for all tokens."""
    graph_norm: NormKind = "batch"
    """SepNorm's norm of the graph token."""
    node_norm: NormKind = "layer"
    """SepNorm's norm of the atom tokens."""
    first_graph_norm: NormKind = "layer"
    """The graph token's norm at the first site, where the token is the same in every graph: a
    batch norm would see no variance there and amplify noise."""

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
    outputs: int = 1
    """Numbers that the read-out gives per molecule."""

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
        if self.width % self.heads:
            raise ConfigError(
                f"model.width must be a multiple of model.heads; got width={self.width}, "
                f"heads={self.heads}. Try width={self.width - self.width % self.heads + self.heads}"
            )
        if not 1 <= self.max_path_length <= self.max_distance:
            raise ConfigError(
                "model.max_path_length must lie in 1 … model.max_distance; got "
                f"max_path_length={self.max_path_length}, max_distance={self.max_distance}"
            )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"model.{name} must lie in 0 ≤ p < 1; got {getattr(self, name)}")
        hints = get_type_hints(type(self))
        for name in ("init", "norm", "graph_norm", "node_norm", "first_graph_norm"):
            known = get_args(hints[name])
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"model.{name} must be one of {', '.join(known)}; got '{getattr(self, name)}'"
                )


class Graphormer(nn.Module):
    """A pre-norm graph transformer that reads a property off a virtual graph token.

    Source: Ying et al., "Do Transformers Really Perform Badly for Graph Representation?",
    NeurIPS 2021, arXiv 2106.05234 (v1, pre-norm); norms by Chen et al., arXiv 2309.12931.

    What differs from the reference: canonical shortest paths (see `molsepnorm.encodings`), one
    degree table, SepNorm. In the last layer the graph token alone asks and goes on, since nothing
    else is read after it. (With SepNorm the atoms' norm before that layer's feed-forward is
    therefore never used; its parameters stay as they are drawn.)

    >>> model = Graphormer(GraphormerConfig(layers=2))
    >>> sum(p.numel() for p in model.parameters())
    84521
    """

    def __init__(self, config: GraphormerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = AtomEmbedding(config.width, config.atom_sizes, config.max_degree)
        self.bias = AttentionBias(
            config.heads, config.bond_sizes, config.max_distance, config.max_path_length
        )
        self.input_dropout = ByteDropout(config.dropout)
        self.layers = nn.ModuleList(
            GraphormerLayer(
                config.width,
                config.ffn_width,
                config.heads,
                attention_norm=_norm(config, first=index == 0),
                ffn_norm=_norm(config),
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                activation_dropout=config.activation_dropout,
            )
            for index in range(config.layers)
        )
        self.last_norm = _norm(config, last=True)
        # the statistics of a batch norm that all tokens share need the atoms to the end
        self._tokens_alone = config.norm == "sep" or config.node_norm == "layer"
        if config.norm == "sep":  # no gradient reaches it: DistributedDataParallel must not wait
            last_layer = cast(GraphormerLayer, self.layers[-1])
            cast(SepNorm, last_layer.ffn_norm).tok_norm.requires_grad_(False)
        self.readout = nn.Linear(config.width, config.outputs)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw linear layers and embeddings as `config.init` says; norms become the identity."""
        embedding_std = 0.02 if self.config.init == "v1" else 0.5
        for module in self.modules():
            if isinstance(module, nn.Linear):
                if self.config.init == "v1":
                    nn.init.normal_(module.weight, std=0.02 * self.config.layers**-0.5)
                else:
                    nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, AtomEmbedding | AttentionBias):
                for parameter in module.parameters():
                    nn.init.normal_(parameter, std=embedding_std)
            elif isinstance(module, nn.LayerNorm | nn.BatchNorm1d):
                module.reset_parameters()

    def forward(self, batch: GraphBatch) -> Tensor:  # (B, outputs)
        """The outputs for every molecule, in the order in which the batch was asked for."""
        return self.readout(self.embed(batch))

    def embed(self, batch: GraphBatch) -> Tensor:  # (B, C)
        """The graph token of every molecule after the last norm."""
        x = self.input_dropout(self.embedding(batch))  # (M, C)
        bias = self.bias(batch)
        for layer in self.layers[:-1]:
            x = layer(x, bias, batch)
        last = cast(GraphormerLayer, self.layers[-1])
        if not self._tokens_alone:
            x = last(x, bias, batch)
            x = self.last_norm(x, batch.graph_token, batch.mask)
            return x.index_select(0, batch.graph_token)
        token = self.last_norm.tokens(last.tokens(x, bias, batch))
        return token.index_select(0, batch.graph_token.argsort().argsort())


def _norm(
    config: GraphormerConfig, first: bool = False, last: bool = False
) -> SepNorm | SharedNorm:
    nodes = _NORMS[config.node_norm]
    if config.norm == "shared":
        return SharedNorm(config.width, nodes)
    graph = config.first_graph_norm if first else config.graph_norm
    return SepNorm(config.width, _NORMS[graph], nn.Identity if last else nodes)
