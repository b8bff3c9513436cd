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
    *(" name", "{", "[C", "C]", "()", "==", "C", "c1ccccc1", "N", "O", "."),
)
_REPEATED = (  # the part before "…" stands once, the part between the bars many times
    *("C", "c", "*", ">", "😀", "C(C", "(", "[", "c1ccccc1", "C1CC2", "[Na+].[Cl-].", "C=C"),
    *("[…9…C]", "[C…+…]", "[C+…9…]", "[CH…9…]", "[C:…9…]", "C1…C…1", "CCO |…a…|"),
    *("CCO |$…;…$|", "CCO |(…0,0,;…)|", "CC |Sg:n:…0,…:ht|", "C…(F)…", "[C@H](F)", "F/C=C/"),
    *("C>", "… …CCO", "CCO… …", "CCO…\t…x", "C12C3C4C1C5C2C3C45", "C%(…1…)CC"),
)


def make(rng: random.Random, work: Work) -> dict[str, Any]:
    makers = (_mutated, _mutated, _mutated, _noise, _noise, _extreme)
    texts = [rng.choice(makers)(rng, work) for _ in range(rng.choice((1, 1, 2, 4)))]
    way = rng.choice(("library", "library", "features", "table"))
    return {"smiles": texts, "way": way, "featurizer": rng.choice(list(featurize.SIZES))}


def _mutated(rng: random.Random, work: Work) -> str:
    text = rng.choice(work.smiles)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        piece = text[start:end]
        inserted = rng.choice((rng.choice(_ALPHABET), rng.choice(_PIECES), rng.choice(_ODD)))
        text = rng.choice(
            (
                text[:start] + text[end:],
                text[:end] + piece * rng.choice((1, 1, 2, 50)) + text[end:],
                text[:start] + inserted + text[start:],
                text[:start] + rng.choice(work.smiles)[-rng.randint(1, 30) :],
                text[:start] + piece[::-1] + text[end:],
                text[:start] + piece.swapcase() + text[end:],
            )
        )
    return text[:5000]


def _noise(rng: random.Random, work: Work) -> str:
    latin = [chr(code) for code in range(1, 256)]
    alphabet = rng.choice((_ALPHABET, _ODD, _ALPHABET + _ODD, latin, _PIECES))
    return "".join(rng.choices(alphabet, k=rng.choice((0, 1, 2, 5, 12, 200))))


def _extreme(rng: random.Random, work: Work) -> str:
    text = rng.choice(_REPEATED)
    before, piece, after = text.split("…") if "…" in text else ("", text, "")
    size = rng.choice((2, 50, 99, 101, 999, 1001, 3000, 20_000, 300_000))
    closing = {"C(C": ")", "(": ")", "[": "]"}.get(piece, "")
    return before + piece * (size // len(piece) + 1) + after + closing * size


def check(case: dict[str, Any], work: Work) -> None:
    texts = case["smiles"]
    writable = not any("\ud800" <= char <= "\udfff" for text in texts for char in text)
    if case["way"] == "features":
        _features(texts, case["featurizer"])
    elif case["way"] == "table" and writable:
        _command(texts, work)
    else:
        _library(texts, work)


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
        promises.number_or_reason([*(row.values or {"": None}).values()], row.error, row.smiles)
    if rows != again:
        raise promises.Broken("unchanged output", "the same SMILES gave other predictions")


def _command(texts: list[str], work: Work) -> None:
    with open("in.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["smiles"], *([t] for t in texts)])
    arguments = ["predict", "--model", str(work.root / "run"), "--processes", "1"]
    result = command([*arguments, "-i", "in.csv", "-o", "out.csv"])
    promises.clean_exit(result)
    if result.code:
        raise promises.Broken("rows", f"one SMILES stops all: {result.err[-300:]}")
    rows = promises.predicted(Path("out.csv"), TARGETS)
    promises.same_rows([["smiles"], *([text] for text in texts)], rows)
