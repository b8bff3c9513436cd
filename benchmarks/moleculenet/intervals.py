"""Measure intervals and sets of classes of models of MoleculeNet's tables.

    MOLSEPNORM_DATA=/path/to/datasets python benchmarks/moleculenet/intervals.py \
        --sets esol freesolv --splits random scaffold --seeds 0 1 2 3 4 --epochs 0

With `--chemprop PATH`, each run trains five chemprop models on the same split instead, and makes
intervals from their mean and the standard deviation of their predictions in the same way.

Each run trains a model with its own split (`fixed` is the scaffold split of the file), and is a
line of intervals.jsonl; runs that are in the file are skipped. With targets in several columns, the
figures are means over them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1])]

import commands  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from environment import commit, machine  # noqa: E402
from scipy.stats import norm, spearmanr  # noqa: E402

from moleculenet.sets import SETS, SPLITS_COLUMN, readable_rows  # noqa: E402
from molsepnorm.data import datasets  # noqa: E402
from molsepnorm.model import encoding_of  # noqa: E402
from molsepnorm.predict import Predictor  # noqa: E402
from molsepnorm.tasks.calibration import Intervals  # noqa: E402
from molsepnorm.training import load_config, train  # noqa: E402
from molsepnorm.training.recipes import architecture  # noqa: E402

RESULTS = HERE / "intervals.jsonl"
LEVELS = (0.8, 0.9, 0.95)
_TINY = 1e-7


def run(name: str, split: str, seed: int, epochs: int | None) -> dict[str, Any]:
    """Train a model, and return the figures of its test molecules."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "molecules.csv"
        rows = readable_rows(SETS[name])
        rows.to_csv(data, index=False)
        settings = _settings(name, split, seed) | {"run.threads": 1}
        settings |= {} if epochs is None else {"run.epochs": epochs}
        result = train(load_config(data, overrides=settings), Path(folder) / "run")
        (splits,) = json.loads((Path(folder) / "run" / "splits.json").read_text())
        held_out = rows.iloc[splits["test"]]
        assert result.model is not None
        model, smiles = result.model, held_out["smiles"].tolist()
        every: dict[str, list[float]] = {}
        found = {}
        for level in LEVELS:
            try:
                found[level] = Predictor(model, level=level).predict(smiles)
            except Exception as error:
                print(f"{name} {split} {seed}: {error}", file=sys.stderr)
        for target, calibration in zip(SETS[name].targets, model.calibration, strict=True):
            labels = held_out[target].to_numpy(float)
            present = ~np.isnan(labels)
            figures = {}
            for level, predictions in found.items():
                chosen = [each for each, use in zip(predictions, present, strict=True) if use]
                values = np.array([each.values[target] for each in chosen], dtype=float)
                sure = [each.uncertainty for each in chosen]
                if isinstance(calibration, Intervals):
                    ends = np.array([[e[f"{target}_low"], e[f"{target}_high"]] for e in sure])
                    sd = np.array([each[f"{target}_std"] for each in sure])
                    inside = (ends[:, 0] <= labels[present]) & (labels[present] <= ends[:, 1])
                    figures[f"coverage {level:g}"] = float(inside.mean())
                    figures[f"width {level:g}"] = float(np.diff(ends, axis=1).mean())
                    figures |= value_figures(values - labels[present], sd)
                else:
                    sets = [set(each[f"{target}_set"].split("|")) - {"none"} for each in sure]
                    own = [str(int(label)) for label in labels[present]]
                    held = [label in each for label, each in zip(own, sets, strict=True)]
                    figures[f"coverage {level:g}"] = float(np.mean(held))
                    figures[f"classes {level:g}"] = float(np.mean([len(each) for each in sets]))
            for key, value in figures.items():
                every.setdefault(key, []).append(value)
    return {key: statistics.fmean(values) for key, values in every.items()}


