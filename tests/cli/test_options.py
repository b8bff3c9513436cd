"""Options become settings, each its own; what contradicts itself is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from molsepnorm import training
from molsepnorm.cli.options import _SETTINGS
from molsepnorm.training import TrainingResult

COMMANDS = ("train", "benchmark")


@pytest.fixture
def asked(monkeypatch, ok, tmp_path):
    """`asked("--lr", 1)`: the configuration that `molsepnorm train` would train."""
    seen = []

    def train(config, folder, **_):
        seen.append(config)
        return TrainingResult(Path(folder), True, None, {})

    monkeypatch.setattr(training, "train", train)
    monkeypatch.chdir(tmp_path)

    def call(*args):
        ok("train", *args)
        return seen[-1]

    return call


@pytest.fixture
def nothing_is_trained(monkeypatch):
    def fail(*args, **_):
        raise AssertionError("was trained")

    monkeypatch.setattr(training, "train", fail)
    monkeypatch.setattr(training, "train_series", fail)


OPTIONS = {
    "data_dir": ("raw", Path("raw")),
    "smiles_column": ("structure", "structure"),
    "targets": ("a, b,c d", ["a", "b", "c d"]),
    "task_type": ("binary", "binary"),
    "ignore_columns": ("id,name", ["id", "name"]),
    "weight_column": ("w", "w"),
    "splits_column": ("part", "part"),
    "splits_file": ("splits.json", Path("splits.json")),
    "split_type": ("scaffold", "scaffold"),
    "split": ("0.7,0.2,0.1", (0.7, 0.2, 0.1)),
    "split_seed": ("3", 3),
    "folds": ("5", 5),
    "fold": ("2", 2),
    "featurizer": ("zinc", "zinc"),
    "on_invalid": ("fail", "fail"),
    "epochs": ("7", 7),
    "budget": ("11m", "11m"),
    "batch_size": ("9", 9),
    "seed": ("11", 11),
    "device": ("cuda:3", "cuda:3"),
    "threads": ("3", 3),
    "precision": ("bf16", "bf16"),
    "metric": ("rmse", "rmse"),
    "patience": ("4", 4),
    "lr": ("0.01", 0.01),
    "class_weight": ("balanced", "balanced"),
    "layers": ("2", 2),
    "norm": ("shared", "shared"),
}


def test_every_option_that_stands_for_a_setting_is_looked_at_here():
    assert set(OPTIONS) == set(_SETTINGS)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_sets_its_setting_and_no_other(asked, name):
    """Against the configuration without it."""
    text, value = OPTIONS[name]
    plain = asked("--data", "x.csv").model_dump()
    given = asked("--data", "x.csv", f"--{name.replace('_', '-')}", text).model_dump()
    section, _, key = _SETTINGS[name].partition(".")
    assert given[section][key] == value != plain[section][key]
    given[section][key] = plain[section][key]
    assert given == plain


def test_a_setting_may_be_given_by_its_name_too(asked):
    """Its option may say the same, but nothing else."""
    config = asked(
        *("--data", "x.csv", "--lr", "2", "--set", "optim.lr=2", "--target-columns", "a,b"),
        *("--set", "data.classes={a: [x, y]}", "--set", "run.max_pairs=99"),
    )
    assert config.optim.lr == 2
    assert config.data.targets == ["a", "b"]
    assert config.data.classes == {"a": ["x", "y"]}
    assert config.run.max_pairs == 99


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("regression", "regression"),
        ("binary", "binary"),
        ("classification", "binary"),
        ("multiclass", "multiclass"),
        ("a=binary", {"a": "binary"}),
        ("a=classification, b = multiclass", {"a": "binary", "b": "multiclass"}),
        ("log[k=1]=regression,b=binary", {"log[k=1]": "regression", "b": "binary"}),
    ],
)
def test_task_types_are_one_kind_or_pairs(asked, text, kinds):
    """classification, as chemprop and others say, is yes/no."""
    assert asked("--data", "x.csv", "--task-type", text).data.task_type == kinds


@pytest.mark.parametrize("text", ["0.7,0.2,0.1", "0.7 0.2 0.1", "0.7, 0.2, 0.1", "7e-1,.2,0.1"])
def test_shares_are_separated_by_commas_or_blanks(asked, text):
    assert asked("--data", "x.csv", "--split", text).data.split == (0.7, 0.2, 0.1)


@pytest.mark.parametrize("source", ["my.csv", "my.tsv", "my.csv.gz", "my.parquet", "my.sdf"])
def test_the_run_is_called_like_its_data(monkeypatch, ok, tmp_path, source):
    """Without any of the file's endings."""
    folders = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        training,
        "train",
        lambda config, folder, **_: (
            folders.append(Path(folder)) or TrainingResult(Path(folder), True, None, {})
        ),
    )
    ok("train", "--data", f"folder/{source}")
    ok("train", "--dataset", "ogbg-molhiv")
    assert folders == [Path("runs/my-1"), Path("runs/ogbg-molhiv-1")]


