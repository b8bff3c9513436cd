"""Command-line options set their settings, and contradicting options are refused."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from settings import settings

from molsepnorm import training
from molsepnorm.cli import main
from molsepnorm.training import TrainingResult

SETTINGS = {
    setting.options[0].removeprefix("--").partition("/")[0]: setting.name
    for setting in settings()
    if setting.options
}
TESTED_ELSEWHERE = {"dataset", "data", "from"}  # sources, and fine-tuning
TESTED_ELSEWHERE |= {"allow-leak", "no-test", "auxiliary"}  # flags, and one that may be repeated
TESTED_ELSEWHERE |= {"no-baseline", "no-refit", "no-training-structures", "own-networks"}
TESTED_ELSEWHERE |= {"time-column", "time-format"}  # which need --split-type time


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """The configuration and the folder of each run, which is not trained."""
    seen = []

    def train(config, folder, **_):
        seen.append((config, Path(folder)))
        return TrainingResult(Path(folder), True, None, {})

    monkeypatch.setattr(training, "train", train)
    monkeypatch.chdir(tmp_path)
    return seen


@pytest.fixture
def config_of(trained, ok):
    """`config_of("--lr", 1)`: the configuration that `molsepnorm train --lr 1` trains."""

    def call(*args):
        ok("train", *args)
        return trained[-1][0]

    return call


@pytest.fixture
def nothing_is_trained(monkeypatch):
    def fail(*args, **_):
        raise AssertionError("was trained")

    monkeypatch.setattr(training, "train", fail)


OPTIONS = {
    "data-dir": ("raw", Path("raw")),
    "smiles-column": ("structure", "structure"),
    "decimal": (",", ","),
    "encoding": ("cp1252", "cp1252"),
    "sheet": ("data", "data"),
    "header-row": ("3", 3),
    "missing-values": ("-999,-1", ["-999", "-1"]),
    "relation-column": ("qualifier", "qualifier"),
    "unit-column": ("unit", "unit"),
    "targets": ("a, b,c d", ["a", "b", "c d"]),
    "task-type": ("binary", "binary"),
    "targets-except": ("id,name", ["id", "name"]),
    "weight-column": ("w", "w"),
    "error-column": ("y=y_se, z = z_se", {"y": "y_se", "z": "z_se"}),
    "splits-column": ("part", "part"),
    "split-by": ("solvent", "solvent"),
    "splits-file": ("splits.json", Path("splits.json")),
    "split-type": ("butina", "butina"),
    "split": ("0.7,0.2,0.1", (0.7, 0.2, 0.1)),
    "split-seed": ("3", 3),
    "folds": ("5", 5),
    "fold": ("2", 2),
    "limits": ("a=0.5:, b=:9,c=1:2", {"a": (0.5, None), "b": (None, 9), "c": (1, 2)}),
    "transform": ("a_nM=pic50, b=log10,c=none", {"a_nM": "pic50:nM", "b": "log10", "c": "none"}),
    "duplicates": ("mean", "mean"),
    "feature-columns": ("temperature, assay", ["temperature", "assay"]),
    "molecule-features": ("morgan,rdkit", ["morgan", "rdkit"]),
    "featurizer": ("zinc", "zinc"),
    "standardize": ("parent", "parent"),
    "on-invalid": ("fail", "fail"),
    "epochs": ("7", 7),
    "blend": ("forest", "forest"),
    "ensemble": ("5", 5),
    "budget": ("11m", "11m"),
    "batch-size": ("9", 9),
    "seed": ("11", 11),
    "device": ("cuda:3", "cuda:3"),
    "threads": ("2", 2),
    "precision": ("bf16", "bf16"),
    "metric": ("rmse", "rmse"),
    "patience": ("4", 4),
    "lr": ("0.01", 0.01),
    "class-weight": ("balanced", "balanced"),
    "task-weights": ("logP=2,toxic=0.5", {"logP": 2.0, "toxic": 0.5}),
    "layers": ("2", 2),
    "norm": ("shared", "shared"),
}
"""Option -> value on the command line, and value of the setting."""


def test_every_option_of_a_setting_is_tested_here():
    assert set(OPTIONS) == set(SETTINGS) - TESTED_ELSEWHERE


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_changes_only_its_setting(config_of, name):
    text, value = OPTIONS[name]
    source = ("--data", "x.csv", "--from", "none")
    plain = config_of(*source).model_dump()
    changed = config_of(*source, f"--{name}", text).model_dump()
    section, _, key = SETTINGS[name].partition(".")
    assert changed[section][key] == value != plain[section][key]
    changed[section][key] = plain[section][key]
    assert changed == plain


def test_a_flag_switches_its_setting_on_or_off(config_of, tmp_path):
    """Without the flag, a file of settings decides."""
    file, data = tmp_path / "settings.yaml", ("--data", "x.csv")
    file.write_text("data: {table: x.csv}\nfinetune: {allow_leak: true}\nrun: {baseline: false}\n")
    assert config_of(*data, "--allow-leak").finetune.allow_leak
    assert config_of("--config", file).finetune.allow_leak
    assert not config_of(*data).finetune.allow_leak
    given = ((), ("--own-networks",), ("--no-own-networks",))
    assert [config_of(*data, *flag).run.own_networks for flag in given] == [None, True, False]
    assert not config_of("--config", file).run.baseline
    plain, off = (
        config_of(*data, *flags).run
        for flags in ((), ("--no-baseline", "--no-training-structures", "--no-refit"))
    )
    assert plain.baseline and plain.training_structures and plain.refit
    assert not off.baseline and not off.training_structures and not off.refit
    assert not config_of(*data, "--folds", 5, "--no-test").data.test_set
    split = config_of(*data, "--split-type", "time", "--time-column", "measured").data
    assert (split.split_type, split.time_column) == ("time", "measured")


def test_a_setting_can_also_be_given_by_its_name(config_of):
    """The option and --set may give the same value."""
    config = config_of(
        *("--data", "x.csv", "--lr", "2", "--set", "optim.lr=2", "--targets", "a,b"),
        *("--set", "data.classes={a: [x, y]}", "--set", "run.max_pairs=99"),
    )
    assert config.optim.lr == 2
    assert config.data.targets == ["a", "b"]
    assert config.data.classes == {"a": ["x", "y"]}
    assert config.run.max_pairs == 99


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("classification", "binary"),
        ("a=classification, b = multiclass", {"a": "binary", "b": "multiclass"}),
        ("log[k=1]=regression,b=binary", {"log[k=1]": "regression", "b": "binary"}),
    ],
)
def test_task_type_is_one_kind_or_pairs(config_of, text, kinds):
    """classification, the word of chemprop and others, means binary."""
    assert config_of("--data", "x.csv", "--task-type", text).data.task_type == kinds


@pytest.mark.parametrize("text", ["0.7 0.2 0.1", "7e-1,.2, 0.1"])
def test_split_fractions_are_separated_by_commas_or_spaces(config_of, text):
    assert config_of("--data", "x.csv", "--split", text).data.split == (0.7, 0.2, 0.1)


def test_the_run_folder_is_named_after_the_data(trained, ok):
    """The file's extensions are left out."""
    for source in ("my.sdf", "my.csv.gz"):
        ok("train", "--data", f"folder/{source}")
    ok("train", "--dataset", "ogbg-molhiv")
    folders = [folder for _, folder in trained]
    assert folders == [Path("runs/my-1"), Path("runs/my-1"), Path("runs/ogbg-molhiv-1")]


