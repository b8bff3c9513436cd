"""The stages that are measured: functions from `Settings` to rows of the table.

A stage runs in a process of its own, so it may choose its cores and threads. Its module is imported
only there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from interleaved import Plan, Row

__all__ = ["STAGES", "Settings", "function"]

STAGES = {
    "features": "molecules.features",
    "features-ogb": "molecules.features_ogb",
    "train": "network.train",
    "predict": "programs.predict",
    "startup": "programs.startup",
}
"""Module and function of each stage."""


@dataclass(frozen=True)
class Settings:
    """Options that every stage receives."""

    chemprop: Path | None
    """chemprop's executable, in an environment of its own."""
    quick: bool
    """Use fewer molecules and one round, to try the stages out; the figures mean nothing."""
    scratch: Path
    """Folder of stores, models and tables that later measurements use again."""

    def plan(self, **changes: float) -> Plan:
        """Return a plan with these changes, or a single round if `quick` is true."""
        if self.quick:
            changes |= {"min_rounds": 1, "max_rounds": 1, "round_seconds": 0.0}
        return Plan(**changes)  # type: ignore[arg-type]

    def count(self, full: int, quick: int) -> int:
        """Return the number of molecules, rows or batches."""
        return quick if self.quick else full

    def folder(self, name: str) -> Path:
        """Return a folder below the scratch folder."""
        path = self.scratch / name
        path.mkdir(parents=True, exist_ok=True)
        return path


def function(stage: str) -> Callable[[Settings], list[Row]]:
    """Import the function of a stage."""
    module, _, name = STAGES[stage].partition(".")
    return getattr(import_module(f"stages.{module}"), name)
