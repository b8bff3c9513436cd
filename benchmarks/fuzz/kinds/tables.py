"""Tables in every format, read by every command that reads one."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import random
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rdkit import Chem, RDLogger

from benchmarks.fuzz import promises
from benchmarks.fuzz.work import TARGETS, Result, Work, command

PARTS = ("rows", "columns", "damage")

_CELLS = (
    *("", " ", "\r", "a\rb", "a\nb", "a\r\nb", '"', '""', "'", ",", ";", "\t", "=1+1", "nan"),
    *("inf", "NaN", "None", "1e999", "-0", "1_000", "0x10", "١", "\x00", "a\x00b", "\ufeff"),
    *("\u2028", "\x85", "\x0b", "\x0c", "\x1a", "\x1b[31mred", "😀", "é", "1,5", "\\", "#x"),
    *("x" * 140_000, "true"),
)
_NAMES = (
    *("", " ", "smiles", "Smiles", "error", "logp", "logp_pred", "logp.1", "colour_prob_red"),
    *("1", '"', "a\nb", "a\rb", "\x1b[31m", "é", "\ufeffid", "__index_level_0__", "Unnamed: 0"),
    *("x" * 5000, ",", "\t"),
)
_ENCODINGS = ("utf-8",) * 12 + ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp037")
_PIECES = (
    *(b"\0", b'"', b"\r", b"\n", b",", b"\xff\xfe", b"\xe9", b"\xef\xbb\xbf", b"$$$$\n", b""),
)
_PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
_WAYS = ("check", "fix", "fix", "predict", "predict", "predict", "train")


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    columns, way = ["id", "smiles", "note", *TARGETS], rng.choice(_WAYS)
    rows = []
    for number in range(rng.choice((12, 30) if way == "train" else (0, 1, 2, 5, 12, 30))):
        colour = rng.choice(("red", "green", "blue"))
        row = [str(number), rng.choice(work.smiles), "x", str(rng.gauss(0, 1)), str(number % 2)]
        rows.append([*row, colour])
        while rng.random() < 0.15:
            rows[-1][rng.randrange(1, 6)] = rng.choice(_CELLS)
        if rng.random() < 0.1:
            rows[-1][1] = rng.choice(rows)[1]
    while rng.random() < 0.3:
        columns[rng.choice((0, 2, 2, 3, 4, 5))] = rng.choice(_NAMES)
    damage = rng.choice((0, 0, 0, 0, 1, 3, 20))
    return {
        "columns": columns,
        "rows": rows,
        "suffix": rng.choice(("csv",) * 6 + ("tsv", "tsv", "smi", "sdf", "parquet", "parquet")),
        "pack": rng.choice(("",) * 8 + ("gz", "bz2", "xz", "zst")),
        "encoding": rng.choice(_ENCODINGS),
        "newline": rng.choice(("\n", "\n", "\n", "\r\n", "\r")),
        "quoting": rng.choice((csv.QUOTE_ALL, csv.QUOTE_ALL, csv.QUOTE_MINIMAL)),
        "damage": [
            [rng.random(), rng.choice((0, 1, 5)), rng.choice(_PIECES)] for _ in range(damage)
        ],
        "keep": 1.0 if rng.random() < 0.9 else rng.random(),
        "way": way,
        "nested": rng.choice((None, None, None, *range(len(columns)))),
        "seed": rng.randrange(1 << 30),
    }


def check(case: dict[str, Any], work: Work) -> None:
    content = _content(case)
    for share, length, piece in case["damage"]:
        start = int(share * len(content))
        content = content[:start] + piece + content[start + length :]
    content = _PACK.get(case["pack"], bytes)(content)
    content = content[: math.ceil(case["keep"] * len(content))]
    name = f"in.{case['suffix']}{'.' * bool(case['pack'])}{case['pack']}"
    Path(name).write_bytes(content)
    _WAYS_OF[case["way"]](case, name, content, work)


def _content(case: dict[str, Any]) -> bytes:
    columns, rows = case["columns"], case["rows"]
    if case["suffix"] == "parquet":
        return _parquet(columns, rows, case["nested"])
    if case["suffix"] == "sdf":
        return _sdf(columns, rows).encode(case["encoding"], "replace")
    if case["suffix"] == "smi":
        text = "".join(f"{row[1]} {row[0]}{case['newline']}" for row in rows if len(row) > 1)
        return text.encode(case["encoding"], "replace")
    out = io.StringIO(newline="")
    separator = "\t" if case["suffix"] == "tsv" else ","
    options = {"lineterminator": case["newline"], "quoting": case["quoting"]}
    csv.writer(out, delimiter=separator, **options).writerows([columns, *rows])
    return out.getvalue().encode(case["encoding"], "replace")


def _sdf(columns: list[str], rows: list[list[str]]) -> str:
    records = []
    RDLogger.DisableLog("rdApp.*")
    for row in rows:
        mol = Chem.MolFromSmiles(row[1]) if len(row) > 1 and len(row[1]) < 500 else None
        block = Chem.MolToMolBlock(mol) if mol else "broken\n\n\n  1  9  0\nM  END\n"
        fields = "".join(f">  <{n}>\n{v}\n\n" for n, v in zip(columns, row, strict=False))
        records.append(f"{block}{fields}$$$$\n")
    return "".join(records)


def _parquet(columns: list[str], rows: list[list[str]], nested: int | None) -> bytes:
    """Return a Parquet file; the column at `nested` holds lists of records."""
    import pyarrow
    from pyarrow import parquet

    cells = [list(column) for column in zip_longest(*rows)] or [[] for _ in columns]
    arrays = [pyarrow.array(texts, pyarrow.string()) for texts in cells[: len(columns)]]
    if nested is not None and len(arrays) > nested:
        arrays[nested] = pyarrow.array([[{"a": text}] for text in cells[nested]])
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_arrays(arrays, names=columns[: len(arrays)]), out)
    return out.getvalue()


def _sound(case: dict[str, Any]) -> bool:
    """Return whether every reader must find the same rows."""
    columns, encoding = case["columns"], case["encoding"]
    text = "".join("".join(row) for row in [columns, *case["rows"]])
    return (
        case["suffix"] in ("csv", "tsv")
        and case["pack"] != "zst"
        and case["keep"] == 1
        and not case["damage"]
        and encoding in ("utf-8", "utf-8-sig", "utf-16")
        and (case["quoting"] == csv.QUOTE_ALL or not {*'\r\n"\ufeff'} & {*text})
        and case["newline"] != "\r"
        and "\0" not in text
        and len({*columns}) == len(columns)
        and all(columns)
        and "smiles" in columns
        and bool(case["rows"])
        and {len(row) for row in case["rows"]} == {len(columns)}
    )


def _run(arguments: list[str], left: set[str]) -> Result:
    """Run the command; if it fails, the files in `left` must not exist. No part of a file may."""
    result = command(arguments)
    promises.clean_exit(result)
    there = {path.name for path in Path().iterdir()}
    half = {name for name in there if name.endswith((".partial", ".old", ".spool"))}
    if half or (result.code and there & left):
        raise promises.Broken("nothing half done", f"{half or there & left} is left; {result.err}")
    return result


def _predict(case: dict[str, Any], source: str, content: bytes, work: Work) -> None:
    arguments = ["predict", "--model", str(work.root / "run"), "--processes", "1", "-o", "out.csv"]
    result = _run([*arguments, "-i", source], {"out.csv"})
    if result.code:
        if _sound(case) and "has a column" not in result.err:
            raise promises.Broken("rows", f"a valid table is refused: {result.err}")
        return
    rows = promises.predicted(Path("out.csv"), TARGETS)
    if _sound(case):
        promises.same_rows([case["columns"], *case["rows"]], rows)
    before = Path("out.csv").read_bytes()
    if Path(source).read_bytes() != content:
        raise promises.Broken("unchanged input", "the input was changed")
    command([*arguments, "-i", source])
    if Path("out.csv").read_bytes() != before:
        raise promises.Broken("unchanged output", "the same table gave another output")


def _check(case: dict[str, Any], source: str, content: bytes, work: Work) -> None:
    result = _run(["data", "check", source, "--json"], set())
    if result.code == 0:
        json.loads(result.out)
    elif _sound(case):
        raise promises.Broken("rows", f"a valid table is refused: {result.err}", result.err[:60])
    _run(["data", "check", source], set())


def _fix(case: dict[str, Any], source: str, content: bytes, work: Work) -> None:
    arguments = ["data", "check", source, "--fix", "out.csv", "--force"]
    if _run(arguments, {"out.csv", "out.removed.csv"}).code:
        return
    clean = promises.read_back(Path("out.csv"))
    removed = promises.read_back(Path("out.removed.csv"))
    if removed[0][4:] != clean[0]:
        raise promises.Broken("rows", f"{removed[0]} and {clean[0]} have other columns")
    if not _sound(case):
        return
    promises.same_rows([case["columns"]], clean[:1])
    gone = sum(row[2] == "removed" for row in removed[1:])
    if len(clean) - 1 + gone != len(case["rows"]):
        what = f"{len(case['rows'])} rows: {len(clean) - 1} kept, {gone} removed"
        raise promises.Broken("rows", what, "data check --fix loses rows")
    for row in removed[1:]:
        promises.same_rows([case["rows"][int(row[0])]], [row[4:]])


def _train(case: dict[str, Any], source: str, content: bytes, work: Work) -> None:
    targets = random.Random(case["seed"]).choice(("logp", "logp,active", ",".join(TARGETS)))
    arguments = ["train", "--config", str(work.root / "tiny.yaml"), "--data", source, "-o", "run"]
    if _run([*arguments, "--targets", targets], {"run"}).code == 0:
        promises.numbers(Path("run/metrics.json").read_text())
        for name in ("predictions_test.csv", "rejected.csv", "history.csv"):
            promises.read_back(Path("run") / name)


_WAYS_OF = {"predict": _predict, "check": _check, "fix": _fix, "train": _train}
