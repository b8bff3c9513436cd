"""An output head that compares each molecule with training molecules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["KernelHead"]


class KernelHead(nn.Module):
    r"""Kernel ridge regression of standardised embeddings; `training.probe` fits it.

    .. math:: y_o = b_o + \sum_m w_{om} \exp\Bigl(-\frac{\gamma}{R} |z - c_m|^2\Bigr)

    with z the standardised embedding of R channels and c the embeddings of training molecules. Its
    numbers are buffers, since they are solved for, not trained.

    Args:
        width: R.
        centers: number of training molecules that are compared.
        outputs: number of outputs.
    """

    mean: Tensor
    scale: Tensor
    centers: Tensor
    gamma: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, width: int, centers: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.register_buffer("centers", torch.zeros(centers, width))
        self.register_buffer("gamma", torch.ones(()))
        self.register_buffer("weight", torch.zeros(outputs, centers))
        self.register_buffer("bias", torch.zeros(outputs))

    def forward(self, read: Tensor) -> Tensor:  # (B, outputs)
        """Return the outputs for the embeddings (B, R)."""
        standardised = (read - self.mean) / self.scale
        return self.similarity(standardised) @ self.weight.T + self.bias

    def similarity(self, standardised: Tensor) -> Tensor:  # (B, centers)
        """Return the kernel between standardised embeddings (B, R) and the centres."""
        squares = torch.cdist(standardised, self.centers).square()
        return torch.exp(-self.gamma / self.centers.shape[1] * squares)
