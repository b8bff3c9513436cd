"""Training on a data set that is already loaded, with and without a run folder."""

from __future__ import annotations

import pytest
import torch

from molsepnorm.data import datasets
from molsepnorm.model import encoding_of
from molsepnorm.training import train_on
from molsepnorm.training.recipes import architecture


@pytest.fixture
def dataset(configure):
    config = configure()
    return datasets.load(config.data, encoding_of(architecture(config)))


def test_a_run_in_memory_equals_a_run_with_a_folder(configure, dataset, trained):
    in_memory, in_folder = train_on(configure(), dataset), trained()
    assert in_memory.finished
    assert in_memory.folder is None
    assert {**in_memory.metrics, "seconds": 0} == {**in_folder.metrics, "seconds": 0}
    kept = in_memory.model.network.state_dict()
    for name, tensor in in_folder.model.network.state_dict().items():
        assert torch.equal(kept[name], tensor), name


def test_training_starts_from_a_model(configure, dataset, trained):
    """With a learning rate near zero the result is the start itself."""
    start = trained()
    settings = {"optim.lr": 1e-30, "optim.weight_decay": 0.0, "run.epochs": 1, "run.seed": 5}
    result = train_on(configure({**settings, "finetune.start": str(start.folder)}), dataset)
    pairs = (each.model.network.parameters() for each in (result, start))
    for mine, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
