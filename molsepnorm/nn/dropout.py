"""Dropout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


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


def draws_at_random(network: nn.Module) -> bool:
    """Return whether two passes in training differ, because some dropout is above zero."""
    return any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules())


@contextmanager
def dropout_alone(network: nn.Module) -> Iterator[None]:
    """Apply dropout as in training and everything else as in evaluation.

    A batch norm uses its running statistics and does not update them.
    """
    modes = [(module, module.training) for module in network.modules()]
    for module, _ in modes:
        module.training = isinstance(module, nn.Dropout)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
