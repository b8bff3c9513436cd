"""The result of a search: its trials and the best configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molsepnorm.tasks.metrics import Metric
from molsepnorm.training.config import TrainConfig


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    number: int
    state: str
    """complete, stopped early, interrupted (it does not count), or running."""
    score: float | None
    """Mean over the splits of the best validation score; of a trial that was stopped early, over
    the splits and epochs so far. None if there is none."""
    scores: tuple[float, ...]
    """Best validation score of each finished split."""
    seconds: float | None
    """Duration; None while the trial runs."""
    settings: dict[str, Any]
    """The tuned settings by their dotted names."""
    recipe: bool
    """True if the settings are those of the recipe."""


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`."""

    folder: Path
    metric: Metric
    """The metric that compares the trials."""
    splits: int
    """Number of splits that each trial is trained on."""
    config: TrainConfig
    """The recipe."""
    trials: tuple[TrialRecord, ...]
    """All trials in the folder, in the order in which they began."""
    importance: dict[str, float]
    """Share of each setting in the variance of the scores; empty before the end, and with too few
    complete trials."""
    finished: bool
    """False if a callback stopped the search; the same call continues it."""
    others_run: bool = False
    """True if other processes still run trials in the folder."""

    @property
    def ranked(self) -> list[TrialRecord]:
        """The complete trials, the best one first; equal scores in the order of the trials."""
        complete = [each for each in self.trials if each.state == "complete"]
        sign = -1 if self.metric.higher_is_better else 1
        return sorted(complete, key=lambda each: sign * (each.score or 0.0))

    @property
    def recipe(self) -> TrialRecord | None:
        """The trial of the recipe, once it is complete."""
        return next((each for each in self.ranked if each.recipe), None)

    @property
    def best(self) -> TrainConfig | None:
        """The configuration of the best trial, once there is a complete one."""
        if not self.ranked:
            return None
        settings = dict(self.ranked[0].settings)
        if "optim.regression_loss" in settings and self.config.run.metric is None:
            settings["run.metric"] = self.metric.name  # the default depends on the loss
        return self.config.changed(settings)
