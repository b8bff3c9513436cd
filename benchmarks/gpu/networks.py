"""The networks whose steps are compared on a GPU and on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu.scale import scale

__all__ = ["LOCAL", "PAIRS", "SLIM", "WALKS", "Network"]

_FEW_STEPS, _SMALL_BATCH, _RATE = 16, 32, 2e-5
"""From Xavier's weights, with which the outputs depend on every part, larger steps blow up rounding
errors."""


@dataclass(frozen=True)
class Network:
    """SLIM with other settings."""

    name: str = ""
    """Empty for SLIM."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Its settings, beside the recipe's."""

    @property
    def steps(self) -> int:
        """Whose losses are compared."""
        return min(_FEW_STEPS, scale().steps) if self.name else scale().steps

    def settings(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """All that differs from the recipe."""
        if not self.name:
            return dict(others)
        size = min(_SMALL_BATCH, scale().batch)
        top = self.steps * size / (10 * scale().molecules)  # of the schedule, of ten epochs
        model = {f"model.{name}": value for name, value in self.model.items()}
        steps = {"run.batch_size": size, "optim.lr": _RATE, "optim.warmup": min(0.9, top)}
        return {**steps, **model, **others}

    def told(self, what: str) -> str:
        """For a line."""
        return f"{what}, {self.name}" if self.name else what


SLIM = Network()
WALKS = Network(
    "with every cheap ingredient",
    {
        "init": "xavier",
        "local": "gine",
        "node_walks": 20,
        "pair_walks": 20,
        "resistance_kernels": 8,
        "urpe": True,
        "degree_scaler": True,
        "norm": "sep-bn",
        "readout": "token+sum",
        "head": "mlp",
    },
)
LOCAL = Network(
    "with every cheap ingredient but resistances",
    {name: value for name, value in WALKS.model.items() if name != "resistance_kernels"},
)
"""Can be captured even where the inverse matrices of resistances cannot."""
PAIRS = Network(
    "with pair vectors",
    {
        "init": "xavier",
        "layers": 6,
        "pair_width": 32,
        "pair_walks": 20,
        "degree_scaler": True,
        "norm": "shared",
    },
)
