"""benchmarks/fuzz: every kind runs, and faults, crashes and hangs are found and repeated."""

from __future__ import annotations

import ast
import importlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
CASES = 3  # of each kind


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.fuzz.{name}")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The folder of a campaign; the cache of the other tests is restored afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        patch.setenv("MOLSEPNORM_CACHE", "set by the campaign")
        patch.delenv("MOLSEPNORM_DATA", raising=False)
        yield module("work").prepare(tmp_path_factory.mktemp("fuzz"))


def kind(check: Any) -> SimpleNamespace:
    return SimpleNamespace(__name__="a kind", check=check, make=lambda rng, _: {}, PARTS=("text",))


def test_every_command_can_be_drawn(work: Any) -> None:
    """Commands below a group, too; the words of each are found again in a command line."""
    commands = module("kinds.commands")
    assert {"train", "tune", "share", "explain", "data check", "models verify"} <= set(
        commands.COMMANDS
    )
    for name, command in commands.COMMANDS.items():
        words = commands._bare(random.Random(0), name)
        assert words[: len(name.split())] == name.split()
        assert len(commands._options_of(words)) == sum(
            isinstance(each, click.Option) for each in command.params
        )


def test_every_kind_runs(work: Any) -> None:
    """Cases run in order, and none of them is a mistake of the campaign itself."""
    run = module("frame")
    for name, each in module("kinds").KINDS.items():
        cases = [run.draw(each, 0, number, work) for number in range(CASES)]
        assert cases == [run.draw(each, 0, number, work) for number in range(CASES)], name
        found = [run.run_case(each, case, work) for case in cases]
        own = [each for each in found if each and each.promise == "the campaign itself"]
        assert not own, (name, own)


def crash(case: dict[str, Any], work: Any) -> None:
    if case["text"] == "crash":
        os.kill(os.getpid(), signal.SIGKILL)


def hang(case: dict[str, Any], work: Any) -> None:
    while case["text"] == "busy":
        pass
    if case["text"] == "asleep":
        time.sleep(60)


def leave(case: dict[str, Any], work: Any) -> None:
    if case["text"] == "leave":
        os._exit(3)


def test_deaths_and_hangs_are_findings(work: Any) -> None:
    run = module("frame")

    def outcomes(check: Any, *texts: str) -> list[str]:
        slow = kind(check)
        slow.SECONDS = 0.4
        found = [run.run_case(slow, {"text": text}, work) for text in texts]
        return [each.key if each else "" for each in found]

    assert outcomes(crash, "", "crash", "") == ["", "SIGKILL", ""]
    assert outcomes(hang, "asleep", "") == ["hang SIGALRM", ""]
    assert outcomes(hang, "", "busy") == ["", "hang SIGXCPU"]
    assert outcomes(leave, "leave", "") == ["the interpreter left with status 3", ""]


def test_each_promise_notices_when_it_is_broken(work: Any, tmp_path: Path) -> None:
    promises, command = module("promises"), module("work").command
    result = module("work").Result
    Broken = promises.Broken
    with pytest.raises(Broken, match="ZeroDivisionError"):
        try:
            _ = 1 / 0
        except ZeroDivisionError as error:
            promises.our_error(error)
    with pytest.raises(Broken, match="not of the package"):
        try:
            raise ValueError("not of the package")
        except ValueError as error:
            promises.our_error(error, library=True)
    with pytest.raises(Broken, match="exit status 9"):
        promises.clean_exit(result(9, "", "", None))
    with pytest.raises(Broken, match="Traceback"):
        promises.clean_exit(result(1, "", "Traceback (most recent call last)", None))
    with pytest.raises(Broken, match="without a message"):
        promises.clean_exit(result(1, "", " ", None))
    with pytest.raises(Broken, match="escape sequences"):
        promises.clean_exit(result(0, "\x1b[31m", "", None))
    promises.clean_exit(result(0, "\x1b[31m", "", None), data=True)
    with pytest.raises(Broken, match="escape sequences"):
        promises.clean_exit(result(0, "", "\x1b[31m", None), data=True)
    promises.clean_exit(command(["data", "list"]))
    (tmp_path / "split.csv").write_bytes(b"a,b\n1,x\ry\n")
    with pytest.raises(Broken, match=r"split\.csv"):
        promises.read_back(tmp_path / "split.csv")
    with pytest.raises(Broken, match="2 rows became 1"):
        promises.same_rows([["a"], ["1"], ["2"]], [["a"], ["1"]])
    with pytest.raises(Broken, match="row changed"):
        promises.same_rows([["a"], ["1"]], [["a"], ["2"]])
    for values, error in (([1.0], "why"), ([""], None), ([float("nan")], None), (["1", "inf"], "")):
        with pytest.raises(Broken):
            promises.number_or_reason(values, error, "CCO")
    promises.number_or_reason([1.0, "2", "red"], None, "CCO")
    with pytest.raises(Broken, match="became"):
        promises.same_numbers({"y": 1.0}, {"y": 1.1}, "predictions")


def test_findings_shrink_and_can_be_repeated(work: Any, tmp_path: Path) -> None:
    """The finding of a fault somewhere in a long text is short and listed once."""
    fuzz, kinds, promises = module("frame"), module("kinds"), module("promises")

    def check(case: dict[str, Any], work: Any) -> None:
        if "!" in case["text"]:
            raise promises.Broken("no mark", "there is a mark")

    broken = kind(check)
    broken.make = lambda rng, _: {"text": "".join(rng.choices("abcdefg!", k=200))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(kinds.KINDS, "broken", broken)
        campaign = fuzz.Campaign(work, 0, tmp_path)
        campaign.run(("broken",), 1, 5)
        assert campaign.found == {("broken", "no mark", "there is a mark"): 5}
        (kept,) = tmp_path.glob("*.py")
        assert "'case': {'text': '!'}" in kept.read_text()
        campaign.found.clear()
        campaign.replay(ast.literal_eval(kept.read_text()))
        assert campaign.found == {("broken", "no mark", "there is a mark"): 1}


def test_the_help_lists_every_kind() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        shown = CliRunner().invoke(module("__main__").main, ["--help"])
        assert shown.exit_code == 0
        assert all(name in shown.output for name in module("kinds").KINDS)
