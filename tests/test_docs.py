"""docs/correctness.md: the tests, commands and mutations that it names exist."""

from __future__ import annotations

import ast
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from structure import FILES, MAY_IMPORT, ROOT, imports, module_of, part_of

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


def test_every_claim_has_a_test() -> None:
    table = [row for row in rows(CLAIMS) if row[0] not in ("claim", "---")]
    assert len(table) > 20
    for claim, guards in table:
        assert re.findall(r"`(tests/[\w/.]+)::test_\w+`", guards), claim


def mutations() -> dict[str, Any]:
    """The definitions of benchmarks/mutations.py."""
    return runpy.run_path(str(TOP / "benchmarks" / "mutations.py"))


def test_the_table_of_mutations_is_that_of_the_script() -> None:
    """`python benchmarks/mutations.py --docs` writes it."""
    script = mutations()
    head, *table = [line for line in MUTATIONS.splitlines() if line.startswith("|")]
    assert script["HEAD"].splitlines() == [head, table.pop(0)]
    assert table == [mutation.row() for mutation in script["MUTATIONS"]]
    assert len(table) >= 24


def test_the_text_that_a_mutation_replaces_occurs_once() -> None:
    """A mutation whose line has changed since would test nothing."""
    for mutation in mutations()["MUTATIONS"]:
        source = (TOP / "molsepnorm" / mutation.file).read_text(encoding="utf-8")
        assert source.count(mutation.old) == 1, mutation.what


ARCHITECTURE = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
FOUNDATION = {"errors", "optional", "files", "_version"}
"""May be imported from anywhere, so the table leaves them out."""


@pytest.fixture(scope="module")
def room_imports() -> dict[str, set[str]]:
    """Folder or file of the package -> those that it imports."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        names = {part_of(name) for name in imports(path) if name.startswith("molsepnorm.")}
        room = part_of(module_of(path))
        found.setdefault(room, set()).update(names - FOUNDATION - {room})
    return {room: names for room, names in found.items() if not room.startswith("_")}


def test_arrows_of_the_data_flow_follow_imports(room_imports: dict[str, set[str]]) -> None:
    """One of the two rooms joined by an arrow imports the other, and every room has an arrow."""
    figure = ARCHITECTURE[ARCHITECTURE.index("```mermaid") : ARCHITECTURE.index("## Folders")]
    arrows = re.findall(r"^ +(\w+) -- \".+?\" --> (\w+)$", figure, re.MULTILINE)
    assert len(arrows) > 10
    for one, other in arrows:
        assert one in room_imports[other] or other in room_imports[one], (one, other)
    drawn = {room for arrow in arrows for room in arrow}
    assert set(room_imports) - FOUNDATION - {"doctor"} == drawn


def test_the_table_of_imports_is_complete(room_imports: dict[str, set[str]]) -> None:
    folders = ARCHITECTURE[ARCHITECTURE.index("| folder | imports |") :]
    table = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", folders, re.MULTILINE))
    expected = {
        room: ", ".join(f"`{name}`" for name in MAY_IMPORT if name in names) or "nothing"
        for room, names in room_imports.items()
        if room not in FOUNDATION
    }
    assert table == expected


def test_the_tree_names_every_folder_and_file() -> None:
    tree = ARCHITECTURE[
        ARCHITECTURE.index("molsepnorm/\n├──") : ARCHITECTURE.index("Imports point")
    ]
    named = re.findall(r"^[├└]── ([\w.]+)", f"├──{tree}", re.MULTILINE)
    there = {path.name for path in ROOT.iterdir() if not path.name.startswith("_")}
    assert set(named) == there - {"py.typed", "configs"}


def test_a_mutation_that_no_test_notices_survives(tmp_path: Path) -> None:
    """The file is restored afterwards; a text that is not found is an error."""
    script = mutations()
    (tmp_path / "molsepnorm").mkdir()
    (tmp_path / "molsepnorm" / "one.py").write_text("x = 1\n")
    (tmp_path / "test_one.py").write_text(
        "def test_x():\n    assert open('molsepnorm/one.py').read() != 'x = 2\\n'\n"
    )
    given = {"what": "x", "file": "one.py", "tests": ["test_one.py"]}

    def outcome(old: str, new: str) -> str:
        return script["_mutate"](
            tmp_path, script["Mutation"](old=old, new=new, **given), dict(os.environ)
        )

    assert outcome("1", "2") == "caught"
    assert outcome("1", "3") == "survived"
    assert outcome("y", "3") == "error: its text occurs 0 times"
    assert (tmp_path / "molsepnorm" / "one.py").read_text() == "x = 1\n"
