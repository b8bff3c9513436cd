"""`ablate`: variants of one recipe over the same seeds, and tests of their differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.errors import ConfigError, require_several
from molsepnorm.files.writing import write_json
from molsepnorm.tasks.metrics import METRICS
from molsepnorm.training.callback import Callback, Callbacks
from molsepnorm.training.comparing.replicates import (
    Difference,
    Replicates,
    paired_difference,
    train_replicates,
)
from molsepnorm.training.config import TrainConfig
from molsepnorm.training.inputs import training_dataset
from molsepnorm.training.results.metrics import headline

_SPLITS = ("val", "test")

_OF_DATA = (
    *("auxiliary", "feature_columns", "featurizer", "molecule_features", "standardize"),
    *("weight_column", "error_column"),
)
"""Settings of the data that may vary; the others define the molecules, labels or splits."""


@dataclass(frozen=True)
class Ablation:
    """The result of `ablate`."""

    folder: Path
    metric: str
    """The metric that compares epochs, or the first test score if that is the loss."""
    replicates: dict[str, Replicates]
    """Replicates by variant; the others are compared with the first."""
    differences: dict[str, dict[str, dict[str, Difference]]]
    """Score -> variant -> split -> difference from the first variant. The scores are those by
    `metric`, by the usual metric of other kinds of targets, and of each of several targets."""
    finished: bool
    """False if a callback stopped it; the same call continues it."""

    def to_json(self) -> dict[str, Any]:
        variants = {name: runs.summary for name, runs in self.replicates.items()}
        content = {"metric": self.metric, "variants": variants}
        return content | {"differences": asdict(self)["differences"]}


def ablate(
    config: TrainConfig,
    folder: Path | str,
    vary: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int],
    callback: Callback | Iterable[Callback] | None = None,
) -> Ablation:
    """Train every variant with the first seed, then every one with the second, and so on.

    Finished runs are not repeated, and a stopped run is continued. After each seed `ablation.json`
    is written. The variants of a table have no random forest, unless `run.blend` is `forest`, or
    `run.blend` or `run.baseline` varies.

    >>> config = load_config("zinc", overrides={"run.budget": "8m"})      # doctest: +SKIP
    >>> ablate(config, "runs/norms", {"norm": ["shared", "sep"]}, seeds=range(5))
    ...                                                                   # doctest: +SKIP

    Args:
        folder: the folder for the results, with a folder per variant.
        vary: settings and their values, see `variants_of`; all combinations are trained.

    Raises:
        ConfigError: fewer than two variants, an unknown setting, variants that are scored on
            different rows or labels, or as in `train_replicates`.
        DataError, ModelError, StorageError: as in `train`.
    """
    folder = Path(folder)
    callback = Callbacks(callback)
    uses_forest = config.run.blend == "forest" or {"run.blend", "run.baseline"} & vary.keys()
    shared = {} if uses_forest or config.data.table is None else {"run.baseline": False}
    if shared and config.run.baseline and config.run.blend == "auto":
        callback.on_warning("Variants have no random forest; --blend forest includes it.")
    configs = {name: config.changed(shared | more) for name, more in variants_of(vary).items()}
    for one, other in combinations(configs, 2):
        if configs[one] == configs[other]:
            raise ConfigError(f"the variants {one} and {other} have the same settings")
    if "optim.regression_loss" in vary and config.run.metric is None:
        raise ConfigError(
            "the metric that selects the epoch depends on optim.regression_loss: set run.metric "
            "(--metric rmse or --metric mae) to compare the variants by the same one"
        )
    if len(configs) < 2:
        raise ConfigError("an ablation needs at least two variants, such as norm=shared,sep")
    result = Ablation(folder, "", {}, {}, finished=False)
    _require_pairs(configs)
    for count in range(1, max(len(seeds), 1) + 1):
        replicates: dict[str, Replicates] = {}
        for name, variant in configs.items():
            replicates[name] = train_replicates(
                variant, folder / name, seeds=seeds[:count], callback=callback
            )
            if not replicates[name].finished:
                return result
        result = _compared(folder, replicates, config.data.folds, finished=count >= len(seeds))
        write_json(folder / "ablation.json", result.to_json())
    return result


def variants_of(vary: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of every combination, by a name with the values that vary.

    `norm` stands for `model.norm`. The seed, and settings that define molecules, labels or splits,
    are refused.

    >>> list(variants_of({"norm": ["shared", "sep"], "model.layers": [4, 8]}))
    ['shared,layers=4', 'shared,layers=8', 'sep,layers=4', 'sep,layers=8']
    """
    for name, values in vary.items():
        require_several(values, name)
        section, _, key = name.partition(".")
        if name == "run.seed" or (section == "data" and key not in _OF_DATA):
            raise ConfigError(
                f"{name} cannot vary: variants are compared on the same seeds, molecules and splits"
            )
    variants: dict[str, dict[str, Any]] = {}
    for values in product(*vary.values()):
        settings = dict(zip(vary, values, strict=True))
        texts = {key: f"{key.rpartition('.')[2]}={value}" for key, value in settings.items()}
        if (norm := settings.pop("norm", None)) is not None:
            texts["norm"], settings["model.norm"] = str(norm), norm
        name = ",".join(texts.values())
        if name in variants:
            raise ConfigError(f"the variant {name} is given twice: list each value once")
        variants[name] = settings
    return variants


def _require_pairs(configs: Mapping[str, TrainConfig]) -> None:
    """Check that all variants are scored on the same rows and labels, which each must be able to
    read."""
    (first, base), *others = configs.items()
    others = [(name, config) for name, config in others if config.data != base.data]
    folds = [base.data.fold] if base.data.folds is None else range(base.data.folds)

    def scored(config: TrainConfig, fold: int) -> tuple[Any, ...]:
        dataset = training_dataset(config.changed({"data.fold": fold}))
        parts = [dataset.splits[split] for split in _SPLITS]
        rows = [dataset.store.rows[part].tolist() for part in parts]
        return dataset.targets, rows, [dataset.labels[part].tobytes() for part in parts]

    for fold, (name, config) in product(folds, others):
        if scored(config, fold) != scored(base, fold):
            raise ConfigError(
                f"the variants {first} and {name} are scored on different rows or labels: use rows "
                "that both can read, and name targets (--targets) and split (--splits-column)"
            )


def _compared(
    folder: Path, replicates: dict[str, Replicates], folds: int | None, finished: bool
) -> Ablation:
    base, *_ = replicates.values()
    metric = headline(base.summary["chosen_by"], base.summary["test"])
    kinds, first = METRICS[metric].kinds, next(iter(base.runs.values()))
    others = [n for n in first.get("headlines", ()) if not {*kinds}.intersection(METRICS[n].kinds)]
    scored = [n for n in base.summary["test"] if n.partition("/")[0] in (metric, *others)]
    variants = list(replicates)[1:]
    differences: dict[str, dict[str, dict[str, Difference]]] = {
        score: {name: {} for name in variants} for score in scored
    }
    for score, name, split in product(scored, variants, _SPLITS):
        ours = replicates[name].runs
        values = {run: (ours[run][split][score], base.runs[run][split][score]) for run in ours}
        pairs = pd.DataFrame.from_dict(values, orient="index", dtype=float).dropna()
        if folds is not None:  # seeds of a fold are not independent, so their mean counts
            pairs = pairs.groupby(lambda run: run.partition("-seed-")[0], sort=False).mean()
        if len(pairs):
            gap = paired_difference(pairs[0].tolist(), pairs[1].tolist(), folds)
            differences[score][name][split] = gap
    return Ablation(folder, metric, replicates, differences, finished)
