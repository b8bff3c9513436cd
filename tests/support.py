"""What several test files need: networks whose every weight matters, batches, renumbered atoms."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from molsepnorm.batch import GraphTensors
from molsepnorm.encodings import encode
from molsepnorm.model import encoding_of
from molsepnorm.molecule import MolGraph
from molsepnorm.nn import GraphBatch, Graphormer, GraphormerConfig


def far_from_initial(config: GraphormerConfig) -> Graphormer:
    """A network whose every weight matters: random, of the order of one, norms included."""
    torch.manual_seed(0)
    model = Graphormer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.25)
        for module in model.modules():
            if isinstance(module, nn.LayerNorm | nn.BatchNorm1d):
                module.weight.add_(1)
            if isinstance(module, nn.BatchNorm1d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2)
    return model.eval()


def batch_of(graphs: list[MolGraph], config: GraphormerConfig, blocks: int = 1) -> GraphBatch:
    """The molecules as a batch for a network of this architecture."""
    encoded = encode(graphs, encoding_of(config))
    return GraphTensors.of(encoded).cut(list(range(len(graphs))), blocks)


def renumbered(graph: MolGraph, rng: np.random.Generator) -> MolGraph:
    """The same molecule with its atoms, its bonds and each bond's ends in another order."""
    new = rng.permutation(graph.num_atoms)  # atom i becomes new[i]
    atoms = np.empty_like(graph.atom_features)
    atoms[new] = graph.atom_features
    order = rng.permutation(graph.num_bonds)
    bonds = rng.permuted(new[graph.bonds], axis=1)[order]
    return MolGraph(atoms, bonds.astype(np.int32), graph.bond_features[order])
