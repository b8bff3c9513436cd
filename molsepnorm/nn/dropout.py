"""Dropout and stochastic depth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import PaddedGroup

__all__ = ["Dropout", "StochasticDepth", "draws_at_random", "dropout_alone"]


class Dropout(nn.Dropout):
    """`nn.Dropout` with a residual connection.

    Args:
        p: probability of dropping an element, 0 ≤ p < 1.

    Raises:
        ValueError: p is out of range.
    """

    def __init__(self, p: float) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"a dropout probability lies in 0 ≤ p < 1; got {p}")
        super().__init__(p)

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + dropout(x)."""
        return residual + self(x)


class StochasticDepth(nn.Module):
    """Drop a whole branch of some graphs in training, and scale that of the others up.

    Source: Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016, arXiv 1603.09382. Each
    graph is dropped by itself and survivors are scaled, as in vision transformers.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, groups: tuple[PaddedGroup, ...]) -> Tensor:  # as x
        """Multiply the rows of each graph by 0 or by 1 / (1 − p).

        Args:
            x: (M, C), or (B, C) with one row for each graph in the order of the groups.
            groups: the padded groups of the batch.
        """
        if not self.training or self.p == 0:
            return x
        graphs = [group.graphs for group in groups]
        factors = (torch.rand(sum(graphs), 1, device=x.device) >= self.p).to(x.dtype) / (1 - self.p)
        if len(x) > len(factors):
            parts = zip(factors.split(graphs), groups, strict=True)
            factors = torch.cat(
                [part.expand(-1, group.slots).reshape(-1, 1) for part, group in parts]
            )
        return x * factors


_RANDOM = (nn.Dropout, StochasticDepth)


def draws_at_random(network: nn.Module) -> bool:
    """Return whether two passes in training differ, because some dropout is above zero."""
    return any(isinstance(module, _RANDOM) and module.p > 0 for module in network.modules())


@contextmanager
def dropout_alone(network: nn.Module) -> Iterator[None]:
    """Apply dropout as in training and everything else as in evaluation.

    A batch norm uses its running statistics and does not update them.
    """
    modes = [(module, module.training) for module in network.modules()]
    for module, _ in modes:
        module.training = isinstance(module, _RANDOM)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
