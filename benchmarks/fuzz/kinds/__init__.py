"""A file per kind: `make` draws a case, `check` runs it; `PARTS` names what of it may be cut."""

from __future__ import annotations

from benchmarks.fuzz.kinds import (
    commands,
    configurations,
    kills,
    library,
    models,
    runs,
    smiles,
    stores,
    tables,
)

KINDS = {
    "smiles": smiles,
    "tables": tables,
    "configurations": configurations,
    "commands": commands,
    "models": models,
    "runs": runs,
    "stores": stores,
    "library": library,
    "kills": kills,
}
