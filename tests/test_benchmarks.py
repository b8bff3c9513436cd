"""benchmarks/: interleaved timing, the table, missing peers and whole commands."""

from __future__ import annotations

import doctest
import importlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

pytestmark = pytest.mark.usefixtures("benchmarks")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


class Clock:
    """A clock that advances only during work."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked: list[tuple[str, int]] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, seconds: float, units: float = 1) -> Callable[[int], float]:
        def work(turn: int) -> float:
            self.now += seconds
            self.worked.append((name, turn))
            return units

        return work


def row(**given: Any) -> Any:
    """Return a row of rates, with these changes."""
    fields = {"what": "doing", "unit": "graphs/s", "ours": [1.0], **given}
    return module("interleaved").Row(**fields)


def test_works_are_interleaved() -> None:
    """After the warm-up each work runs once in every round, in order."""
    interleaved, clock = module("interleaved"), Clock()
    works = {name: clock.work(name, 1) for name in ("ours", "peer", "bound")}
    plan = interleaved.Plan(seconds=0, min_rounds=2, max_rounds=9, round_seconds=0, warm_ups=1)
    rates = interleaved.interleave(works, plan, clock)
    once = [("ours", 0), ("peer", 0), ("bound", 0)]
    assert clock.worked == [*once, *once, ("ours", 1), ("peer", 1), ("bound", 1)]
    assert {name: len(values) for name, values in rates.items()} == dict.fromkeys(works, 2)


def test_a_rate_is_units_over_seconds_and_a_short_work_repeats() -> None:
    """A round of 1 s holds four works of 0.25 s, or one of 8 s."""
    interleaved, clock = module("interleaved"), Clock()
    works = {"quick": clock.work("quick", 0.25, 10), "slow": clock.work("slow", 8, 4)}
    plan = interleaved.Plan(seconds=0, min_rounds=1, round_seconds=1, warm_ups=0)
    assert interleaved.interleave(works, plan, clock) == {"quick": [40.0], "slow": [0.5]}
    assert clock.worked == [("quick", 0)] * 4 + [("slow", 0)]


@pytest.mark.parametrize(
    ("seconds", "min_rounds", "max_rounds", "expected"),
    [(10, 2, 60, 5), (10, 7, 60, 7), (10, 1, 3, 3)],
)
def test_timing_ends_when_the_slowest_work_had_its_time(
    seconds: float, min_rounds: int, max_rounds: int, expected: int
) -> None:
    """The minimum and maximum number of rounds take precedence."""
    interleaved, clock = module("interleaved"), Clock()
    works = {"ours": clock.work("ours", 0.5), "peer": clock.work("peer", 2)}
    plan = interleaved.Plan(seconds, min_rounds, max_rounds, round_seconds=0)
    assert len(interleaved.interleave(works, plan, clock)["ours"]) == expected


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """It is not the ratio of the medians; a lower cost is better."""
    ours, peer = [10.0, 20.0, 90.0], [1.0, 10.0, 30.0]
    assert asdict(row(ours=ours, peer=peer).ratio) == {"median": 3, "min": 2, "max": 10}
    seconds = row(unit="s", ours=peer, peer=ours, bound=[0.5, 1.0, 3.0])
    assert seconds.ratio.median == 3
    assert seconds.share.median == 0.1


@pytest.mark.parametrize(
    ("of", "value", "met"),
    [("ratio", 2, True), ("ratio", 2.1, False), ("share", 0.5, True), ("share", 0.6, False)],
)
def test_a_target_is_met_or_missed(of: str, value: float, met: bool) -> None:
    """Ours is 4, the peer 2 and the bound 8; without a peer its ratio is unknown."""
    target = module("interleaved").Target(of, value)
    assert row(ours=[4.0], peer=[2.0], bound=[8.0], target=target).met is met
    assert row(target=target).met is None


def test_the_table_has_every_cell() -> None:
    """Several rows with the same note share it."""
    target = module("interleaved").Target
    rows = [
        row(
            ours=[1000.0, 1300.0],
            peer=[500.0, 520.0],
            peer_name="theirs",
            bound=[4000.0, 4000.0],
            bound_name="copying",
            target=target("ratio", 4),
        ),
        row(
            what="starting", unit="s", ours=[1.5], target=target("share", 1), remark="no peer: none"
        ),
        row(what="stopping", unit="s", ours=[0.5], remark="no peer: none"),
    ]
    lines = module("table").markdown(rows).splitlines()
    assert lines[0].count("|") == lines[1].count("|") == 8
    assert lines[2:] == [
        "| doing, graphs/s | 1,150 (1,000 to 1,300) | 510 (500 to 520) | 2.25 × (2 × to 2.5 ×) "
        "| ≥ 4 ×: **missed** | 4,000 | 29 % (25 % to 32 %) |",
        "| starting, s | 1.5 |  |  | ≥ 100 % of the bound: unknown |  |  |",
        "| stopping, s | 0.5 |  |  |  |  |  |",
        "",
        "- doing: peer: theirs; bound: copying; 2 rounds.",
        "- starting / stopping: one round; no peer: none.",
    ]


@pytest.mark.parametrize("name", ["table", "lower_bounds"])
def test_examples_of_docstrings_run(name: str) -> None:
    """Those of the docstrings, which are outside the package."""
    result = doctest.testmod(module(name))
    assert result.attempted
    assert not result.failed


def test_every_stage_has_a_function() -> None:
    stages = module("stages")
    assert all(callable(stages.function(name)) for name in stages.STAGES)


def test_an_unknown_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the known ones; nothing is measured."""
    assert module("speed").main(["train", "trian"]) == 2
    printed = capsys.readouterr().err
    assert "unknown stage(s) trian; known: features, " in printed


