"""`ablate`: variants of one recipe over the same seeds, and tests of their differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
    f"model.{name}_norm" for name in ("graph", "node", "first_graph", "last_graph")
)


@dataclass(frozen=True)
class Difference:
    """Difference of a variant from the first one, over pairs of runs with equal seed and split."""

    mean: float
    interval: tuple[float, float] | None
    """95 % interval by Student's t; None for a single pair."""
    p: float | None
    """p-value of a paired t-test; None if undefined: a single pair, or equal differences."""
    pairs: int


@dataclass(frozen=True)
class Ablation:
    """The result of `ablate`."""

    folder: Path
    metric: str
    """The metric that is compared; it also selects the best epochs."""
    replicates: dict[str, Replicates]
    """Replicates by variant; the others are compared with the first."""
    differences: dict[str, dict[str, Difference]]
    """Variant -> split -> difference from the first variant."""
    finished: bool
    """False if it was stopped; the same call continues it."""

    def to_json(self) -> dict[str, Any]:
        """The content of `ablation.json`."""
        return {
            "metric": self.metric,
            "variants": {name: each.summary for name, each in self.replicates.items()},
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

    All variants are trained with the first seed, then all with the second, and so on. After each
    seed `ablation.json` is written, and a plot if matplotlib is installed. Finished runs are not
    repeated, and a stopped run is continued.

    >>> config = load_config("zinc", overrides={"run.budget": "8m"})      # doctest: +SKIP
    >>> ablate(config, "runs/norms", {"norm": ["shared", "sep"]}, seeds=range(5))
    ...                                                                   # doctest: +SKIP

    Args:
        config: the recipe that all variants share.
        folder: the folder for the results, with a folder per variant.
        vary: settings and their values, see `variants_of`; all combinations are trained.
        seeds: random seeds, the same for every variant.
        callback: receives the events of every run and may stop it; one or several.

    Raises:
        ConfigError: fewer than two variants, an unknown setting, or as in `train_replicates`.
        DataError, ModelError, StorageError: as in `train`.
    """
    folder = Path(folder)
    configs = {name: config.changed(each) for name, each in variants_of(vary).items()}
    if len(configs) < 2:
        raise ConfigError("an ablation needs at least two variants, such as norm=shared,sep")
    result = Ablation(folder, "", {}, {}, finished=False)
    with hold(config.data.table, config.data.splits_file):
        for count in range(1, max(len(seeds), 1) + 1):
            replicates: dict[str, Replicates] = {}
            for name, variant in configs.items():
                each = train_replicates(
                    variant, folder / name, seeds=seeds[:count], callback=callback
                )
                if not each.finished:
                    return result
                replicates[name] = each
            result = _compared(folder, replicates, finished=count >= len(seeds))
            write_json(folder / "ablation.json", result.to_json())
            _draw(result)
    return result


def variants_of(vary: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of every combination, by a name with the values that vary.

    >>> list(variants_of({"norm": ["shared", "sep"], "model.layers": [4, 8]}))
    ['shared,layers=4', 'shared,layers=8', 'sep,layers=4', 'sep,layers=8']

    Args:
        vary: dotted settings and their values; or `norm`, which sets `model.norm` and removes the
            norms of single places.

    Raises:
        ConfigError: an unknown norm, a repeated value, a text instead of a list of values, or the
            seed.
    """
    for name, values in vary.items():
        require_several(values, name)
    if "run.seed" in vary:
        raise ConfigError(
            "run.seed cannot vary: all variants are trained with the same seeds, see --seeds"
        )
    options = [[_option(name, value) for value in values] for name, values in vary.items()]
    for name, each in zip(vary, options, strict=True):
        if len({text for text, _ in each}) < len(each):
            raise ConfigError(f"{name} has a value twice")
    variants = {}
    for chosen in product(*options):
        settings: dict[str, Any] = {}
        for _, own in chosen:
            settings |= own
        variants[",".join(text for text, _ in chosen)] = settings
    return variants


def _option(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    """Return the part of a variant's name for a value, and the settings."""
    if name != "norm":
        return f"{name.rpartition('.')[2]}={value}", {name: value}
    if value not in NORMS:
        raise ConfigError(f"unknown norm '{value}': choose among {', '.join(NORMS)}")
    return value, {"model.norm": value} | dict.fromkeys(_DIFFERENT_NORMS)


def paired_difference(scores: Sequence[float], base: Sequence[float]) -> Difference:
    """Compare scores with others in pairs: mean difference, its interval, and a t-test.

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


def _compared(folder: Path, replicates: dict[str, Replicates], finished: bool) -> Ablation:
    base, *_ = replicates.values()
    metric = base.summary["chosen_by"]
    if metric not in base.summary["test"]:
        metric = next(iter(base.summary["test"]))  # the loss selects, but is not a score
    differences: dict[str, dict[str, Difference]] = {}
    for name, each in list(replicates.items())[1:]:
        differences[name] = {}
        for split in _SPLITS:
            pairs = [
                (run[split][metric], base.runs[seed][split][metric])
                for seed, run in each.runs.items()
            ]
            defined = [both for both in pairs if None not in both]
            if defined:
                scores, others = zip(*defined, strict=True)
                differences[name][split] = paired_difference(scores, others)
    return Ablation(folder, metric, replicates, differences, finished)


def _draw(ablation: Ablation) -> None:
    """Plot the score of each run, with mean and standard deviation of each variant."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    names = list(ablation.replicates)
    figure = Figure(figsize=(7, 1.2 + 0.5 * len(names)), layout="constrained")
    for axes, split in zip(figure.subplots(1, 2, sharey=True), _SPLITS, strict=True):
        for index, name in enumerate(names):
            spread = ablation.replicates[name].summary[split][ablation.metric]
            values = [value for value in spread["values"] if value is not None]
            axes.plot(values, [index] * len(values), "o", alpha=0.5, color="tab:blue")
            if values:
                reach = spread["sd"] or 0.0
                look = {"fmt": "d", "color": "black", "capsize": 3}
                axes.errorbar(spread["mean"], index + 0.2, xerr=reach, **look)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        better = "higher" if METRICS[ablation.metric].higher_is_better else "lower"
        title = "validation" if split == "val" else "test"
        axes.set_title(f"{title} {METRICS[ablation.metric].label}, {better} is better", fontsize=9)
        axes.grid(axis="x", alpha=0.3)
    with replacing(ablation.folder / "ablation.png") as scratch:
        figure.savefig(scratch, format="png", dpi=150)
