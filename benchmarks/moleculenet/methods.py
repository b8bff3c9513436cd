"""The methods that are compared, as commands that train and predict."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from commands import OURS

from moleculenet import fit
from moleculenet.sets import SPLITS_COLUMN, Set

__all__ = ["METHODS", "Commands", "Job", "commands"]

_HERE = Path(__file__).resolve().parent
_CONFIGS = _HERE.parents[1] / "configs"
_GINE = ("--set=model.local=gine", "--set=model.node_walks=16", "--set=model.pair_walks=16")
_TABLE = ("--config", str(_CONFIGS / "table.yaml"))
_MOLHIV = ("--config", str(_CONFIGS / "ogbg.yaml"), "--preset", "mini", "--epochs", "3")

OPTIONS = {
    "scratch": _TABLE,
    "scratch-gine": (*_TABLE, *_GINE),
    "finetuned": ("--from", "MODEL"),
    "chemprop": (),
}
"""Options of the training commands; MODEL is the option of that name of run.py."""
OPTIONS_ON_MOLHIV = {
    "scratch": _MOLHIV,
    "scratch-gine": (*_MOLHIV, *_GINE),
    "chemprop": ("--epochs", "3"),
}
"""The same on molhiv, where they differ."""
METHODS = (*OPTIONS, *fit.METHODS)


@dataclass(frozen=True)
class Job:
    """A method on a set, with a seed."""

    name: str
    chosen: Set
    method: str
    seed: int
    data: Path
    """CSV of the rows of all splits."""
    held_out: Path
    """CSV of the SMILES of the validation and test rows."""
    folder: Path
    """Empty folder of this job."""
    model: str = ""
    """Model that `finetuned` and `probe` start from."""
    peers: Path = Path()
    """Folder `bin` of the environment of chemprop and LightGBM."""

    @property
    def predictions(self) -> Path:
        """CSV that the commands write: the rows of `held_out`, and a column for each target."""
        return self.folder / "predictions.csv"


@dataclass(frozen=True)
class Commands:
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
    on_molhiv = OPTIONS_ON_MOLHIV if job.name == "molhiv" else {}
    options = on_molhiv.get(job.method, OPTIONS[job.method])
    return _chemprop(job, options) if job.method == "chemprop" else _ours(job, options)


def _fitted(job: Job) -> Commands:
    model = ["--model", job.model] if job.method == "probe" else []
    features = job.data.with_name("embeddings.npy" if model else "features.npy")
    prepare = [sys.executable, str(_HERE / "features.py"), str(job.data), str(features), *model]
    python = str(job.peers / "python") if job.method == "lightgbm" else sys.executable
    train = [
        *(python, str(_HERE / "fit.py"), job.method),
        *(str(job.data), str(features), str(job.predictions)),
        *("--targets", *job.chosen.targets, "--splits-column", SPLITS_COLUMN),
        *("--seed", str(job.seed), *["--classify"] * (job.chosen.kind == "classification")),
    ]
    return Commands(prepare, train, [])


def _ours(job: Job, options: tuple[str, ...]) -> Commands:
    run = str(job.folder / "run")
    train = [
        *(OURS, "train", "--quiet", "--data", str(job.data), "--splits-column", SPLITS_COLUMN),
        *("--targets", ",".join(job.chosen.targets), "--seed", str(job.seed), "--output", run),
        *(job.model if option == "MODEL" else option for option in options),
    ]
    predict = [
        *(OURS, "predict", "--model", run, "--processes", "1"),
        *("--input", str(job.held_out), "--output", str(job.predictions)),
    ]
    return Commands([], train, predict)


def _chemprop(job: Job, options: tuple[str, ...]) -> Commands:
    peer, run = str(job.peers / "chemprop"), job.folder / "run"
    train = [
        *(peer, "train", "--data-path", str(job.data), "--smiles-columns", "smiles"),
        *("--target-columns", *job.chosen.targets, "--task-type", job.chosen.kind),
        *("--splits-column", SPLITS_COLUMN, "--output-dir", str(run)),
        *("--pytorch-seed", str(job.seed), "--data-seed", str(job.seed), *options),
    ]
    predict = [
        *(peer, "predict", "--test-path", str(job.held_out), "--smiles-columns", "smiles"),
        *("--model-paths", str(run / "model_0" / "best.pt"), "--output", str(job.predictions)),
    ]
    return Commands([], train, predict)
