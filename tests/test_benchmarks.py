"""The arithmetic of benchmarks/: turns, ratios, the table, and what happens without a peer."""

from __future__ import annotations

import doctest
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from molsepnorm.data.datasets import DataConfig
from molsepnorm.data.datasets import load as load_dataset
from molsepnorm.data.datasets.cached import LabelledGraph, cached_set, cached_store
from molsepnorm.data.datasets.dataset import Dataset
from molsepnorm.interop.graphormer_weights.parity import MOLECULES, reference_inputs
from molsepnorm.molecules import featurize
from molsepnorm.molecules.encodings import EncodingSpec

pytestmark = pytest.mark.usefixtures("benchmarks")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


class Clock:
    """Stands still until someone works."""

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
    """A row of rates, unless told otherwise."""
    return module("turns").Row(
        **{"stage": "s", "what": "doing", "unit": "graphs/s", "ours": [1.0], **given}
    )


def test_contestants_take_turns() -> None:
    """After the warm-up each works once in every turn, in order."""
    turns, clock = module("turns"), Clock()
    contestants = {name: clock.work(name, 1) for name in ("ours", "peer", "floor")}
    plan = turns.Plan(seconds=0, least=2, most=9, turn_seconds=0, warm_ups=1)
    rates = turns.in_turns(contestants, plan, clock)
    once = [("ours", 0), ("peer", 0), ("floor", 0)]
    assert clock.worked == [*once, *once, ("ours", 1), ("peer", 1), ("floor", 1)]
    assert {name: len(values) for name, values in rates.items()} == dict.fromkeys(contestants, 2)


def test_a_rate_is_units_over_seconds_and_a_short_work_is_repeated() -> None:
    """A turn of 1 s holds four works of 0.25 s, or one of 8 s."""
    turns, clock = module("turns"), Clock()
    contestants = {"quick": clock.work("quick", 0.25, 10), "slow": clock.work("slow", 8, 4)}
    plan = turns.Plan(seconds=0, least=1, turn_seconds=1, warm_ups=0)
    assert turns.in_turns(contestants, plan, clock) == {"quick": [40.0], "slow": [0.5]}
    assert clock.worked == [("quick", 0)] * 4 + [("slow", 0)]


@pytest.mark.parametrize(
    ("seconds", "least", "most", "expected"), [(10, 2, 60, 5), (10, 7, 60, 7), (10, 1, 3, 3)]
)
def test_it_ends_when_the_slowest_had_its_time(
    seconds: float, least: int, most: int, expected: int
) -> None:
    """But not before the least number of turns, nor after the greatest."""
    turns, clock = module("turns"), Clock()
    contestants = {"ours": clock.work("ours", 0.5), "peer": clock.work("peer", 2)}
    plan = turns.Plan(seconds, least, most, turn_seconds=0)
    assert len(turns.in_turns(contestants, plan, clock)["ours"]) == expected


def test_the_ratio_is_the_median_of_the_turns_ratios() -> None:
    """Which is not the ratio of the medians; less is better of a cost."""
    ours, peer = [10.0, 20.0, 90.0], [1.0, 10.0, 30.0]
    assert asdict(row(ours=ours, peer=peer).ratio) == {"median": 3, "least": 2, "greatest": 10}
    seconds = row(unit="s", ours=peer, peer=ours, floor=[0.5, 1.0, 3.0])
    assert seconds.ratio.median == 3
    assert seconds.share.median == 0.1
    assert seconds.peer_share.least == pytest.approx(3 / 90)


@pytest.mark.parametrize(
    ("of", "bound", "met"),
    [
        *(("ratio", 2, True), ("ratio", 2.1, False), ("share", 0.5, True), ("share", 0.6, False)),
        *(("ours", 4, True), ("ours", 5, False), ("growth", 1, True), ("growth", 0.9, False)),
    ],
)
def test_what_was_asked(of: str, bound: float, met: bool) -> None:
    """Of a rate of 4 beside a peer's 2 and a floor of 8."""
    asked = module("turns").Asked(of, bound)
    assert row(ours=[4.0], peer=[2.0], floor=[8.0], asked=asked).met is met


