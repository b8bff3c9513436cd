"""benchmarks/accuracy/: what a run leaves in the log, who takes which run, what the table says."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from molsepnorm import load_config
from molsepnorm.training import TrainConfig, ablate

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.usefixtures("benchmarks")
SMALL = {"model.layers": 1, "model.width": 8, "model.ffn_width": 8, "model.heads": 2}


def module(name: str) -> ModuleType:
    return importlib.import_module(f"accuracy.{name}")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Alkanes and their number of carbon atoms."""
    rows = [f"{'C' * carbons},{carbons}" for carbons in range(1, 31)]
    path = tmp_path / "alkanes.csv"
    path.write_text("\n".join(["smiles,carbons", *rows]) + "\n")
    return path


def configured(table: Path, **settings: Any) -> TrainConfig:
    """A tiny network, three epochs."""
    own = {name.replace("__", "."): value for name, value in settings.items()}
    return load_config(table, overrides={**SMALL, "run.epochs": 3, "run.device": "cpu", **own})


def logged(name: str = "base", seed: int = 0, **given: Any) -> Any:
    """A run of ZINC that went well, unless told otherwise."""
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


def test_a_run_leaves_a_line(tmp_path: Path, table: Path) -> None:
    """With what its folder holds, and a configuration from which it can be made again."""
    log, trial = module("log"), module("trial").trial
    config, told = configured(table, run__seed=3, optim__lr=2e-3), []
    run = trial(config, "tiny", "a try", tmp_path / "runs", tell=told.append)
    log.append(run, tmp_path / "log.jsonl")
    (again,) = log.read(tmp_path / "log.jsonl")
    assert again == run
    folder = tmp_path / "runs" / "tiny-3-1"
    metrics = json.loads((folder / "metrics.json").read_text())
    assert (run.name, run.seed, run.why, run.error) == ("tiny", 3, "a try", None)
    assert (run.parameters, run.best_epoch) == (metrics["parameters"], metrics["best_epoch"])
    assert (run.planned, run.epochs, run.curve.epoch) == (3, 3, [1, 2, 3])
    assert run.metric == metrics["chosen_by"]
    assert run.test == pytest.approx(metrics["test"][run.metric], rel=1e-4)
    assert run.val == min(run.curve.val) == pytest.approx(metrics["val"][run.metric], rel=1e-4)
    assert run.curve.seconds == sorted(run.curve.seconds)
    assert run.curve.seconds[0] > 0 and run.curve.seconds[-1] <= run.seconds
    assert len(told) == 4 and "epoch 3/3" in told[-1]
    expected = {**SMALL, "run.epochs": 3, "run.device": "cpu", "optim.lr": 2e-3}
    assert run.changed == expected
    flat = {f"{s}.{k}": v for s, content in run.config.items() for k, v in content.items()}
    assert flat["data.table"] == table.name  # a place on this machine says nothing elsewhere
    assert load_config(overrides={**flat, "data.table": table, "run.seed": 3}) == config


def test_finished_runs_of_an_ablation_can_be_added(tmp_path: Path, table: Path) -> None:
    """As if each had been a trial, but for the clock; once each."""
    log, names = tmp_path / "log.jsonl", ["shared", "sep-ln"]
    ablate(configured(table), tmp_path / "norms", {"norm": names}, seeds=[0, 1])
    (tmp_path / "norms" / "sep-ln" / "seed-1" / "metrics.json").unlink()
    add = CliRunner().invoke
    command = [str(tmp_path / "norms"), "--prefix", "n-", "--why", "which", "--log", str(log)]
    assert add(module("add").main, command).exit_code == 0
    again = add(module("add").main, command)
    assert again.output.count("is in the log already") == 3
    runs = module("log").read(log)
    assert sorted((run.name, run.seed) for run in runs) == [
        ("n-sep-ln", 0),
        ("n-shared", 0),
        ("n-shared", 1),
    ]
    for run in runs:
        config = configured(table, run__seed=run.seed, model__norm=run.name.removeprefix("n-"))
        expected = module("trial").trial(config, run.name, "which", tmp_path / "runs", tell=str)
        same = {"date": run.date, "seconds": run.seconds}
        same |= {"graphs_per_second": run.graphs_per_second}
        curve = replace(expected.curve, seconds=run.curve.seconds)
        assert run == replace(expected, curve=curve, **same)
        assert run.curve.seconds == sorted(run.curve.seconds)
        assert run.curve.seconds[-1] <= run.seconds + 0.05  # metrics.json keeps tenths