def run_chemprop(name: str, split: str, seed: int, chemprop: Path) -> dict[str, Any]:
    """Train five chemprop models for one regression target, and return the figures of intervals.

    The width of an interval depends on the standard deviation of the models, if that makes the
    validation errors more likely; see `Intervals`.
    """
    (target,) = SETS[name].targets
    with tempfile.TemporaryDirectory() as folder:
        data, made = Path(folder) / "molecules.csv", Path(folder) / "run"
        rows = readable_rows(SETS[name])
        rows.to_csv(data, index=False)
        config = load_config(data, overrides=_settings(name, split, seed))
        dataset = datasets.load(config.data, encoding_of(architecture(config)))
        splits = {each: dataset.store.rows[of] for each, of in dataset.splits.items()}
        rows["part"] = ""
        for part, own in splits.items():
            rows.loc[rows.index[own], "part"] = part
        rows.to_csv(data, index=False)
        train = [str(chemprop), "train", "--data-path", str(data), "--smiles-columns", "smiles"]
        train += ["--target-columns", target, "--task-type", "regression", "--ensemble-size", "5"]
        train += ["--splits-column", "part", "--output-dir", str(made)]
        commands.run([*train, "--pytorch-seed", str(seed), "--data-seed", str(seed)], Path(folder))
        found, spread = {}, float(rows.iloc[splits["train"]][target].std())
        for part in ("val", "test"):
            table, output = Path(folder) / f"{part}.csv", Path(folder) / f"{part}_predicted.csv"
            rows.iloc[splits[part]][["smiles", target]].to_csv(table, index=False)
            predict = [str(chemprop), "predict", "--test-path", str(table), "--smiles-columns"]
            predict += ["smiles", "--model-paths", str(made), "--output", str(output)]
            commands.run([*predict, "--uncertainty-method", "ensemble"], Path(folder))
            predicted = pd.read_csv(output)
            (variance,) = [each for each in predicted if each.startswith(f"{target}_unc")]
            labels = pd.read_csv(table)[target].to_numpy(float)
            sd = np.sqrt(predicted[variance].to_numpy(float))
            found[part] = predicted[target].to_numpy(float) - labels, {"spread": np.log(sd + _TINY)}
    intervals = Intervals.fit(*found["val"], spread)
    errors, signals = found["test"]
    sd = intervals.sd(signals, len(errors))
    figures: dict[str, Any] = {}
    for level in LEVELS:
        half = intervals.half_widths(sd, level)
        figures[f"coverage {level:g}"] = float((np.abs(errors) <= half).mean())
        figures[f"width {level:g}"] = float(2 * half.mean())
    return figures | value_figures(errors, sd)


def _settings(name: str, split: str, seed: int) -> dict[str, Any]:
    settings: dict[str, Any] = {"data.targets": list(SETS[name].targets), "run.seed": seed}
    if split == "fixed":
        return settings | {"data.splits_column": SPLITS_COLUMN}
    return settings | {"data.split_type": split, "data.fold": seed}


def value_figures(errors: np.ndarray, sd: np.ndarray) -> dict[str, float]:
    """Return how well standard deviations (n,) describe errors (n,).

    `spearman` is the correlation of size and standard deviation, `nll` the negative log-likelihood
    of normal errors.
    """
    sizes, constant = np.abs(errors), np.ptp(sd) == 0
    return {
        "spearman": 0.0 if constant else float(spearmanr(sizes, sd)[0]),
        "nll": float(-norm.logpdf(errors, scale=sd).mean()),
    }


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[])
    parser.add_argument("--splits", nargs="+", default=["fixed"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, help="0 for the probe alone")
    parser.add_argument("--chemprop", type=Path, help="its executable: measure chemprop instead")
    options = parser.parse_args()
    runs = [json.loads(each) for each in RESULTS.read_text().splitlines()]
    for name in options.sets:
        for split in options.splits:
            for seed in options.seeds if split != "fixed" else options.seeds[:1]:
                key = {"set": name, "split": split, "seed": seed, "epochs": options.epochs}
                key |= {} if options.chemprop is None else {"method": "chemprop"}
                others = (each for each in runs if each.get("method") == key.get("method"))
                if any(key.items() <= each.items() for each in others):
                    continue
                if options.chemprop is None:
                    found = run(name, split, seed, options.epochs)
                else:
                    found = run_chemprop(name, split, seed, options.chemprop)
                date = time.strftime("%Y-%m-%d")
                about = {"date": date, "commit": commit(), "machine": machine()}
                runs.append({**key, **found, **about})
                with RESULTS.open("a") as file:
                    file.write(json.dumps(runs[-1]) + "\n")


if __name__ == "__main__":
    main()
