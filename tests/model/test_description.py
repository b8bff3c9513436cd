"""`config.json` of a model folder: damaged, changed, forged and newer descriptions."""

from __future__ import annotations

import copy
import functools
import json

import numpy as np
import pytest

from model_folders import change_description, outputs_of, small_model
from molsepnorm.errors import ModelError, MolsepnormError
from molsepnorm.files.digests import json_digest
from molsepnorm.model import SCHEMA, PropertyModel


def test_a_folder_of_a_newer_version_is_refused(tmp_path):
    small_model().save_pretrained(tmp_path)
    change_description(
        tmp_path / "config.json", lambda about: about.update(schema=SCHEMA + 1, molsepnorm="9.9")
    )
    with pytest.raises(
        ModelError,
        match=rf"config.json was written by molsepnorm 9.9 \(schema {SCHEMA + 1}\), and this is "
        r".*: upgrade molsepnorm to use this model",
    ):
        PropertyModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "new"}', "[" * 200_000])
def test_invalid_json_is_refused(tmp_path, text):
    small_model().save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match="config.json (is damaged|does not describe a model)"):
        PropertyModel.from_pretrained(tmp_path)


def test_a_changed_description_is_refused(tmp_path):
    """So is one without digests. Formatting does not count as a change."""
    small_model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about, indent=7, sort_keys=True))
    PropertyModel.from_pretrained(tmp_path)
    about["task"]["targets"][0]["name"] = "log S"
    path.write_text(json.dumps(about))
    with pytest.raises(ModelError, match="was changed: its content does not match its digest"):
        PropertyModel.from_pretrained(tmp_path)
    del about["sha256"]
    path.write_text(json.dumps(about))
    with pytest.raises(ModelError, match="was changed: its content does not match its digest"):
        PropertyModel.from_pretrained(tmp_path)


def _forge(about) -> None:
    """Enter the matching digest, as if a faulty program had written the file."""
    del about["sha256"]["config.json"]
    about["sha256"]["config.json"] = json_digest(about)


STRANGE = [
    *(None, True, 0, -1, 3, 10**9, 10**30, 10**400, 0.5, -0.5, 1e300, float("nan"), float("inf")),
    *("", "1", "sep", "\ud800", "\0", "x" * 100_000),
    *([], [1], ["a"], [[]], [None] * 5, {}, {"a": 1}),
]


def _entries(content, where=()):
    """Yield the path of every entry of JSON content."""
    parts = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in parts:
        yield (*where, key)
        if isinstance(value, dict | list):
            yield from _entries(value, (*where, key))


def test_any_value_of_any_entry_is_read_or_refused(tmp_path):
    """With the digests of a faulty program: it is a model that works, or it is refused with a
    message that names the file."""
    model = small_model()
    model.save_pretrained(tmp_path)
    path, outputs = tmp_path / "config.json", outputs_of(model)
    about = json.loads(path.read_text())
    tried = 0
    for number, entry in enumerate(_entries(about)):
        rng = np.random.default_rng(number)
        for choice in rng.choice(len(STRANGE), 5, replace=False):
            changed = copy.deepcopy(about)
            parent = functools.reduce(lambda part, key: part[key], entry[:-1], changed)
            parent[entry[-1]] = STRANGE[choice]
            if entry[0] != "sha256":
                _forge(changed)
            path.write_text(json.dumps(changed))
            tried += 1
            try:
                again = PropertyModel.from_pretrained(tmp_path)
            except MolsepnormError as error:
                assert str(tmp_path) in str(error)
                assert len(str(error)) < 1000
            else:
                found = again.task.predictions(outputs_of(again))
                assert found.shape == outputs.shape
    assert tried > 250
