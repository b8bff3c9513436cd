"""docs/benchmarks.md: it is what its command writes, its statistics are right, and it is quoted."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

TOP = Path(__file__).parents[1]
PAGE = (TOP / "docs" / "benchmarks.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.usefixtures("benchmarks")


def test_the_page_is_what_its_command_writes() -> None:
    assert importlib.import_module("page").page() == PAGE, "run `make results`"


def test_scores_have_means_and_paired_differences() -> None:
    """The interval is mean ± t · sd / √n of the differences over common seeds, t = 4.303 for
    three of them."""
    page, table = importlib.import_module("page"), importlib.import_module("table")
    scores = {"chemprop": [0.9, 0.8, 1.0, 5.0], "forest": [0.7, 0.8, 0.9]}
    runs = [
        {"set": name, "method": method, "seed": seed, "test": score}
        for name, factor in (("esol", 1), ("freesolv", 9))
        for method, values in scores.items()
        for seed, score in enumerate(np.multiply(values, factor))
    ]
    peer, ours = (page.by_seed(runs, set="esol", method=method) for method in scores)
    assert page.score(peer) == "1.925 ± 2.052 (4)" and page.score(ours) == "0.800 ± 0.100 (3)"
    error = 4.303 * np.std([-0.2, 0, -0.1], ddof=1) / np.sqrt(3)
    expected = f"-0.100 ({-0.1 - error:+.3f} to {-0.1 + error:+.3f})"
    assert table.difference(ours, peer, 3) == expected
    assert page.score({0: 0.5}) == "0.500 (1)" and page.score(dict.fromkeys(range(5), 1)) == "1.000"
    assert page.bold_best(["0.9", "", "0.8 ± 0.1"], "RMSE") == ["0.9", "", "**0.8 ± 0.1**"]


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?: ± [\d.]+)?(?: of \d+)?(?<!,)")


@pytest.mark.parametrize("name", ["README.md", "docs/index.md"])
def test_quoted_figures_are_those_of_the_page(name: str) -> None:
    """The figures of a row of a table are in one line of the page, decimals elsewhere in any."""
    text = (TOP / name).read_text(encoding="utf-8")
    text = re.split(r"## (?:Accuracy and speed|Compared with other programs)\n", text)[1]
    quoted = text.partition("\n## ")[0].splitlines()
    lines = [{*NUMBER.findall(line)} for line in PAGE.splitlines()]
    every = set[str]().union(*lines)
    rows = [{*NUMBER.findall(line.split("|", 2)[2])} for line in quoted if line.startswith("|")]
    assert sum(map(len, rows)) > 25
    assert not [row for row in rows if not any(row <= line for line in lines)]
    for line in quoted:
        assert {each for each in NUMBER.findall(line) if "." in each} <= every, line
