"""The kinds of cases: `make` draws a case, `check` runs it, `PARTS` names what may shrink."""

from __future__ import annotations

from importlib import import_module

from benchmarks.fuzz.kinds import damage

_NAMES = "smiles tables configurations commands library kills"

KINDS = {
    **{name: import_module(f"benchmarks.fuzz.kinds.{name}") for name in _NAMES.split()},
    **damage.KINDS,
}
