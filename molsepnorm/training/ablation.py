"""`ablate`: variants of one recipe over the same seeds, and how sure their differences are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from molsepnorm.data.tables import hold
from molsepnorm.errors import ConfigError, require_several
from molsepnorm.files.writing import replacing, write_json
from molsepnorm.nn.config import NORMS
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.callback import Callback
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.replicates import Replicates, train_replicates

__all__ = ["Ablation", "Difference", "ablate", "paired_difference", "variants_of"]


_SPLITS = ("val", "test")
_DIFFERENT_NORMS = tuple(
    f"model.{place}_norm" for place in ("graph", "node", "first_graph", "last_graph")
)


@dataclass(frozen=True)
class Difference:
    """Of a variant from the first one, over runs of the same seeds and splits."""

    mean: float
    interval: tuple[float, float] | None
    """95 %, by Student's t; None of a single pair."""
    p: float | None
    """Of a paired t-test; None where it is not defined: a single pair, or all alike."""
    pairs: int


@dataclass(frozen=True)
class Ablation:
    """What the variants came to."""

    folder: Path
    metric: str
    """By which the variants are compared: that by which models are chosen."""
    series: dict[str, Replicates]
    """By the variants' names, the first one being what the others are compared with."""
    differences: dict[str, dict[str, Difference]]
    """Variant -> split -> difference from the first."""
    finished: bool
    """False where it was stopped; the same call goes on."""

    def to_json(self) -> dict[str, Any]:
        """The content of `ablation.json`."""
        return {
            "metric": self.metric,
            "variants": {name: series.summary for name, series in self.series.items()},
            "differences": {
                name: {split: vars(each) for split, each in by_split.items()}
                for name, by_split in self.differences.items()
            },
        }


def ablate(
    config: TrainConfig,
    folder: Path | str,
    vary: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int],
    callback: Callback | Iterable[Callback] | None = None,
) -> Ablation:
    """Train every variant with every seed, one after the other.

    All variants are trained with the first seed, then all with the second, so that what is there
    can be compared at any time. Runs that are finished are not repeated and one that was stopped
    goes on. `ablation.json`, and a plot where matplotlib is installed, are written after each seed.

    >>> config = load_config("zinc", overrides={"run.budget": "8m"})      # doctest: +SKIP
    >>> ablate(config, "runs/norms", {"norm": ["shared", "sep"]}, seeds=range(5))
    ...                                                                   # doctest: +SKIP

    Args:
        config: the recipe that all share.
        folder: holds a series for each variant.
        vary: settings and their values, see `variants_of`; all combinations are trained.
        seeds: of initial weights, order and dropout, the same for every variant.
        callback: is told of each run.

    Raises:
        ConfigError: nothing to compare, an unknown setting, or as `train_replicates`.
        DataError, ModelError, StorageError: as `train`.
    """
    folder = Path(folder)
    configs = {name: config.changed(each) for name, each in variants_of(vary).items()}
    if len(configs) < 2:
        raise ConfigError("an ablation compares two variants or more, such as norm=shared,sep")
    result = Ablation(folder, "", {}, {}, finished=False)
    with hold(config.data.table, config.data.splits_file):
        for count in range(1, max(len(seeds), 1) + 1):
            series: dict[str, Replicates] = {}
            for name, variant in configs.items():
                some = seeds[:count]
                each = train_replicates(variant, folder / name, seeds=some, callback=callback)
                if not each.finished:
                    return result
                series[name] = each
            result = _compared(folder, series, finished=count >= len(seeds))
            write_json(folder / "ablation.json", result.to_json())
            _draw(result)
    return result


