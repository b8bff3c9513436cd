"""benchmarks/runs.py and benchmarks/accuracy/: the runs of a list, the log and its table."""

from __future__ import annotations

import doctest
import fcntl
import importlib
import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import ModuleType
from typing import Any

import pytest
from click import ClickException
from click.testing import CliRunner

from molsepnorm import load_config
from molsepnorm.cli.options import configuration
from molsepnorm.cli.train import train as train_command
from molsepnorm.nn import Graphormer
from molsepnorm.training import StopWhen, TrainConfig, ablate, train
from molsepnorm.training.recipes import architecture

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("benchmarks")
SMALL = {"model.layers": 1, "model.width": 8, "model.ffn_width": 8, "model.heads": 2}


def module(name: str) -> ModuleType:
    return importlib.import_module("runs" if name == "runs" else f"accuracy.{name}")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of alkanes and their number of carbon atoms."""
    rows = [f"{'C' * carbons},{carbons}" for carbons in range(1, 31)]
    path = tmp_path / "alkanes.csv"
    path.write_text("\n".join(["smiles,carbons", *rows]) + "\n")
    return path


def configured(table: Path, **settings: Any) -> TrainConfig:
    """Return the configuration of a tiny network for three epochs."""
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return load_config(table, overrides={**SMALL, "run.epochs": 3, "run.device": "cpu", **own})


def logged(name: str = "base", seed: int = 0, **given: Any) -> Any:
    """Return the line of a finished run of ZINC, with these changes."""
    log = module("log")
    run = log.Logged(
        name=name,
        seed=seed,
        why="",
        date="2026-01-01 00:00",
        commit="abc",
        changed_tree=False,
        code="0123",
        machine="m",
        threads=1,
        torch="2",
        dataset="zinc",
        changed={},
        config={"model": {"layers": 12}, "run": {"epochs": 40, "budget": None}},
        parameters=480_000,
        metric="mae",
        planned=40,
        epochs=40,
        graphs_per_second=800.0,
        seconds=120.0,
        curve=log.Curve([1, 2], [60.0, 120.0], [0.5, 0.4], [0.6, 0.3]),
        val=0.3,
        best_epoch=2,
        test=0.32,
        test_interval_95=[0.3, 0.34],
        error=None,
    )
    return replace(run, **given)


def test_finished_runs_can_be_added_to_the_log_once(tmp_path: Path, table: Path) -> None:
    """A line holds the figures of the run's folder, and the configuration to repeat the run."""
    log, names = tmp_path / "log.jsonl", ["shared", "sep-ln"]
    ablate(configured(table), tmp_path / "norms", {"norm": names}, seeds=[0, 1])
    (tmp_path / "norms" / "sep-ln" / "seed-1" / "metrics.json").unlink()
    command = [str(tmp_path / "norms"), "--prefix", "n-", "--why", "which", "--log", str(log)]
    assert CliRunner().invoke(module("add").main, command).exit_code == 0
    again = CliRunner().invoke(module("add").main, command)
    assert again.output.count("is in the log already") == 3
    runs = module("log").read(log)
    assert {(run.name, run.seed) for run in runs} == {
        ("n-sep-ln", 0),
        ("n-shared", 0),
        ("n-shared", 1),
    }
    for run in runs:
        norm = run.name.removeprefix("n-")
        folder = tmp_path / "norms" / norm / f"seed-{run.seed}"
        metrics = json.loads((folder / "metrics.json").read_text())
        assert (run.why, run.error, run.metric) == ("which", None, metrics["chosen_by"])
        assert (run.parameters, run.best_epoch) == (metrics["parameters"], metrics["best_epoch"])
        assert (run.planned, run.epochs, run.curve.epoch) == (3, 3, [1, 2, 3])
        assert run.test == pytest.approx(metrics["test"][run.metric], rel=1e-4)
        assert run.val == min(run.curve.val) == pytest.approx(metrics["val"][run.metric], rel=1e-4)
        assert run.curve.seconds == sorted(run.curve.seconds)
        assert 0 < run.curve.seconds[-1] <= run.seconds + 0.05  # metrics.json has tenths
        own = {"model.norm": norm, "run.epochs": 3, "run.device": "cpu", "run.baseline": False}
        assert run.changed == {**SMALL, **own}
        flat = {f"{s}.{k}": v for s, content in run.config.items() for k, v in content.items()}
        assert flat["data.table"] == table.name  # the path means nothing on another machine
        config = load_config(overrides={**flat, "data.table": table, "run.seed": run.seed})
        own = {"run__seed": run.seed, "run__baseline": False}
        assert config == configured(table, model__norm=norm, **own)


