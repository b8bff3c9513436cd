"""The parts of a model in words."""

from __future__ import annotations

import numpy as np
import pytest

from molsepnorm.forest import Forest, Trees
from molsepnorm.model import PropertyModel
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training.results.card import composition

UNUSED = "; the fine-tuned network did not improve the validation score and is not used"


def made(heads: str, weights: tuple[float, ...], share: float = 0.0) -> PropertyModel:
    """A model with a network (n) or a kernel regression (k) for each letter, and a forest."""
    sizes = {"layers": 1, "width": 16, "ffn_width": 16, "heads": 2}
    kernel = {"head": "kernel", "centers": 3, "readout": "layers"}
    first, *others = (
        Graphormer(GraphormerConfig(**sizes, **(kernel if letter == "k" else {})))
        for letter in heads
    )
    task = Task((Target("y", "regression"),), "mae")
    tree = Trees.leaf(np.zeros(1, np.float32))
    forests = (Forest(tree.thresholds, (tree,)),) if share else ()
    return PropertyModel(
        *(first, "zinc", task),
        partners=tuple(others),
        weights=weights,
        forests=forests,
        forest_share=share,
    )


@pytest.mark.parametrize(
    ("parts", "epochs", "expected"),
    [
        (("n", (1.0,), 0.25), 5, "75 % network, 25 % random forest"),
        (("k", (1.0,), 0.65), 5, f"35 % kernel regression, 65 % random forest{UNUSED}"),
        (
            ("nknk", (0.1, 0.4, 0.2, 0.3)),
            5,
            "30 % network (mean of 2), 70 % kernel regression (mean of 2)",
        ),
        (("kk", (0.5, 0.5)), 5, f"the kernel regression (mean of 2) alone{UNUSED}"),
    ],
)
def test_the_weights_of_the_parts(parts, epochs, expected):
    """Without epochs there is no fine-tuned network that could be left out."""
    assert composition(made(*parts), epochs) == expected