TABLE = ("--data", "x.csv")
WRONG = [
    ((*TABLE, "--targets", ""), "'' has no name: write names such as a,b, or leave"),
    ((*TABLE, "--task-type", "a=binary,regression"), "write one kind for all targets, or only"),
    ((*TABLE, "--transform", "a=pic50"), "the unit of 'a' is not in its name: write a=pic50:nM"),
    ((*TABLE, "--split", "nan,0.5,0.5"), "three fractions that sum to 1"),
    ((*TABLE, "--folds", "3", "--fold", "3"), "with 3 folds it is at most 2; got 3"),
    ((*TABLE, "--splits-file", "s.json", "--folds", "3"), "both define the split: keep one"),
    (("--dataset", "zinc", *TABLE), "--dataset and --data are both sources"),
    (("--dataset", "zinc", "--targets", "y"), "data.targets is for tables: zinc has its own"),
]


@pytest.mark.parametrize(("args", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_invalid_options_are_usage_errors(
    nothing_is_trained, refused, tmp_path, monkeypatch, args, message
):
    """No file is read or written before the error."""
    monkeypatch.chdir(tmp_path)
    assert message in refused("train", *args)
    assert not list(tmp_path.iterdir())


def test_help_of_a_command_imports_nothing_heavy_and_fits_the_terminal():
    code = (
        "import sys\nfrom molsepnorm.cli import main\n"
        "try:\n    main(['train', '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'pandas', 'rdkit', 'numpy', 'pydantic', 'yaml', 'sklearn', 'rich'}\n"
        "sys.exit(f'imported: {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)\n"
    )
    environment = {**os.environ, "COLUMNS": "60"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.partition("\nData:")[2].splitlines()
    assert max(len(line) for line in lines if not line.startswith("  -")) <= 60
    assert "\x1b" not in done.stdout


def _documented_commands() -> list[str]:
    """The commands in the code blocks and inline code of the documentation."""
    root = Path(__file__).parents[2]
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages).replace("\\\n", " ")
    names = "|".join(main.list_commands(click.Context(main)))
    found = re.findall(rf"molsepnorm ((?:{names})\b[^`\n|#]*)", text)
    return sorted({command.strip() for command in found if "…" not in command})


@pytest.mark.parametrize("line", _documented_commands())
def test_every_documented_command_has_valid_options(line):
    """The command is parsed, but not run."""
    command, arguments = main, shlex.split(line)
    while isinstance(command, click.Group) and arguments:
        context = click.Context(command)
        if command.name == "models" and arguments[0] not in command.commands:
            arguments.insert(0, "show")  # it may be left out
        command = command.get_command(context, arguments.pop(0))
        assert command is not None
    if arguments:
        command.make_context(command.name, arguments)


def test_an_option_that_takes_one_value_is_refused_if_given_twice(refused):
    """All spellings are one option. The values need not be valid."""
    assert "--input was given 2 times" in refused("predict", "-i", "a", "--input", "b")
    assert "--no-train was given 2 times" in refused("tune", "--no-train", "--no-train")
    args = ("--data", "x.csv", "--set", "optim.lr=1", "--set", " optim.lr = 2")
    assert refused("train", *args).endswith("optim.lr was given twice: 1 and 2")
