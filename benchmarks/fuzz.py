"""Invalid input of many kinds, and the promises that the package keeps for it.

    python -m benchmarks.fuzz --minutes 5 --seed 0            every kind in turn
    python -m benchmarks.fuzz --kind smiles --kind tables     findings in runs/fuzz are tried first

Hypothesis draws cases and shrinks the first finding of each kind. A case runs in a forked child
with limits, so that a crash or a hang is a finding, too. For any input, the library raises
`MolsepnormError` only; a command that fails has a message, no traceback and leaves no part of a
file; every row of a table remains, with finite numbers or a reason; and a damaged file is refused
or gives the same numbers as before.
"""

from __future__ import annotations

import csv
import io
import math
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import hypothesis
import pandas as pd
import torch
from click.testing import CliRunner
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from molsepnorm import MolsepnormError, Predictor, load_config, train
from molsepnorm.cli.main import main as molsepnorm
from molsepnorm.model import folder
from molsepnorm.training import StopWhen
from molsepnorm.training.run_folder import checkpoint

DEMO = pd.read_csv(Path(__file__).parents[1] / "data/demo.csv", dtype=str)
SMILES = tuple(DEMO["smiles"])
TARGETS, COLOURS = ["logp", "active", "colour"], ("red", "green", "blue")
SETTINGS = {"data.targets": TARGETS, "model.layers": 2, "model.width": 16, "model.heads": 2}
SETTINGS |= {"run.epochs": 1, "run.batch_size": 8, "run.device": "cpu", "run.baseline": False}
choice = st.sampled_from


def run(arguments: list[str], stdin: bytes = b"", data: bool = False) -> Any:
    """Run `molsepnorm` and check its end. With `data`, it prints the input."""
    done = CliRunner(catch_exceptions=False).invoke(molsepnorm, arguments, stdin)
    assert done.exit_code in (0, 1, 2), done.exit_code
    assert done.exit_code == 0 or done.stderr.strip(), "an error without a message"
    assert "Traceback (most recent call last)" not in done.output, done.output
    assert "\x1b" not in (done.stderr if data else done.output), done.output
    assert not list(Path().glob(".*.partial")), "a part of a file is left"
    return done


def read_back(path: str) -> list[list[str]]:
    """Return the rows of a CSV of ours, which csv and pandas read alike."""
    csv.field_size_limit(1 << 30)
    rows = list(csv.reader(io.StringIO(Path(path).read_bytes().decode(), newline="")))
    table = pd.read_csv(path, header=None, dtype=str, na_filter=False, skip_blank_lines=False)
    assert table.to_numpy().tolist() == rows, f"csv and pandas read other cells in {path}"
    return rows


def number_or_reason(values: list[Any], reason: str | None) -> None:
    """There are finite numbers, or blanks and a reason."""
    blank = [value in (None, "") for value in values]
    finite = (value in COLOURS or math.isfinite(float(value)) for value in values)
    assert all(blank) if reason else not any(blank) and all(finite), (values, reason)