def test_a_run_that_fails_leaves_a_line(tmp_path: Path, table: Path) -> None:
    """With the reason and what was known by then."""
    trial = module("trial").trial
    diverging = configured(table, optim__clip_norm=None, optim__warmup=0)
    optim = diverging.optim.model_copy(update={"lr": 1e30})  # above what a configuration may have
    diverging = diverging.model_copy(update={"optim": optim})
    run = trial(diverging, "tiny", "", tmp_path, tell=lambda _: None)
    assert "MolsepnormError: " in run.error and "training diverged" in run.error
    assert run.parameters > 0 and run.test is None and run.val is None
    missing = trial(configured(tmp_path / "none.csv"), "tiny", "", tmp_path, tell=lambda _: None)
    assert "none.csv" in missing.error
    assert (missing.parameters, missing.metric, missing.epochs) == (None, None, 0)
    module("log").append(missing, tmp_path / "log.jsonl")
    assert module("log").read(tmp_path / "log.jsonl") == [missing]


def test_a_bug_is_told_with_its_place(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only errors that the package raises on purpose."""

    def broken(*_: Any, **__: Any) -> None:
        raise IndexError("oh no")

    monkeypatch.setattr(module("trial"), "train", broken)
    run = module("trial").trial(configured(table), "tiny", "", tmp_path)
    assert run.error.startswith("IndexError at test_accuracy_log.py:")
    assert run.error.endswith(": oh no")


def test_a_run_that_is_stopped(tmp_path: Path, table: Path) -> None:
    """Keeps its curve, and the test split is not looked at."""
    told: list[str] = []
    run = module("trial").trial(
        configured(table),
        *("tiny", "", tmp_path),
        tell=told.append,
        stopped_by=lambda: "SIGTERM" if "epoch 1" in told[-1] else None,
    )
    assert run.error == "stopped: SIGTERM"
    assert (run.planned, run.epochs, len(run.curve.val)) == (3, 1, 1)
    assert run.val == run.curve.val[0] and run.test is None


def test_the_command(tmp_path: Path, table: Path) -> None:
    """Takes settings as `molsepnorm train` does; logs no configuration that cannot be had."""
    log = tmp_path / "log.jsonl"
    settings = [f"--set={name}={value}" for name, value in SMALL.items()]
    places = ["--log", str(log), "--runs", str(tmp_path / "runs")]

    def command(*more: str) -> subprocess.CompletedProcess[str]:
        asked = ["tiny", "--data", str(table), "--epochs", "1", *settings, *places, *more]
        script = str(BENCHMARKS / "accuracy" / "run.py")
        return subprocess.run([sys.executable, script, *asked], capture_output=True, text=True)

    refused = command("--set", "model.lyers=2")
    assert refused.returncode == 2 and "Did you mean 'layers'?" in refused.stderr
    assert not log.exists()
    done = command("--seed", "7", "--why", "a try", "--set", "model.norm=shared")
    assert done.returncode == 0, done.stderr
    (run,) = module("log").read(log)
    assert (run.name, run.seed, run.why, run.threads) == ("tiny", 7, "a try", 1)
    assert run.changed["model.norm"] == "shared" and run.dataset == "alkanes"


def test_a_long_curve_is_thinned(tmp_path: Path) -> None:
    """The best and the last stay, a line stays below 20 kB, and so does one with a long error."""
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


def test_processes_append_at_once(tmp_path: Path) -> None:
    """Every line is whole, also after one that was cut off."""
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
    with pytest.raises(ValueError, match=r"line 152 is no run of this log .*: mend or remove it"):
        log.read(path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:151] + lines[152:]) + "\n")
    assert log.read(path)[-1] == logged("next")
    assert log.read(tmp_path / "none.jsonl") == []


PLAN = """
defaults: {budget: 4m, set: {optim.ema: 0.99, model.norm: sep}}
runs:
  - {name: a, seeds: [0, 1], why: "it's a try", set: {model.norm: shared, run.metric: null}}
  - {name: b, budget: 8m, tries: 2, config: c.yaml}
"""


def test_a_plan(tmp_path: Path) -> None:
    """Defaults, what an entry says otherwise, and a run for each seed."""
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    first, second, third = module("plan").read_plan(path)
    own = ("--set", "optim.ema=0.99", "--set", 'model.norm="shared"', "--set", "run.metric=null")
    told = ("--budget", "4m", "--why", "it's a try")
    assert (first.name, first.seed, first.tries) == ("a", 0, 1)
    assert first.arguments == ("--seed", "0", *own, *told)
    assert second == replace(first, seed=1, arguments=("--seed", "1", *own, *told))
    shared = ("--set", "optim.ema=0.99", "--set", 'model.norm="sep"')
    assert (third.name, third.seed, third.tries) == ("b", 0, 2)
    assert third.arguments == ("--seed", "0", *shared, "--config", "c.yaml", "--budget", "8m")
    path.write_text("- name: a\n- name: a\n  seeds: [0, 1]\n")
    assert [entry.told for entry in module("plan").read_plan(path)] == ["a seed 0", "a seed 1"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: [", "cannot be read as a plan"),
        ("runs: []\nmore: 1", "must be a list of runs, or have 'defaults' and 'runs'"),
        ("- why: x", "run 1 must have a name such as slower-ema; got None"),
        ("- name: a\n- name: a/b", "run 2 must have a name such as slower-ema; got 'a/b'"),
        ("- {name: a, seed: 1}", r"run 1 \(a\): unknown key 'seed'. Known: name, set, seeds"),
        ("runs: {name: a}", "must be a list of runs, or have"),
        ("a plan", "must be a list of runs, or have"),
        ("- {name: a, seeds: 3}", r"run 1 \(a\): seeds must look like \[0, 1\], and tries like 2"),
        ("- {name: a, set: [x=1]}", r"run 1 \(a\): set must look like {optim.lr: 0.001}"),
        ("- name: a\n- {name: a, budget: 1m}", "has a seed 0 twice, with different settings"),
    ],
)
def test_what_is_no_plan(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=expected):
        module("plan").read_plan(path)
    with pytest.raises(ValueError, match="cannot be read as a plan"):
        module("plan").read_plan(tmp_path / "none.yaml")


@pytest.fixture
def worker(tmp_path: Path) -> Callable[..., Any]:
    """One for `plan.yaml`, whose runs take no training: a script that adds the given run's line,
    under its own name and seed, after some seconds."""

    def make(seconds: float = 0, line: Any = None, plan: str | None = None) -> Any:
        if plan is not None:
            (tmp_path / "plan.yaml").write_text(plan)
        line, one = line or logged(), tmp_path / "one.jsonl"
        one.unlink(missing_ok=True)
        module("log").append(line, one)
        script = tmp_path / "script.py"
        script.write_text(
            f"import sys, pathlib, time; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
            "from dataclasses import replace\n"
            "from accuracy.log import append, read\n"
            "given = sys.argv[1:]\n"
            "if 'refused' in given[0]: sys.exit('no such setting')\n"
            f"time.sleep({seconds})\n"
            "name, seed = given[0], int(given[given.index('--seed') + 1])\n"
            f"line = read(pathlib.Path({str(one)!r}))[0]\n"
            "log = pathlib.Path(given[given.index('--log') + 1])\n"
            "append(replace(line, name=name, seed=seed), log)\n"
        )
        places = (tmp_path / "plan.yaml", tmp_path / "log.jsonl", tmp_path / "runs")
        return module("worker").Worker(*places, [sys.executable, str(script)])

    return make


def made(folder: Path) -> list[tuple[str, int]]:
    return [(run.name, run.seed) for run in module("log").read(folder / "log.jsonl")]


def test_a_worker_skips_what_is_logged(tmp_path: Path, worker: Callable[..., Any]) -> None:
    """Takes the rest in order, and what is added meanwhile; ends at a file `stop`."""
    one = worker(plan="- {name: a, seeds: [0, 1]}\n- name: b\n")
    module("log").append(logged("a"), tmp_path / "log.jsonl")
    assert [one.one() for _ in range(3)] == [True, True, False]
    assert made(tmp_path) == [("a", 0), ("a", 1), ("b", 0)]
    (tmp_path / "plan.yaml").write_text("- name: c\n- name: d\n")
    assert one.one() is True
    (tmp_path / "stop").touch()
    assert one.one() is False
    assert made(tmp_path)[3:] == [("c", 0)]


def test_a_failed_run_is_made_again_as_often_as_asked(
    tmp_path: Path, worker: Callable[..., Any]
) -> None:
    """Once where nothing is said."""
    plan = "- name: a\n- {name: b, tries: 2}\n"
    one = worker(line=logged(error="MolsepnormError: diverged"), plan=plan)
    assert [one.one() for _ in range(4)] == [True, True, True, False]
    assert made(tmp_path) == [("a", 0), ("b", 0), ("b", 0)]


def test_a_refused_configuration_waits_for_a_change(
    tmp_path: Path, worker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its entry, or of the package; the rest is made meanwhile."""
    monkeypatch.setattr(module("worker"), "_code", lambda: "one")
    one = worker(plan="- name: refused\n- name: a\n")
    assert [one.one() for _ in range(3)] == [True, True, False]
    assert made(tmp_path) == [("a", 0)]
    assert "no such setting" in (tmp_path / "runs" / "refused-0.txt").read_text()
    (tmp_path / "plan.yaml").write_text("- {name: refused, budget: 1m}\n")
    assert [one.one() for _ in range(2)] == [True, False]
    monkeypatch.setattr(module("worker"), "_code", lambda: "another")
    assert [one.one() for _ in range(2)] == [True, False]


def test_two_workers_never_take_the_same_run(tmp_path: Path, worker: Callable[..., Any]) -> None:
    """Processes of their own, on the real command's loop."""
    worker(seconds=0.3, plan="- {name: a, seeds: [0, 1, 2, 3]}\n- {name: b, seeds: [0, 1]}\n")
    code = (
        f"import sys, pathlib; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "from accuracy.worker import Worker\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "command = [sys.executable, str(here / 'script.py')]\n"
        "one = Worker(here / 'plan.yaml', here / 'log.jsonl', here / 'runs', command)\n"
        "while one.one(): print('made one')\n"
    )
    command = [sys.executable, "-c", code]
    two = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made_by = [each.communicate()[0].count("made one") for each in two]
    assert sorted(made(tmp_path)) == [*(("a", seed) for seed in range(4)), ("b", 0), ("b", 1)]
    assert sum(made_by) == 6


def test_the_worker_s_command(tmp_path: Path) -> None:
    """Ends where nothing is left to be made; says what is wrong with a plan or a log."""
    from click.testing import CliRunner

    main, plan, log = module("worker").main, tmp_path / "plan.yaml", tmp_path / "log.jsonl"
    asked = [str(plan), "--log", str(log), "--runs", str(tmp_path / "runs")]
    missing = CliRunner().invoke(main, asked)
    assert missing.exit_code == 2 and "cannot be read as a plan" in missing.output
    plan.write_text("- name: a\n")
    module("log").append(logged("a"), log)
    assert CliRunner().invoke(main, asked).exit_code == 0
    assert made(tmp_path) == [("a", 0)]
    (tmp_path / "stop").touch()
    assert CliRunner().invoke(main, [*asked, "--wait"]).exit_code == 0
    log.write_text("{}\n")
    damaged = CliRunner().invoke(main, asked)
    assert damaged.exit_code == 2 and "line 1 is no run of this log" in damaged.output


def test_a_claim_lasts_as_long_as_the_run(tmp_path: Path, worker: Callable[..., Any]) -> None:
    """Also where its worker was killed."""
    one = worker(plan="- name: a\n")
    (entry,) = module("plan").read_plan(tmp_path / "plan.yaml")
    claimed, log = module("worker").claimed, tmp_path / "log.jsonl"
    with claimed(entry, log) as mine, claimed(entry, log) as theirs:
        assert mine is not None and theirs is None
        assert one.one() is False
        waiting = [sys.executable, "-c", "input()"]
        run = subprocess.Popen(waiting, stdin=subprocess.PIPE, pass_fds=[mine])
    with claimed(entry, log) as while_it_runs:
        assert while_it_runs is None
    run.communicate(b"\n")
    assert one.one() is True
    assert made(tmp_path) == [("a", 0)]


def test_a_run_made_since_the_log_was_read_is_not_made_again(
    tmp_path: Path, worker: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim is free again, but its line is there."""
    one, reads = worker(plan="- name: a\n"), []

    def read(path: Path) -> list[Any]:
        reads.append(path)
        return [] if len(reads) == 1 else [logged("a")]

    monkeypatch.setattr(module("worker"), "read", read)
    assert one.one() is False
    assert len(reads) == 2 and made(tmp_path) == []


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


def test_the_table() -> None:
    """Mean, unbiased deviation and number of seeds; a failure with its reason."""
    table, summary = module("table"), module("summary")
    lines = table.markdown(summary.tried(hand_made())).splitlines()
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


def test_the_table_beside_one_name() -> None:
    """Its settings are what others' differ from; common seeds are compared one by one."""
    table, summary = module("table"), module("summary")
    rows = summary.tried(hand_made())
    lines = table.markdown(rows, rows[0]).splitlines()
    assert lines[2].endswith("| minutes | validation, less base's |")
    assert lines[4].endswith("| 2.0 |  |")
    # differences -0.02 and -0.04: mean -0.03, half width 12.706 * 0.01
    assert lines[5].startswith("| deep | model.layers=24, run.budget=4m | ")
    assert lines[5].endswith("| -0.0300 (-0.1571 to +0.0971) |")
    assert lines[6].endswith("|  |")
    assert "less base's" not in "\n".join(lines[7:])


def test_settings_of_runs_made_before_a_setting_was_there() -> None:
    """It counts as the recipe's."""
    differing = module("summary").differing
    old = logged()
    new = logged(config={**old.config, "optim": {"ema": 0.99, "lr": 0.1}}, changed={"optim.lr": 1})
    assert differing(new, old) == {"optim.lr": 0.1}
    assert differing(old, new) == {"optim.lr": "default"} and differing(new, new) == {}
    assert differing(new, None) == {"optim.lr": 1}


def test_a_run_that_was_made_again_counts_once() -> None:
    """The last one that came to its end."""
    tried = module("summary").tried
    failed = logged(error="x", val=0.1)
    for runs in ([failed, logged(), failed], [logged(val=0.5), failed, logged()]):
        (row,) = tried(runs)
        assert row.runs == [logged()] and row.shown == logged()
    (row,) = tried([failed, logged(seed=1)])
    assert row.shown == logged(seed=1) and row.spread("val").count == 1
    assert "0.3000; 1 failed" in module("table").markdown([row])


def test_which_rows_in_which_order() -> None:
    """By name, by its beginning, or the best first."""
    chosen, rows = module("table").chosen, module("summary").tried(hand_made())

    def names(**asked: Any) -> list[str]:
        return [row.name for row in chosen(rows, **asked)]

    assert names() == ["base", "deep", "hot", "hiv"]
    assert names(names=["hot", "base"]) == ["hot", "base"]
    assert names(prefix="h") == ["hot", "hiv"]
    assert names(sort="val", prefix="")[-1] == "hot"
    assert names(names=["base", "deep"], sort="val") == ["deep", "base"]
    areas = [logged(name, metric="roc_auc", val=val) for name, val in (("x", 0.7), ("y", 0.8))]
    by_area = chosen(module("summary").tried(areas), sort="val")
    assert [row.name for row in by_area] == ["y", "x"]
    with pytest.raises(ValueError, match="no run is named 'bas'. Known: base, deep, hot, hiv"):
        chosen(rows, ["bas"])


def test_the_picture(tmp_path: Path) -> None:
    """Curves of all runs, failed ones too; the steep beginning is left out."""
    pytest.importorskip("matplotlib")
    rows = module("summary").tried(hand_made()[:6])
    module("curves").draw(rows, tmp_path / "some.png")
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
    module("curves").draw(rows[2:3], tmp_path / "failed.png")
    assert (tmp_path / "failed.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(
        ValueError, match="one data set and metric.*zinc, mae; ogbg-molhiv, roc_auc"
    ):
        module("curves").draw(module("summary").tried(hand_made()), tmp_path / "mixed.png")


def test_the_table_s_command(tmp_path: Path) -> None:
    """Prints what the log holds, or says what it does not."""
    from click.testing import CliRunner

    log = tmp_path / "log.jsonl"
    for run in hand_made():
        module("log").append(run, log)
    main, places = module("table").main, ["--log", str(log)]
    asked = ["deep", "--against", "base", *places]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0 and "| -0.0300 (" in done.output
    refused = CliRunner().invoke(main, ["deeper", *places])
    assert refused.exit_code == 2 and "no run is named 'deeper'" in refused.output
    empty = CliRunner().invoke(main, ["--prefix", "x", *places])
    mixed = CliRunner().invoke(main, ["--plot", str(tmp_path / "some.png"), *places])
    if importlib.util.find_spec("matplotlib"):
        assert mixed.exit_code == 2 and "a picture is of one data set" in mixed.output
    assert empty.exit_code == 2 and "has no run of a name that begins with 'x'" in empty.output


def test_the_real_log_can_be_read() -> None:
    """Every line that is kept with this checkout."""
    log = module("log")
    assert all(run.seconds > 0 and run.name for run in log.read(log.LOG))
