"""Degrees put back where attention has averaged them away."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from molsepnorm.nn.batch import GraphBatch

__all__ = ["DegreeScaler"]


class DegreeScaler(nn.Module):
    r"""Scales every channel of an atom by its degree, behind the attention of a layer.

    .. math:: y_i = x_i \odot (1 + \theta_1) + \log(1 + \deg(i)) \, x_i \odot \theta_2

    Attention is a mean, which does not know of how many. The graph token has no degree, and the
    number of atoms in its place would let the outputs grow with the molecule: it is scaled by
    1 + θ_1 alone, and so are padding and atoms without bonds. Degrees are clipped at the largest
    one that the embedding tells apart.

    All parameters are 0 at first, so a model with scalers starts as the one without; the reference
    draws its factors (1 + θ_1 here, and θ_2) at random, Xavier-normal. The reference scales the
    heads' outputs before they are projected, and drops the layer norm of the atoms, which would
    undo most of it, for a batch norm.

    Source: Ma et al., ICML 2023, arXiv 2305.17589, section 3.3 (GRIT).

    Args:
        width: C.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.plain = nn.Parameter(torch.empty(width))
        self.by_degree = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The scaler becomes the identity."""
        nn.init.zeros_(self.plain)
        nn.init.zeros_(self.by_degree)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:  # (M, C), at least float32
        """Scale all slots of a batch, x (M, C)."""
        log_degree = torch.log1p(batch.degrees.to(self.plain.dtype))  # 0 without an atom
        return x * torch.addcmul(1 + self.plain, log_degree[:, None], self.by_degree)
