"""The folders of the package, what each may import, and what its files do import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import molsepnorm

ROOT = Path(molsepnorm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

BASE = {"errors", "optional", "files", "_version"}
MAY_IMPORT = {
    "errors": set(),
    "optional": {"errors"},
    "files": {"errors", "optional"},
    "molecules": BASE,
    "sepnorm": {"errors"},
    "nn": {"errors", "sepnorm", "molecules"},
    "tasks": BASE,
    "pretrained": BASE,
    "data": BASE | {"molecules", "nn", "tasks", "devices", "workers"},
    "devices": BASE,
    "workers": BASE,
    "model": BASE | {"molecules", "sepnorm", "nn", "tasks", "pretrained", "data", "devices"},
    "predict": BASE | {"molecules", "data", "tasks", "model", "devices", "workers"},
}
MAY_IMPORT["training"] = MAY_IMPORT["predict"] | {"predict", "nn", "sepnorm", "pretrained"}
MAY_IMPORT["analysis"] = MAY_IMPORT["training"] | {"training"}
MAY_IMPORT["serve"] = MAY_IMPORT["analysis"] | {"analysis"}
MAY_IMPORT["tuning"] = MAY_IMPORT["analysis"] | {"analysis"}
MAY_IMPORT["interop"] = MAY_IMPORT["training"] | {"training"}
MAY_IMPORT["doctor"] = MAY_IMPORT["training"] | {"training"}
MAY_IMPORT["cli"] = set(MAY_IMPORT) | {"_version"}
MAY_IMPORT |= {"__main__": {"cli"}, "__init__": {"_version"}}
MAY_IMPORT |= {"_version": set()}
"""Room -> rooms that it may import, itself aside."""

_WITH_RDKIT = ("alerts", "drawing", "featurize", "fragments")
RDKIT = tuple(f"molsepnorm.molecules.{part}" for part in _WITH_RDKIT)
"""The modules that may import RDKit, with all modules below them."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("molsepnorm", *(part for part in parts if part != "__init__")))


def part_of(module: str) -> str:
    """The room of a module: molsepnorm.nn.attention -> nn."""
    return (*module.split("."), "__init__")[1]


def imports(path: Path) -> Iterator[str]:
    """Full names of all modules that a file imports when it runs, in functions too."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                home = ".".join([*above, *([home] if home else [])])
            if home == "molsepnorm":  # its parts, or names that it loads from them
                yield from (f"molsepnorm.{alias.name}" for alias in node.names)
            else:
                yield home
        pending += ast.iter_child_nodes(node)


def external(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}
