"""The stages that are measured: functions from `Settings` to rows of the table.

A stage runs in a process of its own, so it may choose its cores and threads. Its module is imported
only there.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["DEFAULT", "STAGES", "function"]

STAGES = {
    "features": "molecules.features",
    "features-ogb": "molecules.features_ogb",
    "encode": "molecules.encode",
    "collate": "network.collate",
    "train": "network.step",
    "epoch": "network.epoch",
    "evaluate": "network.evaluate",
    "predict": "programs.predict",
    "prepare": "programs.prepare",
    "memory": "programs.memory",
    "startup": "programs.startup",
    "scaling": "programs.scaling",
}
"""Module and function of each stage."""
DEFAULT = [name for name in STAGES if name != "scaling"]


def function(stage: str) -> Any:
    """Import the function of a stage."""
    module, _, name = STAGES[stage].partition(".")
    return getattr(import_module(f"stages.{module}"), name)
