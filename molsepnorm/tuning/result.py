"""The result of a search, and its files: `trials.csv`, `best.yaml` and `importance.png`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molsepnorm.analysis.geometry.figure import new_figure
from molsepnorm.files.writing import replacing
from molsepnorm.tasks.metrics import Metric
from molsepnorm.training.config import TrainConfig


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    number: int
    state: str
    """complete, stopped early, interrupted (it does not count), or running."""
    score: float | None
    """Mean over the splits of the best validation score, of those so far if the trial was stopped
    early. None if there is none."""
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
    splits: int
    """Number of splits of each trial."""
    config: TrainConfig
    """The recipe."""
    trials: tuple[TrialRecord, ...] = ()
    """All trials in the folder, in the order in which they began."""
    importance: dict[str, float] | None = None
    """Share of each setting in the variance of the scores, once the search has ended with enough
    complete trials."""
    finished: bool = True
    """False if a callback stopped the search; the same call continues it."""

    @property
    def others_run(self) -> bool:
        """True if other processes still run trials in the folder."""
        return any(trial.state == "running" for trial in self.trials)

    @property
    def ranked(self) -> list[TrialRecord]:
        """The complete trials, the best one first; of equal scores, the earlier one."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        sign = -1 if self.metric.higher_is_better else 1
        return sorted(complete, key=lambda trial: sign * (trial.score or 0.0))

    @property
    def recipe(self) -> TrialRecord | None:
        """The trial of the recipe, once it is complete."""
        return next((trial for trial in self.ranked if trial.recipe), None)

    @property
    def best(self) -> TrainConfig | None:
        """The configuration of the best trial, once there is a complete one."""
        if not self.ranked:
            return None
        settings = dict(self.ranked[0].settings)
        if "optim.regression_loss" in settings and self.config.run.metric is None:
            settings["run.metric"] = self.metric.name  # the default depends on the loss
        return self.config.changed(settings)


def write_files(tuning: Tuning) -> None:
    """Write the table of trials, the best configuration, and the importance of the settings."""
    import pandas as pd

    rows = []
    for trial in tuning.trials:
        row = {"trial": trial.number, "state": trial.state, "recipe": int(trial.recipe)}
        row |= {"seconds": trial.seconds, "score": trial.score}
        scores = {f"score_{number}": score for number, score in enumerate(trial.scores)}
        rows.append(row | scores | trial.settings)
    with replacing(tuning.folder / "trials.csv") as scratch:
        pd.DataFrame(rows, dtype=object).to_csv(scratch, index=False)
    if tuning.best is not None:
        tuning.best.save(tuning.folder / "best.yaml")
    if tuning.importance:
        _draw_importance(tuning, sorted(tuning.importance.items(), key=lambda item: item[1]))


def _draw_importance(tuning: Tuning, importance: list[tuple[str, float]]) -> None:
    names, shares = zip(*importance, strict=True)
    figure = new_figure(6.4, 1.2 + 0.32 * len(names))
    axes = figure.subplots()
    axes.bar_label(axes.barh(names, shares, color="#4477aa"), fmt="{:.0%}", padding=3)
    axes.set_xlim(0, max(shares) * 1.12)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlabel(f"share of the variance of validation {tuning.metric.label}")
    axes.set_title(f"Importance of settings, from {len(tuning.ranked)} complete trials", size=11)
    with replacing(tuning.folder / "importance.png") as scratch:
        figure.savefig(scratch, format="png", dpi=150)