def test_a_run_that_fails_leaves_a_line(tmp_path: Path, table: Path) -> None:
    """The line has the error and the figures that the run reached."""
    steps = iter(range(100))
    train(configured(table), tmp_path / "run", callback=StopWhen(lambda: next(steps) == 1))
    run = module("log").from_folder(tmp_path / "run", "tiny", 0, "a try", "diverged")
    assert (run.error, run.epochs, run.planned) == ("diverged", len(run.curve.epoch), 3)
    assert run.test is None and run.parameters is None
    module("log").append(run, tmp_path / "log.jsonl")
    assert module("log").read(tmp_path / "log.jsonl") == [run]


def test_the_command_trains_and_logs_the_runs_of_a_list(tmp_path: Path, table: Path) -> None:
    """A refused configuration is not logged; a second call has nothing left to train."""
    runs = [{"name": "tiny", "seeds": [7], "why": "a try", "set": {"model.norm": "shared"}}]
    runs.append({"name": "refused", "set": {"model.lyers": 2}})
    defaults = {"data": str(table), "epochs": 1, "set": {**SMALL, "run.device": "cpu"}}
    (tmp_path / "list.yaml").write_text(json.dumps({"defaults": defaults, "runs": runs}))
    log = tmp_path / "log.jsonl"
    places = ["--log", str(log), "--runs", str(tmp_path / "runs"), "--at-once", "2"]

    def command(*more: str) -> subprocess.CompletedProcess[str]:
        script = [sys.executable, str(BENCHMARKS / "runs.py"), str(tmp_path / "list.yaml")]
        return subprocess.run([*script, *places, *more], capture_output=True, text=True)

    stopped = command("--minutes", "0")
    assert stopped.returncode == 0 and not log.exists(), stopped.stderr
    done = command()
    assert done.returncode == 1 and "tiny-7: validation " in done.stdout, done.stderr
    assert "Did you mean 'layers'?" in (tmp_path / "runs" / "refused-0.txt").read_text()
    (run,) = module("log").read(log)
    assert (run.name, run.seed, run.why, run.threads) == ("tiny", 7, "a try", 1)
    assert run.changed["model.norm"] == "shared" and run.dataset == "alkanes"
    again = command()
    assert "tiny-7" not in again.stdout and len(module("log").read(log)) == 1
    (tmp_path / "list.yaml").write_text("runs: [{}]")
    refused = command()
    assert refused.returncode == 2 and "run 1 must have a name" in refused.stderr


def test_a_long_curve_is_thinned(tmp_path: Path) -> None:
    """The best and the last point remain; a line with a long error stays below 20 kB too."""
    log = module("log")
    epochs = list(range(1, 5001))
    values = [log.short(math.pi / epoch) for epoch in epochs]
    curve = log.Curve(epochs, [1234.5 + epoch for epoch in epochs], values, values)
    log.append(logged(curve=curve, best_epoch=3333, error="x" * 10**5), tmp_path / "log.jsonl")
    assert len((tmp_path / "log.jsonl").read_bytes()) < 20_000
    (run,) = log.read(tmp_path / "log.jsonl")
    assert {1, 3333, 5000} <= set(run.curve.epoch) and len(run.curve.epoch) <= 300
    assert run.curve.val == [values[epoch - 1] for epoch in run.curve.epoch]
    assert logged().curve.thinned(None) == logged().curve


def test_figures_are_short_and_finite() -> None:
    result, short = doctest.testmod(module("log")), module("log").short
    assert result.attempted and not result.failed
    assert [short(1 / 3), short(123456.7), short(None)] == [0.33333, 123460.0, None]
    assert [short(math.nan), short(math.inf)] == [None, None]


