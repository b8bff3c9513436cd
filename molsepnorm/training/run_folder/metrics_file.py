"""The scores of a finished run, as they are read back from `metrics.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat

from molsepnorm.files.reading import check_types, read_json


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the content of `metrics.json`.

    Raises:
        ModelError: the file is damaged.
    """
    metrics = read_json(path)
    check_types(_Metrics, metrics, f"{path} is damaged")
    return metrics


@dataclass
class _Baseline:
    """Types of the baseline's scores."""

    val: dict[str, FiniteFloat | None]
    test: dict[str, FiniteFloat | None]
    trees: int
    seconds: FiniteFloat


@dataclass
class _Blend:
    """Types of the share of the forest, and of the scores of the networks alone."""

    forest_share: FiniteFloat
    network: dict[str, dict[str, FiniteFloat | None]]


@dataclass
class _Difference:
    """Types of the difference between two scores."""

    difference: FiniteFloat
    interval_95: tuple[FiniteFloat, FiniteFloat]


@dataclass
class _Similarity:
    """Types of the similarity of the test molecules to the training molecules."""

    median: FiniteFloat
    test: int
    train: int


@dataclass
class _Metrics:
    """Types of the entries of `metrics.json` that are read back."""

    data: str
    chosen_by: str
    best_epoch: int | None
    epochs: int
    parameters: int
    seconds: FiniteFloat
    val: dict[str, FiniteFloat | None]
    test: dict[str, FiniteFloat | None] = field(default_factory=dict)
    """Empty for a run without a test split."""
    test_constant: dict[str, FiniteFloat | None] = field(default_factory=dict)
    test_interval_95: dict[str, tuple[FiniteFloat, FiniteFloat]] = field(default_factory=dict)
    baseline: _Baseline | None = None
    blend: _Blend | None = None
    baseline_difference: dict[str, _Difference] = field(default_factory=dict)
    headlines: list[str] = field(default_factory=list)
    scored_targets: dict[str, list[str]] = field(default_factory=dict)
    constant_difference: dict[str, _Difference] = field(default_factory=dict)
    molecules: dict[str, int] = field(default_factory=dict)
    molecules_in_several_splits: int | None = None
    molecules_trained_on_before: int = 0
    leak: str | None = None
    refit: list[str] = field(default_factory=list)
    split: str | None = None
    nearest_train_similarity: _Similarity | None = None
    earlier: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.val or (self.test and self.val.keys() != self.test.keys()):
            raise ValueError("val and test must have the same scores")
