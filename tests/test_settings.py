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
    assert "objective.temperature" in SETTINGS  # which only one objective has
    for setting in SETTINGS.values():
        assert setting.text.rstrip().endswith((".", "…")), setting.name


def test_a_setting_has_the_type_bounds_and_default_of_its_field():
    lr, norm, targets = (SETTINGS[name] for name in ("optim.lr", "model.norm", "data.targets"))
    assert (lr.type, lr.bounds, lr.default, lr.options) == ("number", "> 0", 5e-4, ("--lr",))
    assert (norm.type, norm.choices[0], norm.heading) == ("choice", "sep", "Network")
    assert (targets.type, targets.default) == ("list", None)
    assert targets.options == ("--targets", "--target-columns")
    assert SETTINGS["data.folds"].bounds == "≥ 2"
    assert SETTINGS["model.layers"].bounds == "≥ 1"
    assert SETTINGS["model.urpe"].type == "yes or no"
    assert SETTINGS["data.table"].type == "path"


def test_option_spellings_are_unique():
    spellings = [name for setting in SETTINGS.values() for name in setting.options]
    assert len(set(spellings)) == len(spellings)
