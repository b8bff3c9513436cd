"""Dropout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Dropout):
    """`nn.Dropout` with a residual connection."""

    def __init__(self, p: float) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"a dropout probability lies in 0 ≤ p < 1; got {p}")
        super().__init__(p)

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual + self(x)


def draws_at_random(network: nn.Module) -> bool:
    return any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules())


@contextmanager
def dropout_alone(network: nn.Module) -> Iterator[None]:
    """Apply dropout as in training and everything else as in evaluation."""
    modes = [(module, module.training) for module in network.modules()]
    for module, _ in modes:
        module.training = isinstance(module, nn.Dropout)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


_VALUES = 256  # of a byte


class ByteDropout(Dropout):
    """Dropout that compares random bytes, eight of them from each random 64-bit word.

    The Bernoulli numbers of `nn.Dropout` take a third of a training step of a small Graphormer on
    a CPU. Here the probability is rounded to the nearest 1/256 (0.1 becomes 0.1016, and less than
    1/512 becomes 0), and the scale of the survivors keeps the expectation.
    """

    def __init__(self, p: float) -> None:
        super().__init__(p)
        self.p = self.dropped / _VALUES

    def forward(self, x: Tensor) -> Tensor:
        """In training, zero each element with probability p and scale the others up."""
        if x.device.type != "cpu":  # a single kernel there
            return F.dropout(x, self.p, self.training)
        mask = self.dropout_mask(x)
        return x if mask is None else x * mask.to(x.dtype).mul_(self.scale)

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return residual + dropout(x), on a CPU in one pass over memory."""
        if x.device.type != "cpu":
            return residual + self(x)
        mask = self.dropout_mask(x)
        if mask is None:
            return residual + x
        return torch.addcmul(residual, x, mask.to(x.dtype), value=self.scale)

    def dropout_mask(self, x: Tensor) -> Tensor | None:
        """Return uint8, 0 for elements of x to drop and else 1; None if none is dropped."""
        if not self.training or self.dropped == 0:
            return None
        words = torch.randint(-(2**63), 2**63 - 1, ((x.numel() + 7) // 8,))
        values = words.view(torch.uint8)[: x.numel()].view(x.shape)
        # 1 from `dropped` on, else 0: clamping bytes is several times as fast as comparing them
        return values.clamp_(self.dropped - 1, self.dropped).sub_(self.dropped - 1)

    @property
    def dropped(self) -> int:
        """Average number of dropped elements among 256."""
        return min(round(self.p * _VALUES), _VALUES - 1)

    @property
    def scale(self) -> float:
        """Factor of the elements that are kept."""
        return _VALUES / (_VALUES - self.dropped)
