"""`AttentionBias` written for speed."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from molsepnorm.nn.batch import PathTable
from molsepnorm.nn.pairs.bias import AttentionBias

__all__ = ["FastAttentionBias"]


class FastAttentionBias(AttentionBias):
    """`AttentionBias` whose gradient reads the transposed matrix of the path table.

    Otherwise PyTorch transposes the sparse matrix at every step.
    """

    def path_sums(self, paths: PathTable, terms: Tensor) -> Tensor:  # (V, H)
        return _Product.apply(paths.bonds, paths.bonds_transposed, terms)


class _Product(Function):
    """Product of a constant matrix (V, R), sparse or dense, and a matrix (R, H)."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:  # (V, H)
        ctx.transposed = transposed
        return matrix.to(x.dtype) @ x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed.to(grad.dtype) @ grad