def test_a_stage_that_fails_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is the end of its output; the other figures are written."""
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    options = ["features", "--quick", "--scratch", str(tmp_path), "--out", str(tmp_path)]
    assert module("speed").main(options) == 1
    assert "set MOLSEPNORM_DATA to the folder of real data sets" in capsys.readouterr().err
    assert "**Failed: features.**" in (tmp_path / "features.md").read_text()
    assert json.loads((tmp_path / "features.json").read_text())["rows"] == []


def test_a_quick_measurement_has_one_round(tmp_path: Path) -> None:
    settings = module("stages").Settings
    quick, full = (settings(None, quick, tmp_path) for quick in (True, False))
    assert quick.plan(min_rounds=9) == module("interleaved").Plan(10.0, 1, 1, 0.0)
    assert full.plan(min_rounds=9).min_rounds == 9
    assert (quick.count(9, 2), full.count(9, 2)) == (2, 9)


def test_a_missing_chemprop_is_reported(tmp_path: Path) -> None:
    """It is not given, or does not exist."""
    peers, chemprop = module("peers"), module("peers.chemprop")
    with pytest.raises(peers.PeerMissing, match="was not given: --chemprop PATH or CHEMPROP=PATH"):
        chemprop.executable(None)
    with pytest.raises(peers.PeerMissing, match=r"there is no chemprop at .*nowhere"):
        chemprop.executable(tmp_path / "nowhere")


@pytest.mark.parametrize("found", ["5.0.0", None])
def test_a_missing_transformers_is_reported(
    monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    """It has another version, or is not installed."""
    peers, theirs = module("peers"), module("peers.hf_graphormer")

    def version(package: str) -> str:
        if found is None:
            raise theirs.PackageNotFoundError(package)
        return found

    monkeypatch.setattr(theirs, "version", version)
    expected = (
        "5.0.0 is installed, not 4" if found else "cannot be used .*pip install -r benchmarks/"
    )
    for make in (theirs.slim, theirs.collator, theirs.preprocessor):
        with pytest.raises(peers.PeerMissing, match=expected):
            make()


def test_a_stage_runs_without_its_peer(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row has a remark."""
    theirs, missing = module("peers.hf_graphormer"), module("peers").PeerMissing

    def preprocessor() -> None:
        raise missing("it is away")

    monkeypatch.setattr(theirs, "preprocessor", preprocessor)
    settings = module("stages").Settings(None, True, tmp_path)
    (only,) = module("stages.network").train(settings)
    assert len(only.ours) == len(only.bound) == 1
    assert only.peer == () and "no peer: it is away" in only.remark


def test_the_bound_of_training_is_three_times_that_of_a_forward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In multiplications; a forward pass of SLIM has 12 · (6 C² M + 2 C Σ S²)."""
    bounds, counts = module("lower_bounds"), []
    rectangles = bounds.padded_groups(np.array([3, 5, 6, 6]), count=2)
    works = [bounds.matrix_products(rectangles, backward) for backward in (False, True)]
    multiply = torch.matmul

    def counted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        counts[-1] += a.numel() * b.shape[-1]
        return multiply(a, b)

    monkeypatch.setattr(torch, "matmul", counted)
    for work in works:
        counts.append(0)
        work()
    slots, squares = 2 * 5 + 2 * 6, 2 * 5**2 + 2 * 6**2
    assert counts[0] == 12 * (6 * 80**2 * slots + 2 * 80 * squares)
    assert counts[1] == 3 * counts[0]


def test_memory_includes_the_processes_that_a_command_starts(tmp_path: Path) -> None:
    """Both hold 48 MiB for half a second."""
    commands = module("commands")
    holding = "import time; held = bytearray(48 << 20); time.sleep(0.5)"
    starting = (
        f"import subprocess, sys; one = subprocess.Popen([sys.executable, '-c', {holding!r}])"
    )
    command = commands.script(f"{starting}; {holding}; one.wait()")
    usage = commands.measured(command, tmp_path)
    assert 96 / 1024 < usage.memory < 0.5
    assert usage.seconds > 0.5 and usage.cpu_seconds > 0


def test_a_command_that_fails_ends_the_stage(tmp_path: Path) -> None:
    """The message has its status and the end of its output."""
    commands = module("commands")
    with pytest.raises(SystemExit, match=r"(?s)exit status 3: .*python.*oh no"):
        commands.run(commands.script("print('oh no'); raise SystemExit(3)"), tmp_path)


def test_contrastive_learning_trains_every_norm(tmp_path: Path) -> None:
    """The command passes its options on; the training itself has tests of its own."""
    command = module("geometry.contrastive")
    with pytest.MonkeyPatch.context() as patch:
        calls: list[Any] = []
        patch.setattr(command, "ablate", lambda *given, **more: calls.append((given, more)))
        options = ["--seeds", "0-1", "--epochs", "3", "--temperature", "0.1", "-o", str(tmp_path)]
        done = CliRunner().invoke(command.main, options)
    assert done.exit_code == 0, done.output
    (((config, output, variants), more),) = calls
    objective = config.objective
    assert (objective.name, objective.contrastive, objective.temperature) == ("pretraining", 1, 0.1)
    assert (objective.descriptors, objective.fingerprint) == (0, 0)
    assert (config.run.epochs, config.optim.ema, output) == (3, None, tmp_path)
    assert variants == {"norm": ["shared", "sep", "sep-ln"]} and more == {"seeds": [0, 1]}