def test_what_was_asked_is_unknown_without_a_peer() -> None:
    """And of a cost no more than the bound is asked."""
    turns = module("turns")
    assert row(asked=turns.Asked("ratio", 2)).met is None
    assert row(unit="GiB", ours=[1.5], asked=turns.Asked("ours", 2)).met is True
    assert row(unit="GiB", ours=[2.5], asked=turns.Asked("ours", 2)).met is False


def test_the_table() -> None:
    """Every cell, with and without contestants, and the same note once for several rows."""
    asked = module("turns").Asked
    rows = [
        row(
            ours=[1000.0, 1300.0],
            peer=[500.0, 520.0],
            peer_name="theirs",
            floor=[4000.0, 4000.0],
            floor_name="copying",
            asked=asked("ratio", 4),
        ),
        row(what="starting", unit="s", ours=[1.5], asked=asked("ours", 2), remark="no peer: none"),
        row(what="stopping", unit="s", ours=[0.5], remark="no peer: none"),
    ]
    lines = module("table").markdown(rows).splitlines()
    assert lines[0].count("|") == lines[1].count("|") == 8
    assert lines[2:] == [
        "| doing, graphs/s | 1,150 (1,000 to 1,300) | 510 (500 to 520) | 2.25 × (2 × to 2.5 ×) "
        "| ≥ 4 ×: **missed** | 4,000 | 29 % (25 % to 32 %) |",
        "| starting, s | 1.5 |  |  | ≤ 2 s: met |  |  |",
        "| stopping, s | 0.5 |  |  |  |  |  |",
        "",
        "- doing: peer: theirs; floor: copying; 2 turns.",
        "- starting / stopping: one turn; no peer: none.",
    ]


@pytest.mark.parametrize("name", ["table", "floors"])
def test_examples(name: str) -> None:
    """Those of the docstrings, which are outside of the package."""
    result = doctest.testmod(module(name))
    assert result.attempted
    assert not result.failed


def test_every_stage_is_there() -> None:
    for stage in module("stages").STAGES.values():
        assert callable(getattr(module(f"stages.{stage.module}"), stage.function))


def test_an_unknown_stage(capsys: pytest.CaptureFixture[str]) -> None:
    """Is told beside the known ones, and nothing is measured."""
    assert module("run").main(["encode", "trian"]) == 2
    told = capsys.readouterr().err
    assert "unknown stage(s) trian; known: features, " in told


