"""The degree scaler of GRIT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch

__all__ = ["DegreeScaler"]


class DegreeScaler(nn.Module):
    r"""Scale the attention output of every atom by a learned function of its degree.

    .. math:: y_i = x_i \odot (1 + \theta_1) + \log(1 + \deg(i)) \, x_i \odot \theta_2

    Attention is a mean, so the number of neighbours is lost. Degrees are clipped at the largest one
    with an embedding of its own. The graph token, padding and atoms without bonds are multiplied by
    1 + θ_1. (With the number of atoms as the graph token's degree, outputs would grow with the
    molecule.)

    All parameters are 0 at first, so a new scaler has no effect. The reference draws its factors
    (1 + θ_1 here, and θ_2) from a Xavier-normal distribution, scales the outputs of the heads
    before their projection, and replaces the layer norm of the atoms, which would cancel most of
    the scaling, by a batch norm.

    Source: Ma et al., ICML 2023, arXiv 2305.17589, section 3.3 (GRIT).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.plain = nn.Parameter(torch.empty(width))
        self.by_degree = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the scaler the identity."""
        nn.init.zeros_(self.plain)
        nn.init.zeros_(self.by_degree)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:  # (M, C), at least float32
        """Scale all slots of a batch, x (M, C)."""
        log_degree = torch.log1p(batch.degrees.to(self.plain.dtype))  # 0 without an atom
        return x * torch.addcmul(1 + self.plain, log_degree[:, None], self.by_degree)