def test_several_processes_can_append(tmp_path: Path) -> None:
    """Every line is complete, also after one that was cut off."""
    log, path = module("log"), tmp_path / "log.jsonl"
    log.append(logged(why="é" * 3000), path)
    code = (
        f"import sys, pathlib; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "from accuracy.log import append, read\n"
        f"path = pathlib.Path({str(path)!r})\n"
        "one = read(path)[0]\n"
        "for _ in range(50): append(one, path)\n"
    )
    several = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [each.wait() for each in several] == [0, 0, 0]
    assert log.read(path) == [logged(why="é" * 3000)] * 151
    with open(path, "a") as file:
        file.write('{"name": "cut o')
    log.append(logged("next"), path)
    with pytest.raises(ValueError, match=r"line 152 is no run of this log .*: fix or remove it"):
        log.read(path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:151] + lines[152:]) + "\n")
    assert log.read(path)[-1] == logged("next")
    assert log.read(tmp_path / "none.jsonl") == []


LIST = """
defaults: {budget: 4m, set: {optim.ema: 0.99, model.norm: sep}}
runs:
  - {name: a, seeds: [0, 1], why: "it's a try", set: {model.norm: shared, run.metric: null}}
  - {name: b, budget: 8m, config: c.yaml}
"""


def test_a_list_of_runs_has_defaults_and_seeds(tmp_path: Path) -> None:
    """The first seeds of all entries come before the second seeds."""
    path = tmp_path / "list.yaml"
    path.write_text(LIST)
    first, second, third = module("runs").read_list(path)
    own = ("--set=optim.ema=0.99", '--set=model.norm="shared"', "--set=run.metric=null")
    assert (first.name, first.seed, first.why) == ("a", 0, "it's a try")
    assert first.arguments == ("--budget=4m", *own, "--seed=0")
    shared = ("--set=optim.ema=0.99", '--set=model.norm="sep"', "--seed=0")
    assert (second.name, second.why) == ("b", "")
    assert second.arguments == ("--budget=8m", "--config=c.yaml", *shared)
    assert third == replace(first, seed=1, arguments=(*first.arguments[:-1], "--seed=1"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: [", "cannot be read as a list of runs"),
        ("runs: []\nmore: 1", "must have 'runs', and may have 'defaults'"),
        ("a list", "must have 'runs', and may have 'defaults'"),
        ("runs: [{why: x}]", "run 1 must have a name such as slower-ema; got None"),
        ("runs: [{name: a}, {name: a/b}]", "run 2 must have a name such as slower-ema; got 'a/b'"),
        ("runs: [{name: a, seeds: 3}]", r"run 1 \(a\): seeds must look like \[0, 1\]; got 3"),
        ("runs: [{name: a, set: [x=1]}]", r"run 1 \(a\): set must look like {optim.lr: 0.001}"),
        ("runs: [{name: a}, {name: a}]", "has a-0 twice"),
    ],
)
def test_a_file_that_is_no_list_is_refused(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=expected):
        module("runs").read_list(path)
    with pytest.raises(ValueError, match="cannot be read as a list of runs"):
        module("runs").read_list(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.yaml")), ids=lambda path: path.name)
def test_the_options_of_every_list_are_valid(path: Path) -> None:
    """Each run is a configuration of ZINC with at most 500,000 parameters."""
    if path.name != "plan.yaml" and path.parent.name != "lists":
        return
    listed = module("runs").read_list(path)
    assert listed
    for run in {run.name: run for run in listed}.values():
        context = train_command.make_context("train", [*run.arguments])
        config = configuration(context.params)
        assert config.data.dataset in ("zinc", "zinc-full"), run
        network = Graphormer(architecture(config))
        assert sum(weights.numel() for weights in network.parameters()) <= 500_000, run


TRAINER = """
import json, pathlib, signal, sys, time
*options, place, folder = sys.argv[1:]
folder, name = pathlib.Path(folder), pathlib.Path(folder).name
if name == "refused-0":
    sys.exit("no such setting")
(folder / "checkpoints").mkdir(parents=True, exist_ok=True)
(folder / "config.yaml").touch()
if name == "fails-0":
    sys.exit(print("oh no") or 3)
(folder / "checkpoints" / "last.safetensors").touch()
if name == "stops-0" and place == "--output":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (folder / "running").touch()
    time.sleep(60)
(folder / "metrics.json").touch()
"""
"""`molsepnorm train`: one run finishes, one fails, one is refused and one has to be stopped."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A folder and a log for runs of `TRAINER`, which takes no time."""
    (tmp_path / "trainer.py").write_text(TRAINER)
    runs = module("runs")
    monkeypatch.setattr(runs, "TRAIN", [sys.executable, str(tmp_path / "trainer.py")])

    def line(folder: Path, name: str, seed: int, why: str, error: str | None) -> Any:
        return logged(name, seed, why=why, error=error)

    monkeypatch.setattr(runs, "from_folder", line)
    return {"folder": tmp_path / "runs", "log": tmp_path / "log.jsonl"}


def trained(
    places: dict[str, Path], names: str, at_once: int = 1, stop: Event | None = None
) -> int:
    runs = module("runs")
    listed = [runs.Run(name, 0, "", ()) for name in names.split()]
    return runs.train_all(listed, **places, at_once=at_once, threads=1, stop=stop or Event())


def log_of(places: dict[str, Path]) -> list[tuple[str, str | None]]:
    return [(run.name, run.error) for run in module("log").read(places["log"])]


def test_runs_in_the_log_are_skipped(places: dict[str, Path]) -> None:
    module("log").append(logged("a"), places["log"])
    assert trained(places, "a b") == 0
    assert log_of(places) == [("a", None), ("b", None)]
    assert not (places["folder"] / "a-0").exists()


def test_failed_runs_are_logged_and_refused_ones_are_not(places: dict[str, Path]) -> None:
    """A later call skips the failed run, and tries the refused one again."""
    for failed, expected in ((2, [("fails", "status 3: oh no")]), (1, [])):
        assert trained(places, "refused fails") == failed
        assert log_of(places)[-1:] == (expected or log_of(places)[-1:])
    assert log_of(places) == [("fails", "status 3: oh no")]
    assert "no such setting" in (places["folder"] / "refused-0.txt").read_text()


def test_a_stopped_run_resumes(places: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Two train at once; a run that has to stop is not logged, and no other run begins."""
    stop, running = Event(), places["folder"] / "stops-0" / "running"

    def wait() -> None:
        while not running.exists() or not places["log"].exists():
            time.sleep(0.05)
        stop.set()

    Thread(target=wait).start()
    assert trained(places, "stops fails later", 2, stop) == 1
    assert ("stops", None) not in log_of(places)
    assert "stops-0: stopped; the same command continues" in capsys.readouterr().out
    assert trained(places, "stops fails later") == 0
    assert {("stops", None), ("later", None)} <= {*log_of(places)}


def test_two_commands_do_not_share_a_folder(places: dict[str, Path]) -> None:
    places["folder"].mkdir()
    with open(places["folder"] / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ClickException, match="another command trains in "):
            trained(places, "a")


def hand_made() -> list[Any]:
    """Three seeds of base, two of a better one, one that failed, one of another set."""
    deep = {"model": {"layers": 24}, "run": {"epochs": 40, "budget": "4m"}}
    return [
        *(logged(seed=s, val=0.3 + s / 100, test=0.32, seconds=60.0 * (s + 1)) for s in range(3)),
        logged("deep", 0, val=0.28, test=0.29, config=deep, changed={"model.layers": 24}),
        logged("hot", error="MolsepnormError: the loss\nis nan", test=None, epochs=1, val=0.6),
        logged("deep", 1, val=0.27, test=None, config=deep, changed={"model.layers": 24}),
        logged("hiv", dataset="ogbg-molhiv", metric="roc_auc", val=0.8, test=0.75),
    ]


def test_the_table_has_mean_deviation_and_number_of_seeds() -> None:
    """A failed run is shown with its error."""
    table = module("table")
    lines = table.markdown(table.variants(hand_made())).splitlines()
    assert lines[:4] == [
        "zinc, mae:",
        "",
        "| name | what changed | validation | test | parameters | epochs | graphs/s | minutes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    assert lines[4:] == [
        "| base |  | 0.3100 ± 0.0100 (3) | 0.3200 ± 0.0000 (3) | 480,000 | 40 | 800 | 2.0 |",
        "| deep | model.layers=24 | 0.2750 ± 0.0071 (2) | 0.2900 | 480,000 | 40 | 800 | 2.0 |",
        "| hot |  | failed after 1 epochs, best 0.6000: MolsepnormError: the loss is nan |  "
        "| 480,000 |  |  |  |",
        "",
        "ogbg-molhiv, roc_auc:",
        "",
        *lines[2:4],
        "| hiv |  | 0.8000 | 0.7500 | 480,000 | 40 | 800 | 2.0 |",
    ]


def test_the_table_compares_with_one_name() -> None:
    """It shows the settings that differ, and compares common seeds in pairs."""
    table = module("table")
    rows = table.variants(hand_made())
    lines = table.markdown(rows, rows[0]).splitlines()
    assert lines[2].endswith("| minutes | validation minus base's |")
    assert lines[4].endswith("| 2.0 |  |")
    # differences -0.02 and -0.04: mean -0.03, half width 12.706 * 0.01
    assert lines[5].startswith("| deep | model.layers=24, run.budget=4m | ")
    assert lines[5].endswith("| -0.0300 (-0.1571 to +0.0971) |")
    assert lines[6].endswith("|  |")
    assert "minus base's" not in "\n".join(lines[7:])


def test_a_setting_that_an_older_run_lacks_counts_as_the_recipes() -> None:
    differing = module("table").differing
    old = logged()
    new = logged(config={**old.config, "optim": {"ema": 0.99, "lr": 0.1}}, changed={"optim.lr": 1})
    assert differing(new, old) == {"optim.lr": 0.1}
    assert differing(old, new) == {"optim.lr": "default"} and differing(new, new) == {}
    assert differing(new, None) == {"optim.lr": 1}


def test_a_repeated_run_counts_once() -> None:
    """It is the last one that finished."""
    variants = module("table").variants
    failed = logged(error="x", val=0.1)
    for runs in ([failed, logged(), failed], [logged(val=0.5), failed, logged()]):
        (row,) = variants(runs)
        assert row.runs == [logged()] and row.shown == logged()
    (row,) = variants([failed, logged(seed=1)])
    assert row.shown == logged(seed=1) and row.values("val") == {1: 0.3}
    assert "0.3000; 1 failed" in module("table").markdown([row])


def test_rows_are_selected_by_name_or_prefix() -> None:
    """Names given are in their order."""
    selected, rows = module("table").selected, module("table").variants(hand_made())

    def names(**given: Any) -> list[str]:
        return [row.name for row in selected(rows, **given)]

    assert names() == ["base", "deep", "hot", "hiv"]
    assert names(names=["hot", "base"]) == ["hot", "base"]
    assert names(prefix="h") == ["hot", "hiv"]
    with pytest.raises(ValueError, match="no run is named 'bas'. Known: base, deep, hot, hiv"):
        selected(rows, ["bas"])


def test_the_command_prints_the_table(tmp_path: Path) -> None:
    """It refuses a name that the log does not have."""
    log = tmp_path / "log.jsonl"
    for run in hand_made():
        module("log").append(run, log)
    main, places = module("table").main, ["--log", str(log)]
    given = ["deep", "--against", "base", *places]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 0 and "| -0.0300 (" in done.output
    refused = CliRunner().invoke(main, ["deeper", *places])
    assert refused.exit_code == 2 and "no run is named 'deeper'" in refused.output
    empty = CliRunner().invoke(main, ["--prefix", "x", *places])
    assert empty.exit_code == 2 and "has no run of a name that begins with 'x'" in empty.output


def test_the_real_log_can_be_read() -> None:
    """Every line of the file in this checkout is valid."""
    log = module("log")
    assert all(run.seconds > 0 and run.name for run in log.read(log.LOG))
