"""`model.safetensors` of a model folder: damaged files and those of other models."""

from __future__ import annotations

import pytest
from safetensors.torch import save

from model_folders import change_description, small_model
from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel


def test_weights_of_another_architecture_are_refused(tmp_path):
    """The message is one line, not torch's list of every tensor."""
    small_model().save_pretrained(tmp_path / "one")
    small_model(width=32).save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(tmp_path / "one" / "model.safetensors")
    with pytest.raises(ModelError, match="belongs to another model") as caught:
        PropertyModel.from_pretrained(tmp_path / "one")
    assert len(str(caught.value).splitlines()) == 1


def test_other_weights_of_the_same_shapes_are_refused(tmp_path):
    small_model(0).save_pretrained(tmp_path)
    small_model(1).save_pretrained(tmp_path / "other")
    path = tmp_path / "model.safetensors"
    path.write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    with pytest.raises(
        ModelError,
        match=r"model.safetensors is damaged or belongs to another model \(it does not match",
    ):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
    """They are neither saved nor, from the file of a faulty program, loaded."""
    model = small_model()
    model.save_pretrained(tmp_path)
    state, tensor = model.network.state_dict(), "head.weight"
    state[tensor].view(-1)[0] = value
    path, before = tmp_path / "model.safetensors", (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(ModelError, match=f"cannot be saved: 1.{tensor} has a number that"):
        model.save_pretrained(tmp_path)
    assert path.read_bytes() == before
    path.write_bytes(save({f"1.{name}": each.contiguous() for name, each in state.items()}))
    change_description(tmp_path / "config.json", lambda about: None)
    with pytest.raises(
        ModelError,
        match=rf"model.safetensors .*\(1.{tensor} has a number that is not",
    ):
        PropertyModel.from_pretrained(tmp_path)