def test_a_stage_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Is told with the end of its output; what else was measured is kept."""
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    asked = ["collate", "--quick", "--scratch", str(tmp_path), "--out", str(tmp_path)]
    assert module("run").main(asked) == 1
    assert "set MOLSEPNORM_DATA to the folder of real data sets" in capsys.readouterr().err
    assert "**Failed: collate.**" in (tmp_path / "collate.md").read_text()
    assert json.loads((tmp_path / "collate.json").read_text())["rows"] == []


def test_figures_kept_are_drawn_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table and plot come from the JSON file alone."""
    pytest.importorskip("matplotlib")
    asked = module("turns").Asked("share", 0.5)
    rows = [row(ours=[3.0], peer=[1.0], floor=[4.0], asked=asked), row(what="other", unit="GiB")]
    circumstances = {"date": "2026-01-01", "commit": "abc", "machine": "m", "threads": "2 cores"}
    kept = {**circumstances, "versions": {"torch": "2"}, "minutes": 1, "quick": False, "failed": []}
    file = tmp_path / "speed.json"
    file.write_text(json.dumps({**kept, "rows": [asdict(each) for each in rows]}))
    assert module("run").main(["--redraw", str(file)]) == 0
    assert "| doing, graphs/s | 3 | 1 | 3 × | ≥ 50 % of the floor: met | 4 | 75 % |" in (
        capsys.readouterr().out
    )
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_settings_survive_the_way_to_a_stages_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flags make the same record; quick and turns change the plan."""
    settings, parser = module("settings").Settings, module("run")._parser()
    asked = ["--chemprop", "/c", "--turns", "3", "--quick", "--scratch", str(tmp_path)]
    one = settings.of(parser.parse_args(asked))
    assert one == settings.of(parser.parse_args(one.flags()))
    assert (one.plan(least=9).least, one.plan().most, one.plan().turn_seconds) == (3, 3, 0)
    monkeypatch.delenv("CHEMPROP", raising=False)
    plain = settings(None, None, False, tmp_path)
    assert plain == settings.of(module("run")._parser().parse_args(plain.flags()))
    assert plain.plan(least=9).least == 9


def test_a_missing_chemprop(tmp_path: Path) -> None:
    """Not given, or not there."""
    peers, chemprop = module("peers"), module("peers.chemprop")
    with pytest.raises(peers.PeerMissing, match="was not given: --chemprop PATH or CHEMPROP=PATH"):
        chemprop.executable(None)
    with pytest.raises(peers.PeerMissing, match=r"there is no chemprop at .*nowhere"):
        chemprop.executable(tmp_path / "nowhere")


@pytest.mark.parametrize("found", ["5.0.0", None])
def test_a_missing_transformers(monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    """Another version, or none."""
    peers, theirs = module("peers"), module("peers.hf_graphormer")

    def version(package: str) -> str:
        if found is None:
            raise theirs.PackageNotFoundError(package)
        return found

    monkeypatch.setattr(theirs, "version", version)
    expected = "5.0.0 is here, not 4" if found else "cannot be used .*pip install -r benchmarks/"
    for make in (theirs.slim, theirs.collator, theirs.preprocessor):
        with pytest.raises(peers.PeerMissing, match=expected):
            make()


def test_a_stage_without_its_peer(
    datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs without it, and says so."""
    theirs, missing = module("peers.hf_graphormer"), module("peers").PeerMissing

    def preprocessor() -> None:
        raise missing("it is away")

    monkeypatch.setattr(theirs, "preprocessor", preprocessor)
    settings = module("settings").Settings(None, 2, True, tmp_path)
    (only,) = module("stages.collate").collate(settings)
    assert len(only.ours) == len(only.floor) == 2
    assert only.peer == () and "no peer: it is away" in only.remark


def test_the_floor_of_training_is_three_times_that_of_a_forward_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted in multiplications; forward they are SLIM's 12 · (6 C² M + 2 C Σ S²)."""
    floors, counts = module("floors"), []
    rectangles = floors.in_blocks(np.array([3, 5, 6, 6]), blocks=2)
    works = [floors.matrix_products(rectangles, backward) for backward in (False, True)]
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


def test_memory_counts_the_processes_that_a_command_starts(tmp_path: Path) -> None:
    """Both hold 48 MiB of their own for half a second."""
    commands = module("commands")
    holding = "import time; held = bytearray(48 << 20); time.sleep(0.5)"
    starting = (
        f"import subprocess, sys; one = subprocess.Popen([sys.executable, '-c', {holding!r}])"
    )
    command = commands.script(f"{starting}; {holding}; one.wait()")
    usage = commands.measured(command, tmp_path)
    assert 96 / 1024 < usage.memory < 0.5
    assert usage.seconds > 0.5


def test_a_command_that_fails(tmp_path: Path) -> None:
    """Ends the stage with its status and the end of its output."""
    commands = module("commands")
    with pytest.raises(SystemExit, match=r"(?s)exit status 3: .*python.*oh no"):
        commands.run(commands.script("print('oh no'); raise SystemExit(3)"), tmp_path)


GPU_SMILES = ("C", "CCO", "C#N", "CC(=O)[O-].C[NH3+]", "c1ccccc1O", "N#CC(F)(Cl)C=CCCBr")


def small_set(folder: Path, bond_lengths: int = 20) -> Dataset:
    """Make a store of a few molecules with labels, in the format of ZINC's."""
    read = featurize.get("zinc")
    graphs = [read(smiles) for smiles in GPU_SMILES]
    spec = EncodingSpec((3,), max_path_length=bond_lengths)
    molecules = [LabelledGraph(2 * i, graph, (i / 3,)) for i, graph in enumerate(graphs)]
    splits = {"train": range(4), "val": [4], "test": [5]}
    store, labels = cached_set(str(folder), "zinc", spec, 1, molecules, splits)
    return Dataset("", store, labels.values, ("y",), ("regression",), labels.splits)


