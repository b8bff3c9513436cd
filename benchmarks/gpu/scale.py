"""How much a run does: what is measured on a GPU, or a minute on a CPU to see that all works."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FULL", "Scale", "out", "scale", "scratch"]


@dataclass(frozen=True)
class Scale:
    """What every part is told."""

    batch: int = 256
    molecules: int = 9984
    """Training molecules of ZINC's subset: whole batches of them."""
    steps: int = 100
    """Of training, whose losses are compared."""
    turn_seconds: float = 0.4
    turns: int = 5
    seconds: float = 12.0
    """Most of a contest, all contestants together about three times that."""
    peer_batches: int = 8
    profiled: int = 5
    """Steps under the profiler."""
    trained: float = 60.0
    """Seconds of the short training, in two pieces."""
    compiled: bool = True
    """Whether to try torch.compile, which takes a CPU most of a minute each time."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the recipe, changed."""


FULL = Scale()
_SMALL = Scale(
    batch=16,
    molecules=64,
    steps=6,
    turn_seconds=0.0,
    turns=1,
    seconds=1.0,
    peer_batches=2,
    profiled=2,
    trained=20.0,
    compiled=False,
    settings={"model.layers": 2},
)


def scale() -> Scale:
    """Small where SMALL=1 is set: its figures say nothing."""
    return _SMALL if os.environ.get("SMALL", "0") not in ("", "0") else FULL


def out() -> Path:
    """Where files go that come back: $OUT."""
    folder = Path(os.environ.get("OUT") or ".gpu/out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def scratch() -> Path:
    """Where files go that stay on this machine."""
    folder = Path(os.environ.get("MOLSEPNORM_SCRATCH") or "/tmp/molsepnorm-gpu")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
