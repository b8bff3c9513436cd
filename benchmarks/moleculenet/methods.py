"""The methods that are compared, as commands that train and predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from commands import OURS
from peers import chemprop

from moleculenet import fit
from moleculenet.sets import SETS, SPLITS_COLUMN

__all__ = ["METHODS", "WITHOUT_VALIDATION_SCORE", "Commands", "Job", "commands"]

_HERE = Path(__file__).resolve().parent
_CONFIGS = _HERE.parents[1] / "configs"
_TABLE = ("--from", "none", "--no-baseline")
_TUNED = ("--from", "MODEL")
_NETWORKS = (*_TUNED, "--no-baseline", "--no-refit")
_MOLHIV = ("--config", str(_CONFIGS / "ogbg.yaml"), "--preset", "mini", "--epochs", "3")
_GINE = ("--set=model.local=gine", "--set=model.node_walks=16", "--set=model.pair_walks=16")

OPTIONS: dict[str, tuple[str, ...]] = {
    "scratch": _TABLE,
    "scratch-gine": (*_TABLE, *_GINE),
    "finetuned": _NETWORKS,
    "probe": (*_NETWORKS, "--epochs", "0"),
    "no-forest": (*_TUNED, "--no-baseline"),
    "no-refit": (*_TUNED, "--no-refit"),
    "default": _TUNED,
    "ensemble": (*_TUNED, "--ensemble", "5"),
    "chemprop": (),
    "chemprop-refit": (),
}
"""Options of the training commands; MODEL is the value of run.py's option --model."""
OPTIONS_ON_MOLHIV = {
    "scratch": _MOLHIV,
    "scratch-gine": (*_MOLHIV, *_GINE),
    "chemprop": ("--epochs", "3"),
}
"""Options that replace these on molhiv."""
METHODS = (*OPTIONS, *fit.METHODS)
WITHOUT_VALIDATION_SCORE = ("default", "no-forest", "ensemble", "chemprop-refit", *fit.REFIT)
"""Methods whose models are fitted to the validation rows, too."""


class Job(NamedTuple):
    """A method on a set, with a seed."""

    set: str
    method: str
    seed: int
    data: Path
    """CSV of the rows of all splits."""
    more_training: Path
    """CSV of these rows and, in the training split, a copy of each validation row."""
    held_out: Path
    """CSV of the SMILES of the validation and test rows."""
    folder: Path
    """The commands write `predictions.csv` here: the rows of `held_out`, with a column for each
    target."""
    model: str
    """Model that all methods but `scratch` and `scratch-gine` start from."""
    peers: Path
    """Executables of the environment with chemprop and LightGBM."""


class Commands(NamedTuple):
    """The commands of a job, in this order."""

    prepare: list[str]
    """Compute features, which all seeds share; empty without them."""
    train: list[str]
    predict: list[str]
    """Empty if `train` writes the predictions."""


def commands(job: Job) -> Commands:
    """Return the commands of a job."""
    if job.method in fit.METHODS:
        return _fitted(job)
    special = OPTIONS_ON_MOLHIV if job.set == "molhiv" else {}
    options = special.get(job.method, OPTIONS[job.method])
    return (_chemprop if job.method.startswith("chemprop") else _ours)(job, options)


def _fitted(job: Job) -> Commands:
    chosen, features = SETS[job.set], str(job.data.with_name("features.npy"))
    python = str(job.peers / "python") if job.method in fit.PEERS else sys.executable
    prepare = [sys.executable, str(_HERE / "features.py"), str(job.data), features]
    train = [
        *(python, str(_HERE / "fit.py"), job.method, str(job.data), features),
        *(str(job.folder / "predictions.csv"), chosen.kind, str(job.seed)),
        *(SPLITS_COLUMN, *chosen.targets),
    ]
    return Commands(prepare, train, [])


def _ours(job: Job, options: tuple[str, ...]) -> Commands:
    run, predictions = str(job.folder / "run"), str(job.folder / "predictions.csv")
    train = [
        *(OURS, "train", "--quiet", "--data", str(job.data), "--splits-column", SPLITS_COLUMN),
        *("--targets", ",".join(SETS[job.set].targets), "--seed", str(job.seed), "--output", run),
        *(job.model if option == "MODEL" else option for option in options),
    ]
    files = ("--input", str(job.held_out), "--output", predictions)
    return Commands([], train, [OURS, "predict", "--model", run, *files, "--processes", "1"])


def _chemprop(job: Job, options: tuple[str, ...]) -> Commands:
    run, seed, chosen = job.folder / "run", str(job.seed), SETS[job.set]
    data = job.more_training if job.method == "chemprop-refit" else job.data
    train = [
        *(str(job.peers / "chemprop"), "train", "--data-path", str(data)),
        *("--smiles-columns", "smiles", "--target-columns", *chosen.targets),
        *("--task-type", chosen.kind, "--splits-column", SPLITS_COLUMN),
        *("--output-dir", str(run), "--pytorch-seed", seed, "--data-seed", seed, *options),
    ]
    files = (run / "model_0" / "best.pt", job.held_out, job.folder / "predictions.csv")
    return Commands([], train, chemprop.predict(job.peers / "chemprop", *files))
