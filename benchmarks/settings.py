"""The options of a speed measurement, and where its data and scratch files lie."""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import environment
from interleaved import Plan

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Options that every stage receives."""

    chemprop: Path | None
    """chemprop's executable, in an environment of its own."""
    rounds: int | None
    """Number of rounds, in place of the stage's own."""
    quick: bool
    """Use fewer molecules and one round, to try the stages out; the figures mean nothing."""
    scratch: Path
    """Folder of stores, models and tables that later measurements use again."""

    @staticmethod
    def add_to(parser: argparse.ArgumentParser) -> None:
        """Add the options that `of` reads."""
        parser.add_argument(
            "--chemprop",
            type=Path,
            default=os.environ.get("CHEMPROP") or None,
            help="chemprop's executable [default: $CHEMPROP; its stages have no peer without it]",
        )
        parser.add_argument("--rounds", type=int, help="number of rounds of every comparison")
        parser.add_argument("--quick", action="store_true", help="one short round, to try it out")
        parser.add_argument(
            "--scratch",
            type=Path,
            default=Path(tempfile.gettempdir()) / "molsepnorm-bench",
            help="folder of stores, models and tables [default: %(default)s]",
        )

    @staticmethod
    def of(parsed: argparse.Namespace) -> Settings:
        """Return the settings of parsed options."""
        return Settings(parsed.chemprop, parsed.rounds, parsed.quick, parsed.scratch.absolute())

    def plan(self, **changes: float) -> Plan:
        """Return a plan with these changes, which `rounds` and `quick` override."""
        rounds = self.rounds or (1 if self.quick else None)
        if rounds is not None:
            changes |= {"min_rounds": rounds, "max_rounds": rounds}
        if self.quick:
            changes |= {"round_seconds": 0.0}
        return Plan(**changes)  # type: ignore[arg-type]

    def count(self, full: int, quick: int) -> int:
        """Return the number of molecules, rows or batches."""
        return quick if self.quick else full

    @property
    def data(self) -> Path:
        """The folder of real data sets."""
        return environment.data_folder()

    def folder(self, name: str) -> Path:
        """Return a folder below the scratch folder."""
        path = self.scratch / name
        path.mkdir(parents=True, exist_ok=True)
        return path
