"""`DenseGraphormer`: a Graphormer whose inputs are padded tensors, without Python control flow."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.errors import ConfigError
from molsepnorm.nn.attention import BiasedSelfAttention
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.nn.kernel_head import KernelHead, matern, tanimoto
from molsepnorm.nn.layer import GraphormerLayer
from molsepnorm.nn.local import GINE
from molsepnorm.nn.molecule_features import MoleculeFeatures
from molsepnorm.nn.norms import GraphTokenSepNorm, GraphTokenSharedNorm
from molsepnorm.nn.pairs.bias import AttentionBias, label_embeddings
from molsepnorm.nn.pairs.urpe import URPE
from molsepnorm.nn.readout import TYPICAL_ATOMS, Readout
from molsepnorm.nn.walks import WalkEncoding
from molsepnorm.sepnorm.sepnorm import SepNorm, SharedNorm

_NO_BOND = -1e30
"""Added to an entry without a bond; its message is then 0 after the ReLU."""


def require_dense(config: GraphormerConfig) -> None:
    """Raise a `ConfigError` if a network of this architecture has no dense form."""
    if config.resistance_kernels:
        raise ConfigError(
            f"a network with model.resistance_kernels={config.resistance_kernels} cannot be "
            "exported: resistances need the inverse of a matrix, which ONNX does not have. Train a "
            "model with --set model.resistance_kernels=0"
        )


class DenseGraphormer(nn.Module):
    """A copy of a Graphormer for inference, from padded tensors to one row of outputs per molecule.

    It computes the same as the network in evaluation mode, with plain operations on tensors of the
    shapes (B, …), (B, N, …) and (B, N, N, …). Therefore it can be exported and compiled as a whole,
    with any number of molecules B and atoms N. `dense_inputs` makes its inputs from SMILES.

    Norms use the statistics of training, so no molecule depends on the others of its batch.
    Changes of the network after the copy have no effect, and neither has `train()`.

    Args:
        network: the trained network.

    Raises:
        ConfigError: the network has resistance kernels, which are not supported.
    """

    def __init__(self, network: Graphormer) -> None:
        super().__init__()
        require_dense(network.config)
        self.network = deepcopy(network).requires_grad_(False)
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
        network, config = self.network, self.network.config
        _require("neighbours", neighbours, config.local == "gine")
        _require("features", features, config.molecule_features > 0)
        bonded = F.pad(distances == 1, (1, 0, 1, 0))  # (B, S, S)
        walks = self._walks(bonded, F.pad(distances == 0, (1, 0, 1, 0)))
        x = self._embed(atoms, degrees, walks)  # (B, S, C)
        bias, gates = self._pairs(distances, paths, mask, walks)  # (B, H, S, S)
        bonds = None if neighbours is None else _bonds(neighbours, paths[..., 0])
        read = []
        for index, layer in enumerate(network.layers):
            assert isinstance(layer, GraphormerLayer)
            is_last = index == config.layers - 1
            if is_last and config.last_layer_is_token_only:
                bias, gates = bias[:, :, :1], None if gates is None else gates[:, :, :1]
            x = self._layer(layer, x, bias, gates, bonds)
            if config.readout == "layers" and not is_last:
                read.append(self._read(x, mask))
        read.append(self._read(_normalize(network.last_norm, x), mask))
        if isinstance(network.molecule_features, MoleculeFeatures):
            assert features is not None
            read.append(network.molecule_features.standardised(features).to(x.dtype))
        return self._head(torch.cat(read, dim=1))

    def _walks(self, bonded: Tensor, same: Tensor) -> list[Tensor]:
        """Return the probabilities of random walks of 0 … W steps, (B, S, S) each.

        Both arguments are bool (B, S, S): pairs of bonded atoms, and of an atom with itself.
        """
        steps = self.network.config.walks
        if not steps:
            return []
        dtype = self.network.embedding.graph_token.dtype
        step = bonded.to(dtype)
        step = step / step.sum(-1, keepdim=True).clamp(min=1)
        powers = [same.to(dtype)]
        for _ in range(steps):
            powers.append(powers[-1] @ step)
        return powers

    def _embed(self, atoms: Tensor, degrees: Tensor, walks: list[Tensor]) -> Tensor:  # (B, S, C)
        embedding = self.network.embedding
        x = F.embedding(atoms + embedding.first_rows, embedding.atoms).sum(dim=2)
        x = x + F.embedding(degrees, embedding.degrees)
        if isinstance(embedding.walk_encoding, WalkEncoding):
            steps = range(1, self.network.config.node_walks + 1)
            returns = torch.stack([(walks[w] * walks[0]).sum(-1) for w in steps], dim=-1)
            scaled = returns[:, 1:] * embedding.walk_encoding.scale
            x = x + embedding.walk_encoding.linear(scaled)
        token = embedding.graph_token.expand(x.shape[0], 1, -1)
        return torch.cat([token, x], dim=1)

    def _pairs(
        self, distances: Tensor, paths: Tensor, mask: Tensor, walks: list[Tensor]
    ) -> tuple[Tensor, Tensor | None]:  # (B, H, S, S) each
        """Return the attention bias, and the gates of URPE if the network has them.

        Rows of the tables: atoms of different fragments, distances 0 … D, the graph token.
        """
        encoding, config = self.network.pair_encoding, self.network.config
        # pairs with the graph token get the row after that of the largest distance
        rows = F.pad(distances + 1, (1, 0, 1, 0), value=config.max_distance + 2)
        paths = F.pad(paths, (0, 0, 1, 0, 1, 0))
        bonds = label_embeddings(encoding.bias.bonds)  # (K, H)
        terms = torch.einsum("lhk,ek->leh", encoding.bias.positions, bonds)
        terms = F.pad(terms, (0, 0, 1, 0))  # (L, 1 + K, H), label 0 adds nothing
        sums = F.embedding(paths[..., 0], terms[0])  # (B, S, S, H)
        for position in range(1, config.max_path_length):
            sums = sums + F.embedding(paths[..., position], terms[position])
        lengths = (paths > 0).sum(-1, keepdim=True).clamp(min=1)
        bias = sums / lengths.to(sums.dtype) + F.embedding(rows, _table(encoding.bias))
        if encoding.pair_bias is not None:
            features = torch.stack(walks[: config.pair_walks + 1], dim=-1)
            if encoding.pair_bias.inner is not None:
                features = F.gelu(encoding.pair_bias.inner(features))
            bias = bias + encoding.pair_bias.outer(features)
        keys = F.pad(mask, (1, 0), value=True)  # (B, S)
        bias = bias.permute(0, 3, 1, 2).masked_fill(~keys[:, None, None], -torch.inf)
        if encoding.urpe is None:
            return bias, None
        return bias, 1 + F.embedding(rows, _table(encoding.urpe)).permute(0, 3, 1, 2)

    def _layer(
        self,
        layer: GraphormerLayer,
        x: Tensor,  # (B, S, C)
        bias: Tensor,  # (B, H, Q, S)
        gates: Tensor | None,  # as the bias
        bonds: tuple[Tensor, Tensor] | None,  # (B, N, D) each, see `_bonds`
    ) -> Tensor:  # (B, Q, C)
        """Apply a layer; Q is S, or 1 if only the graph token is computed."""
        is_pre = self.network.config.norm_order == "pre"
        h = _normalize(layer.attention_norm, x) if is_pre else x
        y = _attend(layer.attention, h, bias, gates)
        if isinstance(layer.local, GINE):
            assert bonds is not None
            y = y + F.pad(_local(layer.local, h, *bonds), (0, 0, 1, 0))
        x = x[:, : bias.shape[2]] + y
        x = x if is_pre else _normalize(layer.attention_norm, x)
        h = _normalize(layer.ffn_norm, x) if is_pre else x
        x = x + layer.ffn_out(F.gelu(layer.ffn_in(h)))
        return x if is_pre else _normalize(layer.ffn_norm, x)

    def _read(self, x: Tensor, mask: Tensor) -> Tensor:  # (B, R)
        """Read out the graph token, the atoms or both."""
        readout = self.network.readout
        if not isinstance(readout, Readout):
            return x[:, 0]
        parts = [x[:, 0]] if readout.token else []
        if readout.atoms:
            inside = mask[..., None].to(x.dtype)
            total = (x[:, 1:] * inside).sum(dim=1)
            count = inside.sum(dim=1).clamp(min=1)
            parts.append(total / (count if readout.atoms == "mean" else TYPICAL_ATOMS))
        return torch.cat(parts, dim=1)

    def _head(self, read: Tensor) -> Tensor:  # (B, O)
        """Return the outputs; those of a kernel head are computed in float32 or more."""
        head = self.network.head
        if not isinstance(head, KernelHead):
            return head(read)
        parts = read.to(head.mean.dtype).split(head.sizes, dim=1)
        embedded, columns, counts, descriptors, pairs = parts
        kernel = matern((embedded - head.mean) / head.scale, head.centers, _distances)
        if head.compares_counts:
            kernel = kernel + tanimoto(counts, head.counts) / 2
        if head.compares_descriptors:
            kernel = kernel + matern(descriptors, head.descriptors, _distances) / 2
        if head.compares_pairs:
            kernel = kernel + tanimoto(pairs, head.pairs) / 2
        kernel = head.with_columns(kernel, columns, _distances)
        return kernel @ head.weight.T + head.bias


def _distances(one: Tensor, other: Tensor) -> Tensor:  # (n, m)
    """Return the distances between rows without `torch.cdist`, which cannot be exported."""
    squares = one.square().sum(1, keepdim=True) + other.square().sum(1) - 2 * one @ other.T
    return squares.clamp(min=0).sqrt()


def _require(name: str, value: Tensor | None, is_read: bool) -> None:
    if is_read and value is None:
        raise ConfigError(
            f"the network reads {name}, which are missing: make the inputs by "
            "molsepnorm.interop.export.dense_inputs from the same model"
        )


def _table(encoding: AttentionBias | URPE) -> Tensor:  # (D + 3, H)
    """Return the rows of a table of distances: unreachable, distances 0 … D, the graph token."""
    return torch.cat([encoding.unreachable[None], encoding.spatial, encoding.graph_token[None]])


def _normalize(norm: nn.Module, x: Tensor) -> Tensor:  # (B, S, C)
    """Normalise graph tokens x[:, :1] and atoms x[:, 1:]; some sites have graph tokens only."""
    if isinstance(norm, GraphTokenSepNorm | GraphTokenSharedNorm):
        y = norm(x[:, 0])[:, None]
    elif isinstance(norm, SepNorm):
        y = torch.cat([norm.tokens(x[:, 0])[:, None], norm.tok_norm(x[:, 1:])], dim=1)
    else:
        y = norm.norm(x) if isinstance(norm, SharedNorm) else norm(x)
    return y.to(x.dtype)


def _attend(
    attention: BiasedSelfAttention, x: Tensor, bias: Tensor, gates: Tensor | None
) -> Tensor:  # (B, Q, C)
    """Attend from the first Q slots to all slots."""
    heads = attention.qkv(x).unflatten(-1, (3, attention.heads, -1))  # (B, S, 3, H, C/H)
    q, k, v = heads.permute(2, 0, 3, 1, 4).unbind()  # (B, H, S, C/H) each
    q = q[:, :, : bias.shape[2]]
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5 + bias, dim=-1)
    weights = weights if gates is None else weights * gates
    return attention.out((weights @ v).transpose(1, 2).flatten(2))


def _bonds(neighbours: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:  # (B, N, D) each
    """Return the slots of bonded atoms among all slots of the batch, and the labels of the bonds.

    Labels are counted from 1. An entry without a bond is a graph token with label 0.

    Args:
        neighbours: (B, N, D), as in `DenseGraphormer.forward`.
        first: (B, N, N), label of the first bond between two atoms.
    """
    slots = neighbours.shape[1] + 1
    # 0, S, 2 S, …; `torch.arange` would fix the device of a traced module
    starts = ((neighbours[:, :1, :1] >= -1).cumsum(0) - 1) * slots
    labels = first.gather(2, neighbours.clamp(min=0).long()) * (neighbours >= 0)
    return starts + 1 + neighbours, labels


def _local(local: GINE, x: Tensor, slots: Tensor, labels: Tensor) -> Tensor:  # (B, N, C)
    """Return GINE's result for every atom; slots and labels are those of `_bonds`."""
    embeddings = F.pad(label_embeddings(local.bonds), (0, 0, 1, 0), value=_NO_BOND)  # (1 + K, C)
    messages = F.embedding(slots, x.flatten(0, 1)) + F.embedding(labels, embeddings)
    sums = torch.relu(messages).sum(dim=2) + (1 + local.epsilon) * x[:, 1:]
    return local.mlp_out(F.gelu(local.mlp_in(sums)))
