"""Random-walk structural encoding of atoms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_RETURN_SCALE = 10.0, 40.0
"""Scales of return probabilities after even and odd numbers of steps, about the inverses of their
standard deviations in drug-like molecules (0.06 to 0.11 and 0.01 to 0.03 on ZINC)."""


class WalkEncoding(nn.Module):
    r"""A linear map of the probabilities that a random walk is back at its atom after 1 … W steps.

    .. math:: A \, [s_1 M_{ii}, s_2 M^2_{ii}, \ldots, s_W M^W_{ii}] + b

    with fixed scales s and A = 0 before training.

    Source: Dwivedi et al., "Graph Neural Networks with Learnable Structural and Positional
    Representations", ICLR 2022, arXiv 2110.07875 (RWSE in Rampášek et al., NeurIPS 2022).

    Differences: fixed scales instead of a batch norm over the atoms. Walks return after an odd
    number of steps only in odd rings. If no training molecule has such a ring, a batch norm divides
    these channels by √ε, and the first five-membered ring has an encoding a hundred times too
    large. Here the weights of such a channel get no gradient and stay 0.
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
        """Set all parameters to 0, so that the encoding has no effect."""
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, walks: Sequence[Tensor], mask: Tensor) -> Tensor:  # (M, C)
        """Add the encoding to the atoms.

        Args:
            x: (M, C).
            walks: the result of `walk_probabilities` for W steps or more.
            mask: bool (M,), true at atoms.
        """
        own = [torch.diagonal(each, dim1=1, dim2=2) for each in walks]  # (graphs, W + 1, S)
        steps = len(self.scale)
        returns = torch.cat([each[:, 1 : steps + 1].mT.flatten(0, 1) for each in own])
        return x + self.linear(returns * self.scale) * mask[:, None]
