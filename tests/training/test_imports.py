"""The modules of this package do not import each other in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

import molsepnorm.training

ROOT = Path(molsepnorm.training.__file__).parent


def imported(path: Path) -> set[str]:
    """The package's modules that a file imports, in functions and for types as well."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name for name in named if name.startswith("molsepnorm.training.")}


def test_no_circle():
    files = [path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.stem != "__init__"]
    pending = {}
    for path in files:
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(("molsepnorm", *(part for part in parts if part != "__init__")))
        pending[name] = imported(path)
    assert len(pending) > 15
    while pending:
        free = [name for name, needed in pending.items() if not needed & pending.keys()]
        assert free, f"these import each other: {sorted(pending)}"
        for name in free:
            del pending[name]
