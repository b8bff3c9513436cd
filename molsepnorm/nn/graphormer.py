"""Graphormer with SepNorm: the model, from a batch to one row of outputs per molecule."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.embedding import AtomEmbedding
from molsepnorm.nn.kernels.dropout import ByteDropout
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.local import GINE
from molsepnorm.nn.molecule_features import MoleculeFeatures, NoMoleculeFeatures
from molsepnorm.nn.pairs.bias import AttentionBias
from molsepnorm.nn.pairs.encoding import RelationEncoding, Relations
from molsepnorm.nn.pairs.walks import WalkEncoding, walk_probabilities
from molsepnorm.nn.readout import Pooling
from molsepnorm.sepnorm.kinds import BATCH_KINDS, make_norm
from molsepnorm.sepnorm.sepnorm import SepNorm, SharedNorm

__all__ = ["Graphormer"]


class Graphormer(nn.Module):
    """A graph transformer that reads a property off a virtual graph token, or off the atoms.

    Source: Ying et al., "Do Transformers Really Perform Badly for Graph Representation?",
    NeurIPS 2021, arXiv 2106.05234 (v1, pre-norm); norms by Chen et al., arXiv 2309.12931. The
    sources of what can be added are named in `GraphormerConfig` and where it is.

    What differs from the reference: canonical shortest paths (see `encodings`), one
    degree table, SepNorm. Where the graph token alone is read out, it alone asks and goes on in
    the last layer. (With SepNorm the atoms' norm before that layer's feed-forward is therefore
    never used; its parameters stay as they are drawn.)

    >>> model = Graphormer(GraphormerConfig(layers=2))
    >>> sum(p.numel() for p in model.parameters())
    84521
    """

    def __init__(self, config: GraphormerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = AtomEmbedding(config.width, config.atom_sizes, config.max_degree)
        self.walk_encoding = (
            WalkEncoding(config.node_walks, config.width) if config.node_walks else None
        )
        self.bias = AttentionBias(
            config.heads, config.bond_sizes, config.max_distance, config.max_path_length
        )
        self.relations = RelationEncoding(config)
        self.input_dropout = ByteDropout(config.dropout)
        # the statistics of a batch norm that all tokens share need the atoms to the end
        self._tokens_alone = config.readout == "token" and (
            not config.norms.shared or config.norms.nodes not in BATCH_KINDS
        )
        last = config.layers - 1
        self.layers = nn.ModuleList(
            GraphormerLayer(
                config,
                attention_norm=_norm(config, first=index == 0 and config.norm_order == "pre"),
                ffn_norm=_norm(config),
                drop_path=config.drop_path * index / max(last, 1),
                last=index == last,
                tokens_only=index == last and self._tokens_alone,
            )
            for index in range(config.layers)
        )
        pre_norm = config.norm_order == "pre"
        self.last_norm = _norm(config, last=True) if pre_norm else None
        if not config.norms.shared and self._tokens_alone:
            # no gradient reaches it: DistributedDataParallel must not wait
            last_layer = cast(GraphormerLayer, self.layers[-1])
            unused = [last_layer.ffn_norm] + ([] if pre_norm else [last_layer.attention_norm])
            for norm in unused:
                cast(SepNorm, norm).tok_norm.requires_grad_(False)
        self.pooling = Pooling(config.readout, config.width)
        features = config.molecule_features
        self.molecule_features = MoleculeFeatures(features) if features else NoMoleculeFeatures()
        self.readout = _head(config, self.pooling.width + features)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw linear layers and embeddings as `config.init` says; norms become the identity, and
        what scales or multiplies begins at 1."""
        embedding_std = 0.02 if self.config.init == "v1" else 0.5
        for module in self.modules():
            if isinstance(module, nn.Linear):
                if self.config.init == "v1":
                    nn.init.normal_(module.weight, std=0.02 * self.config.layers**-0.5)
                else:
                    nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, AtomEmbedding | AttentionBias):
                for parameter in module.parameters():
                    nn.init.normal_(parameter, std=embedding_std)
            elif isinstance(module, GINE):
                for table in module.bonds:
                    nn.init.normal_(table, std=embedding_std)
                nn.init.zeros_(module.epsilon)
        for module in self.modules():  # some keep to themselves what the above drew in them
            reset = getattr(module, "reset_parameters", None)
            if reset is not None and module is not self and not isinstance(module, nn.Linear):
                reset()

    def forward(self, batch: GraphBatch) -> Tensor:  # (B, outputs)
        """The outputs for every molecule, in the order in which the batch was asked for."""
        return self.readout(self.embed(batch))

    def embed(self, batch: GraphBatch) -> Tensor:  # (B, R)
        """What every molecule's outputs are computed from: R is C, or 2 C where the graph token
        and the atoms are read, and F more where there are molecule-level features."""
        x, relations = self._beginning(batch)
        for layer in self._all_but_last():
            x, relations = layer(x, relations, batch)
        end = self._ending(x, relations, batch)[-1]
        x = end.index_select(0, batch.order) if self._tokens_alone else self.pooling(end, batch)
        return self.molecule_features(x, batch)

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the places that `layer_embeddings` looks at, in order."""
        layers = [f"layer {number}" for number in range(1, self.config.layers + 1)]
        return (*layers, "last norm") if self.last_norm is not None else tuple(layers)

    def layer_embeddings(self, batch: GraphBatch) -> Tensor:  # (B, 2, sites, C)
        """Every molecule's graph token [:, 0] and mean of its atoms [:, 1] at each of `sites`.

        The molecules are in the order in which they were asked for. The atoms' mean is NaN from the
        last layer on if the graph token alone goes through it.
        """
        token, atoms = (Pooling(kind, self.config.width) for kind in ("token", "mean"))
        x, relations = self._beginning(batch)
        places = []
        for layer in self._all_but_last():
            x, relations = layer(x, relations, batch)
            places.append(torch.stack([token(x, batch), atoms(x, batch)], dim=1))
        for end in self._ending(x, relations, batch):
            if self._tokens_alone:
                end = end.index_select(0, batch.order)
                both = [end, torch.full_like(end, torch.nan)]
            else:
                both = [token(end, batch), atoms(end, batch)]
            places.append(torch.stack(both, dim=1))
        return torch.stack(places, dim=2)

    def _beginning(self, batch: GraphBatch) -> tuple[Tensor, Relations]:  # (M, C)
        """What the first layer reads."""
        config = self.config
        steps = max(config.node_walks, config.pair_walks)
        dtype = self.embedding.graph_token.dtype
        walks = walk_probabilities(batch, steps, dtype) if steps else []
        x = self.embedding(batch)
        if self.walk_encoding is not None:
            x = x + self.walk_encoding(walks, batch.mask)
        return self.input_dropout(x), self.relations(batch, self.bias(batch), walks)

    def _all_but_last(self) -> list[GraphormerLayer]:
        return cast("list[GraphormerLayer]", list(self.layers)[:-1])

    def _ending(
        self, x: Tensor, relations: Relations, batch: GraphBatch
    ) -> list[Tensor]:  # (M, C) each; or (B, C), where the tokens go on alone, in the slots' order
        """What the last layer makes, and the last norm where there is one."""
        layer = cast(GraphormerLayer, self.layers[-1])
        if self._tokens_alone:
            ends = [layer.tokens(x, relations, batch)]
            if self.last_norm is not None:
                ends.append(self.last_norm.tokens(ends[0]))
            return ends
        ends = [layer(x, relations, batch)[0]]
        if self.last_norm is not None:
            ends.append(self.last_norm(ends[0], batch.graph_token, batch.mask))
        return ends


def _norm(
    config: GraphormerConfig, first: bool = False, last: bool = False
) -> SepNorm | SharedNorm:
    kinds = config.norms
    nodes = make_norm(kinds.nodes, config.norm_momentum)
    if kinds.shared:
        return SharedNorm(config.width, nodes)
    kind = kinds.first_graph if first else kinds.last_graph if last else kinds.graph
    unread = last and config.readout == "token"
    graph = make_norm(kind, config.norm_momentum)
    return SepNorm(config.width, graph, nn.Identity if unread else nodes)


def _head(config: GraphormerConfig, width: int) -> nn.Module:
    if config.head == "linear":
        return nn.Linear(width, config.outputs)
    return nn.Sequential(
        nn.Linear(width, config.width), nn.GELU(), nn.Linear(config.width, config.outputs)
    )