@pytest.mark.parametrize("lengths", [20, 2])
def test_packed_molecules_become_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: int
) -> None:
    """Byte for byte, also for another network than the one of the store that was packed."""
    packed = module("gpu.packed")
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    expected = small_set(Path("made"), lengths)
    packed.pack(small_set(Path("long")), tmp_path / "some.npz")
    spec = EncodingSpec((3,), max_path_length=lengths)
    unpacked = packed.unpack(tmp_path / "some.npz", "unpacked", spec)
    assert unpacked.path.read_bytes() == expected.store.path.read_bytes()


def test_a_packed_set_is_found_without_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name that a data set has which was downloaded before."""
    packed = module("gpu.packed")
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    monkeypatch.delenv("MOLSEPNORM_DATA", raising=False)
    packed.pack(small_set(Path("made")), tmp_path / "some.npz")
    packed.unpack(tmp_path / "some.npz", "zinc-full-downloaded", EncodingSpec((3,)))
    found = load_dataset(DataConfig(dataset="zinc-full"), EncodingSpec((3,)))
    assert [len(found.splits[name]) for name in ("train", "val", "test")] == [4, 1, 1]


def test_the_peers_inputs_are_those_of_its_own_preprocessing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of molecules whose shortest paths are the only ones; its collator shuts atoms off from each
    other that are 19 bonds apart or more."""
    monkeypatch.setenv("MOLSEPNORM_CACHE", str(tmp_path))
    read = featurize.get("zinc")
    graphs = [read(smiles) for smiles in MOLECULES["zinc"]]
    store = cached_store("peer", "zinc", EncodingSpec((3,)), enumerate(graphs))
    order = np.array([3, 0, 5, 1, 2, 4])
    found = module("gpu.peer").inputs(store, np.arange(6.0)[:, None], order)
    expected = reference_inputs([graphs[i] for i in order], "hf", "zinc", 20)
    expected["attn_bias"][:, 1:, 1:][expected["spatial_pos"] >= 20] = -torch.inf
    assert (expected["attn_bias"] == -torch.inf).any()
    assert found.pop("labels").tolist() == order.tolist()
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert torch.equal(value, expected[name].to(value.dtype)), name
    again = module("gpu.peer").graph_of(store, 3)
    assert np.array_equal(again.bond_features, graphs[3].bond_features + 1)


