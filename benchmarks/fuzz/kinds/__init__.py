"""A file per kind: `make` draws a case, `check` runs it; `PARTS` names what of it may be cut."""

from __future__ import annotations

from importlib import import_module

_NAMES = "smiles tables configurations commands models runs stores library kills"

KINDS = {name: import_module(f"benchmarks.fuzz.kinds.{name}") for name in _NAMES.split()}