TABLE = ("--data", "x.csv")
WRONG = [
    ((*TABLE, "--task-type", "ranking"), "'ranking' is none of regression, binary, multiclass;"),
    ((*TABLE, "--task-type", ""), "'' is none of regression, binary, multiclass"),
    ((*TABLE, "--task-type", "a"), "'a' is none of"),
    ((*TABLE, "--task-type", "a=binary,b"), "'b' is none of"),
    ((*TABLE, "--task-type", "a=binary,regression"), "one kind, or target=kind pairs throughout"),
    ((*TABLE, "--split", "0.8,0.2"), "'0.8,0.2' should look like 0.8,0.1,0.1"),
    ((*TABLE, "--split", "0.7,0.1,0.1,0.1"), "should look like 0.8,0.1,0.1"),
    ((*TABLE, "--split", "most,some,few"), "'most,some,few' should look like 0.8,0.1,0.1"),
    ((*TABLE, "--split", ""), "should look like 0.8,0.1,0.1"),
    ((*TABLE, "--split", "80,10,10"), "three positive shares that sum to 1; got [80.0, 10.0, 10"),
    ((*TABLE, "--split", "0.9,0.1,0"), "three positive shares that sum to 1; got [0.9, 0.1, 0.0]"),
    ((*TABLE, "--split", "nan,0.5,0.5"), "three positive shares that sum to 1"),
    ((*TABLE, "--split-type", "scafold"), "data.split_type: "),
    ((*TABLE, "--split-seed", "-1"), "data.split_seed: "),
    ((*TABLE, "--folds", "1"), "data.folds: "),
    ((*TABLE, "--folds", "3", "--fold", "3"), "with 3 folds it ends at 2; got 3"),
    ((*TABLE, "--fold", "-1"), "data.fold: "),
    ((*TABLE, "--featurizer", "ecfp"), "data.featurizer: "),
    ((*TABLE, "--class-weight", "equal"), "optim.class_weight: Input should be 'balanced'"),
    ((*TABLE, "--patience", "0"), "run.patience: "),
    ((*TABLE, "--patience", "soon"), "'--patience'"),
    ((*TABLE, "--preset", "maxi"), "Did you mean 'mini'? Known: base, mini, slim"),
    ((*TABLE, "--splits-column", "p", "--folds", "3"), "data.splits_column and data.folds both sa"),
    (
        (*TABLE, "--splits-column", "p", "--splits-file", "s.json"),
        "data.splits_column and data.splits_file both say how to split: keep one",
    ),
    ((*TABLE, "--splits-file", "s.json", "--folds", "3"), "both say how to split: keep one"),
    (("--dataset", "zinc", *TABLE), "--dataset and --data are both sources"),
    *(
        (("--dataset", "zinc", *option), f"data.{name} is for tables: zinc has its own")
        for name, option in {
            "targets": ("--targets", "y"),
            "task_type": ("--task-type", "binary"),
            "ignore_columns": ("--ignore-columns", "y"),
            "weight_column": ("--weight-column", "w"),
            "split_type": ("--split-type", "scaffold"),
            "split_seed": ("--split-seed", "1"),
            "splits_column": ("--splits-column", "p"),
            "splits_file": ("--splits-file", "s.json"),
            "folds": ("--folds", "3"),
            "fold": ("--fold", "1"),
        }.items()
    ),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("args", "message"), WRONG, ids=lambda value: str(value)[:60])
def test_what_cannot_be_asked_for_is_a_usage_error(
    nothing_is_trained, refused, tmp_path, monkeypatch, command, args, message
):
    """Told before any file is read, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert message in refused(command, *args)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--dataset", "zinc", "--targets", "y"), "data.targets is for tables: zinc has its own"),
        (("--data", "x.csv", "--folds", "3"), "No such option"),
        (("--data", "x.csv", "--dataset", "zinc"), "name one source"),
    ],
)
def test_evaluation_takes_fewer_of_them(refused, tmp_path, args, message):
    assert message in refused("evaluate", "--model", tmp_path, *args)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_shows_every_option(ok, command):
    """Each with its explanation, in the order of what one decides first."""
    text = ok(command, "--help")
    places = [text.index(f"--{name}") for name in ("dataset ", "targets", "splits-file", "preset")]
    assert places == sorted(places)
    shown = set(OPTIONS) - ({"seed"} if command == "benchmark" else set())
    assert [name for name in shown if f"--{name.replace('_', '-')}" not in text] == []
    assert "[default: 0.8,0.1,0.1]" in " ".join(text.split())
