"""`ConditionalLinear` against its formula, molecule by molecule."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from molsepnorm.nn.parts import ConditionalLinear


@pytest.mark.parametrize("features", [0, 2])
def test_the_formula(features):
    torch.manual_seed(0)
    layer = ConditionalLinear(width=5 + features + 3, outputs=2, features=features, columns=3)
    read = torch.randn(4, 5 + features + 3)
    torch.testing.assert_close(layer(read), nn.functional.linear(read, layer.weight, layer.bias))
    nn.init.normal_(layer.interactions)
    found = layer(read)
    for row, outputs in zip(read, found, strict=True):
        z, u = row[:5], row[5 + features :]
        for number, output in enumerate(outputs):
            weights = sum(u[c] * layer.interactions[number, c] for c in range(3))
            expected = layer.bias[number] + layer.weight[number] @ row + weights @ z
            torch.testing.assert_close(output, expected)
