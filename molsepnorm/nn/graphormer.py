"""Graphormer with SepNorm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from molsepnorm.errors import ConfigError
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.embedding import AtomEmbedding
from molsepnorm.nn.layer import make_layer
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.nn.norms import Unchanged, make_last_norm
from molsepnorm.nn.pairs.bias import AttentionBias
from molsepnorm.nn.pairs.encoding import PairEncoding, walk_probabilities
from molsepnorm.nn.parts import FAST, ConditionalLinear, Parts, make_head, make_readout


class Graphormer(nn.Module):
    """A graph transformer that predicts molecular properties from a virtual graph token or atoms.

    Source: Ying et al., "Do Transformers Really Perform Badly for Graph Representation?",
    NeurIPS 2021, arXiv 2106.05234 (v1, pre-norm); norms by Chen et al., arXiv 2309.12931. Optional
    parts name their sources where they are defined.

    Differences from the reference: canonical shortest paths (see `molecules.encodings`), a single
    degree table, and SepNorm. If only the graph token is read out, the last layer computes queries
    and the feed-forward block for the graph token only.

    >>> model = Graphormer(GraphormerConfig(layers=2))
    >>> sum(p.numel() for p in model.parameters())
    84521

    Args:
        config: the architecture.
        parts: the classes to build it from: `FAST`, or `PLAIN` for a readable but slow network with
            the same weights and outputs.
    """

    def __init__(self, config: GraphormerConfig, parts: Parts = FAST) -> None:
        super().__init__()
        self.config = config
        self.embedding = AtomEmbedding(config, parts)
        self.pair_encoding = PairEncoding(config, parts)
        self.layers = nn.ModuleList(
            make_layer(config, index, parts) for index in range(config.layers)
        )
        self.last_norm = make_last_norm(config)
        self.readout = make_readout(config, parts)
        self.layer_readout = parts.readout("token+mean", config.width)
        count = config.molecule_features
        self.molecule_features = MoleculeFeatures(count) if count else Unchanged()
        self.layers_width = (config.layers - 1) * self.layer_readout.width + self.readout.width
        self.embedding_width = self.readout.width + count
        self.head = make_head(config, self.embedding_width)
        self.reset_parameters()

    def forward(self, batch: GraphBatch) -> Tensor:  # (B, outputs)
        """Return the outputs of every molecule."""
        return self.head(self.embed(batch))

    def embed(self, batch: GraphBatch) -> Tensor:  # (B, R)
        """Return the input of the head for every molecule.

        R is C, or 2 C for the graph token and the atoms, plus one for each molecule-level feature.
        """
        return self.embed_with_atoms(batch)[0]

    def embed_layers(self, batch: GraphBatch, channels: int | None = None) -> Tensor:  # (B, R)
        """Return what is read out after the layers, without molecule-level features: the graph
        token and the mean of the atoms, and after the last layer what the head reads.

        With `channels`, only the last read-outs that together have at least so many channels.
        """
        *inner, last = self._hidden(batch)[1:]
        read = [self.readout(last, batch)]
        while inner and sum(each.shape[1] for each in read) < (channels or self.layers_width):
            read.insert(0, self.layer_readout(inner.pop(), batch))
        return torch.cat(read, dim=1)

    def embed_with_atoms(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:  # (B, R), (M, C)
        """Return the result of `embed`, and a vector for every slot; `batch.mask` marks atoms.

        The vectors are the output of the last norm, or the input of a last layer that computes the
        graph token only.
        """
        *_, x, end = self._hidden(batch)
        slots = x if self.config.last_layer_is_token_only else end
        return self.molecule_features(self.readout(end, batch), batch.features), slots

    def _hidden(self, batch: GraphBatch) -> list[Tensor]:  # (M, C) each
        """Return the embeddings of all slots, and the output of every layer; the last one is
        normalised, and may have the graph tokens only."""
        if not isinstance(batch, GraphBatch):
            raise ConfigError(
                f"the network reads a GraphBatch; got {type(batch).__name__}. Make batches of "
                "PyTorch Geometric's data by torch.utils.data.DataLoader(dataset, batch_size, "
                "collate_fn=molsepnorm.interop.pyg.Collate(config, bond_offset)); the DataLoader "
                "of torch_geometric ignores collate_fn"
            )
        walks = walk_probabilities(batch, self.config.walks, self.embedding.graph_token.dtype)
        x = self.embedding(batch, walks)  # (M, C)
        pairs = self.pair_encoding(batch, walks)  # bias per head, neighbours
        hidden = [x]
        for module in self.layers:
            hidden.append(module(hidden[-1], pairs, batch))
        hidden[-1] = self.last_norm(hidden[-1], batch.graph_token, batch.mask)
        return hidden

    def reset_parameters(self) -> None:
        """Initialise all parameters as `config.init` says. The head's weights of molecule-level
        features start at 0, so that one that is constant in training never changes an output."""
        initialize(self, self.config)
        if isinstance(self.head, ConditionalLinear):
            nn.init.zeros_(self.head.interactions)
        if self.config.molecule_features:
            nn.init.zeros_(self.head.weight[:, -self.config.molecule_features :])


def empty_network(config: GraphormerConfig, parts: Parts = FAST) -> Graphormer:
    """Return a network on the CPU to load weights into; the random state does not change."""
    with torch.random.fork_rng([]):
        return Graphormer(config, parts)


def initialize(network: nn.Module, config: GraphormerConfig) -> None:
    """Draw linear layers and embeddings as `config.init` says; other modules reset themselves."""
    std = 0.02 if config.init == "v1" else 0.5
    for module in network.modules():
        if isinstance(module, nn.Linear):
            if config.init == "v1":
                nn.init.normal_(module.weight, std=0.02 * config.layers**-0.5)
            else:
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, AtomEmbedding | AttentionBias | nn.ParameterList):
            for table in module.parameters(recurse=False):
                nn.init.normal_(table, std=std)
    for module in network.modules():  # some replace what the loop above drew in them
        reset = getattr(module, "reset_parameters", None)
        if reset is not None and module is not network and not isinstance(module, nn.Linear):
            reset()
