"""Tables and models that several stages share."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from commands import OURS, run
from environment import data_folder
from peers import chemprop

from molsepnorm.model import PropertyModel
from molsepnorm.molecules.encodings import EncodingSpec
from molsepnorm.nn import Graphormer, GraphormerConfig
from molsepnorm.tasks import Target, Task
from stages import Settings

SLIM_ENCODING = EncodingSpec(bond_sizes=(3,))
"""The encoding that Graphormer-SLIM reads of ZINC: paths of 20 bonds."""


def zinc_table(split: str, rows: int | None = None) -> pd.DataFrame:
    """Return `smiles` and `y` of a split of full ZINC, all rows or a random sample."""
    table = pd.read_csv(data_folder() / "zinc" / f"{split}.csv.gz")
    return table if rows is None else table.sample(rows, random_state=0)


def slim_model(settings: Settings) -> Path:
    """Save untrained Graphormer-SLIM on ZINC's features; its speed is that of a trained one."""
    folder = settings.folder("models") / "slim"
    task = Task((Target("penalised_logp", "regression"),), "mae")
    PropertyModel.of(Graphormer(GraphormerConfig()), "zinc", task).save_pretrained(folder)
    return folder


def default_model(settings: Settings) -> Path:
    """Return the model of `molsepnorm train` on the table of `chemprop_model`."""
    folder = settings.folder("models")
    if not (folder / "default" / "model").exists():
        table = str(_training_csv(settings))
        run([OURS, "train", "--data", table, "--targets", "y", "--output", "default"], folder)
    return folder / "default" / "model"


def validation_csv(settings: Settings) -> Path:
    """Return `smiles,y` of ZINC's validation split, 24,445 rows, as an uncompressed CSV file."""
    rows = settings.count(0, 500) or None
    path = settings.folder("tables") / f"val-{rows or 'all'}.csv"
    if not path.exists():
        zinc_table("val", rows).to_csv(path, index=False)
    return path


def chemprop_model(settings: Settings, program: Path) -> Path:
    """Return chemprop's default model, trained for one epoch on 500 rows."""
    return chemprop.model(program, _training_csv(settings), settings.folder("models") / "chemprop")


def _training_csv(settings: Settings) -> Path:
    path = settings.folder("tables") / "train-500.csv"
    if not path.exists():
        zinc_table("train", 500).to_csv(path, index=False)
    return path
