"""What is measured. Each stage is a function from `Settings` to rows of the table, in its module.

A stage runs in a process of its own, which may so choose its cores and threads; the modules are
imported there alone, and import what is heavy.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["STAGES", "Stage"]


class Stage(NamedTuple):
    """Where a stage is, and whether it runs unasked."""

    module: str
    function: str
    default: bool = True


STAGES = {
    "features": Stage("features", "zinc"),
    "features-ogb": Stage("features", "ogb"),
    "encode": Stage("encode", "encode"),
    "collate": Stage("collate", "collate"),
    "train": Stage("train", "step"),
    "epoch": Stage("train", "epoch"),
    "evaluate": Stage("evaluate", "evaluate"),
    "predict": Stage("predict", "predict"),
    "prepare": Stage("memory", "prepare"),
    "memory": Stage("memory", "memory"),
    "startup": Stage("startup", "startup"),
    "scaling": Stage("scaling", "scaling", default=False),
    "options": Stage("variants", "variants", default=False),
}
