"""What docs/correctness.md names is there."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
TEXT = (TOP / "docs" / "correctness.md").read_text(encoding="utf-8")
CLAIMS, _, MUTATIONS = TEXT.partition("## Do the tests notice?")
NAMED = sorted(set(re.findall(r"(tests/[\w/.]+)::(\w+)", TEXT)))


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, without its two lines of headings."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_every_named_test_exists(file: str) -> None:
    """As a function of that name at the top of that file."""
    tree = ast.parse((TOP / file).read_text(encoding="utf-8"))
    there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing = {name for where, name in NAMED if where == file} - there
    assert not missing, f"docs/correctness.md names tests that {file} does not have: {missing}"


def test_every_claim_has_a_test_and_a_command_that_runs_it() -> None:
    """A row has three cells; the command names the files of all its tests, and selects them."""
    table = rows(CLAIMS)
    assert len(table) > 20
    for claim, guards, command in table:
        files = set(re.findall(r"`(tests/[\w/.]+)::test_\w+`", guards))
        assert files, claim
        words = shlex.split(command.strip("`"))
        assert words[:3] == ["python", "-m", "pytest"], claim
        paths = [word for word in words[3:] if word.startswith("tests/")]
        assert paths, claim
        assert all((TOP / path).exists() for path in paths), claim
        assert all(file.startswith(tuple(paths)) for file in files), claim
        if "-k" in words:
            word = words[words.index("-k") + 1]
            assert all(word in name for name in re.findall(r"::(\w+)`", guards)), claim


def test_the_table_of_mutations_is_the_scripts() -> None:
    """The same mutations in the same order, each of them caught."""
    script = runpy.run_path(str(TOP / "benchmarks" / "mutations.py"))
    table = rows(MUTATIONS)
    assert [(row[0], row[1].strip("`")) for row in table] == [
        (mutation.what, mutation.file) for mutation in script["MUTATIONS"]
    ]
    assert {row[3] for row in table} == {"caught"}
    assert len(table) >= 24


def test_what_a_mutation_breaks_is_there_once() -> None:
    """A line that has changed since would be guarded in name alone."""
    for mutation in runpy.run_path(str(TOP / "benchmarks" / "mutations.py"))["MUTATIONS"]:
        source = (TOP / "molsepnorm" / mutation.file).read_text(encoding="utf-8")
        assert source.count(mutation.old) == 1, mutation.what
