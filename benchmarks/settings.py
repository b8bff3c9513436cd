"""What a run of the benchmarks was asked for, and where its data and scratch files lie."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from turns import Plan

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """What every stage is told."""

    chemprop: Path | None
    """chemprop's executable, in an environment of its own."""
    turns: int | None
    """Of every contest, in place of what its plan says."""
    quick: bool
    """Fewer molecules and one turn: tries the harness out, and gives no figures."""
    scratch: Path
    """Kept from one run to the next: stores, models, tables."""

    @staticmethod
    def add_to(parser: argparse.ArgumentParser) -> None:
        """The arguments from which `of` makes the record."""
        parser.add_argument(
            "--chemprop",
            type=Path,
            default=os.environ.get("CHEMPROP") or None,
            help="chemprop's executable [default: $CHEMPROP; without it its stages have no peer]",
        )
        parser.add_argument("--turns", type=int, help="of every contest, whatever its length")
        parser.add_argument("--quick", action="store_true", help="one short turn, to try it out")
        parser.add_argument(
            "--scratch",
            type=Path,
            default=Path(tempfile.gettempdir()) / "molsepnorm-bench",
            help="where stores, models and tables are kept [default: %(default)s]",
        )

    @staticmethod
    def of(parsed: argparse.Namespace) -> Settings:
        """From parsed arguments."""
        return Settings(parsed.chemprop, parsed.turns, parsed.quick, parsed.scratch.absolute())

    def flags(self) -> list[str]:
        """The arguments that make the same record."""
        flags = ["--scratch", str(self.scratch), *(["--quick"] if self.quick else [])]
        flags += ["--chemprop", str(self.chemprop)] if self.chemprop else []
        return flags + (["--turns", str(self.turns)] if self.turns else [])

    def plan(self, **changes: float) -> Plan:
        """A plan with these changes, unless `turns` or `quick` say otherwise."""
        turns = self.turns or (1 if self.quick else None)
        if turns is not None:
            changes |= {"least": turns, "most": turns}
        if self.quick:
            changes |= {"turn_seconds": 0.0}
        return Plan(**changes)  # type: ignore[arg-type]

    def count(self, full: int, quick: int) -> int:
        """How many molecules, rows or batches."""
        return quick if self.quick else full

    @property
    def data(self) -> Path:
        """The folder of real data sets."""
        if not (folder := os.environ.get("MOLSEPNORM_DATA")):
            sys.exit("set MOLSEPNORM_DATA to the folder of real data sets")
        return Path(folder)

    def folder(self, name: str) -> Path:
        """A folder below the scratch folder."""
        path = self.scratch / name
        path.mkdir(parents=True, exist_ok=True)
        return path