def variants_of(vary: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """The settings of every combination, by a name that says what varies.

    >>> list(variants_of({"norm": ["shared", "sep"], "model.layers": [4, 8]}))
    ['shared,layers=4', 'shared,layers=8', 'sep,layers=4', 'sep,layers=8']

    Args:
        vary: dotted settings and their values; or `norm`, for `model.norm` without anything that
            differs from its name.

    Raises:
        ConfigError: an unknown norm, a value twice, one text in place of a list of values, or the
            seed, which is every variant's.
    """
    for name, values in vary.items():
        require_several(values, name)
    if "run.seed" in vary:
        raise ConfigError("run.seed cannot vary: all variants have the same seeds, of --seeds")
    options = [[_option(name, value) for value in values] for name, values in vary.items()]
    for name, each in zip(vary, options, strict=True):
        if len({told for told, _ in each}) < len(each):
            raise ConfigError(f"{name} has a value twice")
    variants = {}
    for chosen in product(*options):
        settings: dict[str, Any] = {}
        for _, own in chosen:
            settings |= own
        variants[",".join(told for told, _ in chosen)] = settings
    return variants


def _option(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    """A value as a part of a name, and as settings."""
    if name != "norm":
        return f"{name.rpartition('.')[2]}={value}", {name: value}
    if value not in NORMS:
        raise ConfigError(f"unknown norm '{value}': choose among {', '.join(NORMS)}")
    return value, {"model.norm": value} | dict.fromkeys(_DIFFERENT_NORMS)


def paired_difference(scores: Sequence[float], base: Sequence[float]) -> Difference:
    """Of scores from others, pair by pair: their mean, its interval, and a test of no difference.

    >>> paired_difference([0.31, 0.35, 0.30], [0.32, 0.37, 0.33])
    Difference(mean=-0.02..., interval=(-0.044..., 0.004...), p=0.074..., pairs=3)
    """
    from scipy import stats

    differences = np.subtract(scores, base)
    count, mean = len(differences), float(differences.mean())
    if count < 2:
        return Difference(mean, None, None, count)
    error = float(differences.std(ddof=1)) / math.sqrt(count)
    reach = float(stats.t.ppf(0.975, count - 1)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, count - 1)) if error else None
    return Difference(mean, (mean - reach, mean + reach), p, count)


def _compared(folder: Path, series: dict[str, Replicates], finished: bool) -> Ablation:
    base, *_ = series.values()
    metric = base.summary["chosen_by"]
    if metric not in base.summary["test"]:
        metric = next(iter(base.summary["test"]))  # chosen by the loss, which is no score
    differences = {}
    for name, each in list(series.items())[1:]:
        pairs = {split: list(_pairs(each, base, split, metric)) for split in _SPLITS}
        differences[name] = {
            split: paired_difference(*zip(*both, strict=True))
            for split, both in pairs.items()
            if both
        }
    return Ablation(folder, metric, series, differences, finished)


def _pairs(
    series: Replicates, base: Replicates, split: str, metric: str
) -> Iterator[tuple[float, float]]:
    """Scores of runs of the same seed and split, where both are defined."""
    for name, run in series.runs.items():
        both = run[split][metric], base.runs[name][split][metric]
        if None not in both:
            yield both


def _draw(ablation: Ablation) -> None:
    """A dot for each run, mean and standard deviation beside them, for each variant."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    names = list(ablation.series)
    figure = Figure(figsize=(7, 1.2 + 0.5 * len(names)), layout="constrained")
    for axes, split in zip(figure.subplots(1, 2, sharey=True), _SPLITS, strict=True):
        for place, name in enumerate(names):
            spread = ablation.series[name].summary[split][ablation.metric]
            values = [value for value in spread["values"] if value is not None]
            axes.plot(values, [place] * len(values), "o", alpha=0.5, color="tab:blue")
            if values:
                reach = spread["sd"] or 0.0
                look = {"fmt": "d", "color": "black", "capsize": 3}
                axes.errorbar(spread["mean"], place + 0.2, xerr=reach, **look)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        better = "higher" if METRICS[ablation.metric].higher_is_better else "lower"
        title = "validation" if split == "val" else "test"
        axes.set_title(f"{title} {METRICS[ablation.metric].label}, {better} is better", fontsize=9)
        axes.grid(axis="x", alpha=0.3)
    with replacing(ablation.folder / "ablation.png") as scratch:
        figure.savefig(scratch, format="png", dpi=150)
