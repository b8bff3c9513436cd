"""An output layer for properties that depend on conditions, such as a temperature or a solvent."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

INTERACTIONS = "head.interactions"
"""Name of the weights v of a `ConditionalLinear` in the state of a network."""


def output_layer(names: Iterable[str]) -> tuple[str, str]:
    """Return the names of the weight and the bias of the outputs, from the names of a network's
    state.

    >>> output_layer(["graph_token", "head.weight", "head.bias", "head.interactions"])
    ('head.weight', 'head.bias')
    """
    weight, bias = [n for n in names if n.startswith("head.") and n != INTERACTIONS][-2:]
    return weight, bias


class ConditionalLinear(nn.Linear):
    r"""A linear output layer whose weights depend on the feature columns of the table.

    .. math:: y_o = b_o + w_o \cdot [z, u, x] + \sum_c u_c \, v_{oc} \cdot z

    with z the read-out of the molecule and the features of its featuriser (R channels), u the
    standardised feature columns (C channels), and x the other molecule-level features. Without v, a
    column would shift the outputs of all molecules by the same amount. With it, each word of a
    column, such as the name of an assay, has output weights of its own. v starts at 0.

    Args:
        width: number of channels of the input, R + C + following.
        outputs: number of outputs.
        columns: number of channels of the feature columns (C).
        following: number of channels of x.
    """

    def __init__(self, width: int, outputs: int, columns: int, following: int = 0) -> None:
        super().__init__(width, outputs)
        self.sizes = width - columns - following, columns, following
        self.interactions = nn.Parameter(torch.zeros(outputs, columns, self.sizes[0]))

    def forward(self, read: Tensor) -> Tensor:  # (B, R + C + following) -> (B, outputs)
        z, columns, _ = read.split(self.sizes, dim=1)
        by_column = (z @ self.interactions.flatten(0, 1).T).unflatten(1, (-1, columns.shape[1]))
        return super().forward(read) + (by_column * columns[:, None]).sum(dim=2)
