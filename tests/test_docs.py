"""docs/architecture.md names the folders and imports that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from structure import FILES, MAY_IMPORT, ROOT, imports, module_of, part_of

TOP = Path(__file__).parents[1]
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