def test_a_job_that_fails_dies_or_hangs_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are done, in order, by further processes."""
    jobs = module("gpu.jobs")
    monkeypatch.setenv("MOLSEPNORM_SCRATCH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "four_jobs.py").write_text(
        "import os, time\n"
        "def fails(): raise ValueError('a | b\\nc')\n"
        "JOBS = {'fails': fails, 'dies': lambda: os._exit(9), 'one': lambda: {'x': 1}}\n"
        "JOBS |= {'hangs': lambda: time.sleep(60), 'two': lambda: [os.environ['PYTHONPATH']]}\n"
    )
    names = ["fails", "dies", "one", "hangs", "two"]
    done = jobs.run_jobs("four_jobs", names, time.monotonic() + 30, 1.0, first_path="/first")
    assert list(done) == names
    assert done["fails"].error == "ValueError: a | b"
    assert done["dies"].error == "its process ended with status 9"
    assert done["hangs"].error == "stopped after 1 s"
    assert done["one"].result == {"x": 1} and not done["one"].error
    assert done["two"].result == [f"/first:{tmp_path}"]
    late = jobs.run_jobs("four_jobs", ["one"], time.monotonic())["one"]
    assert late.error == "not begun: no time was left"
    absent = jobs.run_jobs("no_such_jobs", ["one"], time.monotonic() + 30)["one"]
    assert absent.error == "the process ended with status 1"


def test_the_quickest_variant() -> None:
    """Of those that were measured; its name says all of it."""
    trainers, timing = module("gpu.trainers"), module("gpu.timing")
    variant = trainers.Variant("compiled", "bf16", 2, fused=False)
    assert trainers.Variant.of(str(variant)) == variant
    lines = [{"variant": "captured/tf32/4/fused", "ms": 2.5}, {"variant": "x", "error": "no"}]
    assert timing.best_of([*lines, {"variant": str(variant), "ms": 2.4}]) == variant
    assert timing.best_of(lines[1:]) == trainers.Variant()


def test_the_device_is_busy_once_where_kernels_overlap() -> None:
    profiling = module("gpu.profiling")
    ran = [profiling.Ran("", *times) for times in ((0, 4), (1, 2), (3, 6), (8, 9))]
    assert profiling._busy(ran) == 7


def test_what_a_gpu_found_is_told_and_failures_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that failed comes first; the status is 1; a verb that broke leaves the others."""
    monkeypatch.setenv("OUT", str(tmp_path))
    report, checks, timing = (module(f"gpu.{name}") for name in ("report", "checks", "timing"))
    lines = [{"what": "a", "figure": 1e-5, "bound": 1e-4, "least": False, "passed": True}]
    lines += [{"what": "b", "passed": False, "error": "x | y"}]
    monkeypatch.setattr(checks, "check", lambda deadline: lines[:1])
    found = report.Report("head")
    found.add("check", time.monotonic() + 1)
    assert found.status == 0
    monkeypatch.setattr(checks, "check", lambda deadline: lines)

    def measure(deadline: float) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(timing, "measure", measure)
    for verb in ("check", "time"):
        found.add(verb, time.monotonic() + 1)
    assert found.status == 1
    told = (tmp_path / "table.md").read_text()
    assert "1 of 2 passed" in told and "**time failed: RuntimeError: broken**" in told
    assert told.index("| b | x / y | | **failed** |") < told.index("| a | 1.0e-05 | ≤ 1e-04 | ok |")
    assert json.loads((tmp_path / "figures.json").read_text())["check"] == lines


def test_a_training_goes_on_from_the_archive_that_is_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what was carried and what the last command on the machine left."""
    training = module("gpu.training")
    for name in ("OUT", "MOLSEPNORM_SCRATCH"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(training, "_RUNS", tmp_path / "runs")
    monkeypatch.setattr(training, "_encode", lambda begun, options: None)
    asked: list[list[str]] = []

    def run(seconds: float, arguments: list[str], log: Path) -> int:
        """Takes as many steps as it may seconds; `--resume` finds those taken before."""
        log.write_text("log")
        asked.append(arguments)
        place = Path(arguments[1]) / "checkpoints" / "last.safetensors"
        before = 0
        if arguments[0] == "--resume":
            with safe_open(place, framework="pt") as file:
                before = json.loads(file.metadata()["molsepnorm"])["progress"]["step"]
        place.parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps({"progress": {"step": before + int(seconds)}})
        place.write_bytes(save({"x": torch.zeros(1)}, metadata={"molsepnorm": about}))
        return 143

    monkeypatch.setattr(training, "_run_for", run)
    status, said = training.train_for(5, "mine", ["--lr", "1"])
    assert status == 0 and said.startswith("go on (no epoch ended): put mine.tar into .gpu/runs")
    carried, left = training._archives("mine")
    kept = carried.read_bytes()
    training.train_for(2, "mine", ["--lr", "1"])
    carried.write_bytes(kept)
    assert [training._steps(path) for path in (carried, left)] == [5, 7]
    training.train_for(1, "mine", [])
    assert training._steps(tmp_path / "OUT" / "mine.tar") == 8
    folder = str(tmp_path / "runs" / "mine")
    assert asked == [["--output", folder, "--lr", "1"], *[["--resume", folder]] * 2]
    monkeypatch.setattr(training, "_run_for", lambda *_: 1)
    assert training.train_for(1, "other", []) == (1, "FAILED with status 1: see other.log")
