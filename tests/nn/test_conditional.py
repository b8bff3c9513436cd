"""`ConditionalLinear` against its formula, molecule by molecule."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from molsepnorm.nn.conditional import ConditionalLinear


@pytest.mark.parametrize("following", [0, 2])
def test_the_formula(following):
    torch.manual_seed(0)
    layer = ConditionalLinear(width=5 + 3 + following, outputs=2, columns=3, following=following)
    read = torch.randn(4, 5 + 3 + following)
    torch.testing.assert_close(layer(read), nn.functional.linear(read, layer.weight, layer.bias))
    nn.init.normal_(layer.interactions)
    found = layer(read)
    for row, outputs in zip(read, found, strict=True):
        z, u = row[:5], row[5:8]
        for number, output in enumerate(outputs):
            weights = sum(u[c] * layer.interactions[number, c] for c in range(3))
            expected = layer.bias[number] + layer.weight[number] @ row + weights @ z
            torch.testing.assert_close(output, expected)


def test_each_word_has_weights_of_its_own():
    """Two assays in which the property of a molecule has opposite signs are learned exactly."""
    torch.manual_seed(0)
    z, words = torch.randn(40, 4), torch.eye(2).repeat(20, 1)
    y = (z @ torch.tensor([1.0, -2, 0.5, 3]) * torch.where(words[:, 0] > 0, 1.0, -1.0))[:, None]
    layer = ConditionalLinear(width=6, outputs=1, columns=2)
    read = torch.cat([z, words], dim=1)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=200)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = (layer(read) - y).square().mean()
        value.backward()
        return value

    optimizer.step(loss)
    assert loss().item() < 1e-6 < 1 < y.square().mean().item()
