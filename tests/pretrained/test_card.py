"""Model cards: what they hold, and how invalid ones are refused."""

from __future__ import annotations

import pytest

from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.pretrained.card import CARD, read_card
from support import write_model_with_card


def test_a_card_is_read_back(tmp_path):
    card = write_model_with_card(tmp_path / "tiny")
    assert read_card(tmp_path / "tiny") == card


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"excludes": null}'])
def test_a_damaged_card_is_refused(tmp_path, text):
    """A model is not loaded without its exclusions."""
    folder = tmp_path / "tiny"
    write_model_with_card(folder)
    (folder / CARD).write_text(text)
    with pytest.raises(ModelError, match="card.json is (damaged|not a model card): "):
        PropertyModel.from_pretrained(folder)
