"""Sentences on what a model holds about its training molecules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from molsepnorm.forest import Forest, Trees
from molsepnorm.model import PropertyModel
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from molsepnorm.training.results.share import revealed

TASK = Task((Target("y", "regression"),), "mae")
SMALL = {"layers": 1, "width": 16, "ffn_width": 16, "heads": 2, "outputs": 1}


def model(**network) -> PropertyModel:
    return PropertyModel(Graphormer(GraphormerConfig(**{**SMALL, **network})), "ogb", TASK)


def test_the_sentences_say_what_the_model_holds_of_its_training_molecules():
    """Encoded molecules of a kernel head, of every network; leaves of a forest; otherwise weights
    only."""
    tree = Trees.leaf(np.zeros(1, np.float32))
    forest = Forest(tree.thresholds, (tree,))
    plain = model()
    kernel = model(head="kernel", centers=1234, readout="layers")
    counts = model(
        head="kernel",
        centers=7,
        readout="layers",
        molecule_features=2120,
        counts=2048,
        descriptors=72,
    )
    text = " ".join(revealed(kernel))
    assert "holds 1,234 training molecules in encoded form" in text
    assert "its embedding and a weight for each target" in text and "weights only" not in text
    text = " ".join(revealed(counts))
    assert "holds 7 training molecules in encoded form" in text
    assert "reconstruct parts of their structures" in text
    both = replace(plain, partners=(kernel.network,), weights=(0.5, 0.5))
    blend = replace(plain, forests=(forest,), forest_share=0.5)
    for each, text in (
        (plain, "network weights only, without molecules and labels"),
        (counts, "its embedding, 2,120 descriptors and fingerprint counts and a weight"),
        (both, "holds 1,234 training molecules in encoded form"),
        (blend, "Each leaf has the mean label"),
    ):
        said = " ".join(revealed(each))
        assert text in said and ("weights only" in said) == (each is plain)
