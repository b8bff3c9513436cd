"""Dropout whose mask costs a fraction of a pass over memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from molsepnorm.nn.batch import Block

__all__ = ["ByteDropout", "StochasticDepth", "draws_at_random", "dropout_alone"]

_VALUES = 256  # of a byte


class ByteDropout(nn.Module):
    """Dropout that compares random bytes, eight of them from each random 64-bit word.

    On a CPU `nn.Dropout` draws one Bernoulli number per element, a third of a training step of a
    small Graphormer. Here the probability is rounded to the nearest 1/256 (0.1 becomes 0.1016,
    and less than 1/512 becomes 0) and the survivors are scaled by exactly its inverse, so the
    expectation is kept.

    Args:
        p: probability of dropping an element, 0 ≤ p < 1.

    Raises:
        ValueError: p is out of range.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"a dropout probability lies in 0 ≤ p < 1; got {p}")
        self.p = p
        self.dropped = min(round(p * _VALUES), _VALUES - 1)
        """Of 256 elements how many go, on average."""

    def forward(self, x: Tensor) -> Tensor:
        """In training, zero each element with probability p and scale the others up."""
        if x.device.type != "cpu":  # one kernel there
            return F.dropout(x, self.dropped / _VALUES, self.training)
        kept = self.kept(x)
        return x if kept is None else x * kept.to(x.dtype).mul_(self.scale)

    def add(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + dropout(x); on a CPU in one pass over memory."""
        if x.device.type != "cpu":
            return residual + self(x)
        kept = self.kept(x)
        if kept is None:
            return residual + x
        return torch.addcmul(residual, x, kept.to(x.dtype), value=self.scale)

    def kept(self, x: Tensor) -> Tensor | None:
        """uint8, 1 where an element of x stays and 0 where it goes; None where all stay."""
        if not self.training or self.dropped == 0:
            return None
        if x.device.type != "cpu":
            return torch.rand(x.shape, device=x.device).ge_(self.dropped / _VALUES).to(torch.uint8)
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        values = words.view(torch.uint8)[: x.numel()].view(x.shape)
        # 1 from `dropped` on, else 0: bytes are clamped several times as fast as compared
        return values.clamp_(self.dropped - 1, self.dropped).sub_(self.dropped - 1)

    @property
    def scale(self) -> float:
        """What survivors are multiplied by."""
        return _VALUES / (_VALUES - self.dropped)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class StochasticDepth(nn.Module):
    """Leaves out a whole branch of some graphs, in training; the others' is scaled up.

    Source: Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016, arXiv 1603.09382; the
    probability per example, and survivors scaled, as vision transformers do.

    Args:
        p: probability of leaving a graph's branch out, 0 ≤ p < 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, blocks: tuple[Block, ...]) -> Tensor:  # as x
        """Scale the rows of each graph by 0 or by 1 / (1 − p); x (M, C), or (B, C) where there is
        one row for each graph, in the blocks' order."""
        if not self.training or self.p == 0:
            return x
        graphs = sum(block.graphs for block in blocks)
        kept = (torch.rand(graphs, 1, device=x.device) >= self.p).to(x.dtype) / (1 - self.p)
        if len(x) > graphs:
            parts = kept.split([block.graphs for block in blocks])
            sizes = [block.slots for block in blocks]
            rows = [
                part.expand(-1, slots).reshape(-1, 1)
                for part, slots in zip(parts, sizes, strict=True)
            ]
            kept = torch.cat(rows)
        return x * kept

    def extra_repr(self) -> str:
        return f"p={self.p}"


_RANDOM = (ByteDropout, StochasticDepth, nn.Dropout)


def draws_at_random(network: nn.Module) -> bool:
    """Whether two passes in training differ: some dropout is more than zero, and not rounded to
    it."""
    dropouts = (module for module in network.modules() if isinstance(module, _RANDOM))
    return any(each.dropped if isinstance(each, ByteDropout) else each.p for each in dropouts)


@contextmanager
def dropout_alone(network: nn.Module) -> Iterator[None]:
    """While it lasts dropout is drawn as in training, and all else is as in evaluation: a batch
    norm takes its running statistics and leaves them alone."""
    modes = [(module, module.training) for module in network.modules()]
    for module, _ in modes:
        module.training = isinstance(module, _RANDOM)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
