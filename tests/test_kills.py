"""benchmarks/kills: every command after a fault, and what the comparison finds."""

from __future__ import annotations

import pytest

from benchmarks import kills
from molsepnorm.files import writing


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> kills.Campaign:
    return kills.Campaign(tmp_path_factory.mktemp("kills").resolve())


@pytest.mark.claim(
    "A command that is killed at a random moment, or whose disk is full or read-only, leaves "
    "no half file and loses nothing; repeated or resumed, it gives the result of an "
    "undisturbed one."
)
@pytest.mark.parametrize("name", kills.COMMANDS)
def test_a_killed_command_is_repeated_as_if_undisturbed(
    campaign: kills.Campaign, name: str
) -> None:
    outcome, found = campaign.try_case(name, "kill", campaign.moment(name, "kill", 0))
    assert (outcome.killed, found) == (True, [])


@pytest.mark.parametrize("fault", ["full", "readonly"])
@pytest.mark.parametrize("name", ["check", "predict-parquet", "ensemble"])
def test_a_full_disk_and_a_read_only_folder_give_a_message(
    campaign: kills.Campaign, name: str, fault: str
) -> None:
    outcome, found = campaign.try_case(name, fault, 1)
    assert (outcome.code, found) == (1, [])


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_run_killed_while_its_last_model_is_replaced_is_resumed(
    campaign: kills.Campaign, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    """Where a system cannot exchange folders, resuming the run restores the missing model."""
    if not in_one_step:
        monkeypatch.setattr(writing, "_exchange", lambda *_: False)
        monkeypatch.setattr(campaign, "known", {})
    operations = campaign.undisturbed("train")[1].operations
    replaced = ("os.remove", "") if in_one_step else ("os.rename", "run/model")
    written = [i for i, each in enumerate(operations) if each[1].endswith("/model.safetensors")]
    opened = max(i for i in written if operations[i][0] == "open")
    at = next(i for i in range(opened, 9999) if operations[i][::2] == replaced)
    outcome, found = campaign.try_case("train", "kill", at)
    assert outcome.killed
    assert found == ([] if in_one_step else ["run/model is gone"])
