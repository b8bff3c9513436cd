"""Hostile command lines give one message, and control characters are always escaped."""

from __future__ import annotations

import csv
import dataclasses
import io
import pickle
import random
import re

import pytest
from click.testing import CliRunner
from rich.table import Table

from molsepnorm.cli import main
from molsepnorm.cli.console import escaped, make_console
from molsepnorm.data.tables.formats import ReadOptions
from molsepnorm.errors import DataError, prefixed
from molsepnorm.training import TrainingResult, load_config
from molsepnorm.training.config import TrainConfig

VALUES = (
    *("", "x", "0", "-1", "1.5", "1e309", ".nan", "-.inf", "null", "true", "[]", "{}", "[1,2]"),
    *("{a: b}", "2024-13-45", "2024-01-02", "!!int x", "!!float x", "!!binary x", "9" * 5000),
    *(str(2**63), str(2**64), "10000000", "0x" + "f" * 6000, "[" * 2000 + "]" * 2000, "[" * 9000),
    *("&a [*a]", "*a", '"\\0"', '"\\x1b[2J[red]"', '"\\ud800"', "é", "a" * 5000, ".."),
    *("1:2:3:4", "<<: x", "? x", "%", "@", "`", "!", "|", "0.5,0.5", "\t", '"\\n"', "\udce9"),
)


def _keys():
    config = load_config("zinc")
    for section in TrainConfig.model_fields:
        of = getattr(config, section)
        names = dataclasses.fields(of) if dataclasses.is_dataclass(of) else type(of).model_fields
        yield from (f"{section}.{getattr(name, 'name', name)}" for name in names)


def test_hostile_settings_are_refused_without_a_traceback(monkeypatch, tmp_path):
    """A random sample of every setting with every value; valid values would start training."""
    from molsepnorm import training

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        training, "train", lambda _, folder, **__: TrainingResult(folder, False, None, {})
    )
    pairs = [(key, value) for key in [*_keys(), "", "run", "x.y"] for value in VALUES]
    for key, value in random.Random(0).sample(pairs, 60):
        source = ("--data", "x.csv") if key.startswith("data.") else ("--dataset", "zinc")
        setting = f"{key}={value}"
        done = CliRunner().invoke(main, ["train", *source, "-o", "out", "--set", setting])
        assert isinstance(done.exception, SystemExit), (setting[:80], done.exc_info)
        assert "\x1b" not in done.output
        assert len(done.output) < 8000, setting[:80]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["predict", "--model", "m", "--smiles", "C", "--output", ""], "'' is not a path"),
        (["predict", "--model", "m", "--smiles", "C\udce9C"], r"'C\\udce9C' is not in the"),
        (["\x1b[2Jtrain"], r"No such command '\\x1b\[2Jtrain'"),
        (["train", "--\x1b[2J"], r"No such option '?--\\x1b\[2J"),
        (["data", "check", "\x1b[31m[red]x.csv"], r"\\x1b\[31m\[red\]x.csv"),
        (["train", "--dataset", "\x9b2J\u202e"], r"unknown data set '\\x9b2J\\u202e'"),
    ],
)
def test_errors_escape_control_characters_of_arguments(run, args, message):
    done = run(*args)
    assert isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code in (1, 2)
    assert re.search(message, done.output), done.output
    assert not set("\x1b\x9b\u202e") & set(done.output)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UnicodeEncodeError("ascii", "é", 0, 1, "no such letter"), "in the output's encoding: "),
        (MemoryError(), "out of memory"),
        (csv.Error("field larger than field limit"), "a table cannot be read"),
    ],
)
def test_system_errors_are_printed_without_a_traceback(monkeypatch, refused, error, message):
    from molsepnorm import training

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(training, "train", fail)
    assert message in refused("train", "--dataset", "zinc", "-o", "x", code=1)


def test_a_first_line_longer_than_csv_fields_is_read():
    """It is a header if it has a column of that name; otherwise it is a SMILES."""
    from molsepnorm.cli.sources import _chunks

    (chunk,) = _chunks(io.StringIO("C" * 200_000 + "\n"), "standard input", ReadOptions(), ())
    assert list(chunk["smiles"]) == ["C" * 200_000]
    long = f"{'x' * 200_000},smiles\n1,CC\n"
    (chunk,) = _chunks(io.StringIO(long), "standard input", ReadOptions(), ())
    assert list(chunk["smiles"]) == ["CC"]


def test_only_control_characters_are_escaped():
    kept = "line\n\ttab é 分子 ± … 1 → 2 [red] [/]"
    assert escaped(kept) == kept
    assert escaped("\x1b]0;x\x07\r\x7f\x9b\udce9\u202e") == r"\x1b]0;x\x07\r\x7f\x9b\udce9\u202e"


def test_the_console_escapes_tables_titles_and_lines(capsys):
    """The console's own colours work, and text is not interpreted as markup."""
    console = make_console()
    table = Table(title="t\x1b[2J")
    table.add_column("[red]c\x1b[2J")
    table.add_row("[/]cell\x1b[2J")
    table.add_row("cell[/]\x1b[2J")
    console.print(table)
    console.print("line\x1b[2J[bold]", style="yellow")
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.count(r"\x1b[2J") == 5
    for text in ("[red]c", "[/]cell", "cell[/]", "[bold]"):
        assert text in printed


def test_line_breaks_and_tabs_of_names_are_escaped(refused, ok, tmp_path):
    """A message or table row stays on one line; each of several errors has its own line."""
    path = tmp_path / "my.csv"
    path.write_text('smiles,"a\nb","c\td"\n' + "".join(f"{'C' * i},{i},x\n" for i in range(1, 25)))
    assert r"Known: a\nb, c\td, smiles." in refused("train", "--data", path, "--targets", "e")
    shown = ok("data", "check", path, "--targets", "a\nb")
    assert r" a\nb " in shown
    message = refused("train", "--data", path, "--set", "run.epochs=x", "--lr=-1")
    assert len(message.splitlines()) == 2
    with pytest.raises(DataError) as caught, prefixed("here"):
        raise DataError("a\tb", "second line")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.lines == ("here: a\tb", "second line")
    assert str(again) == "here: a\tb\nsecond line"


def test_an_option_and_a_setting_that_disagree_are_refused(refused, run, tmp_path):
    """Their order does not matter."""
    one, other = ("--epochs", 1), ("--set", "run.epochs=2")
    for arguments in ((*one, *other), (*other, *one)):
        message = refused("train", "--dataset", "zinc", *arguments)
        assert "--epochs and --set run.epochs are the same setting, with different" in message
    both = (*one, "--set", "run.epochs=1", "--device", "meta", "--data", tmp_path / "x.csv")
    assert "same setting" not in run("train", *both).output
