"""Encodings by random walks and resistances: continuous, computed batch by batch on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.molecules.codes import SELF
from molsepnorm.nn.batch import GraphBatch
from molsepnorm.nn.pairs.neighbours import distances, squares

__all__ = ["PairBias", "ResistanceKernels", "WalkEncoding", "resistances", "walk_probabilities"]


@torch.no_grad()
def walk_probabilities(
    batch: GraphBatch, steps: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    r"""Where a random walk is after 0, 1, … W steps: for each block (graphs, S, S, W + 1).

    .. math:: P_{ij} = [I, M, M^2, \ldots, M^W]_{ij}, \qquad M = D^{-1} A

    with the adjacency matrix A and the degrees D; 0 for pairs that are not two atoms.

    Source: Ma et al., "Graph Inductive Biases in Transformers without Message Passing", ICML 2023,
    arXiv 2305.17589, section 3.1 (relative random-walk probabilities, RRWP). The power 0 and W
    further ones here; its K counts all of them.
    """
    parts = []
    codes = squares(batch.pairs, batch)
    for hops, code in zip(distances(batch), codes, strict=True):
        bonded = (hops == 1).to(dtype)
        step = bonded / bonded.sum(-1, keepdim=True).clamp(min=1)
        atoms = torch.diagonal(code, dim1=1, dim2=2) == SELF
        powers = [torch.diag_embed(atoms.to(dtype))]
        with torch.autocast(step.device.type, enabled=False):
            for _ in range(steps):
                powers.append(powers[-1] @ step)
        parts.append(torch.stack(powers, dim=-1))
    return parts


@torch.no_grad()
def resistances(
    batch: GraphBatch, dtype: torch.dtype = torch.float32
) -> list[Tensor]:  # for each block (graphs, S, S)
    r"""The resistance between two atoms if every bond were a resistor of 1.

    .. math:: R_{ij} = X_{ii} + X_{jj} - 2 X_{ij}, \qquad X = (L + J)^{-1}

    with the Laplacian L and J, 1 between atoms of one fragment and else 0, which makes L
    invertible and falls out of the difference. 0 for pairs that are not two atoms of a fragment.

    Source: Klein and Randić, "Resistance distance", 1993; in graph transformers Zhang et al.,
    "Rethinking the Expressive Power of GNNs via Graph Biconnectivity", ICLR 2023, arXiv 2301.09505.
    """
    parts = []
    codes = squares(batch.pairs, batch)
    for hops, code in zip(distances(batch), codes, strict=True):
        bonded = (hops == 1).to(dtype)
        joined = (code >= SELF).to(bonded.dtype)
        absent = 1 - torch.diagonal(joined, dim1=1, dim2=2)
        matrix = torch.diag_embed(bonded.sum(-1) + absent) - bonded + joined
        inverse, _ = torch.linalg.inv_ex(matrix)
        own = torch.diagonal(inverse, dim1=1, dim2=2)
        parts.append((own[:, :, None] + own[:, None, :] - 2 * inverse) * joined)
    return parts


_RETURN_SCALE = 10.0, 40.0
"""Scales of return probabilities after even and odd steps, about the inverses of their standard
deviations in drug-like molecules (0.06 to 0.11 and 0.01 to 0.03 on ZINC)."""


class WalkEncoding(nn.Module):
    r"""A linear map of the probabilities that a walk is back at its atom after 1 … W steps.

    .. math:: A \, [s_1 M_{ii}, s_2 M^2_{ii}, \ldots, s_W M^W_{ii}] + b

    with fixed scales s and A = 0 before training.

    Source: Dwivedi et al., "Graph Neural Networks with Learnable Structural and Positional
    Representations", ICLR 2022, arXiv 2110.07875 (RWSE in Rampášek et al., NeurIPS 2022).

    What differs: fixed scales in place of a batch norm over the atoms. Odd steps return only in odd
    rings. If no training molecule has one, a batch norm divides these channels by √ε, and the first
    five-membered ring comes out a hundred times too large. Here the weights of such a channel get
    no gradient and stay 0.

    Args:
        steps: W.
        width: C.
    """

    scale: Tensor

    def __init__(self, steps: int, width: int) -> None:
        super().__init__()
        even, odd = _RETURN_SCALE
        scale = torch.tensor([odd if step % 2 else even for step in range(1, steps + 1)])
        self.register_buffer("scale", scale, persistent=False)
        self.linear = nn.Linear(steps, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin without any effect of the walks."""
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, walks: Sequence[Tensor], mask: Tensor) -> Tensor:  # (M, C)
        """Encode the result of `walk_probabilities` for W steps or more."""
        own = [torch.diagonal(each, dim1=1, dim2=2) for each in walks]  # (graphs, W + 1, S)
        steps = len(self.scale)
        returns = torch.cat([each[:, 1 : steps + 1].mT.flatten(0, 1) for each in own])
        return self.linear(returns * self.scale) * mask[:, None]

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Read the weights of today, or those of a network that had a batch norm here."""
        names = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        if f"{prefix}norm.running_var" in state_dict:
            norm = {name: state_dict.pop(f"{prefix}norm.{name}") for name in names}
            _fold_norm(norm, self.scale, state_dict, f"{prefix}linear")
        super()._load_from_state_dict(state_dict, prefix, *args)


def _fold_norm(
    norm: dict[str, Tensor], fixed: Tensor, state_dict: dict[str, Tensor], linear: str
) -> None:
    """Replace a batch norm and the linear map after it by one linear map, in `state_dict`.

    Both give the same in evaluation. A channel without variance in training has taught the network
    nothing, so it gets the weight 0.

    Args:
        norm: state of the batch norm.
        fixed: scales that the linear map's input has now.
        state_dict: state of the network.
        linear: name of the linear map.
    """
    variance = norm["running_var"]
    scale = norm["weight"] * torch.rsqrt(variance + 1e-5)
    scale = torch.where(variance > 1e-10, scale, 0)
    weight = state_dict[f"{linear}.weight"]
    shift = norm["bias"] - norm["running_mean"] * scale
    state_dict[f"{linear}.bias"] = state_dict[f"{linear}.bias"] + weight @ shift
    state_dict[f"{linear}.weight"] = weight * scale / fixed.to(scale)


class ResistanceKernels(nn.Module):
    r"""Resistances through Gaussians of learned place and width.

    .. math:: \psi_k(R) = \exp\bigl(-\tfrac12 ((R - \mu_k) / \sigma_k)^2\bigr)

    Source: Zhang et al., ICLR 2023, arXiv 2301.09505, appendix; kernels as in Transformer-M.

    Args:
        kernels: how many.
    """

    def __init__(self, kernels: int) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.empty(kernels))
        self.widths = nn.Parameter(torch.empty(kernels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Centres from 0 to 12 bonds, close together where resistances are small."""
        with torch.no_grad():
            self.centres.copy_(torch.linspace(0, 12**0.5, len(self.centres)).square())
            self.widths.copy_(0.3 + 0.2 * self.centres)

    def forward(self, resistance: Tensor) -> Tensor:  # (…, kernels)
        """The kernels of resistances (…)."""
        return ((resistance[..., None] - self.centres) / self.widths).square().mul(-0.5).exp()


class PairBias(nn.Module):
    r"""A bias for every head from continuous features of atom pairs.

    .. math:: b_{ij} = W_2 \, \mathrm{GELU}(W_1 f_{ij})

    Args:
        features: F.
        hidden: width between the two maps; 0 for a single linear map.
        heads: H.
    """

    def __init__(self, features: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.inner = nn.Linear(features, hidden) if hidden else None
        self.outer = nn.Linear(hidden or features, heads)

    def forward(
        self,
        features: Sequence[Tensor],  # for each block (graphs, S, S, F)
    ) -> list[Tensor]:  # for each block (H, graphs, S, S)
        """The bias, in the features' precision."""
        with torch.autocast(features[0].device.type, enabled=False):
            return [self._bias(each).movedim(-1, 0).contiguous() for each in features]

    def _bias(self, features: Tensor) -> Tensor:
        return self.outer(features if self.inner is None else F.gelu(self.inner(features)))
