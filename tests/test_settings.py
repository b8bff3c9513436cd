"""The options and the page of all settings follow from the settings' declaration."""

from __future__ import annotations

import pytest
from settings import OPTIONS, PAGE, markdown, options_json, settings

from molsepnorm.training.config import TrainConfig

SETTINGS = {setting.name: setting for setting in settings()}


@pytest.mark.parametrize(("path", "written"), [(OPTIONS, options_json), (PAGE, markdown)])
def test_committed_files_match_the_declarations(path, written):
    assert path.read_text(encoding="utf-8") == written(), "run `make settings` and commit"


def test_every_setting_has_a_description():
    fields = {
        f"{section}.{name}"
        for section, values in TrainConfig(data={"dataset": "zinc"}).content().items()
        for name in values
    }
    assert fields <= set(SETTINGS)
    assert "objective.descriptor_share" in SETTINGS  # which only one objective has
    for setting in SETTINGS.values():
        assert setting.text.rstrip().endswith((".", "…")), setting.name


def test_option_spellings_are_unique():
    spellings = [name for setting in SETTINGS.values() for name in setting.options]
    assert len(set(spellings)) == len(spellings)
