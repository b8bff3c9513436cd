"""`AttentionBias` written for speed."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from molsepnorm.nn.batch import PathTable
from molsepnorm.nn.gradients import is_transformed, to_dense
from molsepnorm.nn.pairs.bias import AttentionBias


class FastAttentionBias(AttentionBias):
    """`AttentionBias` whose gradient reads the transposed matrix of the path table.

    Otherwise PyTorch transposes the sparse matrix at every step.
    """

    def path_sums(self, paths: PathTable, terms: Tensor) -> Tensor:  # (V, H)
        if is_transformed():
            return super().path_sums(paths, terms)
        return _Product.apply(paths.bonds, paths.bonds_transposed, terms)


class _Product(Function):
    """Product of a constant matrix (V, R), sparse or dense, and a matrix (R, H)."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:  # (V, H)
        ctx.matrices = transposed, matrix
        return matrix.to(x.dtype) @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        transposed, matrix = ctx.matrices
        if is_transformed(grad):
            return None, None, to_dense(transposed).to(grad.dtype) @ grad
        return None, None, _Product.apply(transposed, matrix, grad)
