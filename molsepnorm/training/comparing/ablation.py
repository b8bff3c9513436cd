"""`ablate`: variants of one recipe over the same seeds, and tests of their differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pandas as pd

from molsepnorm.data.tables.formats import hold
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

_OF_DATA = ("feature_columns", "featurizer", "molecule_features", "standardize", "weight_column")
"""Settings of the data that may vary; the others define the molecules, labels or splits."""


@dataclass(frozen=True)
class Ablation:
    """The result of `ablate`."""

    folder: Path
    metric: str
    """The first metric that is compared: the one that selects the best epochs, or the first of the
    test scores if the loss selects them."""
    replicates: dict[str, Replicates]
    """Replicates by variant; the others are compared with the first."""
    differences: dict[str, dict[str, dict[str, Difference]]]
    """Score -> variant -> split -> difference from the first variant. The scores are those by
    `metric` and by the usual metric of other kinds of targets, of each target if there are
    several."""
    finished: bool
    """False if it was stopped; the same call continues it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "variants": {name: each.summary for name, each in self.replicates.items()},
            "differences": asdict(self)["differences"],
        }


def ablate(
    config: TrainConfig,
    folder: Path | str,
    vary: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int],
    callback: Callback | Iterable[Callback] | None = None,
) -> Ablation:
    """Train every variant with the first seed, then every one with the second, and so on.

    After each seed `ablation.json` is written. Finished runs are not repeated, and a stopped run is
    continued. The variants of a table have no random forest, unless `run.blend` is `forest` or the
    variants differ in `run.blend` or `run.baseline`.

    >>> config = load_config("zinc", overrides={"run.budget": "8m"})      # doctest: +SKIP
    >>> ablate(config, "runs/norms", {"norm": ["shared", "sep"]}, seeds=range(5))
    ...                                                                   # doctest: +SKIP

    Args:
        config: the recipe that all variants share.
        folder: the folder for the results, with a folder per variant.
        vary: settings and their values, see `variants_of`; all combinations are trained.
        seeds: random seeds, the same for every variant.

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
        callback.on_warning(
            "The variants are compared without the random forest that a run includes by default; "
            "--blend forest includes it."
        )
    configs = {name: config.changed(shared | each) for name, each in variants_of(vary).items()}
    for (one, own), (other, its) in combinations(configs.items(), 2):
        if own == its:
            raise ConfigError(f"the variants {one} and {other} have the same settings")
    if "optim.regression_loss" in vary and config.run.metric is None:
        raise ConfigError(
            "the metric that selects the epoch depends on optim.regression_loss, so the variants "
            "would be compared by different ones: set run.metric (--metric rmse or --metric mae)"
        )
    if len(configs) < 2:
        raise ConfigError("an ablation needs at least two variants, such as norm=shared,sep")
    result = Ablation(folder, "", {}, {}, finished=False)
    with hold(config.data.table, config.data.splits_file):
        _require_pairs(configs)
        for count in range(1, max(len(seeds), 1) + 1):
            replicates: dict[str, Replicates] = {}
            for name, each in configs.items():
                replicates[name] = train_replicates(
                    each, folder / name, seeds=seeds[:count], callback=callback
                )
                if not replicates[name].finished:
                    return result
            result = _compared(folder, replicates, config.data.folds, finished=count >= len(seeds))
            write_json(folder / "ablation.json", result.to_json())
    return result


def variants_of(vary: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of every combination, by a name with the values that vary.

    >>> list(variants_of({"norm": ["shared", "sep"], "model.layers": [4, 8]}))
    ['shared,layers=4', 'shared,layers=8', 'sep,layers=4', 'sep,layers=8']

    Args:
        vary: dotted settings and their values; or `norm` for `model.norm`. The seed, and settings
            that define molecules, labels or splits, are refused.
    """
    for name, values in vary.items():
        require_several(values, name)
        section, _, key = name.partition(".")
        if name == "run.seed" or (section == "data" and key not in _OF_DATA):
            raise ConfigError(
                f"{name} cannot vary: all variants have the same seeds, molecules, labels and "
                "splits, so that their scores are comparable"
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
    """Check that all variants are scored on the same rows and labels.

    A variant has other rows if it cannot read some of them, or splits standardised structures in
    another way.
    """
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
                f"the variants {first} and {name} are scored on different rows or labels, so the "
                "scores are not comparable: use a table whose rows all variants can read, and name "
                "the targets (--targets) and the split (--splits-column)"
            )


def _compared(
    folder: Path, replicates: dict[str, Replicates], folds: int | None, finished: bool
) -> Ablation:
    base, *_ = replicates.values()
    metric = headline(base.summary["chosen_by"], base.summary["test"])
    kinds, first = METRICS[metric].kinds, next(iter(base.runs.values()))
    others = [n for n in first.get("headlines", ()) if not {*kinds}.intersection(METRICS[n].kinds)]
    scored = [n for n in base.summary["test"] if n.partition("/")[0] in (metric, *others)]
    differences: dict[str, dict[str, dict[str, Difference]]] = {
        score: {name: {} for name in list(replicates)[1:]} for score in scored
    }
    for score, name, split in product(scored, list(replicates)[1:], _SPLITS):
        runs = [each.runs for each in (replicates[name], base)]
        pairs = pd.DataFrame(
            {n: {run: own[run][split][score] for run in runs[0]} for n, own in enumerate(runs)},
            dtype=float,
        ).dropna()
        if folds is not None:  # seeds of a fold are not independent, so their mean counts
            pairs = pairs.groupby(lambda run: run.partition("-seed-")[0], sort=False).mean()
        if len(pairs):
            found = paired_difference(pairs[0].tolist(), pairs[1].tolist(), folds)
            differences[score][name][split] = found
    return Ablation(folder, metric, replicates, differences, finished)
