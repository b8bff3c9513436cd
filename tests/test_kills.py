"""benchmarks/kills: a short case of each command, and faults of the package that it finds."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from molsepnorm.files import writing
from molsepnorm.training.completing import baseline

ROOT = Path(__file__).parents[1]
NAMES = (
    *("train", "train-ensemble", "train-from", "train-probe", "pretrain", "prepare", "check"),
    *("predict", "predict-parquet", "embed", "screen", "explain", "ensemble", "share"),
    *("benchmark", "tune"),
)


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.kills.{name}")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        patch.setattr(baseline, "_MIN_SECONDS", float("inf"))  # all trees, on a slow machine, too
        work = tmp_path_factory.mktemp("kills").resolve()
        commands = module("commands")
        commands.prepare(work)
        yield module("campaign").Campaign(work, commands.COMMANDS)


def test_every_command_has_a_test(campaign: Any) -> None:
    assert set(NAMES) == set(campaign.commands)


@pytest.mark.claim(
    "A command that is killed at a random moment, or whose disk is full or read-only, leaves "
    "no half file and loses nothing; repeated or resumed, it gives the result of an "
    "undisturbed one."
)
@pytest.mark.parametrize("name", NAMES)
def test_a_killed_command_is_repeated_as_if_undisturbed(campaign: Any, name: str) -> None:
    case = campaign.try_case(name, "kill", campaign.moment(name, "kill", 0))
    assert (case.ended, case.found) == ("killed", ())


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_run_killed_while_its_last_model_is_replaced_is_resumed(
    campaign: Any, monkeypatch: pytest.MonkeyPatch, in_one_step: bool
) -> None:
    """Where a system cannot exchange folders, resuming the run restores the missing model."""
    if not in_one_step:
        monkeypatch.setattr(writing, "_exchange", lambda *_: False)
        monkeypatch.setattr(campaign, "_undisturbed", {})
    operations = campaign.undisturbed("train").outcome.operations
    opened = [
        each.kind == "open" and each.path.endswith("/model.safetensors") for each in operations
    ]
    at = len(opened) - opened[::-1].index(True)  # after the last time
    replaced = ("remove", "") if in_one_step else ("rename", "run/model")
    while (operations[at].kind, operations[at].to) != replaced:
        at += 1
    case = campaign.try_case("train", "kill", at)
    assert case.ended == "killed"
    assert case.found == (() if in_one_step else ("run/model is gone",))


@pytest.mark.parametrize("fault", ["full", "readonly"])
@pytest.mark.parametrize("name", ["prepare", "check", "predict", "embed", "ensemble", "share"])
def test_a_full_disk_and_a_read_only_folder_give_a_message(
    campaign: Any, name: str, fault: str
) -> None:
    case = campaign.try_case(name, fault, 1)
    assert (case.ended, case.found) == ("failed", ())


def test_a_real_disk_that_fills_up_gives_a_message(campaign: Any) -> None:
    case = campaign.try_case("predict-parquet", "disk", 4096)
    if case is None:
        pytest.skip("a small disk can be mounted by root only")
    assert (case.ended, case.found) == ("failed", ())


def write_in_place(arguments: Sequence[str]) -> int:
    """Write a file under its final name, with another one in between."""
    with open("out.csv", "w") as file:
        file.write("a,b\n1,2\n3,")
        file.flush()
        Path("other.json").write_text("{}")
        file.write("4\n")
    return 0


def remove_and_write(arguments: Sequence[str]) -> int:
    """Put a file into place, and then move it away before the next one is there."""
    for number in (1, 2):
        Path(".new").write_text(f"{number}\n")
        if number == 2:
            os.replace("out.txt", ".old")
        os.replace(".new", "out.txt")
    return 0


def test_half_files_and_gaps_are_found(campaign: Any, tmp_path: Path) -> None:
    run, checks = module("faults").run, module("checks")
    for place, do in (("half", write_in_place), ("gap", remove_and_write)):
        (tmp_path / place).mkdir()
        operations = run((), tmp_path / place, command=do).operations
        assert (
            checks.incomplete(tmp_path / place) == checks.lost(tmp_path / place, operations) == []
        )
        for path in (tmp_path / place).iterdir():
            path.unlink()
    half = run((), tmp_path / "half", "kill", 1, write_in_place)
    assert half.killed and half.stage == "opening other.json"
    assert [each.split(":")[0] for each in checks.incomplete(tmp_path / "half")] == [
        "out.csv is incomplete"
    ]
    gap = run((), tmp_path / "gap", "kill", 4, remove_and_write)
    assert gap.killed and checks.lost(tmp_path / "gap", gap.operations) == ["out.txt is gone"]


def test_differences_name_files_and_leave_times_out(campaign: Any, tmp_path: Path) -> None:
    for place, seconds, score in (("a", 1, 2), ("b", 3, 2), ("c", 1, 4)):
        (tmp_path / place).mkdir()
        content = f'{{"seconds": {seconds}, "val": {{"mae": {score}}}}}'
        (tmp_path / place / "metrics.json").write_text(content)
    (tmp_path / "c" / ".x.partial").write_text("")
    differences = module("checks").differences
    assert differences(tmp_path / "b", tmp_path / "a") == []
    found = differences(tmp_path / "c", tmp_path / "a")
    assert found == [".x.partial is left over", "metrics.json differs"]


def test_a_missing_report_is_no_difference_where_the_output_says_so() -> None:
    unannounced = module("checks").unannounced
    found = ["run/best/report.html is missing", ".lock is left over", "run/metrics.json differs"]
    assert unannounced(found, "The model has 3 targets.", "full") == found
    assert unannounced(found, "The model has 3 targets.", "readonly") == [found[0], found[2]]
    said = "The report of the run could not be written: permission denied"
    assert unannounced(found, said, "full") == found[1:]


def test_tracebacks_and_errors_without_a_message_are_found(campaign: Any, tmp_path: Path) -> None:
    run, unclear = module("faults").run, module("checks").unclear

    def fails(arguments: Sequence[str]) -> int:
        raise ValueError("a mistake")

    assert "a mistake" in unclear(run((), tmp_path, command=fails))[0]
    assert "without a message" in unclear(run((), tmp_path, command=lambda _: 1))[0]
    assert unclear(run((), tmp_path, command=lambda _: 0)) == []
