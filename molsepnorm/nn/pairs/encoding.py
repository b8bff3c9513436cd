"""The encoding of slot pairs, computed once per step for all layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from molsepnorm.molecules.encodings.paths import SELF
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.pairs.neighbours import PairTensors, hop_distances, neighbours_of
from molsepnorm.nn.parts import Parts


class PairEncoding(nn.Module):
    """The attention bias, optionally with one from random walks, and the neighbours if needed."""

    def __init__(self, config: GraphormerConfig, parts: Parts) -> None:
        super().__init__()
        heads, steps = config.heads, config.pair_walks
        self.steps = steps
        self.has_local = config.local == "gine"
        self.bias = parts.bias(
            heads, config.bond_sizes, config.max_distance, config.max_path_length
        )
        self.pair_bias = PairBias(steps + 1, heads) if steps else None

    def forward(self, batch: GraphBatch, walks: Sequence[Tensor] = ()) -> PairTensors:
        bias = self.bias(batch)
        if self.pair_bias is not None:
            walk_bias = self.pair_bias([group[..., : self.steps + 1] for group in walks])
            bias = [a + b for a, b in zip(bias, walk_bias, strict=True)]
        return PairTensors(bias, neighbours_of(batch) if self.has_local else None)


@torch.no_grad()
def walk_probabilities(
    batch: GraphBatch, steps: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    r"""Return the probabilities of random walks for each group, (graphs, S, S, W + 1).

    Entry w of pair (i, j) is the probability that a walk from i is at j after w steps.

    .. math:: P_{ij} = [I, M, M^2, \ldots, M^W]_{ij}, \qquad M = D^{-1} A

    with the adjacency matrix A and the degrees D; 0 for pairs that are not two atoms. With W = 0
    steps the list is empty.

    Source: Ma et al., "Graph Inductive Biases in Transformers without Message Passing", ICML 2023,
    arXiv 2305.17589, section 3.1 (relative random-walk probabilities, RRWP), with K = W + 1.
    """
    parts: list[Tensor] = []
    if not steps:
        return parts
    for hops, code in zip(hop_distances(batch), batch.by_group(batch.pairs), strict=True):
        bonded = (hops == 1).to(dtype)
        step = bonded / bonded.sum(-1, keepdim=True).clamp(min=1)
        atoms = torch.diagonal(code, dim1=1, dim2=2) == SELF
        powers = [torch.diag_embed(atoms.to(dtype))]
        with torch.autocast(step.device.type, enabled=False):
            for _ in range(steps):
                powers.append(torch.bmm(powers[-1], step))
        parts.append(torch.stack(powers).movedim(0, -1))
    return parts


class PairBias(nn.Module):
    """A bias for every head, a linear map of continuous features of atom pairs."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.outer = nn.Linear(features, heads)

    def forward(
        self,
        features: Sequence[Tensor],  # for each group (graphs, S, S, F)
    ) -> list[Tensor]:  # for each group (H, graphs, S, S)
        with torch.autocast(features[0].device.type, enabled=False):
            return [self._bias(group) for group in features]

    def _bias(self, features: Tensor) -> Tensor:  # (graphs, S, S, F) -> (H, graphs, S, S)
        columns = features.movedim(-1, 0).flatten(1).T  # as walk probabilities lie in memory
        return self.outer(columns).T.unflatten(1, features.shape[:3])
