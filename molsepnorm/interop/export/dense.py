"""`DenseModel`: a whole model as PyTorch operations on padded tensors, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest, KernelPart, NetworkPart, Part
from molsepnorm.molecules.encodings.paths import GRAPH_TOKEN, PADDING, SELF
from molsepnorm.nn.attention import BiasedSelfAttention
from molsepnorm.nn.batch import GraphBatch, PaddedGroup, PathTable
from molsepnorm.nn.dropout import Dropout
from molsepnorm.nn.graphormer import Graphormer, empty_network
from molsepnorm.nn.local import GINE
from molsepnorm.nn.molecule_features import KeepsFloat32
from molsepnorm.nn.pairs.bias import AttentionBias, by_head, label_embeddings
from molsepnorm.nn.pairs.neighbours import PairTensors
from molsepnorm.nn.parts import Parts
from molsepnorm.nn.readout import FastReadout
from molsepnorm.tasks import Task

_NO_BOND = -1e30
"""Added to an entry without a bond; its message is then 0 after the ReLU."""


class DenseModel(nn.Module):
    """The parts of a model, their weighted mean, and the scales of its targets.

    A column of the result is one of `molsepnorm predict` without `--level`: a value in the unit of
    the table, or an uncalibrated probability of class 1 or of a class. It is NaN if the output of a
    network is not finite.

    Args:
        model: the trained model. Its networks are copied.

    Raises:
        ConfigError: the model has no targets, or a part without a dense form.
    """

    def __init__(self, model: PropertyModel) -> None:
        super().__init__()
        model.require_targets()
        used = [pair for pair in zip(model.parts, model.weights, strict=True) if pair[1]]
        for part, _ in used:
            if type(part) not in _FORMS:
                raise ConfigError(f"a model with the part '{part.kind}' cannot be exported")
        self.parts = nn.ModuleList(_FORMS[type(part)](part) for part, _ in used)
        self.weights = [weight for _, weight in used]
        self.widths = model.encoding.molecule_features, *model.inputs.widths
        self.task = model.task

    def forward(
        self,
        atoms: Tensor,
        degrees: Tensor,
        mask: Tensor,
        distances: Tensor,
        paths: Tensor,
        neighbours: Tensor | None = None,
        features: Tensor | None = None,
    ) -> Tensor:  # float32 (B, O)
        """Return the predictions; for the inputs see `DenseGraphormer.batch`."""
        graphs = atoms, degrees, mask, distances, paths, neighbours
        own, *extra = (mask[:, :0].float() if features is None else features).split(
            self.widths, dim=1
        )
        shares = [
            weight * part(self.task, graphs, own, extra)
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        mean = torch.stack(shares).sum(dim=0)  # (B, O)
        columns = []
        for target, its in zip(self.task.targets, self.task.columns(), strict=True):
            part, transform = mean[:, its], target.transformation
            if transform is not None:
                part = torch.pow(10.0, transform.sign * (part - transform.offset))
            columns.append(part)
        return torch.cat(columns, dim=1)


class DenseGraphormer(nn.Module):
    """A copy of a Graphormer for inference, from padded tensors to one row of outputs per molecule.

    The shapes of its operations depend only on the number of molecules B and of atoms N, so it can
    be exported and compiled as a whole. `dense_inputs` makes its inputs from SMILES. It stays in
    evaluation mode.
    """

    hops: Tensor

    def __init__(self, network: Graphormer) -> None:
        super().__init__()
        config = network.config
        self.network = empty_network(config, _DENSE).to(network.embedding.atoms)
        self.network.load_state_dict(deepcopy(network.state_dict()), assign=True)
        self.network.pair_encoding.has_local = False  # the input has the neighbours
        self.network.requires_grad_(False)
        hops = torch.arange(-SELF, config.max_distance + 1).clamp(min=0)
        self.register_buffer("hops", hops.to(network.embedding.atoms.device), persistent=False)
        self.eval()

    def train(self, mode: bool = True) -> DenseGraphormer:
        return super().train(False)

    def forward(self, *encoded: Any, **named: Any) -> Tensor:  # (B, O)
        """Return the outputs, in the precision of the weights, for the arguments of `batch`."""
        return self.network(self.batch(*encoded, **named))

    def embed(self, *encoded: Any) -> Tensor:  # (B, R)
        """Return the input of the network's head, for the arguments of `batch`."""
        return self.network.embed(self.batch(*encoded))

    def batch(
        self,
        atoms: Tensor,
        degrees: Tensor,
        mask: Tensor,
        distances: Tensor,
        paths: Tensor,
        neighbours: Tensor | None = None,
        features: Tensor | None = None,
    ) -> GraphBatch:
        """Return padded tensors as a batch of the network.

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
        return _DenseBatch(
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


Graphs = tuple[Tensor | None, ...]


def _read(extra: Sequence[Tensor], widths: Sequence[int]) -> list[Tensor]:
    """Return what a part reads, as `ExtraArrays.read_by` does."""
    return [each[:, :width] for each, width in zip(extra, widths, strict=True)]


class _DenseNetwork(nn.Module):
    def __init__(self, part: NetworkPart) -> None:
        super().__init__()
        self.network, self.widths = DenseGraphormer(part.network), part.reads.widths

    def forward(self, task: Task, graphs: Graphs, own: Tensor, extra: Sequence[Tensor]) -> Tensor:
        features = torch.cat([own, *_read(extra, self.widths)], dim=1)
        return task.predictions(self.network(*graphs, features))


class _DenseKernel(nn.Module):
    def __init__(self, part: KernelPart) -> None:
        super().__init__()
        self.encoder, self.regression = DenseGraphormer(part.encoder), part.regression
        self.widths = part.reads.widths

    def forward(self, task: Task, graphs: Graphs, own: Tensor, extra: Sequence[Tensor]) -> Tensor:
        embedded = self.encoder.embed(*graphs, own)
        return task.predictions(self.regression(embedded, *_read(extra, self.widths)))


class DenseForest(KeepsFloat32):
    """A `Forest` without branches that depend on the data.

    All trees go down together, as many levels as the deepest has. A leaf is its own child.
    """

    medians: Tensor
    roots: Tensor
    features: Tensor
    thresholds: Tensor
    branches: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.widths = forest.reads.widths
        roots, features, thresholds, children = [], [], [], []
        self.trees, self.starts, start = [], [], 0
        for number, trees in enumerate(forest.targets):
            inner, leaves = len(trees.features), len(trees.values)
            leaf = -1 - np.arange(leaves)
            own = np.concatenate([trees.children, np.stack([leaf, leaf], axis=1)])
            roots.append(start + np.where(trees.roots < 0, inner - 1 - trees.roots, trees.roots))
            children.append(start + np.where(own < 0, inner - 1 - own, own))
            features.append(np.pad(trees.features, (0, leaves)))
            thresholds.append(np.pad(trees.thresholds, (0, leaves)))
            self.register_buffer(f"values{number}", torch.from_numpy(trees.values))
            self.trees.append(len(trees.roots))
            self.starts.append(start + inner)
            start += inner + leaves
        self.register_buffer("medians", torch.from_numpy(forest.medians))
        self.register_buffer("thresholds", torch.from_numpy(np.concatenate(thresholds)))
        for name, parts in (("roots", roots), ("features", features), ("branches", children)):
            whole = np.concatenate(parts).astype(np.int64)
            self.register_buffer(name, torch.from_numpy(whole))
        self.levels = _levels(self.roots.numpy(), self.branches.numpy())

    def forward(
        self, task: Task, graphs: Graphs, own: Tensor, extra: Sequence[Tensor]
    ) -> Tensor:  # float32 (B, O)
        inputs = torch.cat(_read(extra, self.widths), dim=1)
        inputs = torch.where(inputs.isnan(), self.medians, inputs)
        nodes = self.roots.expand(inputs.shape[0], -1)  # (B, R)
        for _ in range(self.levels):
            larger = inputs.gather(1, self.features[nodes]) > self.thresholds[nodes]
            nodes = torch.where(larger, self.branches[nodes, 1], self.branches[nodes, 0])
        columns = []
        for number, own in enumerate(nodes.split(self.trees, dim=1)):
            values = getattr(self, f"values{number}")  # (leaves, W)
            columns.append(values[own - self.starts[number]].mean(dim=1))
        return torch.cat(columns, dim=1)


_FORMS: dict[type[Part], Callable[..., nn.Module]] = {
    NetworkPart: _DenseNetwork,
    KernelPart: _DenseKernel,
    Forest: DenseForest,
}
"""Class of parts -> dense form: a function of the task, the padded graphs, the features of the
featuriser and the `ExtraArrays` of B molecules, which returns predictions (B, O)."""


def _levels(roots: np.ndarray, children: np.ndarray) -> int:
    """Return the number of levels below the roots, where a leaf is its own child."""
    levels, nodes = 0, roots
    while len(nodes := nodes[children[nodes, 0] != nodes]):
        nodes, levels = children[nodes].ravel(), levels + 1
    return levels
