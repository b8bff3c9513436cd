"""`DenseGraphormer`: a Graphormer whose inputs are padded tensors."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, SELF
from molsepnorm.nn.attention import BiasedSelfAttention
from molsepnorm.nn.batch import GraphBatch, PaddedGroup, PathTable
from molsepnorm.nn.dropout import Dropout
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.local import GINE
from molsepnorm.nn.pairs.bias import AttentionBias, by_head, label_embeddings
from molsepnorm.nn.pairs.neighbours import PairTensors
from molsepnorm.nn.parts import Parts
from molsepnorm.nn.readout import FastReadout

_NO_BOND = -1e30
"""Added to an entry without a bond; its message is then 0 after the ReLU."""


class DenseGraphormer(nn.Module):
    """A copy of a Graphormer for inference, from padded tensors to one row of outputs per molecule.

    It computes the same as the network in evaluation mode, by operations whose shapes depend on the
    number of molecules B and of atoms N only. Therefore it can be exported and compiled as a whole,
    for any B and N. `dense_inputs` makes its inputs from SMILES.

    Norms use the statistics of training, so no molecule depends on the others of its batch.
    Changes of the network after the copy have no effect, and neither has `train()`.

    Args:
        network: the trained network.

    Raises:
        ConfigError: the network has resistance kernels, which are not supported.
    """

    hops: Tensor

    def __init__(self, network: Graphormer) -> None:
        super().__init__()
        config = network.config
        if config.resistance_kernels:
            raise ConfigError(
                f"a network with model.resistance_kernels={config.resistance_kernels} cannot be "
                "exported: resistances need the inverse of a matrix, which ONNX does not have. "
                "Train a model with --set model.resistance_kernels=0"
            )
        self.network = empty_network(config, _DENSE).to(network.embedding.atoms)
        self.network.load_state_dict(deepcopy(network.state_dict()), assign=True)
        self.network.pair_encoding.has_local = False  # the input has the neighbours
        self.network.requires_grad_(False)
        hops = torch.arange(-SELF, config.max_distance + 1).clamp(min=0)
        self.register_buffer("hops", hops.to(network.embedding.atoms.device), persistent=False)
        self.eval()

    def train(self, mode: bool = True) -> DenseGraphormer:
        """Stay in evaluation mode."""
        return super().train(False)

    def forward(
        self,
        atoms: Tensor,
        degrees: Tensor,
        mask: Tensor,
        distances: Tensor,
        paths: Tensor,
        neighbours: Tensor | None = None,
        features: Tensor | None = None,
    ) -> Tensor:  # (B, O)
        """Return the outputs of every molecule, in the precision of the weights.

        Args:
            atoms: int (B, N, A), atom features; padding has any valid value, such as 0.
            degrees: int (B, N), atom degrees, at most `config.max_degree`.
            mask: bool (B, N), true at atoms and false at padding.
            distances: int (B, N, N), the number of bonds between two atoms, at most
                `config.max_distance`; -1 for atoms of different fragments and padding.
            paths: int (B, N, N, L), the label of every bond on the canonical shortest path, counted
                from 1, for the first L = `config.max_path_length` bonds; 0 after the last bond.
            neighbours: int (B, N, D), the indices of an atom's bonded atoms, then -1; for a network
                with message passing along bonds.
            features: float (B, F), molecule-level features; for a network that reads some.

        Raises:
            ConfigError: the network reads neighbours or features, and they are missing.
        """
        graphs, slots = mask.shape[0], mask.shape[1] + 1
        keys = F.pad(mask, (1, 0), value=True)  # (B, S)
        # a code for each distance, where the network has one for each path
        codes = F.pad(distances + SELF, (1, 0, 1, 0), value=GRAPH_TOKEN)
        starts = torch.arange(graphs, device=mask.device) * slots
        bonds, hops = None, self.hops
        if neighbours is not None:
            labels = paths[..., 0].gather(2, neighbours.clamp(min=0).long()) * (neighbours >= 0)
            bonded = starts[:, None, None] + 1 + neighbours
            bonds = tuple(F.pad(x, (0, 0, 1, 0)).flatten(0, 1) for x in (bonded, labels))
        batch = _DenseBatch(
            graph_token=starts,
            atoms=F.pad(atoms, (0, 0, 1, 0)).flatten(0, 1),
            degrees=F.pad(degrees, (1, 0)).flatten(),
            mask=F.pad(mask, (1, 0)).flatten(),
            pairs=codes.masked_fill(~keys[:, None], PADDING).flatten(),
            groups=(PaddedGroup(graphs, slots),),
            paths=PathTable(hops, hops, hops, hops, hops, 0),  # only the distances are read
            max_bonds=0,
            features=features,
            labels=F.pad(paths, (0, 0, 1, 0, 1, 0)).flatten(0, 2),
            bonds=bonds,
        )
        return self.network(batch)


@dataclass(eq=False)
class _DenseBatch(GraphBatch):
    """Molecules whose paths are labels of bonds instead of codes of a vocabulary."""

    labels: Tensor | None = None
    """int [P, L]: labels of the bonds of each pair's path, counted from 1, then 0."""
    bonds: tuple[Tensor, ...] | None = None
    """int [M, D] each: the slots of bonded atoms and the labels of the bonds, counted from 1; 0 in
    entries without a bond."""


class _DenseBias(AttentionBias):
    def forward(self, batch: GraphBatch) -> list[Tensor]:
        assert isinstance(batch, _DenseBatch) and batch.labels is not None
        terms = torch.einsum("lhk,ek->leh", self.positions, label_embeddings(self.bonds))
        terms = F.pad(terms, (0, 0, 1, 0))  # (L, 1 + K, H), label 0 adds nothing
        bias = F.embedding(batch.labels[:, 0], terms[0])  # (P, H)
        for position in range(1, self.max_path_length):
            bias = bias + F.embedding(batch.labels[:, position], terms[position])
        bias = bias / (batch.labels > 0).sum(-1, keepdim=True).clamp(min=1).to(bias.dtype)
        padding = torch.full_like(self.graph_token, -torch.inf)
        special = torch.stack([padding, self.graph_token, self.unreachable])
        table = torch.cat([special, self.spatial])
        return by_head(bias + F.embedding(batch.pairs, table), batch)


class _DenseGINE(GINE):
    def forward(self, y: Tensor, x: Tensor, pairs: PairTensors, batch: GraphBatch) -> Tensor:
        assert isinstance(batch, _DenseBatch)
        if batch.bonds is None:
            raise ConfigError(
                "the network reads neighbours, which are missing: make the inputs by "
                "molsepnorm.interop.export.dense_inputs from the same model"
            )
        slots, labels = batch.bonds
        embeddings = F.pad(label_embeddings(self.bonds), (0, 0, 1, 0), value=_NO_BOND)  # (1 + K, C)
        messages = F.embedding(slots, x) + F.embedding(labels, embeddings)
        sums = torch.relu(messages).sum(dim=1) + (1 + self.epsilon) * x
        return y + self.mlp_out(F.gelu(self.mlp_in(sums))) * batch.mask[:, None]


_DENSE = Parts(BiasedSelfAttention, _DenseGINE, _DenseBias, FastReadout, Dropout)
