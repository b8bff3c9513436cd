"""SMILES: mutated molecules, noise, and extremes of every part of the language."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

from benchmarks.fuzz import promises
from benchmarks.fuzz.work import TARGETS, Work, command
from molsepnorm import MolGraph
from molsepnorm.errors import InvalidMolecule
from molsepnorm.molecules import featurize

PARTS = ("smiles",)
SECONDS = 10

_ALPHABET = "CNOPSFIBrclnos[]()=#$:/\\@+-.%0123456789HDT*~?!&;,<>{}|^_ "
_ODD = "\x00\t\n\r\x0b\x0c\x1a\x1b\x7f\x85\xa0é€😀𝔠\u200b\u2028\u202e\ufeff\ud800\udcff١"
_PIECES = (
    *("[999C]", "[0C]", "[C+99]", "[C-----]", "[C+++]", "[H+]", "[H][H]", "[2H]", "[C:0]"),
    *("[*:1]", "[C:99999999999]", "[C@TB7](F)(Cl)(Br)(I)N", "[Co@OH30]", "[C@@H2]", "[Uuo]"),
    *("[#6]", "[Fe+2]", "[Og]", "[CH99]", "[C&H1]", "*", "[R]", "->", "<-", "$", "%99", "%(123)"),
    *("%(99999)", ">>", ">", "C>>N", "C.O>[Pd]>CO", " |$R1;;$|", " |(0,0,;1,1,)|"),
    *(" |Sg:n:1:n:ht|", " |^1:0|", " |m:1:2.3|", " |c:0,t:1|", " |SgD:0:a:b|", " |", "||"),
    *(" name", "{", "[C", "C]", "()", "=="),
)


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    texts = [rng.choice(_MAKERS)(rng, work) for _ in range(rng.choice((1, 1, 2, 4)))]
    way = rng.choice(("library", "library", "features", "table", "options", "stdin"))
    return {"smiles": texts, "way": way, "featurizer": rng.choice(list(featurize.SIZES))}


def _mutated(rng: random.Random, work: Work) -> str:
    text = rng.choice(work.smiles)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        piece = text[start:end]
        text = rng.choice(
            (
                text[:start] + text[end:],
                text[:end] + piece * rng.choice((1, 1, 2, 50)) + text[end:],
                text[:start] + rng.choice(_ALPHABET) + text[start + 1 :],
                text[:start] + rng.choice(_PIECES) + text[start:],
                text[:start] + rng.choice(work.smiles)[-rng.randint(1, 30) :],
                text[:start] + rng.choice(_ODD) + text[start:],
                text[:start] + piece[::-1] + text[end:],
                text[:start] + piece.swapcase() + text[end:],
            )
        )
    return text[:5000]


def _noise(rng: random.Random, work: Work) -> str:
    size = rng.choice((0, 1, 2, 5, 20, 200))
    alphabet = rng.choice((_ALPHABET, _ODD, _ALPHABET + _ODD, [chr(c) for c in range(1, 256)]))
    return "".join(rng.choice(alphabet) for _ in range(size))


def _pieces(rng: random.Random, work: Work) -> str:
    some = (*_PIECES, "C", "c1ccccc1", "N", "O", ".", rng.choice(work.smiles))
    return "".join(rng.choice(some) for _ in range(rng.randint(1, 12)))


_EXTREMES = (  # prefix, repeated piece, suffix
    *(("", "C", ""), ("", "c", ""), ("", "*", ""), ("", ">", ""), ("", "😀", ""), ("", "C.", "C")),
    *(("C", "(C", ""), ("", "(", ""), ("", "[", "C"), ("C1", "C", "1"), ("", "c1ccccc1", "")),
    *(("", "C1CC2", "12"), ("", "[Na+].[Cl-].", "C"), ("[", "9", "C]"), ("[C", "+", "]")),
    *(("[C+", "9", "]"), ("[CH", "9", "]"), ("[C:", "9", "]"), ("CCO |", "a", "|")),
    *(
        ("CCO |$", ";", "$|"),
        ("CCO |(", "0,0,;", ")|"),
        ("CC |Sg:n:", "0,", ":ht|"),
        ("C", "=C", ""),
    ),
    *(
        ("C", "(F)", ""),
        ("", "[C@H](F)", ""),
        ("", "F/C=C/", "F"),
        ("", "C>", ""),
        ("", " ", "CCO"),
    ),
    *(("CCO", " ", ""), ("CCO", "\t", "x"), ("", "C12C3C4C1C5C2C3C45", ""), ("C%(", "1", ")CC")),
)


def _extreme(rng: random.Random, work: Work) -> str:
    before, piece, after = rng.choice(_EXTREMES)
    size = rng.choice((2, 50, 99, 101, 999, 1001, 3000, 20_000, 300_000))
    closing = {"(C": ")", "(": ")", "[": "]"}.get(piece, "")
    return before + piece * (size // len(piece) + 1) + after + closing * size


def _two(rng: random.Random, work: Work) -> str:
    between = rng.choice((".", ">>", " ", "\t", "|", ">", ""))
    return rng.choice(work.smiles) + between + rng.choice(work.smiles)


_MAKERS = (_mutated, _mutated, _mutated, _noise, _pieces, _extreme, _two)


def check(case: dict[str, Any], work: Work) -> None:
    texts, way = case["smiles"], case["way"]
    if way == "features":
        _features(texts, case["featurizer"])
    elif way == "library" or not _writable(texts, way):
        _library(texts, work)
    else:
        _command(texts, way, work)


def _writable(texts: list[str], way: str) -> bool:
    """Return whether the command receives the SMILES unchanged."""
    for text in texts:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            return False
        if way == "options" and ("\0" in text or size > 100_000):
            return False
        if way == "stdin" and (not text.strip() or set("\n\r") & set(text)):
            return False
    first = texts[0]  # standard input may begin with a header or a byte-order mark
    return way != "stdin" or not ("," in first or first == "smiles" or first.startswith("\ufeff"))


def _features(texts: list[str], name: str) -> None:
    try:
        made = featurize.get(name).many(texts)
    except Exception as error:
        promises.our_error(error, library=True)
        return
    if len(made) != len(texts) or not all(isinstance(m, MolGraph | InvalidMolecule) for m in made):
        raise promises.Broken("rows", f"{len(texts)} SMILES gave {made!r:.200}")


def _library(texts: list[str], work: Work) -> None:
    try:
        rows = work.predictor.predict(texts)
        again = work.predictor.predict(texts)
    except Exception as error:
        promises.our_error(error, library=True)
        raise promises.Broken("rows", f"one SMILES stops all: {error!r:.300}") from None
    if [row.smiles for row in rows] != texts:
        raise promises.Broken("rows", "rows are missing or moved")
    for row in rows:
        promises.row_of_numbers(row)
    if rows != again:
        raise promises.Broken("unchanged output", "the same SMILES gave other predictions")


def _command(texts: list[str], way: str, work: Work) -> None:
    arguments, stdin = ["predict", "--model", str(work.root / "run"), "--processes", "1"], b""
    arguments += ["-o", "out.csv"]
    if way == "table":
        with open("in.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["smiles"], *([t] for t in texts)])
        arguments += ["-i", "in.csv"]
    elif way == "options":
        arguments += [f"--smiles={text}" for text in texts]
    else:
        stdin = "".join(f"{text}\n" for text in texts).encode()
    result = command(arguments, stdin)
    promises.clean_exit(result)
    if result.code:
        raise promises.Broken("rows", f"one SMILES stops all: {result.err[-300:]}")
    rows = promises.predicted(Path("out.csv"), TARGETS)
    promises.same_rows([["smiles"], *([text] for text in texts)], rows)
