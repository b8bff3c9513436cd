"""The parts of a model in words."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.model import PropertyModel
from molsepnorm.model.parts import Forest, KernelPart, NetworkPart
from molsepnorm.model.parts.forest import Trees
from molsepnorm.model.parts.kernel import KernelRegression
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import NO_INPUTS, Target, Task
from molsepnorm.training.results.summary import composition


def made(letters: str, weights: tuple[float, ...]) -> PropertyModel:
    """A model with a network (n), a kernel regression (k) or a forest (f) for each letter."""
    sizes = {"layers": 1, "width": 16, "ffn_width": 16, "heads": 2}
    tree = Trees.leaf(np.zeros(1, np.float32))
    kinds = {
        "n": NetworkPart(Graphormer(GraphormerConfig(**sizes))),
        "k": KernelPart(
            Graphormer(GraphormerConfig(**sizes)), KernelRegression(16, 3, 1, NO_INPUTS)
        ),
        "f": Forest(tree.thresholds, (tree,)),
    }
    task = Task((Target("y", "regression"),), "mae")
    return PropertyModel(tuple(kinds[each] for each in letters), "zinc", task, weights=weights)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("nf", (0.75, 0.25)), "75 % network, 25 % random forest"),
        (("kf", (0.35, 0.65)), "35 % kernel regression, 65 % random forest"),
        (
            ("nknk", (0.1, 0.4, 0.2, 0.3)),
            "30 % network (mean of 2), 70 % kernel regression (mean of 2)",
        ),
        (("kk", (0.5, 0.5)), "the kernel regression (mean of 2) alone"),
    ],
)
def test_the_weights_of_the_parts(parts, expected):
    assert composition(made(*parts), epochs=0) == expected
