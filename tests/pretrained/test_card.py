"""Model cards: what they hold, and how invalid ones are refused."""

from __future__ import annotations

import json

import pytest

from molsepnorm.errors import ModelError
from molsepnorm.model import PropertyModel
from molsepnorm.pretrained import CARD, read_card
from support import write_model_with_card


def test_a_card_is_read_back(tmp_path):
    card = write_model_with_card(tmp_path / "tiny")
    assert read_card(tmp_path / "tiny") == card


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("excludes", ["zinc"], "excludes: Input should be an object"),
        ("sources", [], "at least one source and one objective"),
        ("sources", [{"name": "x", "molecules": 5}], "sources.0.sha256: .*required"),
        ("weights_sha256", "abc", "64 hexadecimal digits; got 'abc'"),
        ("parameters", 0, "a model has parameters"),
        ("author", "me", "author: Unexpected"),
        ("end_points", {"logS": {"title": "solubility"}}, "end_points.logS.category: .*required"),
    ],
)
def test_an_invalid_card_is_refused(tmp_path, entry, value, message):
    """The message names the file and the entry. A model is loaded unless its exclusions are
    invalid."""
    folder = tmp_path / "tiny"
    card = write_model_with_card(folder)
    content = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**content, entry: value}))
    with pytest.raises(ModelError, match=f"card.json is not a model card: .*{message}"):
        read_card(folder)
    if entry == "excludes":
        with pytest.raises(ModelError, match=f"card.json is not a model card: .*{message}"):
            PropertyModel.from_pretrained(folder)
    else:
        assert PropertyModel.from_pretrained(folder).excludes == card.excludes


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"excludes": null}'])
def test_a_damaged_card_is_refused(tmp_path, text):
    """A model is not loaded without its exclusions."""
    folder = tmp_path / "tiny"
    write_model_with_card(folder)
    (folder / CARD).write_text(text)
    with pytest.raises(ModelError, match="card.json is (damaged|not a model card): "):
        PropertyModel.from_pretrained(folder)
