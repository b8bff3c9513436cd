"""The kinds of cases: `make` draws a case, `check` runs it, `PARTS` names what may shrink."""

from __future__ import annotations

from benchmarks.fuzz.kinds import commands, damage, smiles, tables

KINDS = {"smiles": smiles, "tables": tables, "commands": commands, **damage.KINDS}
