"""Model folders: what is written is read back, and incomplete or damaged ones are refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import torch

from model_folders import CONFIG, joined_model, outputs_of, small_model
from molsepnorm.errors import ModelError, StorageError
from molsepnorm.model import SCHEMA, PropertyModel
from molsepnorm.model.parts import networks_of
from molsepnorm.nn.config import GraphormerConfig
from molsepnorm.nn.graphormer import Graphormer
from molsepnorm.tasks import Target, Task


def test_a_saved_model_is_read_back_exactly(tmp_path):
    """Weights, statistics, classes and outputs are equal to the bit."""
    targets = (
        Target("colour", "multiclass", classes=("red", "10", "é"), class_weights=(0.5, 2.0, 1 / 3)),
        Target("toxic", "binary", class_weights=(0.6, 3.0)),
        Target("logS", "regression", -3.1, 1 / 3),
    )
    torch.manual_seed(0)
    settings = {**CONFIG, "outputs": 5, "norm": "sep-ln-bn", "attention_dropout": 0.3}
    network = Graphormer(GraphormerConfig(**settings))
    model = PropertyModel.of(network.eval(), "zinc", Task(targets, "loss", "mse"))
    model.save_pretrained(tmp_path / "model")
    again = PropertyModel.from_pretrained(tmp_path / "model")
    assert again.task == model.task
    assert (again.featurizer, again.encoding) == ("zinc", model.encoding)
    assert again.network.config == model.network.config
    here, there = model.network.state_dict(), again.network.state_dict()
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)
    assert not again.network.training
    assert torch.equal(outputs_of(model), outputs_of(again))


def test_several_networks_are_read_back_exactly(tmp_path):
    model = joined_model()
    model = model.with_parts(model.parts, [[0.5, 0.1], [0.3, 0.9], [0.2, 0.0]])
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["schema"] == SCHEMA
    again = PropertyModel.from_pretrained(tmp_path)
    np.testing.assert_array_equal(again.weights, model.weights)
    for here, there in zip(*(networks_of(each.parts) for each in (model, again)), strict=True):
        assert here.config == there.config and not there.training
        ours, theirs = here.state_dict(), there.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_folder_is_read_like_its_model_folder(tmp_path):
    """RUN and RUN/model are equivalent, as a path or as a string."""
    model = small_model()
    model.save_pretrained(tmp_path / "run" / "model")
    for folder in (tmp_path / "run", tmp_path / "run" / "model", str(tmp_path / "run")):
        assert PropertyModel.from_pretrained(folder).task == model.task


def test_reading_does_not_change_the_random_state(tmp_path):
    """Creating the network draws initial weights, which must not advance the generator."""
    small_model().save_pretrained(tmp_path / "model")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    PropertyModel.from_pretrained(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(
        ModelError, match="there is no folder .*none: give a run's folder or its mo"
    ):
        PropertyModel.from_pretrained(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelError, match="there is no folder .*file"):
        PropertyModel.from_pretrained(tmp_path / "file")
    with pytest.raises(StorageError, match="cannot read x+: File name too long"):
        PropertyModel.from_pretrained("x" * 5000)


def test_saving_again_replaces_the_old_model(tmp_path):
    """Files that only the old model had are removed. The new ones are JSON and safetensors, which
    run no code when they are loaded."""
    small_model(0).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("an old one")
    (tmp_path / "model" / "config.json").write_text("{")
    new = small_model(1)
    new.save_pretrained(tmp_path / "model")
    assert sorted(os.listdir(tmp_path / "model")) == ["config.json", "model.safetensors"]
    again = PropertyModel.from_pretrained(tmp_path / "model")
    assert torch.equal(again.network.head.weight, new.network.head.weight)


@pytest.mark.parametrize("other", ["thesis.txt", "config.json"])
def test_a_folder_of_other_files_is_never_replaced(tmp_path, tree, monkeypatch, other):
    """This includes the working directory and models of other libraries."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / other).write_text('{"model_type": "graphormer"}')
    before = tree(tmp_path)
    monkeypatch.chdir(tmp_path / "mine")
    for folder in (tmp_path / "mine", tmp_path, ".", "..", "/"):
        with pytest.raises(StorageError, match=r"cannot write .*: it holds .*: choose another"):
            small_model().save_pretrained(folder)
    assert tree(tmp_path) == before


def test_a_full_disk_is_reported_and_the_old_model_stays(small_disk, tree):
    """A real full disk, for which safetensors has an error of its own."""
    small_model(0).save_pretrained(small_disk / "model")
    before = tree(small_disk)
    with pytest.raises(StorageError, match="cannot write .*model: the disk is full: free some"):
        small_model(1, width=64, ffn_width=64, layers=3).save_pretrained(small_disk / "model")
    assert tree(small_disk) == before


@pytest.mark.parametrize("part", ["config.json", "length", "header", "data"])
def test_a_changed_byte_is_noticed_wherever_it_is(tmp_path, part):
    """60 flipped bits in each part of each file change no prediction. Either the model is refused
    with a message that names the file, or it is the same."""
    model = small_model()
    model.save_pretrained(tmp_path)
    path = tmp_path / (part if part == "config.json" else "model.safetensors")
    content, outputs = path.read_bytes(), outputs_of(model)
    header = 8 + int.from_bytes(content[:8], "little")
    parts = {"length": (0, 8), "header": (8, header), "data": (header, len(content))}
    rng, noticed = np.random.default_rng(0), 0
    for position in rng.integers(*parts.get(part, (0, len(content))), 60).tolist():
        changed = bytearray(content)
        changed[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            again = PropertyModel.from_pretrained(tmp_path)
        except ModelError as error:
            noticed += 1
            assert str(path) in str(error)
        else:
            assert part == "config.json"  # white space, or the name of the digests' entry
            assert torch.equal(outputs_of(again), outputs)
    assert noticed == 60 if part != "config.json" else noticed > 45
