"""The files of a search: `trials.csv`, `best.yaml` and `importance.png`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from molsepnorm.analysis.geometry.figure import new_figure
from molsepnorm.files.writing import replacing, write_csv
from molsepnorm.tuning.result import Tuning

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_files(tuning: Tuning) -> None:
    """Write the table of trials, the best configuration, and the importance of the settings.

    Raises:
        StorageError: a file cannot be written.
    """
    _write_trials(tuning)
    if tuning.best is not None:
        tuning.best.save(tuning.folder / "best.yaml")
    if tuning.importance:
        with replacing(tuning.folder / "importance.png") as scratch:
            draw_importance(tuning).savefig(scratch, format="png", dpi=150)


def draw_importance(tuning: Tuning) -> Figure:
    """Draw a bar for each setting: its share in the variance of the validation scores.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    settings = sorted(tuning.importance.items(), key=lambda item: item[1])
    names, shares = zip(*settings, strict=True)
    figure = new_figure(6.4, 1.2 + 0.32 * len(names))
    axes = figure.subplots()
    bars = axes.barh(names, shares, color="#4477aa", height=0.65)
    axes.bar_label(bars, fmt="{:.0%}", padding=3)
    axes.set_xlim(0, max(shares) * 1.12)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlabel(f"share of the variance of validation {tuning.metric.label}")
    axes.set_title(f"Importance of settings, from {len(tuning.ranked)} complete trials", size=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _write_trials(tuning: Tuning) -> None:
    """Write a line for each trial; cells are empty where there is no value."""
    path = tuning.folder / "trials.csv"
    settings = list(dict.fromkeys(name for each in tuning.trials for name in each.settings))
    splits = [f"score_{number}" for number in range(tuning.splits)]
    rows = []
    for each in tuning.trials:
        missing = [None] * (tuning.splits - len(each.scores))
        row = [each.number, each.state, int(each.recipe), each.seconds, each.score]
        values = [each.settings.get(name) for name in settings]
        rows.append([*row, *each.scores, *missing, *values])
    with replacing(path) as scratch:
        header = ["trial", "state", "recipe", "seconds", "score", *splits, *settings]
        write_csv(scratch, header, rows)
