"""The molecules whose embeddings a head is fitted to."""

from __future__ import annotations

import numpy as np
from probed import TRAIN, examples, regression, some_labels, start

from molsepnorm.training.probe import embedded as embeddings
from molsepnorm.training.probe.embedded import Embedded


def test_many_molecules_are_a_sample(random, monkeypatch):
    monkeypatch.setattr(embeddings, "_MAX_MOLECULES", 15)
    labels = some_labels(random)
    model = start(regression("t", labels))
    embedded = Embedded.of(model.network, examples(model, labels), TRAIN)
    assert len(embedded.inputs) == len(set(embedded.labels[:, 0].tolist())) == 15
    assert set(embedded.labels[:, 0]) <= set(labels[TRAIN].astype(np.float32))