class Work:
    """A folder with work/: table.csv, tiny.yaml, run/ (trained), whole/ (trained for three epochs)
    and stopped/ (the same run in its second epoch). Cases run beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, root = folder, folder / "work"
        root.mkdir()
        table = DEMO.iloc[:60, :3].set_axis(["smiles", *TARGETS[:2]], axis=1)
        table.assign(colour=COLOURS * 20).to_csv(root / "table.csv", index_label="id")
        os.environ["MOLSEPNORM_CACHE"] = str(folder / "cache")
        config, steps = load_config(root / "table.csv", overrides=SETTINGS), iter(range(99))
        config.save(root / "tiny.yaml")
        long, stop = config.changed({"run.epochs": 3}), StopWhen(lambda: next(steps) == 8)
        self.isolated(lambda: train(config, root / "run"))  # autograd's threads survive no fork
        self.isolated(lambda: train(long, root / "whole"))
        self.isolated(lambda: train(long, root / "stopped", callback=stop))
        self.predictor = Predictor.from_pretrained(root / "run")

    def isolated(self, do: Callable[[], object], seconds: int = 20) -> None:
        """Run in a forked child, in an empty folder and with limits; raise AssertionError for any
        error, crash or hang there."""
        scratch, report = self.folder / "scratch", self.folder / "report.txt"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        report.write_text("")

        def child() -> None:
            os.setsid()
            os.chdir(scratch)
            torch.set_num_threads(1)  # OpenMP's other threads do not survive the fork
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 30),) * 2)  # 6 GB more
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            try:
                do()
            except BaseException:
                report.write_text(traceback.format_exc()[-6000:], errors="replace")

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(6 * seconds)
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)  # and whatever it has started
        process.join()
        assert not report.read_text(), report.read_text()
        assert process.exitcode == 0, f"a crash or a hang: exit code {process.exitcode}"


# SMILES: mutated molecules, noise, and extremes of every part of the language
PIECES = (
    *("[999C]", "[C+99]", "[C-----]", "[H+]", "[H][H]", "[C:0]", "[C@TB7](F)(Cl)(Br)(I)N", "[#6]"),
    *("[Co@OH30]", "[Uuo]", "[CH99]", "[C&H1]", "%99", "%(99999)", " |$R1;;$|", " |(0,0,;1,1,)|"),
    *(" |Sg:n:1:n:ht|", " |m:1:2.3|", " |c:0,t:1|", *"CNcn*[]()=#$:/\\@+-.%>019\t\r\n\0\ud800"),
)
REPEATED = (  # the part between the bars many times
    *("…C…", "…*…", "…>…", "…😀…", "…C(C…", "…(…", "…[…", "…c1ccccc1…", "…C1CC2…", "C%(…1…)CC"),
    *("…[Na+].[Cl-].…", "[…9…C]", "[C…+…]", "[C+…9…]", "[CH…9…]", "[C:…9…]", "C1…C…1", "… …CCO"),
    *("CCO |…a…|", "CCO |$…;…$|", "CCO |(…0,0,;…)|", "CC |Sg:n:…0,…:ht|", "C…(F)…", "…F/C=C/…"),
)


@st.composite
def smiles(draw: Any) -> str:
    if draw(st.booleans()):
        before, piece, after = draw(choice(REPEATED)).split("…")
        size = draw(choice((2, 50, 99, 101, 999, 1001, 3000, 20_000, 300_000)))
        closing = {"C(C": ")", "(": ")", "[": "]"}.get(piece, "")
        return before + piece * (size // len(piece) + 1) + after + closing * size
    text = draw(choice(SMILES) | st.text())
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(text))), draw(st.integers(0, 20))
        old = text[start : start + length]
        new = draw(choice((*PIECES, old * 2, old * 50, old[::-1], old.swapcase())))
        text = text[:start] + new + text[start + draw(choice((0, length))) :]
    return text[:5000]


def check_smiles(texts: list[str], work: Work) -> None:
    rows = work.predictor.predict(texts)
    assert [row.smiles for row in rows] == texts and rows == work.predictor.predict(texts)
    for row in rows:
        number_or_reason(list((row.values or {"": None}).values()), row.error)


# Tables, read for a prediction, a check and a training
WAYS = {
    "predict": "predict --model ../work/run --processes 1 -i in.csv -o out.csv",
    "fix": "data check in.csv --fix out.csv",
    "train": "train --config ../work/tiny.yaml --data in.csv -o run",
}
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
CELLS = ("nan", "inf", "1e999", "1_000", "0x10", "a\0b", "=1+1", "1,5", "true", "smiles", "a\rb")
CELLS += ("error", "logp", "logp_pred", "logp.1", "__index_level_0__", "", "x" * 140_000)
_BYTES = choice((b"\0", b'"', b"\r", b"\n", b",", b"\xff\xfe", b"\xe9", b"", b"\0\0\xc0\x7f"))
EDITS = st.lists(st.tuples(st.floats(0, 1), choice((0, 1, 4, 1 << 30)), _BYTES), max_size=3)


def edited(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """Replace bytes: the share of the file before them, their number, and the new ones."""
    for share, length, piece in edits:
        start = int(share * len(content))
        content = content[:start] + piece + content[start + length :]
    return content


@st.composite
def tables(draw: Any) -> tuple[Any, ...]:
    size = draw(st.integers(0, 16))
    rows = [["id", "smiles", "note", *TARGETS]]
    for n in range(size):
        rows.append([str(n), SMILES[n], "x", str(n / 7), str(n % 2), COLOURS[n % 3]])
    places = st.tuples(st.integers(0, size), st.integers(0, 5), _TEXT | choice(CELLS))
    for row, column, cell in draw(st.lists(places, max_size=8)):
        rows[row][column] = cell
    way, edits = draw(choice([*WAYS])), draw(st.just([]) | EDITS)
    encoding = draw(choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "cp037")))
    return rows, way, encoding, edits


def check_table(case: tuple[Any, ...], work: Work) -> None:
    (rows, way, encoding, edits), out = case, io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    content = edited(out.getvalue().encode(encoding, "replace"), edits)
    Path("in.csv").write_bytes(content)
    sound = len({*rows[0]}) == 6 and all(rows[0]) and not edits and encoding.startswith("utf")
    sound &= not any("\0" in "".join(row) for row in rows)  # the same rows must be found
    done = run(WAYS[way].split())
    assert Path("in.csv").read_bytes() == content, "the input was changed"
    if done.exit_code and "see the column error" not in done.stderr:  # which is written
        assert not Path("out.csv").exists() and not Path("run").exists(), "a part is left"
        sound &= way != "train" and len(rows) > 1 and "smiles" in rows[0]
        assert not sound or "has a column" in done.stderr, done.stderr
    elif way == "predict":
        header, *written = read_back("out.csv")
        for row in written:
            number_or_reason([row[header.index(f"{name}_pred")] for name in TARGETS], row[-1])
        assert not sound or [row[:6] for row in [header, *written]] == rows, "rows changed"
    elif way == "fix":
        clean, removed = read_back("out.csv"), read_back("out.removed.csv")
        written = [*clean, *(row for row in removed if row[2] == "removed")]
        assert not sound or len(written) == len(rows), "rows are missing"
    else:
        assert not re.search("NaN|Infinity", Path("run/metrics.json").read_text())
        read_back("run/predictions_test.csv")


# Command lines: every option of every command with invalid values
VALUES = (
    *("-", ".nan", "1e999", "12:30", "a=b", "logp,logp", "colour=regression", "9-0", "1e99h"),
    *("cuda:99", "bf16", "0s", "{[1]: 2}", "&a [*a]", "\x1b[31m", "\udce9", "9" * 5000, "x" * 300),
    *("..", "/dev/null", "/proc/x/y", "table.csv", "run", "full", "full/x.csv", "cpu"),
)
ODD = _TEXT | st.integers().map(str) | st.floats().map(str) | choice(VALUES)
GIVEN = dict.fromkeys(("--trials", "--seeds"), "1") | {"--output": "out", "--smiles": "CCO"}
GIVEN |= {"--model": "run", "--config": "tiny.yaml", "--data": "table.csv"}


@st.composite
def command_lines(draw: Any) -> list[str]:
    line: list[str] = []
    command: Any = molsepnorm
    while isinstance(command, click.Group):
        line.append(draw(choice(command.list_commands(click.Context(command)))))
        command = command.get_command(click.Context(command), line[-1])
    for param in command.params:
        if isinstance(param, click.Argument):
            line.append(draw(choice(("run", "stopped", "table.csv", "out", "out.zip"))))
        for option in GIVEN.keys() & {*param.opts}:
            line += [option, GIVEN[option]]
    options = choice([each for each in command.params if isinstance(each, click.Option)])
    for option in draw(st.lists(options, min_size=1, max_size=3)):
        line += [draw(choice(option.opts)), *([] if option.is_flag else [draw(ODD)])]
    return line


def check_command(line: list[str], work: Work) -> None:
    shutil.copytree("../work", ".", dirs_exist_ok=True)  # which may be changed
    Path("full").mkdir()
    Path("full/x.csv").write_text("mine")
    run(line, b"CCO\n\xff", data=line[0] == "predict")
    assert Path("full/x.csv").exists() or "full/x.csv" in line, "a folder was replaced"


# Damaged files of models and stopped runs; with forged digests, numbers must be finite at least
FILES = ("model/config.json", "model/model.safetensors", "checkpoints/last.safetensors")
FILES += ("splits.json", "config.yaml", "history.csv")
JSON = (b"null", b"-1", b"1e400", b"NaN", b"[]", b"{}", b'"x"', b"9" * 5000, b"[" * 9999)
DAMAGE = st.tuples(choice(FILES), EDITS, st.integers(0, 99), choice(JSON), st.booleans())


def check_damage(case: tuple[str, Any, int, bytes, bool], work: Work) -> None:
    name, edits, number, value, forged = case
    shutil.copytree("../work/stopped", "run")
    path = Path("run", name)
    before = path.read_bytes()
    values = [found.span() for found in re.finditer(rb"(?<=: )[^,\n{}\[]+", before)]
    if values and path.suffix == ".json":
        start, end = values[number % len(values)]
        path.write_bytes(before[:start] + value + before[end:])
    else:
        path.write_bytes(edited(before, edits))
    if forged:
        folder.has_digest, checkpoint.check_sealed = (lambda *_: True), str
        old, new = (sha256(each).hexdigest() for each in (before, path.read_bytes()))
        config = Path("run/model/config.json")
        config.write_text(config.read_text().replace(old, new))
    if name.startswith("model/"):
        expected = Predictor.from_pretrained("../work/stopped").predict(SMILES[:5])
        with suppress(MolsepnormError):
            rows = Predictor.from_pretrained("run").predict(SMILES[:5])
            for old, new in zip(expected, rows, strict=True):
                values = new.values.values()
                number_or_reason([v for v in values if type(v) is not str], new.error)
                assert forged or old.values == new.values, f"{old.values} became {new.values}"
    elif run(["train", "--resume", "run"]).exit_code == 0 and not forged:
        results = (Path(folder, "predictions_test.csv") for folder in ("run", "../work/whole"))
        assert len({each.read_bytes() for each in results}) == 1, "other predictions"


KINDS: dict[str, tuple[Any, Callable[[Any, Work], None]]] = {
    "smiles": (st.lists(smiles(), min_size=1, max_size=4), check_smiles),
    "tables": (tables(), check_table),
    "commands": (command_lines(), check_command),
    "damage": (DAMAGE, check_damage),
}


def explore(name: str, work: Work, seed: int, output: Path, cases: int = 40) -> None:
    """Try cases of a kind; raise AssertionError with the smallest case that breaks a promise."""
    drawn, check = KINDS[name]

    @hypothesis.settings(
        max_examples=cases,
        database=DirectoryBasedExampleDatabase(output / name),
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.seed(seed)  # below the settings, since it removes the database
    @hypothesis.given(drawn)
    def try_case(case: Any) -> None:
        work.isolated(lambda: check(case, work))

    try_case()


@click.command()
@click.option("--minutes", type=float, default=5.0, help="Duration, for all kinds together.")
@click.option("--seed", type=int, default=0, help="Random seed of the cases.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)))
def main(minutes: float, seed: int, kinds: tuple[str, ...]) -> None:
    """Try invalid input on molsepnorm and list the promises that it broke."""
    end, left, output = time.monotonic() + 60 * minutes, {*(kinds or KINDS)}, Path("runs/fuzz")
    with tempfile.TemporaryDirectory(prefix="molsepnorm-fuzz-") as folder:
        work = Work(Path(folder).resolve())
        while left and time.monotonic() < end:
            for name in sorted(left):
                try:
                    explore(name, work, seed, output)
                except Exception as error:  # AssertionError, or Flaky if it does not fail again
                    print(f"{name}: {error}", *getattr(error, "__notes__", ()), sep="\n")
                    left.remove(name)
            seed += 1000  # another round
    print(f"Kinds without a finding: {', '.join(sorted(left))}")
    sys.exit(left < {*(kinds or KINDS)})


if __name__ == "__main__":
    main()
